#!/usr/bin/env bash
# As upstream's extract-agent.sh uses the shim: not at all. As a pre-command of agent.service it runs a script that does, which so
# records as agent.
set -euo pipefail

"$BASH" "$BIN/release-image-download.sh"
podman create agent-image
