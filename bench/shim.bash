#!/usr/bin/env bash
# Print the microseconds that sourcing the shim took, and those of COUNT stages (two entries each) after it.
# usage: SERVICE_RECORDS_DIR=... SERVICE_NAME=... shim.bash COUNT
LC_ALL=C

begun=$EPOCHREALTIME
. bootstrap-service-record.sh
sourced=$EPOCHREALTIME
for ((i = 0; i < $1; i++)); do
  record_service_stage_start wait-for-api
  record_service_stage_success
done
done=$EPOCHREALTIME

printf '%d %d\n' $((${sourced/./} - ${begun/./})) $((${done/./} - ${sourced/./}))
