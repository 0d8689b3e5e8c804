#!/usr/bin/env bash
# As upstream's crio-configure.sh uses the shim: a service without stages.
set -euo pipefail

. "$BIN/bootstrap-service-record.sh"

podman inspect pause-image
printf '[crio.image]\npause_image = "registry.example/pause:1"\n' >pause.conf
