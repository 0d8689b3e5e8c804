#!/usr/bin/env bash
# Write the operating system to the disk.
set -euoE pipefail

. /usr/local/bin/bootstrap-service-record.sh

# A disk that is half written is nothing to go on from unasked: the unit does not start again where this is.
touch /var/lib/install-to-disk/started

record_service_stage_start "fetch-ignition"
printf 'Fetching the Ignition config of the host...\n'
printf '{"ignition": {"version": "3.4.0"}}\n' >/run/host.ign
record_service_stage_success

record_service_stage_start "write-image"
coreos-installer install --ignition-file /run/host.ign /dev/sda
record_service_stage_success

record_service_stage_start "set-boot-order"
printf 'The next boot is from /dev/sda\n'
record_service_stage_success
