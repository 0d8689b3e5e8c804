# shellcheck shell=bash
# Stands for upstream's shim where only its way of writing matters: for each entry jq reads the record, one array, and all of
# it is written anew. It knows starts and ends of services, and lets them die of what it cannot read.

rewriting_record=/var/log/openshift/$SERVICE_NAME.json

rewriting_append() { # PHASE [RESULT]
  mkdir -p "${rewriting_record%/*}"
  [[ -e $rewriting_record ]] || printf '[]\n' >"$rewriting_record"
  jq --arg timestamp "$(date +%Y-%m-%dT%H:%M:%SZ)" --arg phase "$1" --arg result "${2-}" \
    '. + [{$timestamp, $phase, $result} | with_entries(select(.value != ""))]' "$rewriting_record" >"$rewriting_record.tmp" &&
    mv "$rewriting_record.tmp" "$rewriting_record"
}

rewriting_end() { # STATUS
  if (($1)); then rewriting_append "service end" failure; else rewriting_append "service end" success; fi
}

trap 'rewriting_end "$?"' EXIT
rewriting_append "service start"
