#!/usr/bin/env bash
# Configure the container runtime.
set -euo pipefail

. /usr/local/bin/bootstrap-service-record.sh

mkdir -p /etc/crio/crio.conf.d
printf '[crio.image]\npause_image = "registry.lab.example.net/openshift/pod:4.22"\n' >/etc/crio/crio.conf.d/00-pause.conf
