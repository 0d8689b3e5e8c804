#!/usr/bin/env bash
# Bring up a temporary control plane, and have it bring up that of the cluster.
set -euoE pipefail

. /usr/local/bin/bootstrap-service-record.sh
. /usr/local/bin/verify-api-url.sh

registry=registry.lab.example.net/openshift
manifests=/opt/openshift/manifests
etcd=/var/lib/etcd

render() { # <component>
  printf 'Rendering the manifests of %s...\n' "$1"
  podman run --quiet "$registry/$1:4.22" render --output "$manifests"
}

mkdir -p "$manifests" "$etcd"

record_service_stage_start "etcd-bootstrap"
render cluster-etcd-operator
printf 'Allocating the database of etcd...\n'
dd if=/dev/zero of="$etcd/db" bs=64K count=32 status=none
record_service_stage_success

record_service_stage_start "wait-for-etcd"
printf 'Waiting for etcd...\n'
until etcdctl --endpoints=https://localhost:2379 endpoint health; do
  sleep 5
done
record_service_stage_success

record_service_stage_start "cvo-bootstrap"
render cluster-version-operator
record_service_stage_success

record_service_stage_start "api-bootstrap"
render kube-apiserver-operator
podman run --quiet --detach "$registry/kube-apiserver:4.22"
record_service_stage_success

verify_api_url

record_service_stage_start "cb-bootstrap"
printf 'Starting cluster-bootstrap...\n'
podman run --quiet "$registry/cluster-bootstrap:4.22" start
touch /opt/openshift/.bootkube.done
record_service_stage_success
