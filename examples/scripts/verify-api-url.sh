# shellcheck shell=bash
# Asks the API by the name that the cluster will use. Sourced by bootkube.sh; sources the shim too, to be usable alone.

. /usr/local/bin/bootstrap-service-record.sh

verify_api_url() {
  record_service_stage_start "check-api-url"
  if oc get --raw /version; then
    record_service_stage_success
  else
    printf 'Going on without: the API may come later\n'
    record_service_stage_failure
  fi
}
