#!/usr/bin/env bash
# Configure the container runtime.
set -euo pipefail

. bootstrap-service-record.sh

printf '[crio.image]\npause_image = "registry.example/pause:1"\n' >"${TMPDIR:-/tmp}/pause.conf"
