#!/bin/sh
# The records directory, which the next boot would make.
set -e
if [ "$1" = configure ] && command -v systemd-tmpfiles >/dev/null; then
  systemd-tmpfiles --root="${DPKG_ROOT:-/}" --create service-record.conf || true
fi
