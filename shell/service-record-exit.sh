#!/usr/bin/env bash
#
# Closes the record of a service that could not do so itself: killed, out of memory, timed out, crashed, or become another
# program by `exec`. systemd calls it after every end of the service (units/10-service-record.conf):
#
#     ExecStopPost=-+/usr/local/bin/service-record-exit.sh
#
# From systemd it has SERVICE_RESULT, EXIT_CODE, EXIT_STATUS (systemd.exec(5)) and INVOCATION_ID. It appends the missing
# ends of this invocation, names the signal that the shim could only call unknown, and records start and end of a service
# that knows nothing of us. A run that ended by itself is left as it is. It always exits 0.

# As if sourced before: the shim then lends its functions and starts nothing.
__sr_pid=$BASHPID
# shellcheck source=shell/bootstrap-service-record.sh
. "${BASH_SOURCE[0]%/*}/bootstrap-service-record.sh" || exit 0

declare -A kind=() command=() boot=() result=() signal=() stages=() failed=() process=()
pids=()

# Reads this invocation's entries into the arrays above, each by pid. Only our writers' lines have an invocation id, and in
# those a quote within a value is escaped: what looks like a member is one. A stage's name stays as it stands in JSON.
# A service that retries without a pause may have written any number: the latest tell what is open, and systemd waits.
read_invocation() { # PATH
  local line='' pid='' value='' phase=''
  while IFS= read -r line; do
    read_member pid "$line"
    [[ $value ]] || continue
    pid=$value
    read_member phase "$line"
    phase=$value
    [[ ${kind[$pid]-} && ($phase == stage* || $phase == *" end") ]] || read_start "$pid" "$line"
    case $phase in
    "stage start")
      read_member stage "$line"
      stages[$pid]+=$value$'\n'
      failed[$pid]=
      ;;
    "stage end")
      read_member stage "$line"
      close_stage "$pid" "$value"
      read_failed_stage "$pid" "$line"
      ;;
    *" end") read_end "$pid" "$line" ;;
    esac
  done < <(grep --fixed-strings --text "\"invocationId\":\"$INVOCATION_ID\"" "$1" | tail -n 10000)
}

read_start() { # PID LINE; whether it is the start or, that one lost, the first that is left
  [[ ${kind[$1]-} ]] || pids+=("$1")
  kind[$1]=service command[$1]='' result[$1]='' signal[$1]='' stages[$1]='' failed[$1]=''
  read_command "$1" "$2" preCommand pre-command
  read_command "$1" "$2" postCommand post-command
  read_member bootId "$2"
  boot[$1]=$value
}

read_command() { # PID LINE MEMBER KIND
  read_member "$3" "$2"
  [[ $value ]] || return 0
  kind[$1]=$4
  command[$1]=",\"$3\":\"$value\""
}

read_end() { # PID LINE
  read_member result "$2"
  result[$1]=$value
  read_member signal "$2"
  signal[$1]=$value
  stages[$1]=
}

read_failed_stage() { # PID LINE; the stage that fails right before its run does
  local name="$value"
  read_member result "$2"
  failed[$1]=
  [[ $value != failure ]] || failed[$1]=$name
}

read_member() { # NAME LINE; sets value, without the quotes of a string
  local rest="${2#*,\""$1"\":}"
  value=
  [[ $rest != "$2" ]] || return 0
  if [[ $rest != '"'* ]]; then
    value=${rest%%[,\}]*}
    return 0
  fi
  rest=${rest#?}
  while [[ $rest == *'"'* ]]; do
    value+=${rest%%\"*}
    # After an odd number of backslashes the quote is part of the value.
    [[ $value =~ (\\*)$ ]] && ((${#BASH_REMATCH[1]} % 2)) || return 0
    value+='"'
    rest=${rest#*\"}
  done
}

close_stage() { # PID STAGE; the latest of that name
  local open="${stages[$1]-}"
  [[ $open == *"$2"$'\n'* ]] || return 0
  stages[$1]=${open%"$2"$'\n'*}${open##*"$2"$'\n'}
}

read_main_process() { # as systemd knows it: process[ExecMainPID] and so on, and when it was `started` in this invocation
  local line=''
  while IFS= read -r line; do
    process[${line%%=*}]=${line#*=}
  done < <(timeout 2 systemctl show "$unit" \
    --property=ExecMainPID,ExecMainStartTimestampMonotonic,ConditionTimestampMonotonic \
    --property=UID,RootDirectory,RootImage,InaccessiblePaths,TemporaryFileSystem)
  started=${process[ExecMainStartTimestampMonotonic]:-0}
  # Older than the attempt to start the service: it is that of the last one.
  ((started >= ${process[ConditionTimestampMonotonic]:-0})) || started=0
}

# What a service that is not root left in the inbox goes into its record. Anybody may leave files there: only one counts that
# belongs to the user whom systemd ran this unit as, and of its lines only entries of this invocation.
take_inbox() {
  local inbox="${SERVICE_RECORDS_INBOX-}" name="${__sr[path]##*/}" file='' uid="${process[UID]-}" line='' __sr_line='' lost=0 until=$((SECONDS + 10))
  [[ $inbox ]] || return 0
  [[ -d $inbox ]] || mkdir -m 1733 -- "$inbox"
  file=$inbox/${name%.json}.$INVOCATION_ID.json
  if [[ ! -e $file && ! -L $file ]]; then
    line="${process[RootDirectory]-}${process[RootImage]-}"
    [[ $uid != [1-9]* || ! $line && "${process[InaccessiblePaths]-}${process[TemporaryFileSystem]-}" != */dev* ]] ||
      tell "$unit ran as user $uid and may not see $inbox in its sandbox: if it recorded stages, they are lost"
    return 0
  fi
  if [[ $(stat --format='%u %f' -- "$file") == "$uid 8"??? ]]; then
    while IFS= read -r line; do
      __sr_line=${line%,}
      [[ $__sr_line == '{"timestamp":"'*\} ]] && ((${#__sr_line} < 4096 && SECONDS < until)) && __sr_is_whole "$__sr_line" &&
        __sr_write && ((__sr[dropped] == 0)) || lost=$((lost + 1))
    done < <(timeout 5 dd if="$file" iflag=nofollow,nonblock bs=64K count=256 |
      grep --fixed-strings --text "\"invocationId\":\"$INVOCATION_ID\"" | tail -n 10000)
    if ((lost)); then
      __sr[last]=",\"dropped\":$lost"
      tell "$lost entries that $unit left in $file could not be recorded"
    fi
  else
    tell "$file was not recorded: it is not a file of user ${uid:-unknown}, as whom $unit ran"
  fi
  timeout 5 rm -rf --one-file-system -- "$file"
}

tell() { # TEXT; in the journal, for the output of the service may go anywhere
  timeout 2 logger --tag service-record --priority daemon.warning -- "$1"
}

# As members of an end: a status or a signal, and systemd's result. A run that a signal ended is not a success, even if
# systemd, which asked for it, is content.
judge() {
  end_result=failure facts=
  case ${EXIT_CODE-} in
  exited) facts=",\"exitCode\":$EXIT_STATUS" ;;
  killed | dumped) facts=",\"signal\":\"$EXIT_STATUS\"" ;;
  esac
  [[ ${SERVICE_RESULT-} == success && ${EXIT_CODE-exited} == exited ]] && end_result=success
  facts+=${SERVICE_RESULT:+",\"serviceResult\":\"$SERVICE_RESULT\""}
  message=
  if [[ $end_result == failure ]]; then
    __sr_journal
    message=$__sr_answer
  fi
}

write_as() { # PID, 0 for none; the entries that follow are of this run
  __sr[identity]="${boot[$1]:+,\"bootId\":\"${boot[$1]}\"},\"invocationId\":\"$INVOCATION_ID\""
  (($1 == 0)) || __sr[identity]+=",\"pid\":$1"
  __sr[command]=${command[$1]-}
  __sr[kind]=${kind[$1]:-service}
}

close_run() { # PID
  local name=''
  write_as "$1"
  while IFS= read -r name; do
    [[ $name ]] || continue
    __sr[stage]=$name
    __sr_append "stage end" "$end_result" '' "$message" "$facts"
  done <<<"${stages[$1]-}"
  __sr[stage]=
  __sr_append "${__sr[kind]} end" "$end_result" '' "$message" "$facts"
}

# What the run said of its end stands beside what systemd saw of the same process: a reader takes the later for more. It
# names the stage that failed with the run, for upstream's analyzer takes that from the entry right before the last one.
amend_run() { # PID
  [[ $1 == "${process[ExecMainPID]-}" && ${EXIT_CODE-} != exited ]] || return 0
  [[ ${signal[$1]} == unknown || ${result[$1]} == success ]] || return 0
  write_as "$1"
  __sr[stage]=${failed[$1]}
  __sr_append "${__sr[kind]} end" "$end_result" '' "$message" "$facts"
  __sr[stage]=
}

# The service knows nothing of us, or never came as far as its script: it started when systemd says that it did.
record_unknown() {
  local pid=0
  ((started == 0)) || pid=${process[ExecMainPID]}
  boot[$pid]=${__sr[identity]#*:\"}
  boot[$pid]=${boot[$pid]%%\"*}
  append_start "$pid"
  close_run "$pid"
}

append_start() { # PID
  local then="$started" now="${EPOCHREALTIME-}" uptime=''
  ((then)) || then=${process[ConditionTimestampMonotonic]:-0}
  if [[ $now ]] && ((then)); then
    read -r uptime _ </proc/uptime
    now=$((${now/[.,]/} - ${uptime/./}0000 + then))
    __sr[time]=${now:0:-6}.${now: -6}
    printf -v '__sr[uptime]' '%d.%02d' $((then / 1000000)) $((then % 1000000 / 10000))
  fi
  write_as "$1"
  __sr[last]=',"recorder":"exit/0.1.0"'
  __sr_append "service start"
  __sr[time]='' __sr[uptime]=''
}

is_recorded() { # the service itself, or a command that kept it from being started
  local pid=''
  for pid in "${pids[@]}"; do
    [[ ${kind[$pid]} != service ]] || return 0
  done
  ((${#pids[@]} && started == 0))
}

main() {
  local LC_ALL=C IFS=$' \t\n' __sr_answer='' unit='' started=0 end_result='' facts='' message='' pid=''
  [[ ${INVOCATION_ID-} ]] || return 0
  __sr_unit
  unit=$__sr_answer.service
  __sr_begin
  read_main_process
  take_inbox
  [[ ! -f ${__sr[path]} ]] || read_invocation "${__sr[path]}"
  judge
  is_recorded || record_unknown
  for pid in "${pids[@]}"; do
    if [[ ${result[$pid]} ]]; then amend_run "$pid"; else close_run "$pid"; fi
  done
  __sr_sync
}

main 2>/dev/null
exit 0
