#!/usr/bin/env bash
#
# Closes the record of a service that could not do so itself: killed, out of memory, timed out, crashed, or become another
# program by `exec`. systemd calls it after every end of the service (units/10-service-record.conf):
#
#     ExecStopPost=-+/usr/local/bin/service-record-exit.sh
#
# From systemd it has SERVICE_RESULT, EXIT_CODE, EXIT_STATUS (systemd.exec(5)) and INVOCATION_ID. It appends the missing
# ends of this invocation, amends an end that systemd contradicts (a signal that the shim could only call unknown, a status
# that the service's own EXIT trap changed), and records start and end of a service that knows nothing of us. It says when
# systemd was asked to stop the service. An end with which systemd agrees is left as it is. It always exits 0.

# As if sourced before: the shim then lends its functions and starts nothing.
__sr_pid=$BASHPID
# shellcheck source=shell/bootstrap-service-record.sh
. "${BASH_SOURCE[0]%/*}/bootstrap-service-record.sh" || exit 0

declare -A kind=() command=() boot=() result=() signal=() status=() stages=() failed=() ended=() process=()
pids=()

# Reads this invocation's entries into the arrays above, each by pid. Only our writers' lines have an invocation id, and in
# those a quote within a value is escaped: what looks like a member is one. A stage's name stays as it stands in JSON.
# A service that retries without a pause may have written any number: the latest tell what is open, and systemd waits.
# Where it takes too long, nothing is known of them: then this fails.
read_invocation() {
  local line='' pid='' value='' phase=''
  [[ -f ${__sr[path]} ]] || return 0
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
      failed[$pid]='' ended[$pid]=''
      ;;
    "stage end")
      read_member stage "$line"
      close_stage "$pid" "$value"
      read_failed_stage "$pid" "$line"
      ;;
    *" end") read_end "$pid" "$line" ;;
    esac
  done < <(
    set -o pipefail
    timeout 10 grep --fixed-strings --text "\"invocationId\":\"$INVOCATION_ID\"" "${__sr[path]}" | tail -n 10000
  )
  wait "$!"
  (($? != 124))
}

read_start() { # PID LINE; whether it is the start or, that one lost, the first that is left
  [[ ${kind[$1]-} ]] || pids+=("$1")
  kind[$1]=service command[$1]='' result[$1]='' signal[$1]='' status[$1]='' stages[$1]='' failed[$1]='' ended[$1]=''
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
  read_member exitCode "$2"
  status[$1]=$value
  stages[$1]=
}

read_failed_stage() { # PID LINE; the stage that fails right before its run does, and the one that the shim ends with it
  local name="$value"
  read_member result "$2"
  failed[$1]='' ended[$1]=''
  [[ $value != failure ]] || failed[$1]=$name
  [[ $2 != *',"exitCode":'* && $2 != *',"signal":'* ]] || ended[$1]=$name
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
  done < <(timeout 5 systemctl show "$unit" \
    --property=ExecMainPID,ExecMainStartTimestampMonotonic,ConditionTimestampMonotonic,Job,KillSignal,RestartKillSignal \
    --property=UID,RootDirectory,RootImage,InaccessiblePaths,TemporaryFileSystem)
  started=${process[ExecMainStartTimestampMonotonic]:-0}
  # Older than the attempt to start the service: it is that of the last one.
  ((started >= ${process[ConditionTimestampMonotonic]:-0})) || started=0
  ((started)) || [[ ! ${process[ConditionTimestampMonotonic]-} ]] || EXIT_CODE='' EXIT_STATUS=''
}

# What a service that is not root left in the inbox goes into its record. Anybody may leave files there: only one counts that
# belongs to the user whom systemd ran this unit as, and of its lines only entries of this invocation.
take_inbox() {
  local inbox="${SERVICE_RECORDS_INBOX-}" name="${__sr[path]##*/}" file='' uid="${process[UID]-}" line='' __sr_entry='' lost=0 until=$((SECONDS + 10))
  [[ $inbox ]] || return 0
  [[ $uid == +([0-9]) ]] || uid=0 # systemd has none for a service that is root's
  if [[ ! -d $inbox ]]; then
    mkdir -m 1733 -- "$inbox"
    ((uid == 0)) || tell "$unit ran as user $uid before there was $inbox: if it recorded stages, they are lost"
    return 0
  fi
  file=$inbox/${name%.json}.$INVOCATION_ID.json
  if [[ ! -e $file && ! -L $file ]]; then
    line="${process[RootDirectory]-}${process[RootImage]-}"
    [[ $uid != [1-9]* || ! $line && "${process[InaccessiblePaths]-}${process[TemporaryFileSystem]-}" != */dev* ]] ||
      tell "$unit ran as user $uid and may not see $inbox in its sandbox: if it recorded stages, they are lost"
    return 0
  fi
  if [[ $(stat --format='%u %f' -- "$file") == "$uid 8"??? ]]; then
    while IFS= read -r line; do
      __sr_entry=${line%,}
      [[ $__sr_entry == '{"timestamp":"'*\} ]] && ((${#__sr_entry} < 4096 && SECONDS < until)) && is_whole "$__sr_entry" &&
        __sr_write && ((__sr[dropped] == 0)) || lost=$((lost + 1))
    done < <(timeout 5 dd if="$file" iflag=nofollow,nonblock bs=64K count=256 |
      grep --fixed-strings --text "\"invocationId\":\"$INVOCATION_ID\"" | tail -n 10000)
    if ((lost)); then
      __sr[more]=",\"dropped\":$lost"
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

# Without a main process, as of a service that failed before it had one, the only one recorded stands for the service.
pick_main() {
  local pid=''
  main=
  for pid in "${pids[@]}"; do
    [[ ${kind[$pid]} != service ]] || main+="$pid "
  done
  main=${main% }
  ((started == 0)) || main=${process[ExecMainPID]}
}

# What systemd was asked for that ended the service: stop, restart or shutdown. Whether it is the service's answer to that,
# its end says: by the signal of the stop, or with the status that shells have of it. systemd calls a command or a oneshot
# that a stop has cut short failed, like one that somebody killed; only its job tells them apart.
read_stop_request() {
  local job='' name='' type='' state='' number="${process[KillSignal]:-15}" shutdown=''
  [[ ${process[Job]-} ]] && __sr_has_room && { is_answer "$number" || is_answer "${process[RestartKillSignal]:-$number}"; } || return 0
  while read -r job name type state; do
    [[ "$job $state" != "${process[Job]} running" || $type != @(stop|restart) ]] || request=$type
    [[ "$name $type" != "shutdown.target start" ]] || shutdown=1
  done < <(timeout 2 systemctl list-jobs --no-legend --plain --full)
  [[ $request != stop || ! $shutdown ]] || request=shutdown
}

is_answer() { # NUMBER of the signal
  case "${EXIT_CODE-} ${SERVICE_RESULT-}" in
  "killed success" | "killed signal") [[ $EXIT_STATUS == "$(kill -l "$1")" ]] ;;
  "exited success" | "exited exit-code") ((EXIT_STATUS == 128 + $1)) ;;
  " signal") ;;
  *) return 1 ;;
  esac
}

# As members of an end: a status or a signal, systemd's result, and what it was asked for. A run that a signal ended is not
# a success, even if systemd, which asked for it, is content. Of a status 0 without success, another command is the reason.
judge() {
  end_result=failure outcome=failure facts=
  if [[ $request || "${EXIT_CODE-} ${SERVICE_RESULT-}" == "killed success" && $EXIT_STATUS != PIPE ]]; then
    outcome=stopped
  elif [[ ${SERVICE_RESULT-} == success && ${EXIT_CODE:-exited} == exited ]]; then
    end_result=success outcome=success
  fi
  case ${EXIT_CODE-} in
  exited) [[ $end_result == failure && $EXIT_STATUS == 0 ]] || facts=",\"exitCode\":$EXIT_STATUS" ;;
  killed | dumped) facts=",\"signal\":\"$EXIT_STATUS\"" ;;
  esac
  facts+=${SERVICE_RESULT:+",\"serviceResult\":\"$SERVICE_RESULT\""}${request:+",\"stopRequest\":\"$request\""}
  message=
  if [[ $outcome == failure ]]; then
    __sr_read_journal
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
# names the stage that ended with the run, for upstream's analyzer takes that from the entry right before the last one.
amend_run() { # PID
  local facts="$facts"
  if [[ $1 == "$main" ]]; then
    ! is_agreed "$1" || return 0
  else
    # Another process of the service, or a command of it, that systemd stopped: by which signal, nobody says.
    [[ ${signal[$1]} == unknown && $request ]] || return 0
    facts=",\"signal\":\"unknown\",\"serviceResult\":\"$SERVICE_RESULT\",\"stopRequest\":\"$request\""
  fi
  write_as "$1"
  __sr[stage]=${ended[$1]}
  [[ $end_result == success || ${ended[$1]} ]] || __sr[stage]=${failed[$1]}
  __sr_append "${__sr[kind]} end" "$end_result" '' "$message" "$facts"
  __sr[stage]=
}

is_agreed() { # PID; whether the run itself said all that systemd knows
  local end="${result[$1]} ${status[$1]:-${EXIT_STATUS-}}"
  [[ $outcome == "$end_result" && ${EXIT_CODE:-exited} == exited && ! ${signal[$1]} ]] || return 1
  [[ $end != "success 0" ]] || ! has_failed_command || return 0
  [[ $end == "$end_result ${EXIT_STATUS:-${status[$1]}}" && ${SERVICE_RESULT-} == @(|success|exit-code) ]]
}

has_failed_command() { # whether a pre- or post-command was recorded that explains systemd's result
  local pid=''
  for pid in "${pids[@]}"; do
    [[ ${kind[$pid]} == service || ${result[$pid]} == success ]] || return 0
  done
  return 1
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
    now=$((${now/[.,]/} - 10#${uptime/./}0000 + then))
    __sr[time]=${now:0:-6}.${now: -6}
    printf -v '__sr[uptime]' '%d.%02d' $((then / 1000000)) $((then % 1000000 / 10000))
  fi
  write_as "$1"
  __sr[more]=',"recorder":"exit/0.2.0"'
  __sr_append "service start"
  __sr[time]='' __sr[uptime]=''
}

# Whether the record has the service: its main process, or another with which systemd agrees, such as a script that a shell
# runs. A service that never started has a command that kept it from that.
is_recorded() {
  local pid='' said=''
  for pid in "${pids[@]}"; do
    [[ $pid != "$main" ]] || return 0
    [[ ${kind[$pid]} == service ]] || continue
    said=${result[$pid]:-$outcome}
    [[ ${signal[$pid]} != unknown ]] || said=$outcome
  done
  if [[ $said ]]; then
    [[ $said == "$outcome" ]] || { [[ $said == success ]] && has_failed_command; }
  else
    ((${#pids[@]} && started == 0)) && { [[ $outcome == success ]] || has_failed_command; }
  fi
}

# A record that has outgrown its limit is shortened by a unit of its own, where the command is installed: neither the service's
# limits nor its time to stop are spent on that.
rotate_record() {
  local limit="${SERVICE_RECORDS_MAX_BYTES-}" name="${__sr[path]##*/}" directory="${__sr[path]%/*}" program='' file=''
  [[ $limit == +([0-9]) ]] || limit=2097152
  ((limit)) || return 0
  for file in "$directory/.$name".*.old; do [[ ! -e $file ]] || limit=0; done
  (($(stat --format=%s -- "${__sr[path]}") > limit)) || return 0
  for program in "${BASH_SOURCE[0]%/*}" /usr/local/bin /usr/bin; do
    [[ -x $program/service-record ]] || continue
    timeout 5 systemd-run --quiet --no-block --collect --unit=service-record-rotate --nice=15 \
      --property=RuntimeMaxSec=5min --property=SuccessExitStatus=1 --property=LogLevelMax=notice \
      --setenv=SERVICE_RECORDS_MAX_BYTES="${SERVICE_RECORDS_MAX_BYTES-}" \
      "$program/service-record" rotate --from "$directory"
    return 0
  done
}

# An array that a recorder could not extend (damaged, or its lock was held) has lines behind it. Those that are whole entries
# go into the array, in their order, and it is closed. Of all else that stands there, <record>.damaged keeps a copy first.
# Where no end of an entry is found in the last 8 MiB and 32768 lines, the record stays as it is.
repair_array() {
  local record="${__sr[path]}" first='' attempt=0
  [[ -f $record && ! -L $record ]] && __sr_has_room && read -r -N 1 first <"$record" && [[ $first == '[' ]] || return 0
  {
    timeout 10 flock -w 5 3 || return 0
    # Once more where a recorder has parked another line meanwhile.
    while ((attempt < 3)) && replace_end; do attempt=$((attempt + 1)); done
  } 3<>"$record"
}

# Whether the end of the array was replaced, and may have to be looked at again.
replace_end() {
  local TMPDIR=/dev/shm tail='' size=0 from=0 joint='' entries='' brackets=0 is_damaged=''
  read_tail 8388608 && read_end_of_array || return 1
  [[ $entries || $is_damaged ]] || ((brackets != 1)) || return 1
  [[ ! $is_damaged ]] || keep_copy || return 1
  write_end
}

# The end of the file, and its size then: there tail leaves the descriptor. NULs, which bash cannot have in a text, and which a
# loss of power leaves, are form feeds in it: no entry has one.
read_tail() { # BYTES
  local -a position=()
  {
    tail=$(timeout 10 tail -c "$1" <&4 | tr '\000' '\014' && printf .) || return 1
    mapfile -t -n 1 position </proc/self/fdinfo/4
  } 4</proc/self/fd/3
  tail=${tail%.}
  size=${position[0]##*[!0-9]}
  ((${#tail} == (size < $1 ? size : $1)))
}

# Sets `from`, where the last entry ends that is surely in the array, `entries`, those that stand behind it, how many `brackets`
# do, and whether anything else does.
read_end_of_array() {
  local index=0 line='' skipped=0
  local -a lines=()
  mapfile -t lines <<<"$tail"
  find_last_entry || return 1
  for line in "${lines[@]:index}"; do
    [[ $line != *$'\f'* ]] || is_damaged=1
    trim_line
    if ((skipped == 0)); then
      line=${line#"${line%%[!$' \t\r\f,']*}"}
      line=${line%%$'\f'*} # behind NULs may stand what is left of another
      line=${line%,}
    fi
    if [[ $line == '{"timestamp":'*\} && ${line#?} != *'{"timestamp":'* ]] && is_whole "$line"; then
      entries+=${entries:+,}$'\n'$line
    elif [[ $line == [][] ]]; then
      brackets=$((brackets + 1))
    elif [[ $line ]]; then
      is_damaged=1
    fi
  done
}

# Sets `from` and `joint`, and in `lines` from `index` on what stands behind that place. From the end, line by line: a pattern
# over all of it takes bash many seconds.
find_last_entry() {
  local closed_below='' brace='' begin="$((size + 1))" least="$((${#lines[@]} - 32768))"
  for ((index = ${#lines[@]} - 1; index >= 0 && index >= least; index--)); do
    line=${lines[index]}
    begin=$((begin - ${#line} - 1))
    [[ $line == *[!$' \t\r\f']* ]] || continue
    trim_line
    brace=${line%,}
    brace=${brace%]}
    brace=${brace%,} # all of an entry that was written over the bracket
    while [[ $brace == *[$' \t\r\f'] ]]; do brace=${brace%?}; done
    if [[ $brace == *\} ]] && ends_entry; then
      from=$((begin + skipped + ${#brace})) joint=,
      lines[index]=${lines[index]:skipped+${#brace}}
      return 0
    fi
    closed_below=
    [[ $line != ']' ]] || closed_below=1
  done
  ((index < 0 && size == ${#tail})) || return 1
  [[ ${lines[0]} == '['* && ${lines[0]} != *[!][$' \t\r\f']* ]] || return 1
  from=1 index=0
  lines[0]=${lines[0]#'['}
}

# Whether a line ends an entry of the array, as one that was parked behind the array does not; two blanks are jq's.
ends_entry() {
  local rest=''
  [[ ! $closed_below && $brace != '  }' ]] || return 0
  [[ $brace != "$line" ]] || return 1
  rest=${brace##*'{"timestamp":'}
  if [[ $rest != "$brace" ]]; then
    is_whole "{$rest"
  else
    ((skipped == 0)) && is_whole "$brace"
  fi
}

# Cuts `line` at its end by the blanks, of which there may be very many, and at its beginning by `skipped`: no entry is that
# long, and patterns on long texts are slow.
trim_line() {
  local many=0
  for many in 65536 4096 256 16 1; do
    while ((${#line} >= many)) && [[ ${line: -many} != *[!$' \t\r\f']* ]]; do line=${line:0:${#line}-many}; done
  done
  skipped=$((${#line} > 16384 ? ${#line} - 16384 : 0))
  line=${line:skipped}
}

is_whole() { # TEXT; whether it ends outside of a string, with no brace open
  local rest="$1" plain=''
  rest=${rest//\\\\/}
  rest=${rest//\\\"/}
  while [[ $rest == *\"*\"* ]]; do
    plain+=${rest%%\"*}
    rest=${rest#*\"*\"}
  done
  plain+=$rest
  rest=${plain//[!\{]/}
  plain=${plain//[!\}\"]/}
  [[ $plain != *\"* && ${#plain} == "${#rest}" ]]
}

keep_copy() { # of what stands behind `from`
  local copy="${__sr[path]}.damaged"
  [[ ! -L $copy && (-f $copy || ! -e $copy) ]] || return 1 # a FIFO would block for ever
  umask 0133
  timeout 10 tail -c "+$((from + 1))" </proc/self/fd/3 >>"$copy"
}

# One write, from the end of the last entry to that of the file. Before that the file gets as long as it has to be: a full disk
# is met where it harms nothing.
write_end() {
  local -a position=()
  local text="${entries:+$joint}$entries"$'\n]' more=0 blanks=''
  more=$(((from + ${#text} + 2048) / 1024 * 1024 - size))
  if ((more > 0)); then
    make_blanks "$size" "$more"
    {
      printf '%s\n' "$blanks" >&4 || return 1
      mapfile -t -n 1 position </proc/self/fdinfo/4
    } 4>>/proc/self/fd/3
    size=$((size + more))
    [[ ${position[0]##*[!0-9]} == "$size" ]] || return 0 # a line was parked meanwhile
  fi
  make_blanks $((from + ${#text})) $((size - from - ${#text}))
  timeout 10 dd of=/proc/self/fd/3 bs=$((size - from)) iflag=fullblock conv=notrunc oflag=seek_bytes seek="$from" \
    status=none <<<"$text$blanks"
}

# White space for a stretch of the file, without its last newline, and with one at the end of each sector: where a loss of
# power leaves such a sector between the halves of two entries, they make no third, for there is no newline within a text.
make_blanks() { # OFFSET BYTES
  local sector=''
  printf -v sector '%511s\n' ''
  printf -v blanks '%*s\n' $((511 - $1 % 512)) ''
  while ((${#blanks} < $2)); do blanks+=$sector; done
  blanks=${blanks:0:$2-1}
}

main() {
  local LC_ALL=C IFS=$' \t\n' __sr_answer='' unit='' pid='' started=0 main='' request='' end_result='' outcome='' facts='' message=''
  # A condition that is not met is no failure: the service was not wanted.
  [[ ${INVOCATION_ID-} && ${SERVICE_RESULT-} != exec-condition ]] || return 0
  __sr_load
  __sr_read_unit
  unit=$__sr_answer.service
  [[ $unit != service-record-rotate.service ]] || return 0
  __sr_begin
  # What the service left running may be all that TasksMax= lets it have, and bash would try for half a minute to make a process.
  __sr_has_room || return 0
  read_main_process
  __sr_has_room || return 0
  take_inbox
  { __sr_has_room && read_invocation; } || return 0
  pick_main
  read_stop_request
  judge
  for pid in "${pids[@]}"; do
    if [[ ${result[$pid]} ]]; then amend_run "$pid"; else close_run "$pid"; fi
  done
  is_recorded || record_unknown
  repair_array
  __sr_sync
  rotate_record
}

main 2>/dev/null
exit 0
