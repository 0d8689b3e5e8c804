#!/usr/bin/env bash
# Pull the release image, again and again until it comes.
set -euo pipefail

. /usr/local/bin/bootstrap-service-record.sh

image=registry.lab.example.net/openshift/release:4.22

printf 'Pulling %s...\n' "$image"
while true; do
  record_service_stage_start "pull-release-image"
  if podman pull --quiet "$image"; then
    record_service_stage_success
    break
  fi
  record_service_stage_failure
  sleep 1
done
