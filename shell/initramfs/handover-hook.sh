#!/bin/sh
# A hook of dracut, which reads it into its own shell. With systemd, a unit does this.
[ -d /run/systemd/system ] || sh /usr/lib/service-record/service-record-initramfs.sh handover </dev/null >/dev/null 2>&1 || :
