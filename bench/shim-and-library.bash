#!/usr/bin/env bash
# Print the microseconds of COUNT stages (two entries each) in a script that sources a library. The library may set a
# trap, so the shim checks the EXIT trap for each entry. The shim reads the text of the script to find that out;
# therefore this is not an option of shim.bash.
# usage: SERVICE_RECORDS_DIR=... SERVICE_NAME=... shim-and-library.bash COUNT LIBRARY
LC_ALL=C

. bootstrap-service-record.sh
# shellcheck disable=SC1090 # the library that is named
. "$2"
begun=$EPOCHREALTIME
for ((i = 0; i < $1; i++)); do
  record_service_stage_start wait-for-api
  record_service_stage_success
done
done=$EPOCHREALTIME

printf '%d\n' $((${done/./} - ${begun/./}))
