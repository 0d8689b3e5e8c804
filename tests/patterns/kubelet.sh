#!/usr/bin/env bash
# As upstream's kubelet.sh uses the shim: no options, and the service proper is a child in the foreground, which says itself
# that it is ready.

. "$BIN/bootstrap-service-record.sh"

systemd-notify --ready
kubelet --container-runtime-endpoint=/run/crio.sock run-kubelet
