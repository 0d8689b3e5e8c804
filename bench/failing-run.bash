#!/usr/bin/env bash
# A service of two stages whose second one fails.
# usage: SERVICE_RECORDS_DIR=... SERVICE_NAME=... failing-run.bash [recorded]
set -euo pipefail

if [[ ${1-} ]]; then
  . bootstrap-service-record.sh
else
  record_service_stage_start() { :; }
  record_service_stage_success() { :; }
fi

record_service_stage_start render
record_service_stage_success
record_service_stage_start pull
false
