#!/usr/bin/env bash
#
# Completes the record of a service that has ended. service-record-exit.sh, which systemd runs after
# every end, starts this program for each end that is not an ordinary success: the service was
# killed, ran out of memory or time, crashed, became another program by `exec`, failed, or recorded
# into an array. `service-record uninstall` calls it with `--collect`.
#
# It has SERVICE_RESULT, EXIT_CODE, EXIT_STATUS (systemd.exec(5)) and INVOCATION_ID from systemd and
#
#   - appends the missing ends of this invocation's runs, stages and commands;
#   - appends another end where systemd contradicts the recorded one: the name of a signal that the
#     shim could not know, a status that the service's own EXIT trap changed, a time limit;
#   - appends start and end of a service that does not record itself;
#   - moves the entries of services that may not write their record from the inbox into the record;
#   - repairs an array whose end is damaged, and has a record rotated that has become too long.
#
# An end that agrees with systemd is left as it is. The exit status is always 0. The service waits for
# this program, so each program that it runs has a time limit, and the drop-in has one for all of it.

# As if the shim had been sourced before: it then defines its functions and starts nothing.
__sr_pid=$BASHPID
for shim in "${BASH_SOURCE[0]%/*}"{,/../../bin}/bootstrap-service-record.sh; do
  # shellcheck source=shell/bootstrap-service-record.sh
  [[ ! -f $shim ]] || { . "$shim" && break; }
done
declare -F __sr_append >/dev/null || exit 0

# This invocation's runs, each by the process that recorded it. `kind` is service, pre-command or
# post-command. `open_stages` has a line for each stage without an end: name, stageId and parent.
# `failed_stage` is a stage that failed right before the run did, `last_stage` one that the shim ended
# together with the run. Texts are as they are in JSON, escapes included.
declare -A kind=() command=() boot=() result=() signal=() status=() message_of=()
declare -A open_stages=() failed_stage=() last_stage=()
pids=()
declare -A unit_state=()

# --- Reading the record ---------------------------------------------------------------------------

# Fills these arrays. Fails where that takes too long, as nothing is then known of the runs. A service
# that retries without a pause may have written very many entries: the last ones say what is open.
read_invocation() {
  local line='' pid='' value='' phase=''
  [[ -f ${__sr_record} ]] || return 0
  while IFS= read -r line; do
    read_member pid "$line"
    [[ $value ]] || continue
    pid=$value
    read_member phase "$line"
    phase=$value
    [[ ${kind[$pid]-} && ($phase == stage* || $phase == *" end") ]] || read_start "$pid" "$line"
    case $phase in
    "stage start")
      read_stage "$line"
      open_stages[$pid]+=$'\n'$value
      failed_stage[$pid]='' last_stage[$pid]=''
      ;;
    "stage end") read_stage_end "$pid" "$line" ;;
    *" end") read_end "$pid" "$line" ;;
    esac
  done < <(
    set -o pipefail
    limited 3 grep --fixed-strings --text "\"invocationId\":\"$INVOCATION_ID\"" "${__sr_record}" |
      tail -n 10000
  )
  wait "$!"
  (($? != 137))
}

read_start() { # PID LINE; the start, or the first entry that is left of a run that lost its start
  [[ ${kind[$1]-} ]] || pids+=("$1")
  kind[$1]=service command[$1]='' result[$1]='' signal[$1]='' status[$1]='' message_of[$1]=''
  open_stages[$1]='' failed_stage[$1]='' last_stage[$1]=''
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
  read_member errorMessage "$2"
  message_of[$1]=$value
  open_stages[$1]=
}

read_stage() { # LINE; sets value to name, stageId and parent
  local stage=''
  read_member stage "$1"
  stage=$value
  read_member stageId "$1"
  stage+=$'\t'$value
  read_member parent "$1"
  value=$stage$'\t'$value
}

# A stage of Python is ended by its stageId. Without one, the latest stage of that name ends.
read_stage_end() { # PID LINE
  local open="${open_stages[$1]-}" before='' rest=''
  read_stage "$2"
  before=${open%$'\n'"${value%$'\t'*}"$'\t'*}
  if [[ $before != "$open" ]]; then
    rest=${open:${#before}+1}
    open_stages[$1]=$before
    [[ $rest != *$'\n'* ]] || open_stages[$1]+=$'\n'${rest#*$'\n'}
  fi
  rest=${value%%$'\t'*}
  read_member result "$2"
  failed_stage[$1]='' last_stage[$1]=''
  [[ $value != failure ]] || failed_stage[$1]=$rest
  [[ $2 != *',"exitCode":'* && $2 != *',"signal":'* ]] || last_stage[$1]=$rest
}

# Sets value, without the quotes of a text. Only our writers' lines have an invocationId, and they
# escape a quote within a text: whatever looks like a member is one.
read_member() { # NAME LINE
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

# --- Asking systemd -------------------------------------------------------------------------------

limited() { # SECONDS PROGRAM [ARGUMENT...]; SIGKILL, because a program may ignore SIGTERM
  timeout --signal=KILL "$@"
}

# Sets `unit_state`, `started` (when the main process of this invocation was started) and
# `failed_command`, the first command of the unit that failed beside the main process.
read_unit_state() {
  local line='' pattern='^(Exec[A-Za-z]+)=\{ path=(.*) ; argv\[\]=.* ; ignore_errors=no ; .* ; '
  pattern+='code=(exited|killed|dumped) ; status=([0-9]+)(/([A-Z0-9+]+))? \}$'
  while IFS= read -r line; do
    [[ $line == Exec*=\{* ]] || unit_state[${line%%=*}]=${line#*=}
    [[ $line =~ $pattern && ! $failed_command && ${BASH_REMATCH[4]} != 0 ]] || continue
    failed_command="${BASH_REMATCH[1]}=${BASH_REMATCH[2]}"
    failed_how=${BASH_REMATCH[3]} failed_status=${BASH_REMATCH[6]:-${BASH_REMATCH[4]}}
  done < <(limited 3 systemctl show "$unit" \
    --property=ExecMainPID,ExecMainStartTimestampMonotonic,StateChangeTimestampMonotonic \
    --property=ConditionTimestampMonotonic,InactiveExitTimestampMonotonic \
    --property=ActiveEnterTimestampMonotonic,ActiveExitTimestampMonotonic \
    --property=TimeoutStartUSec,TimeoutStopUSec,RuntimeMaxUSec,BindsTo \
    --property=ExecCondition,ExecStartPre,ExecStartPost,ExecStop,ExecStopPost \
    --property=Job,KillSignal,RestartKillSignal \
    --property=UID,RootDirectory,RootImage,InaccessiblePaths,TemporaryFileSystem)
  started=${unit_state[ExecMainStartTimestampMonotonic]:-0}
  # Older than the attempt to start the service: that was the main process of an earlier attempt.
  ((started >= ${unit_state[ConditionTimestampMonotonic]:-0})) || started=0
  ((started)) || [[ ! ${unit_state[ConditionTimestampMonotonic]-} ]] || EXIT_CODE='' EXIT_STATUS=''
}

# Sets `job_type`, what systemd's job does to the unit now: stop or restart. Sets `request` to that, or
# to shutdown, if the service ended in answer to it: by the signal of the stop, or with the exit status
# that shells have of that signal. For systemd, a oneshot or another command that a stop cuts short has
# failed, like one that somebody killed; only the job tells them apart.
read_stop_request() {
  local job='' name='' type='' state='' is_shutdown='' number="${unit_state[KillSignal]:-15}"
  [[ ${unit_state[Job]-} ]] || return 0
  is_answer "$number" || is_answer "${unit_state[RestartKillSignal]:-$number}" ||
    [[ ${SERVICE_RESULT-} == timeout ]] || return 0
  __sr_has_room || return 0
  while read -r job name type state; do
    [[ "$job $state" != "${unit_state[Job]} running" || $type != @(stop|restart) ]] ||
      job_type=$type
    [[ "$name $type" != "shutdown.target start" ]] || is_shutdown=1
  done < <(limited 3 systemctl list-jobs --no-legend --plain --full)
  [[ $SERVICE_RESULT == timeout ]] || request=$job_type
  [[ $request != stop || ! $is_shutdown ]] || request=shutdown
}

is_answer() { # NUMBER of the signal
  case "${EXIT_CODE-} ${SERVICE_RESULT-}" in
  "killed success" | "killed signal") [[ $EXIT_STATUS == "$(kill -l "$1")" ]] ;;
  "exited success" | "exited exit-code") ((EXIT_STATUS == 128 + $1)) ;;
  " signal") ;;
  *) return 1 ;;
  esac
}

# Sets `partner`: the unit in BindsTo= whose end made systemd stop this service. It has left its
# active state before the service had to. Where somebody stops both, the service goes first.
read_partner() {
  local line='' name='' state='' left=0
  local -a units=()
  [[ $request == stop && ${unit_state[BindsTo]-} ]] && __sr_has_room || return 0
  read -r -a units <<<"${unit_state[BindsTo]}"
  while IFS= read -r line; do
    case $line in
    Id=*) name=${line#*=} ;;
    ActiveState=*) state=${line#*=} ;;
    ActiveExitTimestampMonotonic=*) left=${line#*=} ;;
    '') # a blank line ends the properties of a unit
      if [[ $state == @(inactive|failed|deactivating) ]] &&
        ((left > started && left <= ${unit_state[ActiveExitTimestampMonotonic]:-0})); then
        partner=$name
        return 0
      fi
      ;;
    esac
  done < <(
    limited 3 systemctl show "${units[@]}" --property=Id,ActiveState,ActiveExitTimestampMonotonic
    printf '\n'
  )
}

# Sets `time_limit` to the setting whose time was up, if the times that systemd has show it.
read_time_limit() {
  local began="${unit_state[InactiveExitTimestampMonotonic]:-0}" now=0
  local active="${unit_state[ActiveEnterTimestampMonotonic]:-0}"
  local left="${unit_state[ActiveExitTimestampMonotonic]:-0}"
  [[ $SERVICE_RESULT == timeout ]] || return 0
  # The last change of its state is that to the commands in ExecStopPost=.
  now=${unit_state[StateChangeTimestampMonotonic]:-0}
  ((began && now >= began)) || return 0
  # systemd sets its timers for start and stop before it notes the change of state: on a busy host, they
  # end a little earlier after it.
  if ((active < began)); then # it never became active
    [[ $job_type ]] || ! has_passed "$began" "$((now + 500000))" TimeoutStartUSec ||
      time_limit=TimeoutStartSec
  elif ((left >= active)); then
    if has_passed "$active" "$left" RuntimeMaxUSec; then
      time_limit=RuntimeMaxSec
    elif has_passed "$left" "$((now + 500000))" TimeoutStopUSec; then
      time_limit=TimeoutStopSec
    fi
  fi
}

has_passed() { # SINCE NOW SETTING; its value is as in `1min 30s`, or `infinity`
  local word='' limit=0
  local -A microseconds=(
    [us]=1 [ms]=1000 [s]=1000000 [min]=60000000 [h]=3600000000 [d]=86400000000 [w]=604800000000
  )
  for word in ${unit_state[$3]-infinity}; do
    [[ $word =~ ^([0-9]+)([a-z]+)$ && ${microseconds[${BASH_REMATCH[2]}]-} ]] || return 1
    limit=$((limit + BASH_REMATCH[1] * microseconds[${BASH_REMATCH[2]}]))
  done
  ((limit > 0 && $2 - $1 >= limit))
}

# --- The inbox: entries of services that may not write their record -------------------------------

# Moves entries into the record. Anybody may leave files in the inbox, so only a file counts that
# belongs to the user whom systemd ran this unit as, and of its lines only entries of the invocation
# in its name. A file of root's, left by a service that has ended while its record could not be
# written, is taken by whatever service ends next.
collect_inbox() {
  local inbox="${SERVICE_RECORDS_INBOX-}" uid="${unit_state[UID]-}" file='' invocation='' owner=''
  local lost='if it recorded stages, they are lost'
  [[ $inbox ]] || return 0
  [[ $uid == +([0-9]) ]] || uid=0 # systemd has none for a service that is root's
  if [[ ! -d $inbox ]]; then
    mkdir -m 1733 -- "$inbox"
    ((uid == 0)) ||
      tell "$unit ran as user $uid before there was $inbox: $lost"
    return 0
  fi
  for file in "$inbox/$name".*.json; do
    invocation=${file%.json} invocation=${invocation##*.}
    [[ -e $file || -L $file ]] && [[ $file == "$inbox/$name.$invocation.json" ]] || continue
    [[ $invocation != "$INVOCATION_ID" ]] || was_in_inbox=1
    # Without access to the records, this program's own entries go to the inbox, too.
    [[ $file != "${__sr_record}" && (-w $directory || ! -e $directory) ]] || continue
    owner=$(limited 2 stat --format='%u %f' -- "$file")
    if [[ $owner == "$uid 8"??? ]]; then
      take_file "$file" "$invocation" || continue
    elif [[ $invocation == "$INVOCATION_ID" ]]; then
      tell "$file was not recorded: it is not a file of user $uid, as whom $unit ran"
    else
      continue
    fi
    limited 3 rm -rf --one-file-system -- "$file"
  done
  [[ $was_in_inbox ]] || warn_of_hidden_inbox "$uid"
  collect_left_files
}

warn_of_hidden_inbox() { # UID
  local setting="${unit_state[RootDirectory]-}${unit_state[RootImage]-}"
  [[ $1 == [1-9]* ]] || return 0
  [[ ! $setting && "${unit_state[InaccessiblePaths]-}${unit_state[TemporaryFileSystem]-}" != */dev* ]] ||
    tell "$unit ran as user $1 and may not see $SERVICE_RECORDS_INBOX in its sandbox: $lost"
}

# Moves what services of root's left that have ended. systemd has a link to an invocation while it
# lasts.
collect_left_files() {
  local path="${__sr_record}" file='' service='' invocation='' live=''
  for file in "${SERVICE_RECORDS_INBOX:-/dev/shm/service-record}"/*.json; do
    [[ -f $file && ! -L $file && -O $file && $file != "$path" && -w $directory ]] || continue
    invocation=${file%.json} invocation=${invocation##*.}
    service=${file##*/} service=${service%.*.json}
    [[ $invocation =~ ^[0-9a-f]{32}$ && $service ]] || continue
    __sr_has_room || return 0
    [[ $live ]] || live=$(limited 3 readlink -- /run/systemd/units/invocation:*)
    [[ $live && $live != *"$invocation"* ]] || continue
    __sr_record=$directory/$service.json __sr_torn=1
    ! take_file "$file" "$invocation" || limited 3 rm -f -- "$file"
    repair_array
  done
  [[ ${__sr_record} == "$path" ]] || __sr_record=$path __sr_torn=1
}

# Appends the entries of one invocation in a file to the record. Fails if none could be appended: then
# the file stays. Entries that are lost are counted.
take_file() { # FILE INVOCATION
  local line='' __sr_entry='' lost=0 taken=0 until=$((SECONDS + 5))
  while IFS= read -r line; do
    __sr_entry=${line%,}
    [[ $__sr_entry == '{"timestamp":"'*\} ]] && ((${#__sr_entry} < 4096 && SECONDS < until)) &&
      is_whole "$__sr_entry" && __sr_write && ((__sr[dropped] == 0)) && taken=1 || lost=$((lost + 1))
  done < <(limited 5 dd if="$1" iflag=nofollow,nonblock bs=64K count=256 |
    grep --fixed-strings --text "\"invocationId\":\"$2\"" | tail -n 10000)
  ((lost)) || return 0
  __sr_more=",\"dropped\":$lost"
  tell "$lost entries of $1 could not be recorded in ${__sr_record}"
  ((taken)) || [[ -w ${__sr_record} ]]
}

tell() { # TEXT; in the journal, as the output of the service may go anywhere
  limited 2 logger --tag service-record --priority daemon.warning -- "$1"
}

# --- Judging the end ------------------------------------------------------------------------------

# Sets `main`, the processes that stand for the service: its main process, or, if it never had one,
# every recorded one.
pick_main() {
  local pid=''
  for pid in "${pids[@]}"; do
    [[ ${kind[$pid]} != service ]] || main+="$pid "
  done
  main=${main% }
  ((started == 0)) || main=${unit_state[ExecMainPID]}
}

# Sets `outcome` (success, stopped or failure), `end_result` (what an end in the record says: a stopped
# service did not finish) and the members of an end: `facts`, and `systemd_facts`, which come later in
# it. Which ends are clean, systemd's own result says: it knows the settings of the unit.
judge() {
  end_result=failure outcome=failure
  if [[ $request || "${EXIT_CODE-} ${SERVICE_RESULT-}" == "killed success" ]]; then
    outcome=stopped
  elif [[ ${SERVICE_RESULT-} == success && ${EXIT_CODE:-exited} == exited ]]; then
    end_result=success outcome=success
  fi
  if [[ $outcome == failure ]] && has_other_command_failed; then
    __sr_escape_part "$failed_command" 200 400
    facts=",\"signal\":\"$failed_status\",\"command\":\"$__sr_answer\""
    [[ $failed_how != exited ]] || facts=",\"exitCode\":$failed_status,\"command\":\"$__sr_answer\""
  else
    case ${EXIT_CODE-} in
    exited) [[ $end_result == failure && $EXIT_STATUS == 0 ]] || facts=",\"exitCode\":$EXIT_STATUS" ;;
    killed | dumped) facts=",\"signal\":\"$EXIT_STATUS\"" ;;
    '') [[ ${SERVICE_RESULT-} != signal ]] || facts=',"signal":"unknown"' ;; # a stop ended ExecStartPre=
    esac
  fi
  systemd_facts=${SERVICE_RESULT:+",\"serviceResult\":\"$SERVICE_RESULT\""}
  systemd_facts+=${request:+",\"stopRequest\":\"$request\""}
  __sr_escape_part "$partner" 255 510
  systemd_facts+=${partner:+",\"stoppedWith\":\"$__sr_answer\""}
  systemd_facts+=${time_limit:+",\"timeLimit\":\"$time_limit\""}
}

# Whether systemd's result comes from another command of the unit, such as ExecStartPost=: the end of
# the main process does not explain it. systemd then ends the main process itself, by a signal that is
# not the reason.
has_other_command_failed() {
  [[ $failed_command ]] || return 1
  case $SERVICE_RESULT:$failed_how in
  exit-code:exited) [[ ${EXIT_CODE-} != exited || $EXIT_STATUS == 0 ]] ;;
  signal:killed | core-dump:dumped) [[ ! ${EXIT_CODE-} || $EXIT_CODE == exited ]] ;;
  *) return 1 ;;
  esac
}

# Sets `message` to the last lines of the journal, once.
read_message() {
  [[ $outcome == failure && ! $is_message_read ]] || return 0
  __sr_read_journal
  message=$__sr_answer is_message_read=1
}

is_agreed() { # PID; whether the run itself recorded all that systemd knows
  local end="${result[$1]} ${status[$1]:-${EXIT_STATUS-}}"
  [[ $outcome == "$end_result" && ${EXIT_CODE:-exited} == exited && ! ${signal[$1]} ]] || return 1
  [[ $end != "success 0" ]] || ! has_failed_command || return 0
  [[ $end == "$end_result ${EXIT_STATUS:-${status[$1]}}" && ${SERVICE_RESULT-} == @(|success|exit-code) ]]
}

has_failed_command() { # whether a recorded pre- or post-command explains systemd's result
  local pid=''
  for pid in "${pids[@]}"; do
    [[ ${kind[$pid]} == service || ${result[$pid]} == success ]] || return 0
  done
  return 1
}

# A service that is not root cannot read the journal: of its failure, the record has no message, or in
# Python only that of the exception.
lacks_journal() { # PID
  [[ $outcome == failure && ${unit_state[UID]-} == [1-9]* ]] || return 1
  read_message
  printf -v recorded '%b' "${message_of[$1]}" # undoes the escapes of JSON
  [[ $message && $recorded != *"$message"* ]]
}

# Whether the record has the service: its main process, or another one with which systemd agrees, such
# as a script that a shell runs. A service that never started may have a command that explains it.
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

# --- Writing --------------------------------------------------------------------------------------

write_as() { # PID, 0 for none; the entries that follow are of this run
  __sr_identity="${boot[$1]:+,\"bootId\":\"${boot[$1]}\"},\"invocationId\":\"$INVOCATION_ID\""
  (($1 == 0)) || __sr_identity+=",\"pid\":$1"
  __sr_run_command=${command[$1]-}
  __sr[kind]=${kind[$1]:-service}
}

append_end() { # KIND
  read_message
  __sr_more=$systemd_facts${__sr_more}
  __sr_append "$1 end" "$end_result" "$facts" "$__sr_open_stage" "$message"
}

# Appends the ends of a run and of its open stages. It ended before this program was started: the time
# that this program takes is not part of the run.
close_run() { # PID
  local stage='' id='' open="${open_stages[$1]-}"
  write_as "$1"
  set_time "$ended"
  while [[ $open ]]; do # the innermost one first
    stage=${open##*$'\n'} open=${open%$'\n'*}
    __sr_open_stage=${stage%%$'\t'*} stage=${stage#*$'\t'}
    id=${stage%$'\t'*} stage=${stage#*$'\t'}
    __sr_more+=${id:+",\"stageId\":\"$id\""}${stage:+",\"parent\":\"$stage\""}
    append_end stage
  done
  __sr_open_stage=
  append_end "${__sr[kind]}"
  set_time ''
}

# Appends what systemd saw beside what the run recorded of its end: a reader takes the later entry for
# more. It names the stage that ended with the run, as upstream's analyzer takes that from the entry
# right before the last one.
amend_run() { # PID
  local facts="$facts" systemd_facts="$systemd_facts" recorded=''
  local message="$message" is_message_read="$is_message_read"
  if [[ $1 == "$main" ]]; then
    ! is_agreed "$1" || lacks_journal "$1" || return 0
  else
    # Another process of the service, or a command of it, that systemd stopped: the signal is unknown.
    [[ ${signal[$1]} == unknown && $request ]] || return 0
    facts=',"signal":"unknown"'
  fi
  # A later message replaces the recorded one, which may be that of an exception.
  read_message
  printf -v recorded '%b' "${message_of[$1]}"
  if [[ $recorded == *"$message"* ]]; then
    message=$recorded
  elif [[ $message != *"$recorded"* ]]; then
    message+=$'\n'$recorded
  fi
  [[ $outcome == failure ]] || message=
  write_as "$1"
  __sr_open_stage=${last_stage[$1]}
  [[ $end_result == success || ${last_stage[$1]} ]] || __sr_open_stage=${failed_stage[$1]}
  append_end "${__sr[kind]}"
  __sr_open_stage=
}

# The service does not record itself, or never came as far as its script. It started when systemd says.
record_unknown() {
  local pid=0 then="$started"
  ((started == 0)) || pid=${unit_state[ExecMainPID]}
  ((then)) || then=${unit_state[ConditionTimestampMonotonic]:-0}
  boot[$pid]=${__sr_identity#*:\"}
  boot[$pid]=${boot[$pid]%%\"*}
  write_as "$pid"
  set_time "$((then / 10000))"
  __sr_more+=',"recorder":"exit/0.2.0"'
  __sr_append "service start"
  close_run "$pid"
}

# Dates the next entries back to that uptime. Without one, and before bash 5.0, they are of now.
set_time() { # HUNDREDTHS of a second
  local now="${EPOCHREALTIME-}" uptime=''
  __sr_earlier_time='' __sr_earlier_uptime=''
  [[ $now ]] && ((${1:-0})) || return 0
  read -r uptime _ </proc/uptime
  now=$((${now/[.,]/} - (10#${uptime/./} - $1) * 10000))
  __sr_earlier_time=${now:0:-6}.${now: -6}
  printf -v '__sr_earlier_uptime' '%d.%02d' $(($1 / 100)) $(($1 % 100))
}

# Has a record that has become too long shortened by a unit of its own, if the command is installed:
# neither the service's limits nor its time to stop are spent on that.
rotate_record() {
  local limit="${SERVICE_RECORDS_MAX_BYTES-}" record="${__sr_record}" program='' file=''
  local home="${BASH_SOURCE[0]%/*}"
  [[ $limit == +([0-9]) ]] || limit=2097152
  ((limit)) || return 0
  for file in "${record%/*}/.${record##*/}".*.old; do [[ ! -e $file ]] || limit=0; done
  (($(limited 2 stat --format=%s -- "$record") > limit)) || return 0
  for program in "$home" "$home/../../bin" /usr/local/bin /usr/bin; do
    [[ -x $program/service-record ]] || continue
    limited 5 systemd-run --quiet --no-block --collect --unit=service-record-rotate --nice=15 \
      --property=RuntimeMaxSec=5min --property=SuccessExitStatus=1 --property=LogLevelMax=notice \
      --setenv=SERVICE_RECORDS_MAX_BYTES="${SERVICE_RECORDS_MAX_BYTES-}" \
      "$program/service-record" rotate --from "${record%/*}"
    return 0
  done
}

# --- Repairing an array ---------------------------------------------------------------------------

# A recorder that cannot extend an array, because it is damaged or its lock was held, appends lines
# behind it. Here those lines that are whole entries go into the array, in their order, and the array is
# closed. A copy of everything else that stands there goes to <record>.damaged first. The record stays
# as it is if no end of an entry is found in its last 8 MiB and 32,768 lines.
repair_array() {
  local record="${__sr_record}" first='' attempt=0
  [[ -f $record && ! -L $record ]] && __sr_has_room && read -r -N 1 first <"$record" &&
    [[ $first == '[' ]] || return 0
  {
    limited 5 flock -w 4 3 || return 0
    # A recorder may append another line meanwhile.
    while ((attempt < 3)) && replace_end; do attempt=$((attempt + 1)); done
  } 3<>"$record"
}

# Replaces what follows the last entry of the array. Fails if nothing is to do, or if it cannot be done.
replace_end() {
  local TMPDIR=/dev/shm tail='' size=0 from=0 joint='' entries='' brackets=0 is_damaged=''
  read_tail 8388608 && read_end_of_array || return 1
  [[ $entries || $is_damaged ]] || ((brackets != 1)) || return 1
  [[ ! $is_damaged ]] || keep_copy || return 1
  write_end
}

# Sets `tail` to the end of the file, and `size` to the size of the file then: tail(1) leaves the
# descriptor there. A loss of power leaves NULs, which bash cannot hold: they become form feeds, which
# no entry contains.
read_tail() { # BYTES
  local -a position=()
  {
    tail=$(limited 5 tail -c "$1" <&4 | tr '\000' '\014' && printf .) || return 1
    mapfile -t -n 1 position </proc/self/fdinfo/4
  } 4</proc/self/fd/3
  tail=${tail%.}
  size=${position[0]##*[!0-9]}
  ((${#tail} == (size < $1 ? size : $1)))
}

# Sets `from`, the offset where the last entry ends that is surely in the array; `entries`, the whole
# entries behind it; `brackets`, the number of brackets there; and `is_damaged` if there is anything else.
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
      line=${line%%$'\f'*} # the remains of another entry may follow the NULs
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

# Sets `from`, `joint` (what goes between that entry and the next), and `index`: from there on, `lines`
# has what stands behind it. It goes from the end, line by line, because bash takes many seconds to
# match a pattern against all of it.
find_last_entry() {
  local closed_below='' brace='' begin="$((size + 1))" least="$((${#lines[@]} - 32768))"
  for ((index = ${#lines[@]} - 1; index >= 0 && index >= least; index--)); do
    line=${lines[index]}
    begin=$((begin - ${#line} - 1))
    [[ $line == *[!$' \t\r\f']* ]] || continue
    trim_line
    brace=${line%,}
    brace=${brace%]}
    brace=${brace%,} # of an entry that was being written over the bracket
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

# Whether a line ends an entry of the array. A whole line behind the array does not. `  }` is a line of
# jq's indented arrays.
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

# Removes the blanks at the end of `line`, of which there may be very many, and, from a very long one,
# `skipped` bytes at its beginning: no entry is that long, and patterns are slow on long texts.
trim_line() {
  local many=0
  for many in 65536 4096 256 16 1; do
    while ((${#line} >= many)) && [[ ${line: -many} != *[!$' \t\r\f']* ]]; do
      line=${line:0:${#line}-many}
    done
  done
  skipped=$((${#line} > 16384 ? ${#line} - 16384 : 0))
  line=${line:skipped}
}

is_whole() { # TEXT; whether it has as many closing braces as opening ones, none of them in a string
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

keep_copy() { # of everything behind `from`
  local copy="${__sr_record}.damaged"
  [[ ! -L $copy && (-f $copy || ! -e $copy) ]] || return 1 # a FIFO would block for ever
  umask 0133
  limited 5 tail -c "+$((from + 1))" </proc/self/fd/3 >>"$copy"
}

# Writes `entries` and the bracket with one write, from the end of the last entry to the end of the file.
# Before that, the file is made long enough: if the disk is full, nothing is damaged.
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
    [[ ${position[0]##*[!0-9]} == "$size" ]] || return 0 # another line was appended meanwhile
  fi
  make_blanks $((from + ${#text})) $((size - from - ${#text}))
  limited 5 dd of=/proc/self/fd/3 bs=$((size - from)) iflag=fullblock conv=notrunc \
    oflag=seek_bytes seek="$from" status=none <<<"$text$blanks"
}

# Sets `blanks` to white space for a part of the file, without its last newline. Each sector of 512 bytes
# ends with a newline: if a loss of power leaves such a sector between the halves of two entries, they do
# not make a third one, because no text contains a newline.
make_blanks() { # OFFSET BYTES
  local sector=''
  printf -v sector '%511s\n' ''
  printf -v blanks '%*s\n' $((511 - $1 % 512)) ''
  while ((${#blanks} < $2)); do blanks+=$sector; done
  blanks=${blanks:0:$2-1}
}

main() { # [UPTIME when the service had ended], or --collect
  local LC_ALL=C IFS=$' \t\n' __sr_answer='' unit='' name='' directory='' pid='' ended="$1"
  local started=0 main='' request='' job_type='' partner='' time_limit='' was_in_inbox=''
  local failed_command='' failed_how='' failed_status=''
  local end_result='' outcome='' facts='' systemd_facts='' message='' is_message_read=''
  __sr_load
  [[ $ended == +([0-9]).[0-9][0-9] ]] || read -r ended _ </proc/uptime
  ended=$((10#${ended/./}))
  __sr_read_unit
  unit=$__sr_answer.service
  [[ $unit != service-record-rotate.service ]] || return 0
  __sr_begin
  name=${__sr_record##*/} name=${name%.json} directory=${__sr_record%/*}
  if [[ $directory == "${SERVICE_RECORDS_INBOX-}" ]]; then # the records cannot be written now
    name=${name%.*} directory=${SERVICE_RECORDS_DIR:-/var/log/openshift}
  fi
  # What the service left running may use up its TasksMax=. bash would then try for half a minute to
  # make a process, and fail.
  __sr_has_room || return 0
  if [[ $1 == --collect ]]; then
    collect_left_files
    return 0
  fi
  # A condition that is not met is no failure: the service was not wanted.
  [[ ${INVOCATION_ID-} && ${SERVICE_RESULT-} != exec-condition ]] || return 0
  read_unit_state
  __sr_has_room || return 0
  collect_inbox
  { __sr_has_room && read_invocation; } || return 0
  pick_main
  read_stop_request
  read_partner
  read_time_limit
  judge
  for pid in "${pids[@]}"; do
    if [[ ${result[$pid]} ]]; then amend_run "$pid"; else close_run "$pid"; fi
  done
  is_recorded || record_unknown
  repair_array
  __sr_sync
  rotate_record
}

shopt -s extglob
main "${1-}" 2>/dev/null
exit 0
