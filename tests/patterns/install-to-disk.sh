#!/usr/bin/env bash
# As upstream's install-to-disk.sh uses the shim: strict options, -E too; a stage whose name has a space, as one of OKD's;
# a pipeline; and in the end it has the host rebooted.
set -euoE pipefail

. "$BIN/bootstrap-service-record.sh"

record_service_stage_start "wait-for-bootkube"
oc wait bootkube
record_service_stage_success

record_service_stage_start "write-image to disk"
podman run coreos-installer image | tee image
record_service_stage_success

record_service_stage_start "reboot"
shutdown --reboot +1
record_service_stage_success
