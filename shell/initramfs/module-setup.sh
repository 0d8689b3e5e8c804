#!/bin/bash
# shellcheck disable=SC2154 # dracut sets moddir, initdir and systemdsystemunitdir
# The dracut module service-record: records the units of the initramfs, and reports its failure.
# `dracut --add service-record` adds it. See dracut.modules(7) and service-record-initrd(1).

check() {
  # 255: dracut adds the module only on request, so installing the package changes no initramfs.
  return 255
}

depends() {
  return 0
}

install() {
  local unit
  inst_multiple cat ln mkdir rm sed sleep
  # Without curl, bash sends the report over HTTP.
  inst_multiple -o curl bash dmesg logger
  inst_simple "$moddir/service-record-initramfs.sh" /usr/lib/service-record/service-record-initramfs.sh
  # Settings of this host: url, host, token, ca.pem, cluster, infra_env, host_id.
  inst_multiple -o /etc/service-record/initramfs/*
  inst_hook emergency 95 "$moddir/failure-hook.sh"
  inst_hook shutdown-emergency 95 "$moddir/failure-hook.sh"
  inst_hook pre-pivot 95 "$moddir/handover-hook.sh"
  dracut_module_included systemd || return 0
  for unit in failure retry handover; do
    inst_simple "$moddir/service-record-initramfs-$unit.service" \
      "$systemdsystemunitdir/service-record-initramfs-$unit.service"
  done
  for unit in failure retry; do
    add_want emergency.target "$unit"
    add_want dracut-emergency.service "$unit"
  done
  add_want initrd.target handover
}

add_want() { # <unit> <failure | retry | handover>
  mkdir -p "$initdir$systemdsystemunitdir/$1.wants"
  ln -sf "../service-record-initramfs-$2.service" "$initdir$systemdsystemunitdir/$1.wants/"
}
