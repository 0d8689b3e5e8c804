#!/usr/bin/env bash
# usage: packages/standalone/debian11.sh [x86_64|aarch64 [TARGET]]
#
# Make the standalone executable for hosts with glibc 2.31 or newer, RHCOS with RHEL 9's 2.34 among them: build/service-record
# for this machine's architecture, or TARGET for another one.
#
# It is made in a root of Debian 11, which stays in .cache/debian11. That release has no Python that is new enough, and an
# OpenSSL that nobody maintains any more: both are compiled there, from Debian 12's sources. Needs root, debootstrap and a mirror.
#
# For another architecture, a cross compiler in that root compiles both at full speed. A second root, of that architecture,
# takes them in .cache/debian11-ARCHITECTURE. qemu runs its programs there: pip, PyInstaller and gcc.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly architecture=${1:-$(uname -m)} target=${2:-build/service-record} glibc=2.31
readonly native=$PWD/.cache/debian11
readonly for_native=build-essential,ca-certificates,libbz2-dev,libffi-dev,liblzma-dev,zlib1g-dev
readonly for_foreign=binutils,gcc,libbz2-1.0,libc6-dev,libffi7,liblzma5,zlib1g
# As it is on this host, where a proxy or a mirror may have an authority of its own.
readonly authorities=/etc/ssl/certs/ca-certificates.crt

fail() { # <text>
  printf 'Error: %s\n' "$1" >&2
  exit 1
}

# Run a script of standard input in a root, with this checkout at the path that it has here. Options are those of unshare.
in_root() { # <root> [option...]
  local into=$1
  shift
  mkdir -p "$into$PWD" "$into/etc/ssl/certs"
  [[ ! -e $authorities ]] || cp "$authorities" "$into$authorities"
  [[ -e $into/etc/resolv.conf ]] || cp /etc/resolv.conf "$into/etc/resolv.conf"
  # shellcheck disable=SC2016 # expanded there
  env HOME=/root TMPDIR=/tmp LC_ALL=C.UTF-8 PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin GLIBC="$glibc" \
    unshare "$@" --mount --pid --fork --mount-proc="$into/proc" sh -euc '
      mount --rbind /dev "$0/dev"
      mount --bind "$1" "$0$1"
      if [ -n "$3" ]; then
        mount -t binfmt_misc none "$0/proc/sys/fs/binfmt_misc"
        printf "%s\n" "$3" >"$0/proc/sys/fs/binfmt_misc/register"
      fi
      exec chroot "$0" bash -euo pipefail -s "$1" "$2"' "$into" "$PWD" "$target" "${rule-}"
}

# The same in a root of another architecture. binfmt_misc is mounted anew there, in a user namespace of its own (Linux 6.7):
# this host keeps its own rules. The interpreter is opened at once (F). O is left out: qemu 7.2 would open /proc/self/exe once.
in_foreign_root() { # <root>
  local name=qemu-$architecture rule
  command -v "$name-static" >/dev/null || fail "no $name-static: install qemu-user-static"
  rule=$(cat /usr/lib/binfmt.d/"$name"*.conf) || fail "no rule for $name in /usr/lib/binfmt.d: install qemu-user-static"
  rule=${rule%:*}:PF
  in_root "$1" --user --map-root-user
}

# Print shell that gets and compiles OpenSSL and Python; the arguments of their configure scripts, and of make install.
compiling() { # <openssl...> -- <python...> -- <install...>
  local word
  local -a words=()
  for word in "$@"; do
    words+=("$(printf %q "$word")")
  done
  printf 'set -- %s\n' "${words[*]}"
  cat <<'SCRIPT'
openssl=() python=()
while [[ $1 != -- ]]; do openssl+=("$1"); shift; done; shift
while [[ $1 != -- ]]; do python+=("$1"); shift; done; shift
rm -rf /sources && mkdir /sources && cd /sources
exec 3>&2 >/sources/log 2>&1
trap '(($? == 0)) || tail -n 20 /sources/log >&3' EXIT
sed -n 's/^deb \(.*\) bullseye main.*/deb-src \1 bookworm main/p' /etc/apt/sources.list >/etc/apt/sources.list.d/newer.list
apt-get update
apt-get source openssl python3.11
cd /sources/openssl-*/
"${openssl[@]}" --prefix=/usr/local --libdir=lib no-tests
make --jobs="$(nproc)"
make install_sw "$@"
ldconfig # for Python, which leaves out a module that it cannot load
cd /sources/python3.11-*/
./configure --enable-shared --disable-test-modules --without-ensurepip "${python[@]}"
# Debian links this module into Python itself; what it was mended with wants to be told so.
sed -i 's/^MODULE_PYEXPAT_CFLAGS=/&-DPy_BUILD_CORE_MODULE /' Makefile
# Debian calls this file by another name than the sources; of cross compiling, only the sources know.
sed -i '/^PYTHON_FOR_BUILD=/s/_$(MACHDEP)_/_/' Makefile
make --jobs="$(nproc)"
make install "$@"
ldconfig
cd / && rm -rf /sources
SCRIPT
}

check_python='python3.11 -c "import bz2, ctypes, lzma, pyexpat, ssl, zlib"'

make_native_root() { # <root>
  debootstrap --variant=minbase --include="$for_native" bullseye "$1" >/dev/null
  { compiling ./config -- --with-openssl=/usr/local -- && printf '%s\n' "$check_python"; } | in_root "$1"
}

# Cross compile in the native root, into a directory there. Prints nothing.
cross_compile() { # <directory>
  {
    cat <<'SCRIPT'
export DEBIAN_FRONTEND=noninteractive
dpkg --add-architecture arm64
apt-get update --quiet=2
apt-get install --yes --quiet=2 --no-install-recommends gcc-aarch64-linux-gnu \
  libbz2-dev:arm64 libffi-dev:arm64 liblzma-dev:arm64 zlib1g-dev:arm64 >/dev/null
SCRIPT
    compiling ./Configure linux-aarch64 --cross-compile-prefix=aarch64-linux-gnu- -- \
      --build=x86_64-linux-gnu --host=aarch64-linux-gnu --with-build-python=python3.11 --with-openssl="$1/usr/local" \
      ac_cv_buggy_getaddrinfo=no ac_cv_file__dev_ptmx=yes ac_cv_file__dev_ptc=no -- DESTDIR="$1"
  } | in_root "$native"
}

# Packages are unpacked and not configured: what is needed of them are files.
make_foreign_root() { # <root>
  local package made=/made-$architecture
  debootstrap --arch=arm64 --variant=minbase --download-only --include="$for_foreign" bullseye "$1" >/dev/null
  for package in "$1"/var/cache/apt/archives/*.deb; do
    dpkg-deb --extract "$package" "$1"
  done
  rm "$1"/var/cache/apt/archives/*.deb
  cross_compile "$made"
  cp -a "$native$made/usr/local/." "$1/usr/local/"
  rm -rf "${native:?}$made"
  in_foreign_root "$1" <<<"ldconfig; $check_python"
}

if ((EUID != 0)) || ! command -v debootstrap >/dev/null; then
  fail 'this needs root and debootstrap; podman makes the same without: see docs/standalone.md'
fi
if [[ ! -e $native ]]; then
  printf 'Making a Debian 11 with Python and OpenSSL of Debian 12 in %s. That takes some minutes, once.\n' "$native" >&2
  rm -rf "$native.part"
  make_native_root "$native.part"
  mv "$native.part" "$native"
fi
root=$native enter=in_root told=''
if [[ $architecture != "$(uname -m)" ]]; then
  [[ $architecture == aarch64 && $(uname -m) == x86_64 ]] || fail "no executable for $architecture can be made on $(uname -m)"
  root=$native-$architecture enter=in_foreign_root
  told='s/; --version takes .*/; it starts under qemu/' # how long that takes there says nothing
  if [[ ! -e $root ]]; then
    printf 'Making the same for %s in %s. That takes some minutes, once.\n' "$architecture" "$root" >&2
    rm -rf "$root.part"
    make_foreign_root "$root.part"
    mv "$root.part" "$root"
  fi
fi
"$enter" "$root" <<'SCRIPT' | sed "$told"
cd "$1"
export CC=gcc
python3.11 -m venv --clear /made
.ci/install /made standalone
/made/bin/python -B -m packages.standalone "$2"
SCRIPT
