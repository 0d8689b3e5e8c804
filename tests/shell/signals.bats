#!/usr/bin/env bats
# A run that a signal ends is not recorded as a success. The service dies of that signal as early as it would
# without the shim. tests/matrix tests every signal in every ordinary state.

load helpers

# shellcheck disable=SC2154 # the helpers set the array `surroundings`

# Runs a script and sends $SIGNAL to the shell (TO=shell) or to its process group (TO=group).
service() { # <script> [argument...]
  env -i "${surroundings[@]}" "$PYTHON" -IS "${BATS_TEST_FILENAME%/*}/signalled.py" "$SIGNAL" "$TO" "$TEST_BASH" "$@"
}

# Writes a script with an open stage that runs the given code. The code creates the file `ready` when it may
# be signalled.
write_service() { # <shell code>
  script state.sh <<END
. "\$SHIM"
record_service_stage_start waiting
child() { "\$BASH" -c ': >ready; exec sleep 30'; }
$1
echo survived
record_service_stage_success
END
}

# Sends a signal to each target. Fails unless the service dies as it does without the shim and the signal is
# recorded.
signal_is_recorded() { # <signal> [shell|group]...
  SIGNAL=$1
  for TO in "${@:2}"; do
    echo "SIG$SIGNAL to the $TO"
    empty_records
    unchanged state.sh
    grep -qx "died of $SIGNAL" with/out
    entries_are phase stage result signal <<'END'
service start - - -
stage start waiting - -
stage end waiting failure unknown
service end - failure unknown
END
  done
}

@test "signal on the last line of the script is recorded" {
  script state.sh <<'END'
. "$SHIM"
record_service_stage_start waiting
"$BASH" -c ': >ready; exec sleep 30'
END
  signal_is_recorded TERM shell group
}

@test "signal in a function called on the last line is recorded" {
  script state.sh <<'END'
. "$SHIM"
main() {
  record_service_stage_start waiting
  until false; do "$BASH" -c ': >ready; exec sleep 30'; done
}
main
END
  signal_is_recorded TERM shell group
}

@test "signal under set -euoE pipefail is recorded" {
  write_service 'set -euoE pipefail; child'
  signal_is_recorded TERM shell group
}

@test "signal after a successful stage and a handled failure is recorded" {
  write_service 'record_service_stage_success; false || :; record_service_stage_start waiting; child'
  SIGNAL=TERM TO=shell
  unchanged state.sh
  [ "$(entries phase result signal | tail -n 1)" = "service end failure unknown" ]
}

# systemd signals every process of a service until it finds no new one. This test kills the first three copies
# of the dying shell; the shim detects with such a copy that a signal ends the shell.
@test "signal is recorded if a stop kills copies of the shell" {
  script state.sh <<'END'
. "$SHIM"
record_service_stage_start waiting
copy=$(declare -f __sr_run_copy)
eval "run_copy${copy#__sr_run_copy}"
__sr_run_copy() {
  echo >>copies
  mapfile -t copies <copies
  ((${#copies[@]} > 3)) || kill -KILL "$BASHPID"
  run_copy
}
"$BASH" -c ': >ready; exec sleep 30'
END
  SIGNAL=TERM TO=group
  service state.sh
  [ "$(entries phase result signal | tail -n 1)" = "service end failure unknown" ]
}

@test "EXIT trap of the service runs if SIGTERM arrives while the journal is read" {
  mkdir programs
  printf '#!/bin/sh\n[ "$1" = --sync ] || : >ready\nsleep 1\n' >programs/journalctl
  chmod +x programs/journalctl
  surroundings+=(PATH="$PWD/programs:$PATH" INVOCATION_ID=0123456789abcdef0123456789abcdef)
  script state.sh <<'END'
trap 'echo "leaving with $?"; rm -f mine' EXIT
: >mine
. "$SHIM"
record_service_stage_start work
(exit 4) || exit
END
  SIGNAL=TERM
  for TO in shell group; do
    empty_records
    service state.sh >said
    diff said - <<<$'leaving with 4\ndied of TERM'
    [ ! -e mine ]
    [ "$(entries phase result exitCode | tail -n 1)" = "service end failure 4" ]
  done
}

@test "SIGINT handled by the foreground child does not end the service" {
  mkfifo over
  write_service '"$BASH" -c ": >ready; exec cat over"'
  SIGNAL=INT TO=shell
  unchanged state.sh
  grep -qx survived with/out
  [ "$(entries | tail -n 1)" = "service end success" ]
}

@test "signal ignored by the unit does not end the service" {
  mkfifo over
  write_service '"$BASH" -c ": >ready; exec cat over"'
  script ignoring.sh <<'END'
trap '' PIPE
exec "$BASH" state.sh
END
  SIGNAL=PIPE TO=group
  unchanged ignoring.sh
  grep -qx survived with/out
  [ "$(entries | tail -n 1)" = "service end success" ]
}

@test "signal handler of the service runs and ends unchanged" {
  script state.sh <<'END'
. "$SHIM"
trap 'echo stopping; exit 143' TERM
record_service_stage_start waiting
sleep 30 &
: >ready
wait "$!"
echo survived
END
  SIGNAL=TERM TO=shell
  unchanged state.sh
  grep -qx "exited 143" with/out
  [ "$(entries phase result exitCode | tail -n 1)" = "service end failure 143" ]
}

@test "service that handles a signal and continues is a success" {
  mkfifo over
  script state.sh <<'END'
. "$SHIM"
trap 'echo reloading' HUP
cat over &
: >ready
wait "$!"
wait "$!"
echo survived
END
  SIGNAL=HUP TO=shell
  unchanged state.sh
  grep -qx survived with/out
  [ "$(entries | tail -n 1)" = "service end success" ]
}

@test "service that ends while its children run is a success" {
  script state.sh <<'END'
. "$SHIM"
sleep 30 >/dev/null 2>&1 &
(sleep 0.2; : >ready) &
wait "$!"
END
  SIGNAL=CONT TO=shell
  service state.sh
  [ "$(entries | tail -n 1)" = "service end success" ]
}

@test "service started with SIGCHLD blocked is a success" {
  script state.sh <<'END'
. "$SHIM"
"$BASH" -c :
record_service_stage_start one
"$BASH" -c :
record_service_stage_success
END
  env -i "${surroundings[@]}" "$PYTHON" -IS -c 'import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
os.execv(sys.argv[1], sys.argv[1:])' "$(type -P "$TEST_BASH")" state.sh
  [ "$(entries | tail -n 1)" = "service end success" ]
}

@test "exit in a pipeline under lastpipe is not recorded as a signal" {
  for ending in ': "${unset:?}"' 'eval "builtin exit 1"'; do
    script state.sh <<END
shopt -s lastpipe
. "\$SHIM"
sleep 0.1 | $ending
END
    empty_records
    run -1 env -i "${surroundings[@]}" "$TEST_BASH" state.sh
    [ "$(entries phase exitCode signal | tail -n 1)" = "service end 1 -" ] || [ "$(entries phase exitCode signal | tail -n 1)" = "service end 127 -" ]
  done
}

@test "signal on the last line under lastpipe is recorded since bash 5.1" {
  # shellcheck disable=SC2016 # for the bash under test
  "$TEST_BASH" -c '((BASH_VERSINFO[0] * 10 + BASH_VERSINFO[1] > 50))' || skip "cannot be had here: bash before 5.1"
  script state.sh <<'END'
shopt -s lastpipe
. "$SHIM"
record_service_stage_start waiting
"$BASH" -c ': >ready; exec sleep 30'
END
  signal_is_recorded TERM shell
}

@test "script of 20,000 lines is a success unless it is killed" {
  {
    printf '%s\n' '. "$SHIM"' 'record_service_stage_start waiting'
    printf '%s\n' '[[ ${1-} != dies ]] || { echo busy >ready; while :; do :; done; }' 'if false; then'
    printf 'echo %0100d\n' {1..20000}
    printf '%s\n' fi record_service_stage_success
  } >state.sh
  run -0 env -i "${surroundings[@]}" "$TEST_BASH" state.sh
  [ "$(entries | tail -n 1)" = "service end success" ]
  empty_records
  SIGNAL=TERM TO=shell service state.sh dies
  [ "$(entries phase signal | tail -n 1)" = "service end unknown" ]
}

@test "script that is read from a FIFO ends normally" {
  mkfifo state.sh
  printf '%s\n' '. "$SHIM"' '"$BASH" -c :' >state.sh &
  timeout 20 env -i "${surroundings[@]}" "$TEST_BASH" state.sh
  [ "$(entries | tail -n 1)" = "service end success" ]
}

@test "run that is killed in any state is not a success" {
  for ending in 'kill -TERM $$' 'pid=$$; kill "$pid"; sleep 1' '(sleep 0.2; kill -TERM $$) & for ((;;)); do :; done' \
    '(sleep 0.3; kill -HUP $$) & until false; do sleep 0.01; done' '(sleep 0.2; kill -TERM $$) & read -r _ <fifo' \
    "trap 'sleep 0.3; kill -TERM \$\$; sleep 1' EXIT" \
    'f() { (sleep 0.2; kill -ALRM $$) & while :; do record_service_stage_start a; record_service_stage_success; done; }; f'; do
    [ -p fifo ] || mkfifo fifo
    exec 8<>fifo
    script ends.sh <<END
. "\$SHIM"
record_service_stage_start one
record_service_stage_success
$ending
END
    echo "$ending"
    empty_records
    env -i "${surroundings[@]}" "$TEST_BASH" ends.sh || :
    [ -z "$(entries phase result | grep 'service end success')" ]
  done
}

@test "run that is killed by SIGPIPE is a failure" {
  script pipe.sh <<'END'
. "$SHIM"
while :; do echo line; done
END
  "$PYTHON" -IS -c 'import os, signal, subprocess, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
started = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
started.stdout.close()
sys.exit(started.wait() != -signal.SIGPIPE)' env -i "${surroundings[@]}" "$TEST_BASH" pipe.sh
  [ "$(entries phase result signal | tail -n 1)" = "service end failure unknown" ]
}

@test "end is recorded if a signal handler fails under set -e during the EXIT trap" {
  mkdir "$BATS_TEST_TMPDIR/tools"
  printf '#!/bin/sh\n[ "$1" = --sync ] || { kill -USR1 "$(cat pid)"; sleep 0.2; }\n' >"$BATS_TEST_TMPDIR/tools/journalctl"
  chmod +x "$BATS_TEST_TMPDIR/tools/journalctl"
  script late.sh <<'END'
PATH=$TOOLS:$PATH
set -euo pipefail
. "$SHIM"
echo "$$" >pid
reload() { false; echo reloaded; }
trap reload USR1
work() { (exit 3); }
work
END
  run env -i "${surroundings[@]}" TOOLS="$BATS_TEST_TMPDIR/tools" INVOCATION_ID=0123456789abcdef0123456789abcdef \
    "$TEST_BASH" late.sh
  [ "$status" -eq 3 ]
  [[ "$output" != *pop_var_context* ]]
  entries_are phase result exitCode <<'END'
service start - -
service end failure 3
END
}
