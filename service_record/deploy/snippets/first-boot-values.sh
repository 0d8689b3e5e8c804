# shellcheck shell=sh
# shellcheck disable=SC2034 # what follows this uses service_record_...
# The values of this host, in files that its installation left.
service_record_files=${SERVICE_RECORD_ROOT-}/var/lib/service-record/first-boot
[ ! -e "$service_record_files/ca.pem" ] || service_record_ca=$service_record_files/ca.pem
service_record_url() {
  cat "$service_record_files/url"
}
service_record_host() {
  cat "$service_record_files/host"
}
service_record_token() {
  cat "$service_record_files/token"
}
