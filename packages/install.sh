#!/bin/sh
# Install service-record on this host, from the folder of a release. It needs no network and no Python where the executable
# for this processor is in the folder.
#
# usage: sh install.sh [option of `service-record install`...]
set -eu

folder=$(cd "$(dirname "$0")" && pwd)
prefix=${PREFIX:-/usr/local}
program=$prefix/bin/service-record
pythons='python3 python3.14 python3.13 python3.12 python3.11'
environment=${ENVIRONMENT:-/opt/service-record}

say() { # <text>
  printf 'install: %s\n' "$1" >&2
}

# Whether a file is as it was released. Without sha256sum nobody can tell, and it is taken as it is.
is_whole() { # <name>
  command -v sha256sum >/dev/null || return 0
  (cd "$folder" && grep " [ *]*$1\$" SHA256SUMS | sha256sum --check --status -)
}

# Fails if the executable is missing or does not start, as with an older glibc than it was built for.
install_executable() {
  name=service-record-$(uname -m)
  [ -f "$folder/$name" ] || return 1
  is_whole "$name" || {
    say "$name is damaged: its checksum is not that of SHA256SUMS. Get it again"
    exit 1
  }
  mkdir -p "$prefix/bin"
  # A new file beside it: the program that is there may be running.
  cp "$folder/$name" "$program.new"
  chmod 755 "$program.new"
  "$program.new" --version >/dev/null || {
    rm -f "$program.new"
    return 1
  }
  mv -f "$program.new" "$program"
}

# Python 3.11 or newer, and a package index for the libraries.
install_wheel() {
  for python in $pythons; do
    "$python" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    wheel=$(echo "$folder"/service_record-*.whl)
    [ -f "$wheel" ] || return 1
    "$python" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet "${wheel}[reporter,client,triage]"
    mkdir -p "$prefix/bin"
    ln -sf "$environment/bin/service-record" "$program"
    return
  done
  return 1
}

# Print what to install, in one sentence.
advice() {
  for python in $pythons; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    printf '%s cannot make a virtual environment with pip: install its venv (Debian: apt-get install python3-venv)' "$python"
    return
  done
  printf 'no Python 3.11 or newer: get a folder with service-record-%s, or install Python (%s; %s)' "$(uname -m)" \
    'RHEL 9: dnf install python3.11' 'Ubuntu 22.04: apt-get install python3.11 python3.11-venv'
}

[ "$(id -u)" = 0 ] || {
  say 'not root: run it as root, or set PREFIX= to a directory of yours and have PATH name its bin'
  [ "${PREFIX-}" ] || exit 3
}
install_executable || install_wheel || {
  say "no executable for $(uname -m) here that starts, and $(advice)"
  exit 1
}
say "$("$program" --version) is $program"
[ "$(id -u)" != 0 ] || exec "$program" install "$@"
