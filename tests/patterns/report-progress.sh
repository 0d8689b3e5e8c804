#!/usr/bin/env bash
# As upstream's report-progress.sh uses the shim: two stages that wait for something, each opened and closed by a function.
# No options.

. "$BIN/bootstrap-service-record.sh"

wait_for() { # STAGE RESOURCE
  record_service_stage_start "$1"
  until oc get "$2"; do
    :
  done
  record_service_stage_success
}

wait_for wait-for-bootstrap-complete configmap/bootstrap
wait_for report-bootstrap-complete deployment/assisted
