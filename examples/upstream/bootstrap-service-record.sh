# shellcheck shell=bash
#
# For the example `upstream` alone: makes records that look like those of OpenShift's own shim, its faults included. Every
# service is "started" by whatever sources this, an end names line 1 whatever failed, and times are local.

stage=''
kind=${PRE_COMMAND:+pre-command}
kind=${kind:-service}
export PRE_COMMAND

like_upstream() { # PHASE [RESULT LINE]
  record-like-upstream "$1" "$stage" "${2-}" "${3-}"
}

record_service_stage_start() { # NAME
  stage=$1
  like_upstream "stage start"
}

record_service_stage_success() {
  like_upstream "stage end" success
  stage=''
}

record_service_stage_failure() {
  like_upstream "stage end" failure "$(caller 0)"
  stage=''
}

like_upstream_end() { # STATUS
  local result=success line=''
  (($1 == 0)) || result=failure line="1 ${FUNCNAME[1]} $0"
  [[ ! $stage ]] || like_upstream "stage end" "$result" "$line"
  stage=''
  like_upstream "$kind end" "$result" "$line"
}

like_upstream "$kind start"
trap 'like_upstream_end "$?"' EXIT
