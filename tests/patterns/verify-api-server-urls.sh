#!/usr/bin/env bash
# As upstream's bootstrap-verify-api-server-urls.sh uses the shim: bootkube.sh sources it, and it sources the shim again.
# Its stages may fail without harm to whoever called it. It sets no options.

. "$BIN/bootstrap-service-record.sh"

verify_url() { # NAME URL
  record_service_stage_start "check-${1,,}"
  if curl --head --insecure "$1" "$2"; then
    record_service_stage_success
  else
    record_service_stage_failure
  fi
}
