#!/usr/bin/env bash
# As upstream's release-image-download.sh uses the shim: a loop that tries again at once, and records each try as a
# stage of its own.
set -euo pipefail

. "$BIN/bootstrap-service-record.sh"

pull() {
  podman pull --quiet release-image
}

record_service_stage_start "check-registry"
podman login registry.example
record_service_stage_success

while true; do
  record_service_stage_start "pull-release-image"
  if pull; then
    record_service_stage_success
    break
  else
    record_service_stage_failure
  fi
done

record_service_stage_start "inspect-release-image"
podman inspect --format digest
record_service_stage_success
