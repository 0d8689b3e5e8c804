#!/bin/sh
# The reporter's timer, should somebody have enabled it: it stops, and its link goes with the unit. An upgrade leaves it alone.
set -e
if [ "$1" = remove ]; then
  if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop boot-reporter.timer || true
  fi
  rm -f "${DPKG_ROOT:-}/etc/systemd/system/timers.target.wants/boot-reporter.timer"
fi
