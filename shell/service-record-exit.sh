#!/bin/sh
#
# systemd runs this after every end of a service (units/10-service-record.conf):
#
#     ExecStopPost=-+/usr/bin/timeout --signal=KILL 10 /usr/local/bin/service-record-exit.sh
#
# Most ends need little: a service that recorded its own success needs nothing, and a service that
# does not record itself needs two entries. Both are done here, in POSIX shell, because this runs
# after every service of a boot and a shutdown. Everything else is left to service-record-close.sh,
# which is bash and takes several times as long: wherever this script is not certain, it calls that.
#
# From systemd it has SERVICE_RESULT, EXIT_CODE, EXIT_STATUS (systemd.exec(5)) and INVOCATION_ID.
# It runs at most three programs: stat, grep, and systemctl after a stop. Everything else is done by
# builtins, since a fork and exec costs as much as the rest of this script.

# An ExecCondition= that was not met is not an end: the service was not wanted.
[ "${INVOCATION_ID-}" ] && [ "${SERVICE_RESULT-}" != exec-condition ] || exit 0

# A service has TimeoutStopSec= for what it runs at its end, this script included. After that time systemd
# sends SIGTERM, and after the same time again SIGKILL: a short limit on a busy host is no reason to lose
# the end. The programs that run from here ignore SIGTERM, too.
trap '' TERM

# A copy of /proc/uptime: its content and its ctime are the same moment, by uptime and by the clock. A
# rule of tmpfiles.d makes it early in the boot; this script makes it anew when the clock was set.
clock=/dev/shm/service-record.uptime
# The largest difference by which a clock that was not set differs from itself: inode times are 10 ms
# behind, and a busy processor lets time pass between two system calls.
tolerance_ms=100

main() {
  read -r uptime_before _ </proc/uptime || return
  is_ordinary_end && find_record && has_nothing_in_inbox && has_clock || return
  measure_times && read_entries || return
  if [ "$entries" ]; then
    [ "$EXIT_CODE" = exited ] && is_recorded_success
    return
  fi
  may_be_unaware && find_start && read_stop_request && append_run
}

# A success, or the death by SIGTERM that systemd calls clean. Under these variables the record has
# another name, or waits for the disk.
is_ordinary_end() {
  [ "$SERVICE_RESULT" = success ] || return
  case ${EXIT_CODE-}:${EXIT_STATUS-} in
  exited:0) ;;
  killed:TERM) ;;
  *) return 1 ;;
  esac
  [ ! "${SERVICE_NAME-}${PRE_COMMAND-}${POST_COMMAND-}${SERVICE_RECORDS_SYNC-}" ]
}

# Sets `unit`, `record` and `is_new`.
find_record() {
  unit=
  while read -r line; do
    case $line in
    0::/* | *:name=systemd:/*) unit=${line%/.control} unit=${unit##*/} ;;
    esac
    case $unit in *.service) break ;; esac
  done </proc/self/cgroup
  case $unit in
  service-record-rotate.service) exit 0 ;; # started by this program's other half
  ?*.service) name=${unit%.service} ;;
  *) return 1 ;;
  esac
  case $name in
  -*) name=_${name#?} ;;
  esac
  while :; do # the name of a record has no dot
    case $name in
    *.*) name=${name%%.*}_${name#*.} ;;
    *) break ;;
    esac
  done
  [ "${#name}" -le 200 ] || return

  directory=${SERVICE_RECORDS_DIR:-/var/log/openshift}
  case $directory in
  /*) record=${directory%/}/$name.json ;;
  *) return 1 ;;
  esac
  [ -d "$directory" ] && [ -w "$directory" ] && [ ! -L "$record" ] || return
  # A record that is an array needs a lock and other programs.
  if [ ! -e "$record" ]; then
    is_new=1
    [ "${SERVICE_RECORDS_LAYOUT-}" != array ]
    return
  fi
  is_new=
  [ -f "$record" ] && [ -w "$record" ] || return
  line=
  read -r line <"$record"
  case $line in '['*) return 1 ;; esac
}

# Whether the inbox has nothing to collect: no file of this service, and none that root left there
# while the records could not be written and whose service has ended.
has_nothing_in_inbox() {
  inbox=${SERVICE_RECORDS_INBOX-}
  [ "$inbox" ] || return 0
  [ -d "$inbox" ] || return
  for file in "$inbox"/*.json; do
    [ -e "$file" ] || [ -L "$file" ] || continue
    owner=${file##*/} owner=${owner%.json} owner=${owner%.*}
    [ "$owner" != "$name" ] || return
    # shellcheck disable=SC3067 # not in POSIX, but dash, bash and busybox have -O
    [ ! -O "$file" ] || [ -L "/run/systemd/units/invocation:$owner.service" ] || return
  done
}

# Anybody may make a file in /dev/shm, but nobody may replace one of root's.
has_clock() {
  # shellcheck disable=SC3067
  [ -O "$clock" ] && [ ! -L "$clock" ] && return
  [ ! -e "$clock" ] && [ ! -L "$clock" ] || return # to write to a FIFO would block
  set -C                                           # follows no link
  write_clock
  set +C
  return 1
}

write_clock() {
  read -r uptime _ </proc/uptime && printf '%s\n' "$uptime" >"$clock"
}

# Asks for the time, the times of files and the size of the record, with one program. systemd makes
# the link when it starts the first command of an invocation, and removes it after this script.
measure_times() {
  # shellcheck disable=SC2046 # six words for each file: size, mtime, ctime, date, time, zone
  set -- $(LC_ALL=C TZ=UTC0 stat --format='%s %.3Y %.3Z %y' \
    "/run/systemd/units/invocation:$unit" "$clock" /proc/self/ "$record" 2>/dev/null)
  read -r uptime_after _ </proc/uptime
  case $#:$is_new in
  24:) size=${19} ;;
  18:1) size=0 ;;
  *) return 1 ;;
  esac
  start_ms=${2%.*}${2#*.} start_time=$4T${5%??????}Z
  shift 6
  clock_ms=${3%.*}${3#*.}
  shift 6
  now_ms=${2%.*}${2#*.} now_time=$4T${5%??????}Z

  limit=${SERVICE_RECORDS_MAX_BYTES:-2097152}
  case $limit in
  *[!0123456789]*) return 1 ;;
  esac
  [ "$limit" -eq 0 ] || [ "$size" -le "$limit" ] # beyond it the record has to be rotated
}

# Sets `entries`, what the record has of this invocation. More than a few are not looked at here.
read_entries() {
  entries=
  [ "$size" -gt 0 ] || return 0
  entries=$(LC_ALL=C grep --fixed-strings --text --max-count=200 \
    --regexp="\"invocationId\":\"$INVOCATION_ID\"" -- "$record")
  [ $? -le 1 ] || return
  IFS='
'
  # shellcheck disable=SC2086 # a word for each line
  set -- $entries
  unset IFS
  [ $# -lt 200 ]
}

# Whether the entries are those of one process, and its success the last one of them: then systemd
# and the record agree. An end that names systemd's result is by service-record-close.sh.
is_recorded_success() {
  case $entries in
  *'"phase":"service start"'*'"phase":"service start"'* | *-command* | *'"serviceResult":'*) return 1 ;;
  *'"phase":"service start"'*) ;;
  *) return 1 ;;
  esac
  last=${entries##*
}
  first=${entries%%
*}
  pid=${first#*\"pid\":} pid=${pid%%[,\}]*}
  case $last in # Python records no exit status
  *'"phase":"service end","result":"success","exitCode":0,'*"\"pid\":$pid,"*) ;;
  *'"exitCode":'*) return 1 ;;
  *'"phase":"service end","result":"success",'*"\"pid\":$pid,"*) ;;
  *) return 1 ;;
  esac
}

# Whether the service does not record itself, as far as that can be known here. One that is not root
# ($USER is then set) may have recorded where its sandbox hides the inbox. The other half tells; a
# daemon that was stopped is not worth that.
may_be_unaware() {
  [ "$EXIT_CODE" = killed ] || [ "${USER:-root}" = root ]
}

# Sets `start_uptime` and `end_uptime`, in milliseconds. systemd tells when a service started only by
# the clock, and a clock may be set. If the clock differs from the uptime as much as it did before the
# service started, it was not set since then, and that difference gives the uptime of its start.
find_start() {
  read -r uptime_boot _ <"$clock" || return
  to_ms "$uptime_boot" && boot_ms=$milliseconds || return
  to_ms "$uptime_before" && end_uptime=$milliseconds || return
  to_ms "$uptime_after" && after_ms=$milliseconds || return
  [ $((after_ms - end_uptime)) -le 1000 ] || return # a busy host; nothing is known of the moment between
  difference=$((clock_ms - boot_ms))
  if [ "$difference" -lt $((now_ms - after_ms - tolerance_ms)) ] ||
    [ "$difference" -gt $((now_ms - end_uptime + tolerance_ms)) ]; then
    write_clock # for services that start from now on
    return 1
  fi
  [ "$start_ms" -ge "$clock_ms" ] || return
  start_uptime=$((start_ms - now_ms + after_ms))
  [ "$start_uptime" -le $((after_ms + tolerance_ms)) ] || return
  [ "$start_uptime" -le "$end_uptime" ] || start_uptime=$end_uptime
}

to_ms() { # SECONDS.HUNDREDTHS; a leading zero would make the number octal
  case $1 in
  *[!0123456789.]* | *.*.* | .* | [!0123456789]*) return 1 ;;
  *.??) ;;
  *) return 1 ;;
  esac
  hundredths=${1#*.}
  milliseconds=$((${1%.*} * 1000 + ${hundredths#0} * 10))
}

# Sets `result` and `facts`, the members of the end. A signal that systemd calls clean is a stop, but
# only systemd's jobs tell what was asked for. Of a stop that is no part of a restart or a shutdown, the
# other half finds the reason.
read_stop_request() {
  result=success facts='"exitCode":0' request='' is_shutdown=''
  [ "$EXIT_CODE" = killed ] || return 0
  result=failure facts='"signal":"TERM"'
  # shellcheck disable=SC2046 # four words for each job
  set -- $(systemctl list-jobs --no-legend --plain --full 2>/dev/null)
  while [ $# -ge 4 ]; do
    case "$2 $3 $4" in
    "$unit stop running" | "$unit restart running") request=$3 ;;
    "shutdown.target start "*) is_shutdown=1 ;;
    esac
    shift 4
  done
  [ "$request" != stop ] || { [ "$is_shutdown" ] && request=shutdown; }
}

# Appends start and end with one write. The newline in front ends a line that another writer may have
# left unfinished.
append_run() {
  read -r boot </proc/sys/kernel/random/boot_id || return # with dashes, which journalctl has not
  while :; do
    case $boot in
    *-*) boot=${boot%%-*}${boot#*-} ;;
    *) break ;;
    esac
  done
  line_end='
'
  [ "$size" -gt 0 ] || line_end=
  umask 0137
  run="\"bootId\":\"$boot\",\"invocationId\":\"$INVOCATION_ID\""
  start=$((start_uptime / 10)) end=$((end_uptime / 10))
  printf '%s{"timestamp":"%s","phase":"service start",%s,"uptime":%d.%02d,"recorder":"%s"}
{"timestamp":"%s","phase":"service end","result":"%s",%s,%s,"uptime":%d.%02d%s}
' "$line_end" "$start_time" "$run" $((start / 100)) $((start % 100)) exit/0.2.0 \
    "$now_time" "$result" "$facts" "$run" $((end / 100)) $((end % 100)) \
    ",\"serviceResult\":\"success\"${request:+,\"stopRequest\":\"$request\"}" >>"$record"
  exit 0 # also if that failed: the other half could do no better, and might record half of it twice
}

main 2>/dev/null && exit 0
for close in "${0%/*}/service-record-close.sh" "${0%/*}/../share/service-record/service-record-close.sh"; do
  [ ! -f "$close" ] || exec "$close" "${uptime_before-}"
done
exit 0
