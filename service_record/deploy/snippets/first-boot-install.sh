# shellcheck shell=sh
# shellcheck disable=SC2154 # what stands before this sets service_record_...
# Leave a unit on the new system that reports its first boot. Never fails, and writes nothing to the terminal.
service_record_first_boot() {
  (service_record_leave) </dev/null >/dev/null 2>&1
  return 0
}

service_record_leave() {
  set +x +e +u
  # shellcheck disable=SC3047 # in bash alone
  [ -z "${BASH_VERSION-}" ] || trap - ERR DEBUG
  set +C
  root=${SERVICE_RECORD_ROOT-$service_record_root}
  files=$root/var/lib/service-record/first-boot
  units=$root/etc/systemd/system
  wants=$units/multi-user.target.wants
  umask 022
  mkdir -p "$root/var/lib/service-record" "$wants"
  service_record_unit >"$units/service-record-first-boot.service"
  umask 077
  mkdir -p "$files"
  service_record_url >"$files/url"
  service_record_host >"$files/host"
  service_record_token >"$files/token"
  [ ! -r "$service_record_ca" ] || cat "$service_record_ca" >"$files/ca.pem"
  service_record_script >"$files/run.sh"
  ln -s ../service-record-first-boot.service "$wants/service-record-first-boot.service"
  # In a chroot without a policy it does nothing.
  [ -n "$root" ] || restorecon -RF "$files" "$units"
}
