#!/usr/bin/env bash
# As upstream's bootstrap-in-place.sh uses the shim: bootkube.sh sources it, and with it the shim that is there already.
# It gathers the host's records while a stage of its own is open.

record_service_stage_start "master-ignition"
cp -r "$SERVICE_RECORDS_DIR" gathered
podman run machine-config-operator master-ignition
record_service_stage_success
