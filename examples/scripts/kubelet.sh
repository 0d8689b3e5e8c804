#!/usr/bin/env bash
# The kubelet, which runs as long as the host does.

. /usr/local/bin/bootstrap-service-record.sh

printf 'Started kubelet\n'
sleep infinity
