#!/usr/bin/env bash
# Record COUNT stages (two entries each) as soon as standard input ends, so that many of these can begin at once.
# usage: SERVICE_RECORDS_DIR=... SERVICE_NAME=... writers.bash COUNT
. bootstrap-service-record.sh
printf 'ready\n'
read -r
for ((i = 0; i < $1; i++)); do
  record_service_stage_start wait-for-api
  record_service_stage_success
done
