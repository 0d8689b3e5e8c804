#!/usr/bin/env bash
# Bring up a temporary control plane. Its third stage needs a manifest that the release image does not have.
set -euoE pipefail

. bootstrap-service-record.sh

release=${TMPDIR:-/tmp}/release
manifests=${TMPDIR:-/tmp}/manifests

render() { # <component>
  printf 'Rendering the manifests of %s\n' "$1"
  cp "$release/$1.yaml" "$manifests/"
}

render_all() { # <component...>
  local component
  for component; do
    render "$component"
  done
}

mkdir -p "$manifests"

record_service_stage_start etcd-bootstrap
render etcd
sleep 0.2
record_service_stage_success

record_service_stage_start api-bootstrap
render kube-apiserver
sleep 0.1
record_service_stage_success

record_service_stage_start cvo-bootstrap
render_all kube-apiserver cluster-version-operator
record_service_stage_success
