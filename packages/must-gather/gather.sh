#!/bin/bash
# Collect the records of a cluster's nodes into /must-gather, and what `service-record analyze` says about each.
# `oc adm must-gather` runs this in a pod and fetches the directory. A node that cannot be read does not stop it.
#
# usage: gather [directory]
set -uo pipefail

directory=${1:-/must-gather}
mkdir -p "$directory/service-record"

# oc debug mounts the node's root at /host. Nodes without records give an empty archive.
collect_node() { # <node>
  local place=$directory/service-record/$1
  mkdir -p "$place"
  timeout 300 oc debug --quiet "node/$1" -- chroot /host sh -c \
    'cd / && tar -cf - var/log/openshift run/service-record 2>/dev/null; :' >"$place/records.tar" 2>"$place/errors.txt"
  # What cannot be unpacked is kept, unless it is empty: the node could not be reached.
  [[ ! -s $place/records.tar ]] || tar -xf "$place/records.tar" -C "$place" 2>>"$place/errors.txt" &&
    rm -f "$place/records.tar"
  timeout 300 oc debug --quiet "node/$1" -- chroot /host journalctl --boot --output=export --lines=50000 \
    >"$place/host.journal" 2>>"$place/errors.txt"
  # Exit code 1 means that something is wrong with the node.
  timeout 300 service-record analyze --color never "$place" >"$place/analysis.txt" 2>>"$place/errors.txt"
}

nodes=$(oc get nodes --output=name) || exit
for node in $nodes; do
  printf 'service-record: %s\n' "${node#node/}"
  collect_node "${node#node/}"
done
