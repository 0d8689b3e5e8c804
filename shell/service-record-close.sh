#!/usr/bin/env bash
#
# Completes the record of a service that has ended. systemd runs service-record-exit.sh after every
# end of the service. That script starts this program if the end is not an ordinary success: the service
# was killed, ran out of memory or time, crashed, became another program by `exec`, failed, or has a
# record that is an array. `service-record uninstall` calls this program with `--collect`.
#
# systemd sets SERVICE_RESULT, EXIT_CODE, EXIT_STATUS (systemd.exec(5)) and INVOCATION_ID. The program
#
#   - appends the missing ends of this invocation's runs, stages and commands;
#   - appends another end if systemd contradicts the recorded one: with the name of a signal that the
#     shim could not know, a status that the service's own EXIT trap changed, or a time limit;
#   - appends start and end of a service that does not record itself;
#   - moves entries from the inbox to the record, for services that may not write their record;
#   - repairs an array whose end is damaged, and starts the rotation of a record that is too large.
#
# If the recorded end agrees with systemd, nothing is appended. The exit status is always 0. The service
# waits for this program. Therefore each command that it runs has a time limit, and the drop-in limits
# the time of the whole program.

# With __sr_pid set, the shim acts as if it were sourced again: it defines its functions, and records
# no start. It is in the same directory, or in PREFIX/bin if this program is in PREFIX/share/service-record.
__sr_pid=$BASHPID
for shim in "${BASH_SOURCE[0]%/*}"{,/../../bin}/bootstrap-service-record.sh; do
  # shellcheck source=shell/bootstrap-service-record.sh
  [[ ! -f $shim ]] || { . "$shim" && break; }
done
declare -F __sr_append >/dev/null || exit 0

# The runs of this invocation. The keys are the process ids that recorded them. `kind` is service,
# pre-command or post-command. `open_stages` has one line for each stage without an end: name, stageId
# and parent, separated by tabs. `failed_stage` is the stage that failed immediately before the run,
# `last_stage` the stage that the shim ended together with the run. Texts keep their JSON escapes.
declare -A kind=() command=() boot=() result=() signal=() status=() message_of=()
declare -A open_stages=() failed_stage=() last_stage=()
pids=()
declare -A unit_state=()

# --- Reading the record ---------------------------------------------------------------------------

# Fills the arrays above from the record. Returns 1 if grep exceeds its time limit: then the runs are
# unknown. A service that retries without a pause may have written very many entries. Only the last
# 10,000 are read, which is enough to find the open stages.
read_invocation() {
  local line='' pid='' value='' phase=''
  [[ -f ${__sr_record} ]] || return 0
  while IFS= read -r line; do
    # The service chooses the names of attributes, so they may be the names of other members. All
    # members that are read here precede them.
    [[ $line != *',"attributes":{'* ]] || line=${line%%',"attributes":{'*}
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
  # Since bash 4.4, `wait` returns the status of a process substitution. timeout(1) exits with 137 when
  # it has sent SIGKILL.
  wait "$!"
  (($? != 137))
}

# Adds a run. LINE is its start or, if the start was lost, the first entry that exists.
read_start() { # PID LINE
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

# Sets `value` to name, stageId and parent of the stage, separated by tabs.
read_stage() { # LINE
  local stage=''
  read_member stage "$1"
  stage=$value
  read_member stageId "$1"
  stage+=$'\t'$value
  read_member parent "$1"
  value=$stage$'\t'$value
}

# Removes a stage from `open_stages`: in Python the stage with this stageId, in bash, which has no
# stageId, the latest stage with this name.
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

# Sets `value` to a member of a JSON object: a text without its quotes, or a number. An empty value
# means that the member is missing. A search for `"NAME":` is enough, because all lines with an
# invocationId come from this project's recorders, which escape every quote within a text.
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

# Runs a program with a time limit. Sends SIGKILL, because a program may ignore SIGTERM.
limited() { # SECONDS PROGRAM [ARGUMENT...]
  timeout --signal=KILL "$@"
}

# Sets `unit_state` (properties of the unit), `started` (when the main process of this invocation was
# started, in microseconds of monotonic time, or 0), and `failed_command`, the first failed command of
# the unit other than the main process, with `failed_how` and `failed_status`.
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
    --property=UID,RootDirectory,RootImage,InaccessiblePaths,ReadOnlyPaths,TemporaryFileSystem)
  started=${unit_state[ExecMainStartTimestampMonotonic]:-0}
  # A main process that is older than this attempt to start the service belongs to an earlier attempt.
  ((started >= ${unit_state[ConditionTimestampMonotonic]:-0})) || started=0
  ((started)) || [[ ! ${unit_state[ConditionTimestampMonotonic]-} ]] || EXIT_CODE='' EXIT_STATUS=''
}

# Sets `job_type` to the systemd job of the unit that is running now: stop or restart. If the service
# ended because of this job, sets `request` to stop, restart or shutdown. It did if it died of the stop
# signal, or exited with the status that shells use for this signal. systemd reports a oneshot that a
# stop interrupts as failed, like a process that somebody killed; only the job distinguishes the two.
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

# Returns 0 if the service ended by this signal, or with the exit status that shells use for it.
is_answer() { # SIGNAL_NUMBER
  case "${EXIT_CODE-} ${SERVICE_RESULT-}" in
  "killed success" | "killed signal") [[ $EXIT_STATUS == "$(kill -l "$1")" ]] ;;
  "exited success" | "exited exit-code") ((EXIT_STATUS == 128 + $1)) ;;
  " signal") ;;
  *) return 1 ;;
  esac
}

# Sets `partner` to the unit in BindsTo= whose end made systemd stop this service. That unit left its
# active state before the service did. If a user stops both, the service stops first.
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

# Sets `time_limit` to the name of the setting whose time limit was exceeded, according to systemd's
# timestamps.
read_time_limit() {
  local began="${unit_state[InactiveExitTimestampMonotonic]:-0}" now=0
  local active="${unit_state[ActiveEnterTimestampMonotonic]:-0}"
  local left="${unit_state[ActiveExitTimestampMonotonic]:-0}"
  [[ $SERVICE_RESULT == timeout ]] || return 0
  # The last change of state was the start of the commands in ExecStopPost=, which include this one.
  now=${unit_state[StateChangeTimestampMonotonic]:-0}
  ((began && now >= began)) || return 0
  # systemd sets its start and stop timers before it records the change of state. On a busy host, less
  # time than the limit passes between the two timestamps, so half a second is added.
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

# Returns 0 if the time from SINCE to NOW, in microseconds, is at least the value of a setting, which
# systemd prints as `1min 30s`, `1.500000s`, `1month 2w` or `infinity`. systemd.time(7) defines the units.
has_passed() { # SINCE NOW SETTING
  local word='' limit=0 unit=0 fraction=''
  local -A microseconds=(
    [us]=1 [ms]=1000 [s]=1000000 [min]=60000000 [h]=3600000000 [d]=86400000000 [w]=604800000000
    [month]=2629800000000 [y]=31557600000000
  )
  for word in ${unit_state[$3]-infinity}; do
    [[ $word =~ ^([0-9]+)(\.([0-9]{1,6}))?([a-z]+)$ && ${microseconds[${BASH_REMATCH[4]}]-} ]] || return 1
    unit=${microseconds[${BASH_REMATCH[4]}]} fraction=${BASH_REMATCH[3]}000000
    limit=$((limit + BASH_REMATCH[1] * unit + 10#${fraction:0:6} * (unit / 1000) / 1000))
  done
  ((limit > 0 && $2 - $1 >= limit))
}

# --- The inbox: entries of services that may not write their record -------------------------------

# Moves entries of this service from the inbox to the record: those of this invocation, and before them
# those of earlier invocations, if this program failed then. Every user may create files in the inbox.
# Therefore a file is accepted only if it belongs to the user of this unit, and only entries of the
# invocation in its name are read. The number of files is limited, so that a user cannot keep this program
# busy until its time is over. The file of this invocation is always among them. A file that a root service
# left, because its record could not be written, is collected when any service ends.
collect_inbox() {
  local inbox="${SERVICE_RECORDS_INBOX-}" uid="${unit_state[UID]-}" file='' invocation='' owner='' mode=''
  local lost='if it recorded stages, they are lost' all=() files=() accepted=() sorted=()
  [[ $inbox ]] || return 0
  [[ $uid == +([0-9]) ]] || uid=0 # systemd reports no UID for a root service
  if [[ ! -d $inbox ]]; then
    mkdir -m 1733 -- "$inbox"
    ((uid == 0)) ||
      log_warning "$unit ran as user $uid before there was $inbox: $lost"
    return 0
  fi
  all=("$inbox/$name.$INVOCATION_ID.json" "$inbox/$name".*.json)
  for file in "${all[@]:0:200}"; do
    invocation=${file#"$inbox/$name."} invocation=${invocation%.json}
    # A newline in another name would forge the output of stat.
    [[ $invocation =~ ^[0-9a-f]{32}$ && (-e $file || -L $file) ]] || continue
    if [[ $invocation == "$INVOCATION_ID" ]]; then
      [[ ! $was_in_inbox ]] || continue
      was_in_inbox=1
    fi
    # If the records cannot be written, this program writes its own entries to the inbox.
    [[ $file != "${__sr_record}" && (-w $directory || ! -e $directory) ]] || continue
    files+=("$file")
  done
  while ((${#files[@]})) && read -r owner mode file; do
    if [[ "$owner $mode" == "$uid 8"??? ]]; then
      accepted+=("$file")
    elif [[ $file == "${all[0]}" ]]; then
      log_warning "$file was not recorded: it is not a file of user $uid, as whom $unit ran"
      limited 3 rm -rf --one-file-system -- "$file" # the user may have created a directory
    fi
  done < <(limited 2 stat --format='%u %f %n' -- "${files[@]}")
  sort_by_uptime "${accepted[@]}"
  for file in "${sorted[@]}"; do
    invocation=${file#"$inbox/$name."} invocation=${invocation%.json}
    ! take_file "$file" "$invocation" || limited 3 rm -rf --one-file-system -- "$file"
  done
  [[ $was_in_inbox ]] || warn_of_hidden_inbox "$uid"
  collect_left_files
}

# Sets `sorted` to the files in the order of their first entries. The uptime decides, because the clock may
# have been set between two runs. All files are of this boot, because the inbox is in memory.
sort_by_uptime() { # FILE...
  local line='' file=''
  local -A uptimes=()
  sorted=("$@")
  (($# > 1)) || return 0
  while IFS= read -r line; do # FILE:"uptime":SECONDS
    [[ ${uptimes[${line%:*:*}]-} ]] || uptimes[${line%:*:*}]=${line##*:}
  done < <(limited 3 grep --with-filename --devices=skip --text --max-count=1 --only-matching \
    '"uptime":[0-9.]*' -- "$@")
  mapfile -t sorted < <(for file; do printf '%s %s\n' "${uptimes[$file]:-0}" "$file"; done | sort --numeric)
  sorted=("${sorted[@]#* }")
}

# Warns in the journal if the unit's sandbox may have hidden the inbox from the service.
warn_of_hidden_inbox() { # UID
  local setting="${unit_state[RootDirectory]-}${unit_state[RootImage]-}"
  [[ $1 == [1-9]* ]] || return 0
  [[ " ${unit_state[ReadOnlyPaths]-} " != *[[:blank:]]?([-+])/@(|dev?(/*))[[:blank:]]* ]] || setting=1
  [[ ! $setting && "${unit_state[InaccessiblePaths]-}${unit_state[TemporaryFileSystem]-}" != */dev* ]] ||
    log_warning "$unit ran as user $1 and may not see $SERVICE_RECORDS_INBOX in its sandbox: $lost"
}

# Moves the files that root services left in the inbox to their records, if the services have ended.
# systemd keeps a link for each running invocation. `log_warning` uses `name`.
collect_left_files() {
  local path="${__sr_record}" file='' name='' invocation='' live='' files=() left=() sorted=()
  files=("${SERVICE_RECORDS_INBOX:-/dev/shm/service-record}"/*.json)
  for file in "${files[@]:0:10000}"; do
    [[ $file =~ /[^/]+\.[0-9a-f]{32}\.json$ && -f $file && ! -L $file && -O $file ]] || continue
    [[ $file == "$path" || ! -w $directory ]] || left+=("$file")
  done
  ((${#left[@]})) && __sr_has_room || return 0
  live=$(limited 3 readlink -- /run/systemd/units/invocation:*)
  sort_by_uptime "${left[@]}"
  for file in "${sorted[@]}"; do
    invocation=${file%.json} invocation=${invocation##*.}
    name=${file##*/} name=${name%.*.json}
    [[ $live && $live != *"$invocation"* ]] || continue
    __sr_has_room || break
    __sr_record=$directory/$name.json __sr_torn=1 # the last line of this record may be incomplete
    ! take_file "$file" "$invocation" || limited 3 rm -f -- "$file"
    repair_array
  done
  [[ ${__sr_record} == "$path" ]] || __sr_record=$path __sr_torn=1
}

# Appends the entries of one invocation from a file to the record, and counts lost entries. Returns 1,
# so that the file is kept, if none could be appended and the record cannot be written. Since the file
# was checked, its owner may have replaced it by a link, a FIFO or a larger file, so dd follows no link,
# does not wait for a writer, and reads at most 16 MiB.
take_file() { # FILE INVOCATION
  local line='' __sr_entry='' __sr_head='' __sr_written='' lost=0 taken=0 until=$((SECONDS + 5))
  while IFS= read -r line; do
    __sr_entry=${line%,}
    [[ $__sr_entry == '{"timestamp":"'*\} ]] && ((${#__sr_entry} < 4096 && SECONDS < until)) &&
      is_whole "$__sr_entry" && __sr_write && ((__sr[dropped] == 0)) && taken=1 || lost=$((lost + 1))
  done < <(limited 5 dd if="$1" iflag=nofollow,nonblock bs=64K count=256 |
    grep --fixed-strings --text "\"invocationId\":\"$2\"" | tail -n 10000)
  ((lost)) || return 0
  __sr_more=",\"dropped\":$lost"
  log_warning "$lost entries of $1 could not be recorded in ${__sr_record}"
  ((taken)) || [[ -w ${__sr_record} ]]
}

# Logs a warning to the journal, because the service's own output may be redirected.
# units/service-record.catalog explains it by its MESSAGE_ID. `logger` may end before journald can look
# up its unit, so the field OBJECT_SYSTEMD_UNIT names the unit, for `journalctl --unit`. Control
# characters are replaced, because a newline in a file name would begin another field.
log_warning() { # TEXT
  printf '%s\n' "MESSAGE=${1//[[:cntrl:]]/?}" MESSAGE_ID=a15117ca27ad49d7a97840b08309a81d PRIORITY=4 \
    SYSLOG_IDENTIFIER=service-record "SERVICE_RECORD_SERVICE=$name" "SERVICE_RECORD_RESULT=lost" \
    ${unit:+"OBJECT_SYSTEMD_UNIT=$unit"} |
    limited 2 logger --journald || limited 2 logger --tag service-record --priority daemon.warning -- "$1"
}

# --- Judging the end ------------------------------------------------------------------------------

# Sets `main` to the process id of the main process. If the service never had one, sets it to the ids of
# all recorded processes of the service.
pick_main() {
  local pid=''
  for pid in "${pids[@]}"; do
    [[ ${kind[$pid]} != service ]] || main+="$pid "
  done
  main=${main% }
  ((started == 0)) || main=${unit_state[ExecMainPID]}
}

# Sets `outcome` to success, stopped or failure, and `end_result` to the `result` of the end entry: a
# stopped service did not finish, so its result is failure. Sets the members of the end: `facts`, and
# `systemd_facts`, which come later in the entry. $SERVICE_RESULT decides whether an end is clean,
# because systemd knows the settings of the unit.
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
    '') [[ ${SERVICE_RESULT-} != signal ]] || facts=',"signal":"unknown"' ;; # a stop killed ExecStartPre=
    esac
  fi
  systemd_facts=${SERVICE_RESULT:+",\"serviceResult\":\"$SERVICE_RESULT\""}
  systemd_facts+=${request:+",\"stopRequest\":\"$request\""}
  __sr_escape_part "$partner" 255 510
  systemd_facts+=${partner:+",\"stoppedWith\":\"$__sr_answer\""}
  systemd_facts+=${time_limit:+",\"timeLimit\":\"$time_limit\""}
}

# Returns 0 if systemd's result comes from another command of the unit, such as ExecStartPost=, and not
# from the main process. systemd then kills the main process itself, so that signal is not the cause.
has_other_command_failed() {
  [[ $failed_command ]] || return 1
  case $SERVICE_RESULT:$failed_how in
  exit-code:exited) [[ ${EXIT_CODE-} != exited || $EXIT_STATUS == 0 ]] ;;
  signal:killed | core-dump:dumped) [[ ! ${EXIT_CODE-} || $EXIT_CODE == exited ]] ;;
  *) return 1 ;;
  esac
}

# Sets `message` to the last lines of the journal. Reads the journal only once.
read_message() {
  [[ $outcome == failure && ! $is_message_read ]] || return 0
  __sr_read_journal
  message=$__sr_answer is_message_read=1
}

# Returns 0 if the run recorded the same end as systemd, so that no entry must be appended.
is_agreed() { # PID
  local end="${result[$1]} ${status[$1]:-${EXIT_STATUS-}}"
  [[ $outcome == "$end_result" && ${EXIT_CODE:-exited} == exited && ! ${signal[$1]} ]] || return 1
  [[ $end != "success 0" ]] || ! has_failed_command || return 0
  [[ $end == "$end_result ${EXIT_STATUS:-${status[$1]}}" && ${SERVICE_RESULT-} == @(|success|exit-code) ]]
}

# Returns 0 if a recorded pre- or post-command failed, which explains systemd's result.
has_failed_command() {
  local pid=''
  for pid in "${pids[@]}"; do
    [[ ${kind[$pid]} == service || ${result[$pid]} == success ]] || return 0
  done
  return 1
}

# Returns 0 if the recorded message lacks the journal's lines. A service that is not root cannot read
# the journal: after a failure, its record has no message or, in Python, only that of the exception.
lacks_journal() { # PID
  [[ $outcome == failure && ${unit_state[UID]-} == [1-9]* ]] || return 1
  read_message
  printf -v recorded '%b' "${message_of[$1]}" # decode the JSON escapes
  [[ $message && $recorded != *"$message"* ]]
}

# Returns 0 if the record explains the end of the service: with the main process; with another process
# whose result agrees with systemd's, such as a script that a shell runs; or, if the main process was
# never started, with a failed pre-command.
is_recorded() {
  local pid='' recorded_result=''
  for pid in "${pids[@]}"; do
    [[ $pid != "$main" ]] || return 0
    [[ ${kind[$pid]} == service ]] || continue
    recorded_result=${result[$pid]:-$outcome}
    [[ ${signal[$pid]} != unknown ]] || recorded_result=$outcome
  done
  if [[ $recorded_result ]]; then
    [[ $recorded_result == "$outcome" ]] || { [[ $recorded_result == success ]] && has_failed_command; }
  else
    ((${#pids[@]} && started == 0)) && { [[ $outcome == success ]] || has_failed_command; }
  fi
}

# --- Writing --------------------------------------------------------------------------------------

# Makes the next entries belong to a run.
select_run() { # PID, or 0 for none
  __sr_identity="${boot[$1]:+,\"bootId\":\"${boot[$1]}\"},\"invocationId\":\"$INVOCATION_ID\""
  (($1 == 0)) || __sr_identity+=",\"pid\":$1"
  __sr_run_command=${command[$1]-}
  __sr[kind]=${kind[$1]:-service}
}

append_end() { # KIND STAGE
  local __sr_members='' __sr_open_stage="${2:+",\"stage\":\"$2\""}"
  read_message
  __sr_more=$systemd_facts${__sr_more}
  __sr_explain '' "$message" "$facts"
  __sr_append "$1 end" ",\"result\":\"$end_result\"$__sr_members"
}

# Appends the ends of a run and of its open stages. They get the time at which this program was
# started, so that its own duration is not part of the run.
close_run() { # PID
  local stage='' stage_name='' id='' open="${open_stages[$1]-}"
  select_run "$1"
  set_time "$ended"
  while [[ $open ]]; do # innermost first
    stage=${open##*$'\n'} open=${open%$'\n'*}
    stage_name=${stage%%$'\t'*} stage=${stage#*$'\t'}
    id=${stage%$'\t'*} stage=${stage#*$'\t'}
    __sr_more+=${id:+",\"stageId\":\"$id\""}${stage:+",\"parent\":\"$stage\""}
    append_end stage "$stage_name"
  done
  append_end "${__sr[kind]}" ''
  set_time ''
}

# Appends a second end with systemd's result, unless the recorded end agrees with it. A reader uses the
# later end. The entry names the stage that ended together with the run, because upstream's analyzer
# takes the failed stage from the entry before the last one, which is now an end of the run.
amend_run() { # PID
  local facts="$facts" systemd_facts="$systemd_facts" recorded='' stage="${last_stage[$1]}"
  local message="$message" is_message_read="$is_message_read"
  if [[ $1 == "$main" ]]; then
    ! is_agreed "$1" || lacks_journal "$1" || return 0
  else
    # systemd stopped another process or command of the service. Its signal remains unknown.
    [[ ${signal[$1]} == unknown && $request ]] || return 0
    facts=',"signal":"unknown"'
  fi
  # A reader replaces the recorded message, which may be that of an exception, by this one.
  read_message
  printf -v recorded '%b' "${message_of[$1]}"
  if [[ $recorded == *"$message"* ]]; then
    message=$recorded
  elif [[ $message != *"$recorded"* ]]; then
    message+=$'\n'$recorded
  fi
  [[ $outcome == failure ]] || message=
  select_run "$1"
  [[ $end_result == success || $stage ]] || stage=${failed_stage[$1]}
  append_end "${__sr[kind]}" "$stage"
}

# Appends start and end of a service that does not record itself, or that ended before it started its
# script. The start has the time that systemd reports.
record_unrecorded_run() {
  local pid=0 then="$started"
  ((started == 0)) || pid=${unit_state[ExecMainPID]}
  ((then)) || then=${unit_state[ConditionTimestampMonotonic]:-0}
  boot[$pid]=${__sr_identity#*:\"}
  boot[$pid]=${boot[$pid]%%\"*}
  select_run "$pid"
  set_time "$((then / 10000))"
  __sr_more+=',"recorder":"exit/0.2.0"'
  __sr_append "service start"
  close_run "$pid"
}

# Sets the time of the next entries. With an empty UPTIME, and before bash 5.0, which has no
# EPOCHREALTIME, that is the current time.
set_time() { # UPTIME in hundredths of a second
  local now="${EPOCHREALTIME-}" uptime=''
  __sr_earlier_time='' __sr_earlier_uptime=''
  [[ $now ]] && ((${1:-0})) || return 0
  read -r uptime _ </proc/uptime
  # The wall-clock time in microseconds, minus the time since UPTIME.
  now=$((${now/[.,]/} - (10#${uptime/./} - $1) * 10000))
  __sr_earlier_time=${now:0:-6}.${now: -6}
  printf -v '__sr_earlier_uptime' '%d.%02d' $(($1 / 100)) $(($1 % 100))
}

# Starts a separate unit that rotates a record that is too large, if `service-record` is installed. In
# its own unit, the rotation does not use the service's resources or stop timeout.
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

# Merges lines after an array into it, in their order, and closes the array. A recorder appends such
# lines if the array is damaged or its lock is held. Everything after the last entry of the array is
# first copied to <record>.damaged if it contains anything but whole entries. The record is not changed
# if the last 8 MiB or 32,768 lines of the file contain no end of an entry.
repair_array() {
  local record="${__sr_record}" first='' attempt=0
  [[ -f $record && ! -L $record ]] && __sr_has_room && read -r -N 1 first <"$record" &&
    [[ $first == '[' ]] || return 0
  {
    limited 5 flock -w 4 3 || return 0
    # Try again, since a recorder may append another line at the same time.
    while ((attempt < 3)) && replace_end; do attempt=$((attempt + 1)); done
  } 3<>"$record"
}

# Rewrites the file after the last entry of the array. Returns 1 if nothing has to be changed, or if it
# cannot be changed.
replace_end() {
  local TMPDIR=/dev/shm tail='' size=0 from=0 joint='' entries='' brackets=0 is_damaged=''
  read_tail 8388608 && read_end_of_array || return 1
  [[ $entries || $is_damaged ]] || ((brackets != 1)) || return 1
  [[ ! $is_damaged ]] || keep_copy || return 1
  write_end
}

# Sets `tail` to the end of the file, and `size` to the size of the file, which is where tail(1) leaves
# the descriptor. A power loss can leave NUL bytes, which bash variables cannot hold. They are replaced
# by form feeds, which no entry contains.
read_tail() { # BYTES
  local -a position=()
  {
    # The dot keeps the newlines at the end, which a command substitution would remove.
    tail=$(limited 5 tail -c "$1" <&4 | tr '\000' '\014' && printf .) || return 1
    mapfile -t -n 1 position </proc/self/fdinfo/4
  } 4</proc/self/fd/3 # opens the file again, so the offset of descriptor 3 does not change
  tail=${tail%.}
  size=${position[0]##*[!0-9]}
  ((${#tail} == (size < $1 ? size : $1)))
}

# Sets `from` to the offset of the end of the last entry that is certainly in the array, `entries` to
# the whole entries after it, `brackets` to the number of brackets after it, and `is_damaged` if
# anything else follows it.
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
      line=${line%%$'\f'*} # part of another entry may follow the NULs
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

# Finds the last entry of the array. Sets `from` to its end, `joint` to the text between it and the next
# entry, and `index` so that `lines` from there on are the text after it. Reads the lines backwards one
# by one, because bash needs many seconds to match a pattern against the whole text.
find_last_entry() {
  local closed_below='' brace='' begin="$((size + 1))" least="$((${#lines[@]} - 32768))"
  for ((index = ${#lines[@]} - 1; index >= 0 && index >= least; index--)); do
    line=${lines[index]}
    begin=$((begin - ${#line} - 1))
    [[ $line == *[!$' \t\r\f']* ]] || continue
    trim_line
    brace=${line%,}
    brace=${brace%]}
    brace=${brace%,} # the comma of an entry whose write over the bracket was interrupted
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

# Returns 0 if the line ends an entry of the array. A whole entry on a line after the array does not.
# `  }` ends an entry in an array that jq has indented.
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

# Removes the blanks at the end of `line`, of which there may be very many. From a line of more than
# 16 KiB, also removes the first `skipped` bytes: no entry is that long, and patterns are slow on long
# texts.
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

# Returns 0 if the text has as many opening as closing braces, outside of strings.
is_whole() { # TEXT
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

# Copies everything after `from` to <record>.damaged.
keep_copy() {
  local copy="${__sr_record}.damaged"
  [[ ! -L $copy && (-f $copy || ! -e $copy) ]] || return 1 # a FIFO would block forever
  umask 0133
  limited 5 tail -c "+$((from + 1))" </proc/self/fd/3 >>"$copy"
}

# Overwrites the file from the end of the last entry with `entries`, the closing bracket and blanks, in
# one write. The file is extended first, so that a full disk cannot damage it. dd needs fullblock,
# because since bash 5.1 a short here-string is a pipe, from which a read may return only a part.
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
    [[ ${position[0]##*[!0-9]} == "$size" ]] || return 0 # another line was appended at the same time
  fi
  make_blanks $((from + ${#text})) $((size - from - ${#text}))
  limited 5 dd of=/proc/self/fd/3 bs=$((size - from)) iflag=fullblock conv=notrunc \
    oflag=seek_bytes seek="$from" status=none <<<"$text$blanks"
}

# Sets `blanks` to white space for a part of the file, without its last newline. Each sector of 512 bytes
# ends with a newline. If a power loss leaves such a sector between the halves of two entries, the halves
# do not join to a third entry, because no entry contains a newline.
make_blanks() { # OFFSET BYTES
  local sector=''
  printf -v sector '%511s\n' ''
  printf -v blanks '%*s\n' $((511 - $1 % 512)) ''
  while ((${#blanks} < $2)); do blanks+=$sector; done
  blanks=${blanks:0:$2-1}
}

main() { # [UPTIME of the service's end] | --collect
  local LC_ALL=C IFS=$' \t\n' __sr_answer='' unit='' name='' directory='' pid='' ended="$1"
  local started=0 main='' request='' job_type='' partner='' time_limit='' was_in_inbox=''
  local failed_command='' failed_how='' failed_status=''
  local end_result='' outcome='' facts='' systemd_facts='' message='' is_message_read=''
  __sr_load failures
  __sr_load files
  [[ $ended == +([0-9]).[0-9][0-9] ]] || read -r ended _ </proc/uptime
  ended=$((10#${ended/./}))
  __sr_read_unit
  unit=$__sr_answer
  [[ $unit != service-record-rotate.service ]] || return 0
  __sr_begin
  name=${__sr_record##*/} name=${name%.json} directory=${__sr_record%/*}
  if [[ $directory == "${SERVICE_RECORDS_INBOX-}" ]]; then # the record cannot be written now
    name=${name%.*} directory=${SERVICE_RECORDS_DIR:-/var/log/openshift}
  fi
  # Processes that the service left running may use up its TasksMax=. Bash would then retry a fork for
  # half a minute, and fail.
  __sr_has_room || return 0
  if [[ $1 == --collect ]]; then
    collect_left_files
    return 0
  fi
  # TemporaryFileSystem= and BindPaths= of the unit also apply to this program. If they hide the records,
  # run again in the mounts of the host.
  if [[ ! $directory -ef /proc/1/root$directory && ! /proc/self/ns/mnt -ef /proc/1/ns/mnt ]] &&
    type -P nsenter >/dev/null && nsenter --mount=/proc/1/ns/mnt test -x "$0"; then
    exec nsenter --mount=/proc/1/ns/mnt "$0" "$1"
  fi
  # If an ExecCondition= was not met, systemd did not start the service, so there is no end to record.
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
  is_recorded || record_unrecorded_run
  repair_array
  __sr_sync
  rotate_record
}

shopt -s extglob
main "${1-}" 2>/dev/null
exit 0
