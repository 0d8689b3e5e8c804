#!/usr/bin/env bash
# `make standalone-debian11`: build/service-record for hosts with glibc 2.31 or newer, RHCOS with RHEL 9's 2.34 among them.
#
# It is made in a root of Debian 11, which stays in .cache/debian11. That release has no Python that is new enough, and an
# OpenSSL that nobody maintains any more: both are compiled there, of Debian 12's sources. Wants root, debootstrap and a mirror.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly root=$PWD/.cache/debian11 glibc=2.31
readonly packages=build-essential,ca-certificates,libbz2-dev,libffi-dev,liblzma-dev,zlib1g-dev
# As it is on this host, where a proxy or a mirror may have an authority of its own.
readonly authorities=/etc/ssl/certs/ca-certificates.crt

# Run a script of standard input in a root, with this checkout at the path that it has here.
in_root() { # <root>
  mkdir -p "$1$PWD"
  [[ ! -e $authorities ]] || cp "$authorities" "$1$authorities"
  # shellcheck disable=SC2016 # expanded there
  env HOME=/root TMPDIR=/tmp LC_ALL=C.UTF-8 PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin GLIBC="$glibc" \
    unshare --mount --pid --fork --mount-proc="$1/proc" sh -euc '
      mount --bind /dev "$0/dev"
      mount --bind "$1" "$0$1"
      exec chroot "$0" bash -euo pipefail -s "$1"' "$1" "$PWD"
}

make_root() { # <root>
  debootstrap --variant=minbase --include="$packages" bullseye "$1" >/dev/null
  in_root "$1" <<'SCRIPT'
mkdir /sources && cd /sources
exec 3>&2 >/sources/log 2>&1
trap '(($? == 0)) || tail -n 20 /sources/log >&3' EXIT
sed -n 's/^deb \(.*\) bullseye main.*/deb-src \1 bookworm main/p' /etc/apt/sources.list >/etc/apt/sources.list.d/newer.list
apt-get update
apt-get source openssl python3.11
cd /sources/openssl-*/
./config --prefix=/usr/local --libdir=lib no-tests
make --jobs="$(nproc)"
make install_sw
ldconfig # for Python, which leaves out a module that it cannot load
cd /sources/python3.11-*/
./configure --enable-shared --with-openssl=/usr/local --disable-test-modules --without-ensurepip
# Debian links this module into Python itself; what it was mended with wants to be told so.
sed -i 's/^MODULE_PYEXPAT_CFLAGS=/&-DPy_BUILD_CORE_MODULE /' Makefile
make --jobs="$(nproc)"
make install
ldconfig
python3.11 -c 'import bz2, ctypes, lzma, pyexpat, ssl, zlib'
cd / && rm -rf /sources
SCRIPT
}

if ((EUID != 0)) || ! command -v debootstrap >/dev/null; then
  printf 'Error: this wants root and debootstrap; podman makes the same without: see docs/operate.md\n' >&2
  exit 1
fi
if [[ ! -e $root ]]; then
  printf 'Making a Debian 11 with Python and OpenSSL of Debian 12 in %s. That takes some minutes, once.\n' "$root" >&2
  rm -rf "$root.part"
  make_root "$root.part"
  mv "$root.part" "$root"
fi
in_root "$root" <<'SCRIPT'
cd "$1"
python3.11 -m venv --clear /made
/made/bin/python -m pip install -qq --upgrade 'pip>=25.1'
/made/bin/python -m pip install -qq --group standalone '.[reporter]'
/made/bin/python -B -m packages.standalone build/service-record
SCRIPT
