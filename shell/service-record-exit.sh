#!/bin/sh
#
# systemd runs this after every end of a service (units/10-service-record.conf):
#
#     ExecStopPost=-+/usr/bin/timeout --signal=KILL 10 /usr/local/bin/service-record-exit.sh
#
# This script handles the two ordinary ends: a service that recorded its own success needs no entry,
# and a service that does not record itself needs two, its start and its end. It is POSIX shell, and
# fast, because it runs after every service of a boot and a shutdown. In all other cases, and whenever
# it is not certain, it calls service-record-close.sh, which needs bash and takes several times as long.
#
# systemd sets SERVICE_RESULT, EXIT_CODE, EXIT_STATUS (systemd.exec(5)) and INVOCATION_ID.
# The script runs at most three programs: stat, grep, and systemctl after a stop. For everything else
# it uses builtins, since one fork and exec takes as long as the rest of this script.

# If an ExecCondition= was not met, systemd did not start the service, so there is no end to record.
[ "${INVOCATION_ID-}" ] && [ "${SERVICE_RESULT-}" != exec-condition ] || exit 0

# systemd gives this script the environment of the service, but runs it as root. A directory in PATH may
# belong to the user of the service, and bash would run the file that BASH_ENV names.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
unset -v BASH_ENV

# TimeoutStopSec= limits all commands that run at the end of a service, including this script. After
# that time systemd sends SIGTERM, and after the same time again SIGKILL. Ignoring SIGTERM doubles the
# time, so that the end is recorded on a busy host even if the limit is short. Child processes inherit
# this.
trap '' TERM

# A copy of /proc/uptime. Its content and its ctime are the same point in time: as uptime, and as
# wall-clock time. A tmpfiles.d rule creates it early in the boot. This script writes it again after
# the clock was set.
clock=/dev/shm/service-record.uptime
# A larger difference between clock and uptime than this means that the clock was set. Inode times can
# be 10 ms late, and on a busy processor time passes between two system calls.
tolerance_ms=100

# Returns 0 if the record is complete, and 1 if service-record-close.sh must run.
main() {
  read -r uptime_before _ </proc/uptime || return
  is_ordinary_end && find_record && has_nothing_in_inbox && has_clock || return
  measure_times && read_entries || return
  if [ "$entries" ]; then
    [ "$EXIT_CODE" = exited ] && is_recorded_success
    return
  fi
  may_not_record_itself && find_start && read_stop_request && append_run
}

# Returns 0 for a success, or a death by SIGTERM that systemd considers clean. If one of the variables
# is set, the record has another name, or must be synced to the disk.
is_ordinary_end() {
  [ "$SERVICE_RESULT" = success ] || return
  case ${EXIT_CODE-}:${EXIT_STATUS-} in
  exited:0) ;;
  killed:TERM) ;;
  *) return 1 ;;
  esac
  [ ! "${SERVICE_NAME-}${PRE_COMMAND-}${POST_COMMAND-}${SERVICE_RECORDS_SYNC-}" ]
}

# Sets `unit`, `name` (the unit in the file name of the record), `record` (its path), and `is_new` to 1
# if the record does not exist. Returns 1 if this script cannot write the record.
find_record() {
  unit=
  while read -r line; do
    case $line in
    0::/* | *:name=systemd:/*) unit=${line%/.control} unit=${unit##*/} ;;
    esac
    case $unit in *.service) break ;; esac
  done </proc/self/cgroup
  case $unit in
  service-record-rotate.service) exit 0 ;; # service-record-close.sh starts it
  ?*.service) name=${unit%.service} ;;
  *) return 1 ;;
  esac
  case $name in
  -*) name=_${name#?} ;;
  esac
  while :; do # record names have no dots
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
  # TemporaryFileSystem= and BindPaths= also apply to this script. Through /proc/1/root it sees the
  # directory of the host.
  # shellcheck disable=SC3013 # not in POSIX, but dash, bash and busybox have -ef
  [ "$directory" -ef "/proc/1/root$directory" ] || return
  [ -d "$directory" ] && [ -w "$directory" ] && [ ! -L "$record" ] || return
  # An entry in an array needs a lock and other programs.
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

# Returns 0 if the inbox has no file to collect: neither a file of this service, nor a file of a root
# service that has ended, left there because its record could not be written. Every user may create
# files in the inbox, so at most 200 are checked after the file of this invocation.
has_nothing_in_inbox() {
  inbox=${SERVICE_RECORDS_INBOX-}
  [ "$inbox" ] || return 0
  [ -d "$inbox" ] || return
  file=$inbox/$name.$INVOCATION_ID.json
  [ ! -e "$file" ] && [ ! -L "$file" ] || return
  checked=0
  for file in "$inbox"/*.json; do
    [ $((checked += 1)) -le 200 ] || return 0
    [ -e "$file" ] || [ -L "$file" ] || continue
    owner=${file##*/} owner=${owner%.json} owner=${owner%.*}
    [ "$owner" != "$name" ] || return
    # shellcheck disable=SC3067 # not in POSIX, but dash, bash and busybox have -O
    [ ! -O "$file" ] || [ -L "/run/systemd/units/invocation:$owner.service" ] || return
  done
}

# Returns 0 if root's `clock` exists. Otherwise writes it for later services, and returns 1. Every user
# may create files in /dev/shm, but only root may replace root's files.
has_clock() {
  # shellcheck disable=SC3067
  [ -O "$clock" ] && [ ! -L "$clock" ] && return
  [ ! -e "$clock" ] && [ ! -L "$clock" ] || return # writing to a FIFO would block
  set -C                                           # do not follow a link
  write_clock
  set +C
  return 1
}

write_clock() {
  read -r uptime _ </proc/uptime && printf '%s\n' "$uptime" >"$clock"
}

# Sets `size` (of the record, in bytes), `start_ms`, `clock_ms` and `now_ms` (wall-clock time in
# milliseconds), `start_time` and `now_time` (RFC 3339), and `uptime_after`. One call of stat reads the
# current time and all times of files. systemd creates the link with the invocation's first command,
# and removes it after this script. The mtime of /proc/self/ is the current time.
measure_times() {
  # shellcheck disable=SC2046 # six words per file: size, mtime, ctime, date, time, zone
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
  [ "$limit" -eq 0 ] || [ "$size" -le "$limit" ] # a larger record must be rotated
}

# Sets `entries` to the record's entries of this invocation. Returns 1 if there are 200 or more; then
# service-record-close.sh reads them.
read_entries() {
  entries=
  [ "$size" -gt 0 ] || return 0
  entries=$(LC_ALL=C grep --fixed-strings --text --max-count=200 \
    --regexp="\"invocationId\":\"$INVOCATION_ID\"" -- "$record")
  [ $? -le 1 ] || return
  IFS='
'
  set -f # an entry is no pattern of file names
  # shellcheck disable=SC2086 # a word for each line
  set -- $entries
  set +f
  unset IFS
  [ $# -lt 200 ]
}

# Returns 0 if all entries are of one process, and the last one is its success: then the record agrees
# with systemd. (An entry with `serviceResult` was written by service-record-close.sh.)
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

# Returns 0 if the service probably does not record itself. A service that is not root ($USER is then
# set) may have tried, in a sandbox that hides the inbox. service-record-close.sh reports that in the
# journal. For a stopped daemon this is not worth the time.
may_not_record_itself() {
  [ "$EXIT_CODE" = killed ] || [ "${USER:-root}" = root ]
}

# Sets `start_uptime` and `end_uptime`, in milliseconds. Of the start, only the wall-clock time is
# known, and the clock may have been set since then. It was not set if the difference between clock and
# uptime is the same as before the service started. Then this difference gives the uptime of the start.
# Returns 1 if the uptime of the start cannot be calculated.
find_start() {
  read -r uptime_boot _ <"$clock" || return
  to_ms "$uptime_boot" && boot_ms=$milliseconds || return
  to_ms "$uptime_before" && end_uptime=$milliseconds || return
  to_ms "$uptime_after" && after_ms=$milliseconds || return
  [ $((after_ms - end_uptime)) -le 1000 ] || return # on a busy host, the two uptimes are too far apart
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

# Sets `milliseconds`. Removes a leading zero, which would make the number octal.
to_ms() { # SECONDS.HUNDREDTHS
  case $1 in
  *[!0123456789.]* | *.*.* | .* | [!0123456789]*) return 1 ;;
  *.??) ;;
  *) return 1 ;;
  esac
  hundredths=${1#*.}
  milliseconds=$((${1%.*} * 1000 + ${hundredths#0} * 10))
}

# Sets `result`, `facts` (JSON members of the end) and `request` (restart or shutdown, or empty for a
# success). After a clean signal, only systemd's job shows whether the request was a stop, a restart or
# a shutdown. Returns 1 for a simple stop: service-record-close.sh finds its reason.
read_stop_request() {
  result=success facts='"exitCode":0' request='' is_shutdown=''
  [ "$EXIT_CODE" = killed ] || return 0
  result=failure facts='"signal":"TERM"'
  # shellcheck disable=SC2046 # four words per job
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

# Appends start and end with one write. The first newline ends a line that another writer may have left
# unfinished.
append_run() {
  read -r boot </proc/sys/kernel/random/boot_id || return # remove the dashes, as journalctl does
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
  # Exit even if the write failed: service-record-close.sh would fail as well, or repeat an entry.
  exit 0
}

main 2>/dev/null && exit 0
for close in "${0%/*}/service-record-close.sh" "${0%/*}/../share/service-record/service-record-close.sh"; do
  [ ! -f "$close" ] || exec "$close" "${uptime_before-}"
done
exit 0
