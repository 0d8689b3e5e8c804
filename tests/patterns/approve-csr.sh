#!/usr/bin/env bash
# As upstream's approve-csr.sh uses the shim: a loop until the cluster is there, in which commands fail unheeded. No options,
# no stages.

. "$BIN/bootstrap-service-record.sh"

until oc get clusterversion; do
  oc adm certificate approve csr-1
done
