#!/usr/bin/env bash
# As upstream's kubelet-pause-image.sh uses the shim: a pre-command of kubelet.service, which names itself before it
# sources the shim.
set -euo pipefail

# shellcheck disable=SC2034 # the shim reads it
PRE_COMMAND="kubelet-pause-image"
. "$BIN/bootstrap-service-record.sh"

podman pull pause-image
