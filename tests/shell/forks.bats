#!/usr/bin/env bats
# Bash that cannot make a process tries for half a minute and then ends the script: the shim looks first, and does without. A
# program that hangs is killed, and not run again.

load helpers

# Runs a script as another user, with room for no more than so many processes of that user.
service_with_processes() { # <how many> <script>
  ((UID == 0)) || skip "not root"
  command -v setpriv >/dev/null || skip "setpriv is not installed"
  local user=$((20000 + BASHPID))
  chmod 755 "${BATS_RUN_TMPDIR}" "${BATS_RUN_TMPDIR}/test" "$PWD" 2>/dev/null || :
  cp "$SHIM" copied.sh && ln -sf copied.sh shim.sh
  cp --remove-destination "${SHIM%/*}/service-record-failure.sh" .
  chmod 644 copied.sh service-record-failure.sh
  mkdir -p records
  chown -R "$user" .
  timeout -k 1 60 env -i "${surroundings[@]}" setpriv --reuid "$user" --clear-groups \
    prlimit --nproc="$1" "$TEST_BASH" "$2"
}

# A service with traps, stages, a misuse, a handled failure and a failure in a function.
busy() {
  script busy.sh <<'END'
trap 'echo leaving' EXIT
. "$SHIM"
ulimit -u 1
. "$SHIM"
record_service_stage_start one
record_service_stage_success
record_service_stage_success
record_service_stage_start two
record_service_stage_failure
work() {
  record_service_stage_start three
  echo "${unset:?}"
}
work
END
}

# Fails unless the service ended as it would without the shim, soon, and all of it stands in the record.
ended_well() {
  echo "$output; $stderr; $SECONDS s"
  cat records/service.json
  [ "$output" = leaving ]
  ((SECONDS <= 12))
  [ "$(grep -c '"stage":"three","phase":"stage end","result":"failure"' records/service.json)" -eq 1 ]
  [ "$(grep -c '"phase":"service end","result":"failure"' records/service.json)" -eq 1 ]
  [ "$(grep -c '"timestamp"' records/service.json)" -eq 9 ]
}

@test "no process to be had, in lines" {
  busy
  surroundings+=(INVOCATION_ID=0123456789abcdef0123456789abcdef)
  mkdir records && : >records/service.json
  SECONDS=0
  run --separate-stderr -1 service_with_processes 1000 busy.sh
  ended_well
}

@test "no process to be had, in an array" {
  busy
  surroundings+=(SERVICE_RECORDS_LAYOUT=array INVOCATION_ID=0123456789abcdef0123456789abcdef)
  mkdir records && printf '[\n]\n' >records/service.json
  SECONDS=0
  run --separate-stderr -1 service_with_processes 1000 busy.sh
  ended_well
}

@test "no process to be had from the beginning" {
  busy
  mkdir records && : >records/service.json
  SECONDS=0
  run --separate-stderr -1 service_with_processes 1 busy.sh
  [ "$output" = leaving ]
  ((SECONDS <= 12))
  [ "$(grep -c '"timestamp"' records/service.json)" -ge 7 ]
}

@test "no process to be had, and no record to begin with" {
  script new.sh <<'END'
. "$SHIM"
record_service_stage_start one
record_service_stage_success
END
  run --separate-stderr -0 service_with_processes 1 new.sh
  [ "$(entries phase | head -n 3)" = $'service start\nstage start\nstage end' ]
}

@test "no process to be had, and no array to begin with: what could not be written is counted" {
  script late.sh <<'END'
. "$SHIM"
record_service_stage_start one
: >"$SERVICE_RECORDS_DIR/service.json"
record_service_stage_success
END
  surroundings+=(SERVICE_RECORDS_LAYOUT=array)
  SECONDS=0
  run --separate-stderr -0 service_with_processes 1 late.sh
  ((SECONDS <= 12))
  [ "$(entries phase dropped | head -n 1)" = "stage end 2" ]
}

# Runs a program in a control group that has no room for another process.
run_in_full_group() { # <expected status> <program> [argument...]
  local group=''
  for group in /sys/fs/cgroup/pids /sys/fs/cgroup; do [ ! -e "$group/cgroup.procs" ] || break; done
  mkdir "$group/forks-$BASHPID" && group=$group/forks-$BASHPID || skip "no control group can be made"
  if [ ! -e "$group/pids.max" ]; then
    rmdir "$group"
    skip "no control group limits processes"
  fi
  mkdir "$group/inner"
  echo 1 >"$group/pids.max"
  SECONDS=0
  run --separate-stderr "-$1" timeout -k 1 60 env -i "${surroundings[@]}" "$PYTHON" -IS -c 'import os, sys
open(sys.argv[1], "w").write("0")
os.execv(sys.argv[2], sys.argv[2:])' "$group/inner/cgroup.procs" "$(type -P "$2")" "${@:3}"
  rmdir "$group/inner" "$group"
}

@test "a control group that is full" {
  busy
  surroundings+=(SERVICE_RECORDS_LAYOUT=array INVOCATION_ID=0123456789abcdef0123456789abcdef)
  mkdir records && printf '[\n]\n' >records/service.json
  run_in_full_group 1 "$TEST_BASH" busy.sh
  ended_well
}

@test "a control group that is full, at the end of a service" {
  surroundings+=(INVOCATION_ID=0123456789abcdef0123456789abcdef SERVICE_RESULT=signal EXIT_CODE=killed EXIT_STATUS=KILL)
  mkdir records && : >records/service.json
  run_in_full_group 0 "$TEST_BASH" "${SHIM%/*}/service-record-close.sh"
  [ "$output$stderr" = "" ]
  ((SECONDS <= 8))
}

# Runs a script where one of the system's programs hangs.
service_where_hangs() { # <program> <script>
  printf '#!/bin/sh\necho "$$" >>"%s/hung"\nexec %s 60\n' "$PWD" "$(type -P sleep)" >hanging
  chmod +x hanging
  timeout -k 1 60 env -i "${surroundings[@]}" unshare --mount sh -c \
    'mount --bind hanging "$(readlink -f "/usr/bin/$0")" && exec "$@"' "$1" "$TEST_BASH" "$2"
}

need_mounts() {
  unshare --mount true 2>/dev/null || skip "no mount namespace can be made"
}

# An array so long that the shim needs all of its programs.
long_array() {
  mkdir records
  {
    printf '['
    printf '\n{"timestamp":"2026-11-21T01:05:10.000Z","phase":"stage start","stage":"%0180d"},' {1..199}
    printf '\n{"timestamp":"2026-11-21T01:05:10.000Z","phase":"service end"}\n]\n'
  } >records/service.json
}

# Fails unless a script records all where a program hangs, soon, says nothing, and runs that program once.
goes_on_where_hangs() { # <program> <script>
  mkdir "$1" && cd "$1"
  surroundings+=("SERVICE_RECORDS_DIR=$PWD/records")
  [ "$1" = mkdir ] || long_array
  SECONDS=0
  service_where_hangs "$1" "../$2" >said 2>&1
  ((SECONDS <= 12))
  [ ! -s said ]
  [ "$(wc -l <hung)" -eq 1 ]
  is_gone "$(<hung)"
  [ "$1" = mkdir ] || [ "$(grep -c '"phase":"stage end"' records/service.json)" -eq 3 ]
}

@test "a program that hangs is killed, and not run again" {
  need_mounts
  script hangs.sh <<'END'
. "$SHIM"
for stage in one two three; do
  record_service_stage_start "$stage"
  record_service_stage_failure
done
END
  surroundings+=(SERVICE_RECORDS_SYNC=ends SERVICE_RECORDS_LAYOUT=array)
  local -A hanging=()
  for program in flock tail dd sync mkdir; do
    (goes_on_where_hangs "$program" hangs.sh) &
    hanging[$program]=$!
  done
  local wrong=()
  for program in "${!hanging[@]}"; do
    wait "${hanging[$program]}" || wrong+=("$program")
  done
  echo "wrong: ${wrong[*]}"
  [ ${#wrong[@]} -eq 0 ]
}

@test "a program that hangs at the end of a service is killed, and nothing is claimed" {
  need_mounts
  mkdir records
  cat >records/service.json <<'END'
{"timestamp":"2026-11-21T01:05:10.000Z","phase":"service start","invocationId":"0123456789abcdef0123456789abcdef","pid":1}
END
  cp records/service.json before.json
  surroundings+=(INVOCATION_ID=0123456789abcdef0123456789abcdef SERVICE_RESULT=success EXIT_CODE=exited EXIT_STATUS=0)
  SECONDS=0
  run -0 service_where_hangs grep "${SHIM%/*}/service-record-close.sh"
  [ "$output" = "" ]
  ((SECONDS <= 15))
  is_gone "$(<hung)"
  cmp before.json records/service.json
}

@test "a readonly TMPDIR makes no look at the traps fork" {
  ((UID == 0)) || skip "not root"
  command -v strace >/dev/null || skip "strace is not installed"
  script library.sh <<<"trap 'echo own' EXIT"
  script looks.sh <<'END'
readonly TMPDIR=/tmp
. "$SHIM"
name=library
. "./${name,,}.sh"
record_service_stage_start one
record_service_stage_success
exit
END
  empty_records
  : >records/service.json
  run -0 strace -f -qq -e trace=clone,clone3,fork,vfork -e signal=none -o forks \
    env -i "${surroundings[@]}" "$TEST_BASH" looks.sh
  [ "$output" = own ]
  one_stage_is success
  run ! grep -E 'clone|fork' forks
}
