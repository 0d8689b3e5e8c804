#!/usr/bin/env bash
# As upstream's chown-gatewayd-key.service uses the shim: in the words of a unit's ExecStart=, for a shell that is called sh
# and so is in POSIX mode.

# shellcheck disable=SC2016 # for that shell to expand
exec -a sh "$BASH" -c '. "$BIN/bootstrap-service-record.sh"; podman unshare chown gatewayd key.pem'
