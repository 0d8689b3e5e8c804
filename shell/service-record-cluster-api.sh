#!/bin/bash
# Reports the result of this host's bootstrap service to Cluster API. service-record-cluster-api@.service runs this.
#
# usage: service-record-cluster-api.sh <service> [root]
#
# After a success it writes the sentinel file of Cluster API's bootstrap contract. The contract defines no file for a
# failure. So the script writes the reason to the console, to cloud-init's output, and to a file in the sentinel's
# directory. It runs until the service has succeeded, because systemd or a user may start the service again.
set -uo pipefail

readonly service=${1%.service} root=${2-}
readonly directory=$root/run/cluster-api
readonly sentinel=$directory/bootstrap-success.complete reason=$directory/bootstrap-failure.txt
readonly cloud_init=$root/var/log/cloud-init-output.log
readonly interval=${SERVICE_RECORD_INTERVAL:-5} # seconds

# Sets `result` to success, failure or nothing, and `invocation` to the id of the run.
read_result() {
  local line='' active='' sub='' end=''
  result='' invocation=''
  while IFS= read -r line; do
    case $line in
    ActiveState=*) active=${line#*=} ;;
    SubState=*) sub=${line#*=} ;;
    Result=*) end=${line#*=} ;;
    InvocationID=*) invocation=${line#*=} ;;
    esac
  done < <(systemctl show --property=ActiveState,SubState,Result,InvocationID "$service.service")
  case $active:$sub:$end in
  failed:*) result=failure ;;
  activating:auto-restart*:success) ;;
  activating:auto-restart*) result=failure ;;
  active:exited:success) result=success ;;
  # systemd has the same state after a stop, and before the first start. The record shows the difference.
  inactive:*:success) ! has_recorded_success || result=success ;;
  esac
}

# Returns 0 if the record says that the service succeeded in this boot. Reads the record only after a change, because the
# command takes a large part of a second.
has_recorded_success() {
  local name=${service//./_} state='' shown='' boot=''
  state=$(stat --format='%y %s' -- "$root${SERVICE_RECORDS_DIR:-/var/log/openshift}/$name.json" 2>/dev/null) || return
  [[ $state != "$seen" ]] || return
  shown=$(service-record show --output json "$service" 2>/dev/null)
  [[ ! $shown ]] || seen=$state
  read -r boot </proc/sys/kernel/random/boot_id
  [[ $(grep --max-count=1 '"outcome"' <<<"$shown") == *'"success"'* &&
  $(grep '"bootId"' <<<"$shown" | tail -n 1) == *"${boot//-/}"* ]]
}

# Writes the verdict, or without one the last lines of the journal.
write_reason() {
  local text=''
  text=$(timeout 60 service-record analyze --brief --color never "$service" 2>/dev/null)
  [[ $text ]] || text=$(timeout 10 journalctl --unit "$service.service" --lines 20 --no-pager --output cat)
  text="service-record: $service.service failed"$'\n'$text
  printf '%s\n' "$text" # to the journal and the console, by StandardOutput= of the unit
  [[ ! -f $cloud_init ]] || printf '%s\n' "$text" >>"$cloud_init"
  mkdir -p -- "$directory"
  printf '%s\n' "$text" >"$reason"
  # units/service-record.catalog explains this message by its id.
  printf '%s\n' "MESSAGE=$service.service failed; the reason is in $reason" PRIORITY=3 SYSLOG_IDENTIFIER=service-record \
    MESSAGE_ID=7ff3d9f6b97f4d6acdcbfcef01dc0f98 "SERVICE_RECORD_SERVICE=$service" SERVICE_RECORD_RESULT=failed \
    "OBJECT_SYSTEMD_UNIT=$service.service" | timeout 2 logger --journald 2>/dev/null
}

seen='' explained=''
while
  read_result
  [[ $result != success ]]
do
  if [[ $result == failure && $invocation != "$explained" ]]; then
    write_reason
    explained=$invocation
  fi
  sleep "$interval"
done
mkdir -p -- "$directory"
rm -f -- "$reason"
printf 'success\n' >"$sentinel"
