# shellcheck shell=sh
# shellcheck disable=SC2154 # what stands before this sets service_record_...
# Steps of this installation: recorded in a file, and reported to a collector. For bash, dash and busybox sh.
#
#   service_record_step NAME init|done|failed [PERCENTAGE [LOGS]]
#   service_record_end [success|failure]
#
# Neither fails, writes to the terminal, or takes longer than service_record_limit seconds. A report that did not
# arrive is kept and sent again in the background and with the next steps, in order; these wait for two seconds only.
# The collector counts it once: each report has an id.
#
# With service_record_log=FILE, the last lines of this log go to the collector while a step is open: see
# service_record_watch.
#
# A thousand hosts on one machine report in a minute because a report starts few processes: prefer the shell's own
# words to a program or a subshell.

service_record_newline=$(printf '\n.')
service_record_newline=${service_record_newline%.}
service_record_patience=$service_record_limit
service_record_begun=no
service_record_number=0

service_record_step() {
  service_record_do step "${1-}" "${2-}" "${3-}" "${4-}"
}

service_record_end() {
  service_record_do end "" "${1-success}" "" ""
}

service_record_do() {
  service_record_arrived=no
  service_record_number=$((service_record_number + 1))
  if (service_record_now "$@") </dev/null >/dev/null 2>&1; then
    service_record_arrived=yes
  fi
  service_record_patience=2
  [ "$service_record_arrived" = no ] || service_record_patience=$service_record_limit
  service_record_begun=$$
  return 0
}

# In a shell of its own: whatever options and traps the template has set, here they are not.
service_record_now() {
  set +x +e +u
  set +C
  # shellcheck disable=SC3047 # in bash alone
  [ -z "${BASH_VERSION-}" ] || trap - ERR DEBUG
  unset IFS
  export LC_ALL=C
  newline=$service_record_newline
  what=$1 name=$2 status=$3 percentage=$4 logs=$5
  if [ "${#logs}" -gt 1000 ]; then
    logs=$(printf '%s' "$logs" | tail -c 1000)
  fi
  time=$(date -u '+%Y-%m-%dT%H:%M:%SZ %s')
  now=${time##* } time=${time% *}
  case $now in
  # An installer without `date` has no time.
  '' | *[!0-9]*) now=0 ;;
  esac
  directory=${SERVICE_RECORDS_DIR:-$service_record_directory}
  boot=''
  read -r boot </proc/sys/kernel/random/boot_id
  spool=$directory/.$service_record_service.reports
  # Names the sender of a log's last lines; not beside the queue, which is removed before the step may be over.
  open=$directory/.$service_record_service.open
  target=''
  umask 027
  [ -d "$directory" ] || mkdir -p "$directory"
  [ "$what" = again ] || service_record_write
  umask 077
  case $what in
  step)
    begins=$status
    service_record_unwatch
    service_record_report
    answer=$?
    [ "$begins" != init ] || service_record_watch
    return "$answer"
    ;;
  again) service_record_drain "$service_record_patience" "$now" ;;
  end)
    service_record_clean
    [ -n "${service_record_log_stays-}" ] || service_record_unwatch
    return 0
    ;;
  esac
}

# Spell a text as it stands in a URL, and in JSON. A program for each sign would take seconds.
service_record_spell() {
  rest=$1 in_url='' in_json=''
  while [ -n "$rest" ]; do
    after=${rest#?}
    char=${rest%"$after"}
    rest=$after
    json=$char
    case $char in
    [A-Za-z0-9._~-])
      in_url=$in_url$char in_json=$in_json$char
      continue
      ;;
    ' ') code=20 ;; '!') code=21 ;; '#') code=23 ;; '$') code=24 ;; '%') code=25 ;; '&') code=26 ;; "'") code=27 ;;
    '(') code=28 ;; ')') code=29 ;; '*') code=2A ;; '+') code=2B ;; ',') code=2C ;; '/') code=2F ;; ':') code=3A ;;
    ';') code=3B ;; '<') code=3C ;; '=') code=3D ;; '>') code=3E ;; '?') code=3F ;; '@') code=40 ;; '[') code=5B ;;
    ']') code=5D ;; '^') code=5E ;; '`') code=60 ;; '{') code=7B ;; '|') code=7C ;; '}') code=7D ;;
    '"') code=22 json='\"' ;;
    \\) code=5C json="\\\\" ;;
    "$newline") code=0A json='\n' ;;
    *)
      # Some shells take bytes above 127 for negative numbers.
      number=$(($(printf '%d' "'$char") & 255))
      code=$(printf '%02X' "$number")
      [ "$number" -ge 32 ] || json=' '
      ;;
    esac
    in_url=$in_url%$code in_json=$in_json$json
  done
}

service_record_write() {
  file=$directory/$service_record_service.json
  before=''
  if [ -s "$file" ]; then
    IFS= read -r first <"$file"
    case $first in
    '['*) return ;;
    esac
    before=$newline
  fi
  IFS=- read -r one two three four five </proc/sys/kernel/random/boot_id
  ids="\"bootId\":\"$one$two$three$four$five\",\"pid\":$$"
  [ -n "$boot" ] || ids="\"pid\":$$"
  if [ "$service_record_begun" != "$$" ]; then
    printf '%s{"timestamp":"%s","phase":"service start",%s,"recorder":"snippet/1"}\n' "$before" "$time" "$ids" >>"$file"
    before=''
  fi
  service_record_spell "$logs"
  message=${in_json:+"\"errorMessage\":\"$in_json\","}
  service_record_spell "$name"
  case $what-$status in
  step-init) told="\"stage\":\"$in_json\",\"phase\":\"stage start\"," ;;
  step-done) told="\"stage\":\"$in_json\",\"phase\":\"stage end\",\"result\":\"success\"," ;;
  step-failed) told="\"stage\":\"$in_json\",\"phase\":\"stage end\",\"result\":\"failure\",$message" ;;
  end-success) told="\"phase\":\"service end\",\"result\":\"success\"," ;;
  end-*) told="\"phase\":\"service end\",\"result\":\"failure\"," ;;
  *) return ;;
  esac
  printf '%s{"timestamp":"%s",%s%s}\n' "$before" "$time" "$told" "$ids" >>"$file"
}

# Print the time in seconds; an installer without `date` has none.
service_record_clock() {
  date +%s || echo 0
}

# Queue a report, and send what is queued. Without a place for the queue it is sent once.
service_record_report() {
  service_record_find_target || return 0
  query=action=$service_record_action
  for field in name status percentage logs time; do
    case $field in
    name) value=$name ;;
    status) value=$status ;;
    percentage) value=$percentage ;;
    logs) value=$logs ;;
    time) value=$time ;;
    esac
    service_record_spell "$value"
    query=$query${in_url:+"&$field=$in_url"}
  done
  query="$query&priority=${service_record_priority:-0}"
  # Once for each script: vendor and model of the machine.
  if [ "$service_record_begun" != "$$" ]; then
    vendor='' model=''
    read -r vendor <"${SERVICE_RECORD_ROOT-}/sys/class/dmi/id/sys_vendor"
    read -r model <"${SERVICE_RECORD_ROOT-}/sys/class/dmi/id/product_name"
    service_record_spell "${vendor:+$vendor }$model"
    query=$query${in_url:+"&hardware=$in_url"}
  fi
  key=$boot-$$-$time-$service_record_number
  if ! printf '%s %s\n' "$key" "$query" >>"$spool"; then
    spool='' limit=$service_record_patience
    service_record_send
    return
  fi
  service_record_drain "$service_record_patience" "$now" && return
  service_record_continue
  return 1
}

# Send the reports that are queued, in order, for $1 seconds from the time $2; fail when one did not arrive.
# The queue only grows: a file beside it has the number of reports that arrived. Two shells that send at the same
# time may send a report twice, which the collector recognizes.
service_record_drain() {
  service_record_find_target || return 0
  now=${2:-$(service_record_clock)}
  stop=$((now + $1))
  # The collector's Retry-After: until then nothing is sent, unless the clock was set back.
  wait=0
  [ ! -r "$spool.wait" ] || read -r wait <"$spool.wait"
  case $wait in
  '' | *[!0-9]*) wait=0 ;;
  esac
  [ "$wait" -le "$now" ] || [ "$wait" -gt "$((now + 300))" ] || return 1
  sent=0
  [ ! -r "$spool.sent" ] || read -r sent <"$spool.sent"
  case $sent in
  '' | *[!0-9]*) sent=0 ;;
  esac
  line=0
  while IFS=' ' read -r key query; do
    line=$((line + 1))
    [ "$line" -gt "$sent" ] || continue
    now=${now:-$(service_record_clock)}
    limit=$((stop - now))
    [ "$limit" -gt 0 ] || return 1
    now=''
    service_record_send || return 1
    printf '%s\n' "$line" >"$spool.sent"
  done <"$spool"
}

# Remove the queue when all of it has arrived.
service_record_clean() {
  [ -r "$spool.sent" ] || return 0
  line=0
  while read -r key query; do
    line=$((line + 1))
  done <"$spool"
  read -r sent <"$spool.sent"
  [ "$sent" != "$line" ] || rm -f "$spool" "$spool".*
}

# Send again in the background, for service_record_background seconds, unless another shell does.
service_record_continue() {
  [ "${service_record_background:-60}" -gt 0 ] || return 0
  now=$(service_record_clock)
  if [ -r "$spool.sender" ] && read -r sender stop <"$spool.sender"; then
    [ "$now" -ge "$stop" ] || ! kill -0 "$sender" || return 0
  fi
  service_record_resend &
  printf '%s %s\n' "$!" "$((now + 2 * ${service_record_background:-60}))" >"$spool.sender"
}

service_record_resend() {
  left=${service_record_background:-60} pause=2
  while [ "${after:-$pause}" -le "$left" ]; do
    sleep "${after:-$pause}" || return
    left=$((left - ${after:-$pause})) pause=$((pause * 2))
    service_record_drain 10 && return
  done
}

# In the background, send the last lines of $service_record_log whenever they have changed: every 15 seconds, while
# the step is open, for at most an hour. The sender ends with its script, because in a chroot it would keep the disks
# of the new system busy; with service_record_log_stays=yes it stays, for a step that ends in a later script.
service_record_watch() {
  [ -n "${service_record_log-}" ] && [ -n "$spool" ] && service_record_find_target || return 0
  watch=$boot-$$-$service_record_number
  service_record_spell "$name"
  stage=$in_url
  service_record_spell "$service_record_service"
  target="${target%/steps}/last-words?service=$in_url&stage=$stage"
  service_record_send_lines &
  printf '%s %s\n' "$watch" "$!" >"$open"
}

# End the sender of the step before, unless it is of an earlier boot.
service_record_unwatch() {
  [ -r "$open" ] && read -r watch sender <"$open" || return 0
  : >"$open"
  rm -f "$open"
  case $watch in
  "$boot"-*) kill "$sender" ;;
  esac
}

service_record_send_lines() {
  left=${service_record_log_time:-3600} pause=${service_record_log_pause:-15}
  spool='' key='' before=''
  trap 'kill "$sleeping"; exit' TERM
  while [ "$left" -gt 0 ]; do
    left=$((left - pause))
    # The shell waits for a program to end before it obeys a signal, but not for one in the background.
    sleep "$pause" &
    sleeping=$!
    wait "$sleeping"
    read -r named sender <"$open" && [ "$named" = "$watch" ] || return
    [ -n "${service_record_log_stays-}" ] || kill -0 "$$" || return
    # Not at the beginning: curl would take @FILE for the name of a file.
    query=$newline$(service_record_read_lines)
    [ "$query" != "$before" ] || continue
    before=$query limit=5
    service_record_send
  done
}

# Print the last 20 lines of the log, 2000 bytes at most, without lines that may have a secret. The collector masks
# secrets, too.
service_record_read_lines() {
  lines=$(tail -c 4000 "$service_record_log")
  # The first line may be cut, and with it the word that marks a secret.
  if [ "${#lines}" -ge 2000 ]; then
    case $lines in
    *"$newline"*) lines=${lines#*"$newline"} ;;
    *) lines='' ;;
    esac
  fi
  printf '%s\n' "$lines" | tail -n 20 | while IFS= read -r row; do
    case $row in
    *[Pp][Aa][Ss][Ss][Ww]* | *[Pp][Aa][Ss][Ss][Pp]* | *[Ss][Ee][Cc][Rr][Ee][Tt]* | *[Tt][Oo][Kk][Ee][Nn]* | *[Aa]uthorization*)
      row='(a line that may have a secret)'
      ;;
    *[!A-Za-z0-9+/=]*) ;;
    ????????????????????????????????????????*) row='(a line that may have a secret)' ;;
    esac
    printf '%s\n' "$row"
  done | tail -c 2000
}

# Set $target, where this host's reports go, and $token. Fail without a collector.
service_record_find_target() {
  [ -z "$target" ] || return 0
  target=$(service_record_url)
  [ -n "$target" ] || return 1
  host=$(service_record_host)
  [ -n "$host" ] || read -r host </proc/sys/kernel/hostname
  token=$(service_record_token)
  case $token in
  *[\"\\]*) token='' ;;
  esac
  service_record_spell "$host"
  target=${target%/}/api/v1/hosts/$in_url/steps
}

# Send one report within $limit seconds. A report that the collector will never take counts as sent.
service_record_send() {
  headers=${spool:+$spool.answer}
  if command -v curl >/dev/null; then
    service_record_curl >/dev/null 2>"${headers:-/dev/null}"
    answer=$?
  else
    service_record_fetch >/dev/null 2>"${headers:-/dev/null}" &
    fetching=$!
    service_record_guard &
    guarding=$!
    wait "$fetching"
    answer=$?
    kill "$guarding"
  fi
  status='' after=''
  [ "$answer" -ne 0 ] || return 0
  [ -r "$headers" ] || return 1
  while IFS= read -r row; do
    case $row in
    *HTTP/[12]*' '[1-5][0-9][0-9]*)
      rest=${row#*HTTP/* }
      status=${rest%"${rest#???}"}
      ;;
    *[Rr][Ee][Tt][Rr][Yy]-[Aa][Ff][Tt][Ee][Rr]:*) after=$(printf '%s' "${row##*:}" | tr -dc '[:digit:]') ;;
    esac
  done <"$headers"
  case $after in
  0 | ?????*) after='' ;;
  ???? | [3-9]??) after=300 ;;
  esac
  case $status in
  400 | 413 | 422) return 0 ;;
  esac
  now=$(service_record_clock)
  [ -z "$after" ] || [ "$now" -eq 0 ] || printf '%s\n' "$((now + after))" >"$spool.wait"
  return 1
}

# curl keeps its limit itself. The token is no argument, which all users could read.
service_record_curl() {
  printf '%s\n' "${token:+header = \"Authorization: Bearer $token\"}" "header = \"Idempotency-Key: $key\"" \
    "${service_record_ca:+cacert = \"$service_record_ca\"}" "${headers:+dump-header = \"$headers\"}" |
    curl -f -s -m "$limit" --connect-timeout 5 -K - --data "$query" "$target"
}

# The guard limits the others; they take the place of their shell, so that it finds them.
# Status and headers of the answer come to a file, or to stderr.
service_record_fetch() {
  header="Authorization: Bearer $token"
  case $(wget --version) in
  *GNU*)
    exec wget -S -O /dev/null -T "$limit" -t 1 ${service_record_ca:+"--ca-certificate=$service_record_ca"} \
      ${token:+"--header=$header"} "--header=Idempotency-Key: $key" --post-data "$query" "$target"
    ;;
  esac
  # Of busybox; some builds of it crash at -T, and not all of them can POST. Without it, no lines are sent.
  case $target in
  */steps) set -- "$target?$query" ;;
  *) set -- --post-data "$query" "$target" ;;
  esac
  if command -v wget; then
    exec wget -q -O /dev/null ${token:+--header "$header"} --header "Idempotency-Key: $key" "$@"
  fi
  exec busybox wget -q -O /dev/null ${token:+--header "$header"} --header "Idempotency-Key: $key" "$@"
}

service_record_guard() {
  left=$limit
  while [ "$left" -gt 0 ]; do
    sleep 1
    left=$((left - 1))
  done
  kill "$fetching"
}
