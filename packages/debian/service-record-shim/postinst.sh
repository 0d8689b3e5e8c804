#!/bin/sh
# The records directory, which the next boot would make; and systemd learns of new units.
set -e
if [ "$1" = configure ]; then
  if command -v systemd-tmpfiles >/dev/null; then
    systemd-tmpfiles --root="${DPKG_ROOT:-/}" --create service-record.conf || true
  fi
  if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload || true
  fi
fi
