#!/usr/bin/env bash
# As upstream's bootkube.sh uses the shim: strict options, -E too; a stage for each step, one of which a function opens
# in the condition of an `if` and its caller closes; what it sources records, and sources the shim again. What it did in
# an earlier attempt it does not do again.
set -euoE pipefail

. "$BIN/bootstrap-service-record.sh"

. "$BIN/verify-api-server-urls.sh"

render() { # COMPONENT
  podman run --quiet release-image "render-$1" --asset-output-dir="$1-bootstrap"
}

start_cluster_bootstrap() {
  record_service_stage_start "cluster-bootstrap"
  podman run --name cluster-bootstrap start-cluster --pod-manifest-path=manifests
}

gather_cluster_bootstrap() {
  podman logs cluster-bootstrap
  podman rm cluster-bootstrap
  podman rm etcd
}

for component in etcd api; do
  if [[ ! -e $component-bootstrap.done ]]; then
    record_service_stage_start "$component-bootstrap"
    render "$component"
    touch "$component-bootstrap.done"
    record_service_stage_success
  fi
done

verify_url API_URL https://api.cluster.example:6443
verify_url API_INT_URL https://api-int.cluster.example:6443

if start_cluster_bootstrap; then
  record_service_stage_success
else
  status=$?
  set +u
  gather_cluster_bootstrap
  exit "$status"
fi

if [[ ${IN_PLACE-} ]]; then
  . "$BIN/bootstrap-in-place.sh"
fi
