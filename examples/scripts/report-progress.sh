#!/usr/bin/env bash
# Tell the cluster that asked for this installation how far it is.
set -euo pipefail

. /usr/local/bin/bootstrap-service-record.sh

record_service_stage_start "report-bootstrapping"
oc patch infrastructure/cluster --patch '{"status": {"phase": "bootstrapping"}}'
record_service_stage_success
