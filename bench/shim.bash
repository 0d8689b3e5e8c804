#!/usr/bin/env bash
# Print the microseconds that sourcing the shim took, and those of COUNT stages (two entries each) after it.
# LIBRARY is a file that the script sources after the shim.
# usage: SERVICE_RECORDS_DIR=... SERVICE_NAME=... shim.bash COUNT [LIBRARY]
LC_ALL=C

begun=$EPOCHREALTIME
. bootstrap-service-record.sh
sourced=$EPOCHREALTIME
# shellcheck disable=SC1090 # the library that is named
[[ -z ${2-} ]] || . "$2"
stages=$EPOCHREALTIME
for ((i = 0; i < $1; i++)); do
  record_service_stage_start wait-for-api
  record_service_stage_success
done
done=$EPOCHREALTIME

printf '%d %d\n' $((${sourced/./} - ${begun/./})) $((${done/./} - ${stages/./}))
