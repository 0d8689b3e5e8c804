#!/usr/bin/env bash
# Print the microseconds of COUNT failed stages after starting each of them.
# usage: SERVICE_RECORDS_DIR=... SERVICE_NAME=... failure.bash COUNT
LC_ALL=C

. bootstrap-service-record.sh
total=0
for ((i = 0; i < $1; i++)); do
  record_service_stage_start wait-for-api
  begun=$EPOCHREALTIME
  record_service_stage_failure
  done=$EPOCHREALTIME
  ((total += ${done/./} - ${begun/./}))
done

printf '%d\n' "$total"
