#!/bin/sh
# shellcheck disable=SC2329 # main calls functions by the name in its first argument
# Record the units of an initramfs, and report its failure. Runs in bash, dash and busybox sh.
#
#   service-record-initramfs.sh failure     before the emergency shell: record the failure, print it, report it
#   service-record-initramfs.sh retry       during the emergency shell: send the report again until it arrives
#   service-record-initramfs.sh handover    early in the initramfs: create the unit that runs `record`
#   service-record-initramfs.sh record      in the real root: add the record of the initramfs to the host's records
#
# An initramfs has few programs. This script needs cat, ln, mkdir, rm, sed and sleep, and journalctl if systemd runs.
# It does nothing unless kernel arguments or files in the initramfs enable it (see read_settings).
set -u
LC_ALL=C
export LC_ALL
umask 077

readonly settings=/etc/service-record/initramfs
readonly work=/run/service-record-initramfs
readonly records=/run/service-record
newline='
'
readonly newline
# A command of sed that removes the last character of a line if it is not ASCII, including an incomplete one.
cut_character=$(printf 's/[\300-\377][\200-\277]*$//')
readonly cut_character
# MESSAGE_ID of systemd's messages about units. The names in sd-messages.h are SD_MESSAGE_UNIT_STARTING, _STARTED,
# _FAILED, _PROCESS_EXIT and _FAILURE_RESULT.
readonly starting=7d4958e842da4a758f6c1cdc7b36dcc5
readonly started=39f53479d3a045ac8e11786248231fbf
readonly start_failed=be02cf6855d2428ba40df7e9d022f03d
readonly process_exited=98e322203f7a4ed290d09fe03c09fe15
readonly failure_result=d9b373ed55a64feb8242e02dbe79a49c

main() { # <command> [argument...]
  case $1 in
  failure | retry | handover)
    read_settings
    [ "$enabled" = yes ] || return 0
    [ -d "$work" ] || mkdir -p "$work" || return 0
    "$1"
    ;;
  record) record ;;
  post_by_bash) "$@" ;;
  esac
}

# Sets `enabled`, `url`, `host`, `token`, `cluster`, `infra_env` and `host_id`. Kernel arguments take precedence over
# files in the initramfs.
read_settings() {
  enabled=no url='' host='' token='' cluster='' infra_env='' host_id=''
  for name in url host token cluster infra_env host_id; do
    # shellcheck disable=SC2229 # `name` contains the name of the variable to read
    [ ! -r "$settings/$name" ] || IFS= read -r "$name" <"$settings/$name" || :
  done
  line=''
  IFS= read -r line </proc/cmdline || :
  set -f
  for word in $line; do
    case $word in
    service_record.url=*) url=${word#*=} ;;
    service_record.host=*) host=${word#*=} ;;
    service_record.token=*) token=${word#*=} ;;
    service_record.cluster=*) cluster=${word#*=} ;;
    service_record.infra_env=*) infra_env=${word#*=} ;;
    service_record.host_id=*) host_id=${word#*=} ;;
    service_record=0) enabled=never ;;
    service_record | service_record=1) enabled=yes ;;
    esac
  done
  set +f
  [ -z "$url" ] || [ "$enabled" = never ] || enabled=yes
  [ "$enabled" = yes ] || enabled=no
  # The token becomes part of an HTTP header and of a sed command, so other characters are not accepted.
  case $token in
  *[!A-Za-z0-9._~+/=-]*) token='' ;;
  esac
  [ -n "$host" ] || read_host_name
  host=$(printf '%s' "$host" | sed 's/[^A-Za-z0-9._-]/-/g')
}

# Sets `host` to the host name or, because an initramfs often has none yet, to the UUID of the hardware.
read_host_name() {
  IFS= read -r host </proc/sys/kernel/hostname || :
  case $host in
  '' | '(none)' | localhost | localhost.* | fedora)
    [ ! -r /sys/class/dmi/id/product_uuid ] || IFS= read -r host </sys/class/dmi/id/product_uuid || :
    ;;
  esac
}

has_systemd() {
  [ -d /run/systemd/system ]
}

failure() {
  rm -f "$work/report" "$work/recorded"
  since=0
  [ ! -r "$work/last-failure" ] || read -r since <"$work/last-failure"
  now=$(print_uptime)
  add_run failure
  printf '%s\n' "$now" >"$work/last-failure"
  : >"$work/recorded"
  read_cause
  print_to_console "the initramfs failed: $summary"
  log 3 552f6935de6c6a1ffde2dd31661a371e "the initramfs failed: $summary" failed
  print_last_lines "$cause" "$cause_invocation" 3 | while IFS= read -r line; do
    print_to_console "| $line"
  done
  [ -n "$url" ] || return 0
  write_report
  post 5
  print_post_result
}

# Sends the report again every 15 seconds for half an hour, because an operator may bring up the network. On a very slow
# host systemd may have stopped `failure` at its time limit. Then this runs `failure` first: its unit has no time limit.
retry() {
  [ -e "$work/recorded" ] || failure
  [ -r "$work/report" ] || return 0
  tries=0
  while [ ! -e "$work/posted" ] && [ "$tries" -lt 120 ]; do
    sleep 15
    tries=$((tries + 1))
    post 10
    [ ! -e "$work/posted" ] || print_post_result
  done
}

# Creates a unit in /run/systemd/system, which systemd of the real root starts. That unit writes the record, so that the
# initramfs is not delayed: its journal still exists in the real root.
handover() {
  units=/run/systemd/system
  # systemd warns about unit files that other users cannot read.
  (umask 022 && mkdir -p "$units/multi-user.target.wants")
  cat "$0" >"$work/record.sh"
  (umask 022 && printf '%s\n' '[Unit]' 'Description=Record the units of the initramfs' \
    'ConditionPathExists=!/etc/initrd-release' 'RequiresMountsFor=/var/log/openshift' 'After=local-fs.target' \
    '[Service]' "ExecStart=-/bin/sh $work/record.sh record" >"$units/service-record-initramfs.service")
  ln -sf ../service-record-initramfs.service "$units/multi-user.target.wants/service-record-initramfs.service"
  # The real root does not have the files of the initramfs, but `record` also has to mask the token. Only root can read
  # this directory.
  printf '%s\n' "$token" >"$work/token"
  print_uptime >"$work/handover"
}

record() {
  [ -r "$work/handover" ] || return 0
  read_settings
  [ ! -r "$work/token" ] || IFS= read -r token <"$work/token"
  read -r now <"$work/handover"
  since=0
  [ ! -r "$work/last-failure" ] || read -r since <"$work/last-failure"
  add_run success
  directory=${SERVICE_RECORDS_DIR:-/var/log/openshift}
  if [ "$directory" != "$records" ]; then
    umask 027
    mkdir -p "$directory"
    # The last line of an existing record may be incomplete, so begin a new line.
    [ ! -s "$directory/initramfs.json" ] || printf '\n' >>"$directory/initramfs.json"
    cat "$records/initramfs.json" >>"$directory/initramfs.json"
  fi
  rm -rf "$work"
}

# Prints the last lines that a unit logged. If there are none, prints those that systemd logged about it or, if there
# are none either, the last warnings of the journal. Without systemd, prints the kernel's last lines.
print_last_lines() { # <unit> <invocation> <number>
  if ! has_systemd; then
    # The second sed keeps the last lines: few initramfs have tail(1).
    # shellcheck disable=SC2016 # `$` is sed's address of the last line
    dmesg 2>/dev/null | sed 's/^\[[^]]*\] *//' | sed -e :a -e '$q' -e N -e "$(($3 + 1)),\$D" -e ba | mask
    return
  fi
  lines=''
  [ -z "$2" ] || lines=$(journalctl --boot --quiet --no-pager --output=cat --lines="$3" "_SYSTEMD_INVOCATION_ID=$2" 2>/dev/null)
  [ -n "$lines" ] || [ -z "$1" ] ||
    lines=$(journalctl --boot --quiet --no-pager --output=cat --lines="$3" --unit="$1" 2>/dev/null)
  [ -n "$lines" ] || lines=$(journalctl --boot --quiet --no-pager --output=cat --lines="$3" --priority=warning 2>/dev/null)
  {
    printf '%s\n' "$lines"
    [ "$1" != dracut-initqueue.service ] || print_missing_devices
  } | mask
}

# Prints the devices that dracut still waits for. dracut creates a file for each.
print_missing_devices() {
  for file in /usr/lib/dracut/hooks/initqueue/finished/devexists-*.sh /var/lib/dracut/hooks/initqueue/finished/devexists-*.sh; do
    [ -e "$file" ] || continue
    file=${file##*/devexists-}
    device=$(printf '%s' "${file%.sh}" | sed 's/\\x2f/\//g')
    [ -e "$device" ] || printf '%s does not exist\n' "$device"
  done
}

add_run() { # <result>
  write_run "$1" >"$work/run"
  (
    umask 027
    mkdir -p "$records"
    cat "$work/run" >>"$records/initramfs.json"
  )
}

# Prints the entries of one run, from `since` to `now` (microseconds of uptime). Each unit is a stage: the stage of a
# daemon ends when it runs, that of any other service when it ends. Writes the cause of a failure to the file `cause`.
write_run() { # <result>
  set_clock
  boot=''
  IFS= read -r boot </proc/sys/kernel/random/boot_id || :
  boot=$(printf '%s' "$boot" | sed 's/-//g')
  entries=$work/entries
  rm -rf "$entries"
  # The name of a unit may be as long as a file name can be, so these files have the names of units without additions.
  mkdir -p "$entries/begun" "$entries/ended" "$entries/ending" "$entries/failed"
  last_number=0
  cause='' cause_result='' cause_invocation='' begin_at=''
  add_units "$1"
  if [ "$1" = failure ] && [ -z "$cause" ]; then
    add_waiting_unit
  fi
  run_message=''
  if [ "$1" = failure ]; then
    set_message "$(print_last_lines "$cause" "$cause_invocation" 3)"
    run_message=$message_field
  fi
  printf '%s\n' "$cause" "$cause_result" "$cause_invocation" >"$work/cause"
  begin_entry "${begin_at:-$since}"
  printf '"phase":"service start",%s,"recorder":"initramfs/1"}\n' "$ids"
  # `*` expands in alphabetical order, which is the order of the entries: name_entry counts with eight digits.
  for file in "$entries"/[0-9]*; do
    [ ! -e "$file" ] || cat "$file"
  done
  # Readers take the last failed stage for the stage in which the run failed, so the cause comes last.
  [ ! -e "$entries/cause" ] || cat "$entries/cause"
  begin_entry "$now"
  printf '"phase":"service end","result":"%s",%s%s}\n' "$1" "$run_message" "$ids"
  rm -rf "$entries"
}

read_cause() {
  { IFS= read -r cause && IFS= read -r cause_result && IFS= read -r cause_invocation; } <"$work/cause"
  summary="${cause:-no unit failed}${cause_result:+ ($cause_result)}"
}

# Adds entries from systemd's messages about units. After a success, reads only up to the switch to the real root.
add_units() { # <result>
  has_systemd || return 0
  journalctl --boot --quiet --no-pager --output=export \
    --output-fields=UNIT,MESSAGE_ID,INVOCATION_ID,JOB_RESULT,UNIT_RESULT,EXIT_CODE,EXIT_STATUS _PID=1 \
    "MESSAGE_ID=$starting" "MESSAGE_ID=$started" "MESSAGE_ID=$start_failed" "MESSAGE_ID=$process_exited" \
    "MESSAGE_ID=$failure_result" >"$work/events" 2>/dev/null || :
  UNIT='' INVOCATION_ID='' JOB_RESULT='' UNIT_RESULT='' ending=''
  while IFS= read -r line; do
    case $line in
    __MONOTONIC_TIMESTAMP=*) time=${line#*=} ;;
    MESSAGE_ID=*) kind=${line#*=} ;;
    UNIT=*) UNIT=${line#*=} ;;
    INVOCATION_ID=*) INVOCATION_ID=${line#*=} ;;
    JOB_RESULT=*) JOB_RESULT=${line#*=} ;;
    UNIT_RESULT=*) UNIT_RESULT=${line#*=} ;;
    EXIT_CODE=*) EXIT_CODE=${line#*=} ;;
    EXIT_STATUS=*) EXIT_STATUS=${line#*=} ;;
    '')
      if [ "$1" = success ] && [ "$kind" = "$starting" ] && [ "$UNIT" = initrd-switch-root.service ]; then
        now=$time
        return
      fi
      case $UNIT in
      '' | service-record-initramfs* | emergency.* | dracut-emergency.service | initrd-cleanup.service) ;;
      *) [ "$time" -le "$since" ] || add_event ;;
      esac
      UNIT='' INVOCATION_ID='' JOB_RESULT='' UNIT_RESULT=''
      ;;
    esac
  done <"$work/events"
  # Without a message about the switch it is unknown which units belong to the initramfs.
  [ "$1" = failure ] || rm -f "$entries"/[0-9]*
}

add_event() {
  stage=${UNIT%.service} message_field=''
  case $kind in
  "$starting")
    begin_at=${begin_at:-$time}
    printf '%s\n' "$INVOCATION_ID" >"$entries/begun/$stage"
    rm -f "$entries/ended/$stage"
    ending='' id=$INVOCATION_ID
    name_entry
    print_stage_start "$time" >"$file"
    ;;
  "$started")
    [ -r "$entries/begun/$stage" ] && [ ! -e "$entries/ended/$stage" ] || return 0
    end_stage success ''
    ;;
  "$process_exited")
    case $EXIT_CODE in
    exited) ending="\"exitCode\":$EXIT_STATUS," ;;
    *) ending="\"signal\":\"$(kill -l "$EXIT_STATUS" 2>/dev/null || echo unknown)\"," ;;
    esac
    printf '%s\n' "$ending" >"$entries/ending/$stage"
    ;;
  "$failure_result") fail_stage "$UNIT_RESULT" "\"serviceResult\":\"$UNIT_RESULT\"," ;;
  "$start_failed")
    # A unit that only missed a dependency is a consequence. The message with the unit's result has more details.
    [ "$JOB_RESULT" = dependency ] || [ -e "$entries/failed/$stage" ] || fail_stage "$JOB_RESULT" ''
    ;;
  esac
}

fail_stage() { # <result> <JSON members of the end>
  : >"$entries/failed/$stage"
  set_message "$(print_last_lines "$UNIT" "$INVOCATION_ID" 3)"
  ending=''
  [ ! -r "$entries/ending/$stage" ] || IFS= read -r ending <"$entries/ending/$stage"
  [ -n "$cause" ] || cause=$UNIT cause_result=$1 cause_invocation=$INVOCATION_ID
  end_stage failure "$ending$2"
}

# Sets `file` to the path of the next entry. The name is a number, in the order of the journal.
name_entry() {
  last_number=$((last_number + 1))
  pad "$last_number" 8
  file=$entries/$padded
}

# Writes the end of the stage. If a daemon fails after it was started, this replaces the end that its start wrote.
end_stage() { # <result> <JSON members of the end>
  id=''
  [ ! -r "$entries/begun/$stage" ] || IFS= read -r id <"$entries/begun/$stage"
  file=''
  [ ! -r "$entries/ended/$stage" ] || IFS= read -r file <"$entries/ended/$stage"
  [ -z "$file" ] || rm -f "$file"
  name_entry
  [ "$1" = success ] || [ "$cause" != "$UNIT" ] || file=$entries/cause
  printf '%s\n' "$file" >"$entries/ended/$stage"
  print_stage_end "$time" "$1" "$2" >"$file"
}

# Adds the cause if no unit failed: then dracut itself gave up, and its unit that has not ended is the cause. Nothing is
# known about the result of other units that have not ended.
add_waiting_unit() {
  for file in "$entries"/begun/dracut-*; do
    stage=${file##*/}
    [ -e "$file" ] && [ ! -e "$entries/ended/$stage" ] || continue
    UNIT=$stage.service cause=$stage.service cause_result='still waiting' time=$now
    IFS= read -r cause_invocation <"$file"
    set_message "$(print_last_lines "$cause" "$cause_invocation" 3)"
    end_stage failure ''
    return
  done
}

print_stage_start() { # <microseconds>
  begin_entry "$1"
  escape_backslashes "$stage"
  printf '"stage":"%s","phase":"stage start",%s%s}\n' "$escaped" "$ids" "${id:+",\"stageId\":\"$id\""}"
}

print_stage_end() { # <microseconds> <result> <JSON members of the end>
  begin_entry "$1"
  escape_backslashes "$stage"
  printf '"stage":"%s","phase":"stage end","result":"%s",%s%s%s%s}\n' \
    "$escaped" "$2" "$message_field" "$3" "$ids" "${id:+",\"stageId\":\"$id\""}"
}

# Sets `escaped` to the JSON form of a unit's name: the backslash is its only character that JSON escapes.
escape_backslashes() {
  rest=$1 escaped=''
  while :; do
    case $rest in
    *\\*) escaped=$escaped${rest%%\\*}\\\\ rest=${rest#*\\} ;;
    *) break ;;
    esac
  done
  escaped=$escaped$rest
}

# Prints the lines of the standard input as the content of one JSON string.
json_text() {
  sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/	/ /g' -e 's/[[:cntrl:]]//g' | sed -e :a -e '$!N' -e '$!ba' -e 's/\n/\\n/g'
}

# Sets `message_field` to the JSON member of a message. An entry has at most 4096 bytes, and each of the message's three
# lines may become twice as long in JSON, so a line is cut to 500 bytes.
set_message() {
  message_field=$(printf '%s\n' "$1" | shorten_lines 500 | json_text)
  message_field=${message_field:+"\"errorMessage\":\"$message_field\","}
}

# Cuts each line between two characters. A server would reject a report with an incomplete character.
shorten_lines() { # <maximum bytes>
  sed -e "/^.\{$(($1 + 1))\}/!b" -e "s/^\(.\{$1\}\).*/\1/" -e "$cut_character"
}

# Prints the beginning of an entry, and sets `ids` to the members that end it.
begin_entry() { # <microseconds since boot>
  format_time $((clock + $1))
  pad $(($1 / 10000 % 100)) 2
  ids="\"bootId\":\"$boot\",\"uptime\":$(($1 / 1000000)).$padded"
  [ -n "$boot" ] || ids=${ids#*,}
  printf '{"timestamp":"%s",' "$formatted"
}

# Prints the uptime. The 1 before the hundredths, and the 100, keep a leading zero from making the number octal.
print_uptime() { # in microseconds
  IFS=' .' read -r seconds hundredths _ </proc/uptime
  printf '%s\n' "$((seconds * 1000000 + (1$hundredths - 100) * 10000))"
}

# Sets `clock` to the time of the boot in microseconds since 1970: the difference of the two timestamps of a journal
# entry. Without a journal it is the kernel's `btime`, which has whole seconds.
set_clock() {
  clock=0
  if has_systemd; then
    real=0 monotonic=0
    journalctl --boot --quiet --no-pager --output=export --lines=1 >"$work/clock" 2>/dev/null || :
    while IFS= read -r line; do
      case $line in
      __REALTIME_TIMESTAMP=*) real=${line#*=} ;;
      __MONOTONIC_TIMESTAMP=*) monotonic=${line#*=} ;;
      esac
    done <"$work/clock"
    [ "$monotonic" -eq 0 ] || clock=$((real - monotonic))
  fi
  [ "$clock" -eq 0 ] || return 0
  while read -r name value; do
    [ "$name" != btime ] || clock=$((value * 1000000))
  done </proc/stat
}

# Sets `formatted` to a time in UTC (RFC 3339), since an initramfs may have no date(1). The calculation is
# civil_from_days of Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
format_time() { # <microseconds since 1970>
  at=$(($1 / 1000000))
  days=$((at / 86400 + 719468)) rest=$((at % 86400))
  era=$((days / 146097)) day=$((days % 146097))
  year=$(((day - day / 1460 + day / 36524 - day / 146096) / 365))
  day=$((day - (365 * year + year / 4 - year / 100)))
  month=$(((5 * day + 2) / 153))
  day=$((day - (153 * month + 2) / 5 + 1))
  year=$((year + era * 400 + (month > 9)))
  month=$((month < 10 ? month + 3 : month - 9))
  formatted=$year
  for part in -$month -$day T$((rest / 3600)) :$((rest / 60 % 60)) :$((rest % 60)); do
    pad "${part#?}" 2
    formatted=$formatted${part%"${part#?}"}$padded
  done
  pad $(($1 / 1000 % 1000)) 3
  formatted=$formatted.${padded}Z
}

# Sets `padded` to a number with leading zeros. A command substitution would need a process for each entry.
pad() { # <number> <digits>
  padded=$1
  while [ "${#padded}" -lt "$2" ]; do
    padded=0$padded
  done
}

# Masks the token, and passwords and tokens in common forms, in the standard input. Names and values may be in quotes, or
# in JSON within a string, which has a backslash before each quote. A password in a URL may contain @.
mask() {
  literal_token=$(printf '%s' "$token" | sed 's/[.+]/[&]/g')
  sed -E -e "s|${literal_token:-service_record.token=[^ ]*}|***|g" \
    -e 's#(://[^/ :@]*:)[^/ ]*@#\1***@#g' \
    -e 's/((token|passwd|password|secret|key)\\?["'\'']?[=:] ?\\?["'\'']?)[^ &",]+/\1***/gI' \
    -e 's/(Bearer|Basic) [^ ]+/\1 ***/g'
}

print_to_console() {
  printf 'service-record: %s\n' "$1" >/dev/console
}

# Sends a message to the journal, if the initramfs has logger(1). units/service-record.catalog explains it by its id.
log() { # <priority> <id> <text> <result>
  ! command -v logger >/dev/null 2>&1 ||
    printf '%s\n' "MESSAGE=$3" "PRIORITY=$1" "MESSAGE_ID=$2" SYSLOG_IDENTIFIER=service-record \
      SERVICE_RECORD_SERVICE=initramfs "SERVICE_RECORD_STAGE=${cause-}" "SERVICE_RECORD_RESULT=$4" |
    logger --journald >/dev/null 2>&1
}

# Writes the report to the files `report` (the body), `type` (its Content-Type), `target` (the URL) and `key` (the
# idempotency key).
write_report() {
  # The summary comes last, because a server that shortens the text keeps its end.
  {
    if has_systemd; then
      printf 'last lines of the journal:\n'
      journalctl --boot --quiet --no-pager --output=short-monotonic --lines=40 2>/dev/null | mask
      printf '\nlast lines of the failed unit:\n'
    fi
    lines=$(print_last_lines "$cause" "$cause_invocation" 20)
    printf '%s\n%s: %s\n' "$lines" "$summary" "${lines##*"$newline"}"
  } | shorten_lines 1000 >"$work/log"
  format_time $((clock + now))
  boot=''
  IFS= read -r boot </proc/sys/kernel/random/boot_id || boot=unknown
  text=$(json_text <"$work/log")
  rm -f "$work/posted"
  type=application/json
  case $url in
  */api/update*)
    target=$url
    escape_backslashes "$summary"
    printf '{"name":"%s","status":"initramfs failed: %s","logs":"%s"}' "$host" "$escaped" "$text" >"$work/report"
    ;;
  */api/assisted-install*)
    [ -n "$host_id" ] || IFS= read -r host_id </sys/class/dmi/id/product_uuid || :
    host_id=$(printf '%s' "$host_id" | sed y/ABCDEF/abcdef/)
    target="${url%%/api/assisted-install*}/api/assisted-install/v2/clusters/$cluster/logs?logs_type=host_boot"
    target="$target&host_id=$host_id${infra_env:+"&infra_env_id=$infra_env"}"
    type="multipart/form-data; boundary=$boot"
    {
      printf -- '--%s\r\nContent-Disposition: form-data; name="upfile"; filename="initramfs.log"\r\n' "$boot"
      printf 'Content-Type: text/plain\r\n\r\n'
      cat "$work/log"
      printf '\r\n--%s--\r\n' "$boot"
    } >"$work/report"
    ;;
  *)
    target=${url%/}/api/v1/hosts/$host/steps
    printf '{"name":"Initramfs","label":"initramfs","status":"failed","boot":"%s","time":"%s","logs":"%s"}' \
      "$boot" "$formatted" "$text" >"$work/report"
    ;;
  esac
  printf '%s\n' "$target" >"$work/target"
  # The server counts a report with the same key once. Another failure in this boot has another key.
  printf '%s\n' "initramfs-$boot-$now" >"$work/key"
  printf '%s\n' "$type" >"$work/type"
}

# Sends the report once. Writes the HTTP status or an error message to the file `answer`. If the report has arrived, or
# the server will never accept it, also writes the file `posted`, so that it is not sent again.
post() { # <seconds>
  if command -v curl >/dev/null 2>&1; then
    post_by_curl "$1"
  elif command -v bash >/dev/null 2>&1; then
    # The token is passed in the environment, because every process can read arguments.
    SERVICE_RECORD_TOKEN=$token bash "$0" post_by_bash "$1" >"$work/answer" 2>/dev/null
  else
    echo 'neither curl nor bash is in the initramfs' >"$work/answer"
  fi
  read -r status _ <"$work/answer"
  case $status in
  2??) echo "$status" >"$work/posted" ;;
  400 | 401 | 403 | 404 | 413 | 422) echo "refused with $status" >"$work/posted" ;;
  esac
}

post_by_curl() { # <seconds>
  read -r target <"$work/target"
  read -r key <"$work/key"
  IFS= read -r type <"$work/type"
  header='Authorization: Bearer'
  case $target in
  */api/assisted-install*) header='X-Secret-Key:' ;;
  esac
  # curl reads the token from standard input, because every process can read arguments.
  ca=''
  [ ! -r "$settings/ca.pem" ] || ca="cacert = \"$settings/ca.pem\""
  printf '%s\n' "${token:+header = \"$header $token\"}" "$ca" |
    curl -sS -m "$1" --connect-timeout 5 -K - -H "Content-Type: $type" -H "Idempotency-Key: $key" --data-binary "@$work/report" \
      -o "$work/body" -w '%{http_code}\n' "$target" >"$work/answer" 2>"$work/error" || cat "$work/error" >"$work/answer"
}

# Sends the report over HTTP without TLS, through bash's /dev/tcp. Only bash runs this function.
# shellcheck disable=SC3025 # dash and busybox have no /dev/tcp
post_by_bash() { # <seconds>
  token=${SERVICE_RECORD_TOKEN-}
  read -r target <"$work/target"
  read -r key <"$work/key"
  IFS= read -r type <"$work/type"
  case $target in
  http://*) ;;
  *)
    echo 'the initramfs has no curl, and bash alone cannot use https'
    return
    ;;
  esac
  rest=${target#http://}
  path=/${rest#*/} rest=${rest%%/*}
  address=$rest port=80
  case $rest in
  \[*) address=${rest#?} address=${address%%]*} port=${rest##*]} port=${port#:} ;;
  *:*) address=${rest%%:*} port=${rest##*:} ;;
  esac
  header='Authorization: Bearer'
  case $path in
  /api/assisted-install*) header='X-Secret-Key:' ;;
  esac
  end=$(printf '\r\n.')
  end=${end%.}
  answer='' body=$(cat "$work/report" && echo .)
  body=${body%.}
  # If the host does not answer, connecting takes minutes, and bash cannot limit that time. So a child process kills
  # this process. That also limits the read.
  (sleep "$1" && kill "$$") >/dev/null 2>&1 &
  guard=$!
  echo "no connection to $rest"
  if exec 3<>"/dev/tcp/$address/${port:-80}"; then
    printf 'POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: %s\r\nIdempotency-Key: %s\r\nContent-Length: %s\r\n%s\r\n%s' \
      "$path" "$rest" "$type" "$key" "${#body}" "${token:+$header $token$end}" "$body" >&3
    IFS=' ' read -r _ answer _ <&3
  fi
  kill "$guard"
  [ -z "$answer" ] || echo "$answer" >"$work/answer"
}

print_post_result() {
  read -r target <"$work/target"
  read -r answer <"$work/answer"
  posted=''
  [ ! -e "$work/posted" ] || read -r posted <"$work/posted"
  case $posted in
  2??) outcome="reported to ${target%%/api/*}" result=delivered ;;
  *) outcome="not reported to ${target%%/api/*}: ${posted:-$answer}" result=undelivered ;;
  esac
  print_to_console "$outcome"
  log 5 7e8f2a3af1e2f30d4cae356bb60ee28c "$outcome" "$result"
}

main "$@"
exit 0
