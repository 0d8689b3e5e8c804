#!/bin/sh
# shellcheck disable=SC2329 # main calls functions by the name in its first argument
# Record the units of an initramfs, and report its failure. For bash, dash and busybox sh.
#
#   service-record-initramfs.sh failure     before the emergency shell: record, print the verdict, report it
#   service-record-initramfs.sh retry       beside the emergency shell: send the report again until it arrives
#   service-record-initramfs.sh handover    early: leave what systemd of the real root needs to record this
#   service-record-initramfs.sh record      in the real root: add the record of the initramfs to those of the host
#
# An initramfs has few programs. Needed are cat, ln, mkdir, rm, sed and sleep; with systemd also journalctl.
# Without arguments that enable it on the kernel's command line, or files in the initramfs, nothing is done.
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
# A command of sed that removes the last character of a line, if it is not ASCII.
cut_character=$(printf 's/[\300-\377][\200-\277]*$//')
readonly cut_character
# systemd's messages about units, by MESSAGE_ID: see sd-messages.h.
readonly starting=7d4958e842da4a758f6c1cdc7b36dcc5
readonly started=39f53479d3a045ac8e11786248231fbf
readonly not_started=be02cf6855d2428ba40df7e9d022f03d
readonly exited=98e322203f7a4ed290d09fe03c09fe15
readonly ended_badly=d9b373ed55a64feb8242e02dbe79a49c

main() { # <what> [argument...]
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

# Values on the command line of the kernel take precedence over files in the initramfs.
read_settings() {
  enabled=no url='' host='' token='' cluster='' infra_env='' host_id=''
  for name in url host token cluster infra_env host_id; do
    # shellcheck disable=SC2229 # it reads the variable that is named so
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
  # A token is sent in a header, and replaced in texts by sed.
  case $token in
  *[!A-Za-z0-9._~+/=-]*) token='' ;;
  esac
  [ -n "$host" ] || read_host_name
  host=$(printf '%s' "$host" | sed 's/[^A-Za-z0-9._-]/-/g')
}

# An initramfs often has no name yet. Then the hardware's id is the name.
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
  now=$(uptime_microseconds)
  add_run failure
  printf '%s\n' "$now" >"$work/last-failure"
  : >"$work/recorded"
  read_cause
  say "the initramfs failed: $summary"
  log 3 552f6935de6c6a1ffde2dd31661a371e "the initramfs failed: $summary" failed
  last_lines "$cause" "$cause_invocation" 3 | while IFS= read -r line; do
    say "| $line"
  done
  [ -n "$url" ] || return 0
  write_report
  post 5
  say_whether_posted
}

# Send the report again: an operator may bring up the network. After half an hour nobody waits for it.
# On a very slow host `failure` may have been stopped by its time limit: then do its work, without a limit.
retry() {
  [ -e "$work/recorded" ] || failure
  [ -r "$work/report" ] || return 0
  tries=0
  while [ ! -e "$work/posted" ] && [ "$tries" -lt 120 ]; do
    sleep 15
    tries=$((tries + 1))
    post 10
    [ ! -e "$work/posted" ] || say_whether_posted
  done
}

# The journal of the initramfs is still there in the real root. So the boot never waits: this only leaves a unit.
handover() {
  units=/run/systemd/system
  # Others have to read what systemd reads.
  (umask 022 && mkdir -p "$units/multi-user.target.wants")
  cat "$0" >"$work/record.sh"
  (umask 022 && printf '%s\n' '[Unit]' 'Description=Record what the units of the initramfs did' \
    'ConditionPathExists=!/etc/initrd-release' 'RequiresMountsFor=/var/log/openshift' 'After=local-fs.target' \
    '[Service]' "ExecStart=-/bin/sh $work/record.sh record" >"$units/service-record-initramfs.service")
  ln -sf ../service-record-initramfs.service "$units/multi-user.target.wants/service-record-initramfs.service"
  # The settings stay behind in the initramfs, but `record` masks the token as well. Only root can read this directory.
  printf '%s\n' "$token" >"$work/token"
  uptime_microseconds >"$work/handover"
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
    # A record that exists may end in a torn line.
    [ ! -s "$directory/initramfs.json" ] || printf '\n' >>"$directory/initramfs.json"
    cat "$records/initramfs.json" >>"$directory/initramfs.json"
  fi
  rm -rf "$work"
}

# Print the last lines that a unit itself logged; without any, those that systemd logged about it.
last_lines() { # <unit> <invocation> <number>
  if ! has_systemd; then
    # shellcheck disable=SC2016 # $ is sed's last line
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
    [ "$1" != dracut-initqueue.service ] || missing_devices
  } | mask
}

# Print the devices that dracut still waits for. It has a file for each.
missing_devices() {
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

# Print the entries of one run, from the microsecond `since` to `now`. Its stages are the starts of units: of a daemon
# until it runs, of any other service until it ends. Leave the cause of a failure in the file `cause`.
write_run() { # <result>
  set_clock
  boot=''
  IFS= read -r boot </proc/sys/kernel/random/boot_id || :
  boot=$(printf '%s' "$boot" | sed 's/-//g')
  entries=$work/entries
  rm -rf "$entries"
  # A name of a unit may have as many bytes as a name of a file, so these files have no other text in theirs.
  mkdir -p "$entries/begun" "$entries/ended" "$entries/ending" "$entries/failed"
  last_number=0
  cause='' cause_result='' cause_invocation='' begin_at=''
  add_units "$1"
  if [ "$1" = failure ] && [ -z "$cause" ]; then
    add_waiting_unit
  fi
  run_message=''
  if [ "$1" = failure ]; then
    set_message "$(last_lines "$cause" "$cause_invocation" 3)"
    run_message=$message_field
  fi
  printf '%s\n' "$cause" "$cause_result" "$cause_invocation" >"$work/cause"
  begin "${begin_at:-$since}"
  printf '"phase":"service start",%s,"recorder":"initramfs/1"}\n' "$ids"
  # Files are listed in the order of their names.
  for file in "$entries"/[0-9]*; do
    [ ! -e "$file" ] || cat "$file"
  done
  # The last stage that failed is the one in which the run failed.
  [ ! -e "$entries/cause" ] || cat "$entries/cause"
  begin "$now"
  printf '"phase":"service end","result":"%s",%s%s}\n' "$1" "$run_message" "$ids"
  rm -rf "$entries"
}

read_cause() {
  { IFS= read -r cause && IFS= read -r cause_result && IFS= read -r cause_invocation; } <"$work/cause"
  summary="${cause:-no unit failed}${cause_result:+ ($cause_result)}"
}

# Read systemd's messages about units; of a boot that succeeded, up to the switch to the real root.
add_units() { # <result>
  has_systemd || return 0
  journalctl --boot --quiet --no-pager --output=export \
    --output-fields=UNIT,MESSAGE_ID,INVOCATION_ID,JOB_RESULT,UNIT_RESULT,EXIT_CODE,EXIT_STATUS _PID=1 \
    "MESSAGE_ID=$starting" "MESSAGE_ID=$started" "MESSAGE_ID=$not_started" "MESSAGE_ID=$exited" \
    "MESSAGE_ID=$ended_badly" >"$work/events" 2>/dev/null || :
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
  # Without the switch it is unknown which of the units are those of the initramfs.
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
    stage_start "$time" >"$file"
    ;;
  "$started")
    [ -r "$entries/begun/$stage" ] && [ ! -e "$entries/ended/$stage" ] || return 0
    end_stage success ''
    ;;
  "$exited")
    case $EXIT_CODE in
    exited) ending="\"exitCode\":$EXIT_STATUS," ;;
    *) ending="\"signal\":\"$(kill -l "$EXIT_STATUS" 2>/dev/null || echo unknown)\"," ;;
    esac
    printf '%s\n' "$ending" >"$entries/ending/$stage"
    ;;
  "$ended_badly") fail_stage "$UNIT_RESULT" "\"serviceResult\":\"$UNIT_RESULT\"," ;;
  "$not_started")
    # What only missed a dependency is a consequence. The other message about a unit says more.
    [ "$JOB_RESULT" = dependency ] || [ -e "$entries/failed/$stage" ] || fail_stage "$JOB_RESULT" ''
    ;;
  esac
}

fail_stage() { # <result> <fields about its end>
  : >"$entries/failed/$stage"
  set_message "$(last_lines "$UNIT" "$INVOCATION_ID" 3)"
  ending=''
  [ ! -r "$entries/ending/$stage" ] || IFS= read -r ending <"$entries/ending/$stage"
  [ -n "$cause" ] || cause=$UNIT cause_result=$1 cause_invocation=$INVOCATION_ID
  end_stage failure "$ending$2"
}

# Set `file` to the name of the next entry: a number, in the order of the journal.
name_entry() {
  last_number=$((last_number + 1))
  pad "$last_number" 8
  file=$entries/$padded
}

# A daemon that ends badly has started before: its end takes the place of the one that its start had.
end_stage() { # <result> <fields about its end>
  id=''
  [ ! -r "$entries/begun/$stage" ] || IFS= read -r id <"$entries/begun/$stage"
  file=''
  [ ! -r "$entries/ended/$stage" ] || IFS= read -r file <"$entries/ended/$stage"
  [ -z "$file" ] || rm -f "$file"
  name_entry
  [ "$1" = success ] || [ "$cause" != "$UNIT" ] || file=$entries/cause
  printf '%s\n' "$file" >"$entries/ended/$stage"
  stage_end "$time" "$1" "$2" >"$file"
}

# No unit failed: dracut gave up by itself, and the part of it that has not ended is the cause. Of any other unit
# that has not ended, no result is known.
add_waiting_unit() {
  for file in "$entries"/begun/dracut-*; do
    stage=${file##*/}
    [ -e "$file" ] && [ ! -e "$entries/ended/$stage" ] || continue
    UNIT=$stage.service cause=$stage.service cause_result='still waiting' time=$now
    IFS= read -r cause_invocation <"$file"
    set_message "$(last_lines "$cause" "$cause_invocation" 3)"
    end_stage failure ''
    return
  done
}

stage_start() { # <microseconds>
  begin "$1"
  escape_backslashes "$stage"
  printf '"stage":"%s","phase":"stage start",%s%s}\n' "$escaped" "$ids" "${id:+",\"stageId\":\"$id\""}"
}

stage_end() { # <microseconds> <result> <fields about its end>
  begin "$1"
  escape_backslashes "$stage"
  printf '"stage":"%s","phase":"stage end","result":"%s",%s%s%s%s}\n' \
    "$escaped" "$2" "$message_field" "$3" "$ids" "${id:+",\"stageId\":\"$id\""}"
}

# Names of units have no other character that JSON escapes.
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

# Print lines as the text of a JSON string.
json_text() {
  sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/	/ /g' -e 's/[[:cntrl:]]//g' | sed -e :a -e '$!N' -e '$!ba' -e 's/\n/\\n/g'
}

# An entry has at most 4096 bytes. Each of these three lines may become twice as long in JSON.
set_message() {
  message_field=$(printf '%s\n' "$1" | shorten_lines 500 | json_text)
  message_field=${message_field:+"\"errorMessage\":\"$message_field\","}
}

# Cut each line between two characters: half a character makes a report invalid for its server.
shorten_lines() { # <bytes of a line>
  sed -e "/^.\{$(($1 + 1))\}/!b" -e "s/^\(.\{$1\}\).*/\1/" -e "$cut_character"
}

# Print the beginning of an entry, and set its ids.
begin() { # <microseconds since boot>
  format_time $((clock + $1))
  pad $(($1 / 10000 % 100)) 2
  ids="\"bootId\":\"$boot\",\"uptime\":$(($1 / 1000000)).$padded"
  [ -n "$boot" ] || ids=${ids#*,}
  printf '{"timestamp":"%s",' "$formatted"
}

uptime_microseconds() {
  IFS=' .' read -r seconds hundredths _ </proc/uptime
  printf '%s\n' "$((seconds * 1000000 + (1$hundredths - 100) * 10000))"
}

# Set `clock` to the time of the boot in microseconds since 1970. The journal has pairs of both clocks; the kernel's
# own account is exact to a second.
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

# Set `formatted` to a time in UTC. There may be no date(1); the calendar is that of days_from_civil, in reverse.
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

# Set `padded` to a number with zeros in front. A substitution would be a process of its own for each entry.
pad() { # <number> <digits>
  padded=$1
  while [ "${#padded}" -lt "$2" ]; do
    padded=0$padded
  done
}

# Mask the token, and what looks like a secret.
mask() {
  literal_token=$(printf '%s' "$token" | sed 's/[.+]/[&]/g')
  sed -E -e "s|${literal_token:-service_record.token=[^ ]*}|***|g" \
    -e 's#(://[^/ :@]*:)[^/ @]*@#\1***@#g' \
    -e 's/((token|passwd|password|secret|key)["'\'']?[=:] ?)[^ &",]+/\1***/gI' \
    -e 's/(Bearer|Basic) [^ ]+/\1 ***/g'
}

say() {
  printf 'service-record: %s\n' "$1" >/dev/console
}

# Send a message to the journal, whose id units/service-record.catalog explains. Few initramfs have logger(1).
log() { # <priority> <id> <text> <result>
  ! command -v logger >/dev/null 2>&1 ||
    printf '%s\n' "MESSAGE=$3" "PRIORITY=$1" "MESSAGE_ID=$2" SYSLOG_IDENTIFIER=service-record \
      SERVICE_RECORD_SERVICE=initramfs "SERVICE_RECORD_STAGE=${cause-}" "SERVICE_RECORD_RESULT=$4" |
    logger --journald >/dev/null 2>&1
}

# Write the body of the report, the type of its content, and where it goes.
write_report() {
  # A server that shortens the text keeps its end, so that what matters most is there.
  {
    if has_systemd; then
      printf 'last lines of the journal:\n'
      journalctl --boot --quiet --no-pager --output=short-monotonic --lines=40 2>/dev/null | mask
      printf '\nlast lines of the failed unit:\n'
    fi
    lines=$(last_lines "$cause" "$cause_invocation" 20)
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
  # A report that arrives twice counts once; another failure in this boot is another report.
  printf '%s\n' "initramfs-$boot-$now" >"$work/key"
  printf '%s\n' "$type" >"$work/type"
}

# Send the report within a number of seconds. Leave the file `posted` when it has arrived or was refused for good, and
# in `answer` why not.
post() { # <seconds>
  if command -v curl >/dev/null 2>&1; then
    post_by_curl "$1"
  elif command -v bash >/dev/null 2>&1; then
    # Arguments can be seen by every process.
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
  # The token comes by standard input, for the same reason.
  ca=''
  [ ! -r "$settings/ca.pem" ] || ca="cacert = \"$settings/ca.pem\""
  printf '%s\n' "${token:+header = \"$header $token\"}" "$ca" |
    curl -sS -m "$1" --connect-timeout 5 -K - -H "Content-Type: $type" -H "Idempotency-Key: $key" --data-binary "@$work/report" \
      -o "$work/body" -w '%{http_code}\n' "$target" >"$work/answer" 2>"$work/error" || cat "$work/error" >"$work/answer"
}

# HTTP without TLS, by bash's own sockets. Only bash runs this function.
# shellcheck disable=SC3025
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
  # A connection that nobody answers takes minutes. This ends it, and a read that lasts too long.
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

say_whether_posted() {
  read -r target <"$work/target"
  read -r answer <"$work/answer"
  posted=''
  [ ! -e "$work/posted" ] || read -r posted <"$work/posted"
  case $posted in
  2??) outcome="reported to ${target%%/api/*}" result=delivered ;;
  *) outcome="not reported to ${target%%/api/*}: ${posted:-$answer}" result=undelivered ;;
  esac
  say "$outcome"
  log 5 7e8f2a3af1e2f30d4cae356bb60ee28c "$outcome" "$result"
}

main "$@"
exit 0
