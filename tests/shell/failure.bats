#!/usr/bin/env bats
# A failure is recorded with its cause: line, function, file, call stack, command and exit status. What the script
# handled is no cause. Every kind of ending, line by line, is in tests/endings.

load helpers

ended() { # [field...]: the fields of the last entry
  entries "$@" | tail -n 1
}

@test "the stack names the calls, innermost first" {
  script stack.sh <<'END'
set -euoE pipefail
. "$SHIM"
inner() {
  false
}
outer() {
  inner
}
outer
END
  run -1 service stack.sh
  [ "$(ended errorLine)" = "4 inner stack.sh" ]
  [ "$(ended stack)" = '["4 inner stack.sh", "7 outer stack.sh", "9 main stack.sh"]' ]
}

@test "the stack crosses files, with a blank in a file's name" {
  printf 'inner() {\n  false\n}\n' >"a library.sh"
  script stack.sh <<'END'
set -euoE pipefail
. "$SHIM"
. "./a library.sh"
inner
END
  run -1 service stack.sh
  [ "$(ended errorLine)" = "2 inner ./a library.sh" ]
  [ "$(ended stack)" = '["2 inner ./a library.sh", "4 main stack.sh"]' ]
}

@test "the command is recorded as written, with nothing expanded" {
  script secret.sh <<'END'
set -e
. "$SHIM"
TOKEN=hunter2
test -n "$TOKEN" -a -e "/nowhere/$TOKEN"
END
  run -1 service secret.sh
  [ "$(ended command)" = 'test -n "$TOKEN" -a -e "/nowhere/$TOKEN"' ]
  run ! grep hunter2 records/service.json
}

@test "at most 200 characters of a command are recorded" {
  script long.sh <<END
set -e
. "\$SHIM"
test -e /nowhere/$(printf '%0300d' 0)
END
  run -1 service long.sh
  command=$(ended command)
  ((${#command} <= 200))
  [[ $command == "test -e /nowhere/000"* ]]
}

@test "the exit status and the stage's failure are recorded" {
  script status.sh <<'END'
set -e
. "$SHIM"
record_service_stage_start pull
(exit 42)
END
  run -42 service status.sh
  entries_are phase result exitCode errorLine <<'END'
service start - - -
stage start - - -
stage end failure 42 4 main status.sh
service end failure 42 4 main status.sh
END
}

@test "without set -e the last command decides and is the cause" {
  script last.sh <<'END'
. "$SHIM"
false
test -e /nowhere
END
  run -1 service last.sh
  [ "$(ended errorLine command)" = '3 main last.sh test -e /nowhere' ]
}

@test "without set -e an earlier failure is no failure" {
  script earlier.sh <<'END'
. "$SHIM"
record_service_stage_start one
false
echo on
record_service_stage_success
END
  run -0 service earlier.sh
  entries_are phase result errorLine <<'END'
service start - -
stage start - -
stage end success -
service end success -
END
}

@test "handled failures are no failure of the run" {
  script handled.sh <<'END'
set -euoE pipefail
. "$SHIM"
if false; then :; fi
false || :
false && :
! true
while false; do :; done
until true; do :; done
f() { false; }
f || :
if ! f; then :; fi
x=$(f) || :
(exit 4) || echo "$?"
END
  unchanged handled.sh
  entries_are phase result errorLine command <<'END'
service start - - -
service end success - -
END
}

@test "a failure that was handled is not the cause of a later exit" {
  script later.sh <<'END'
set -euoE pipefail
. "$SHIM"
f() {
  false
}
f || :
if ! f; then
  exit 1
fi
END
  run -1 service later.sh
  [ "$(ended errorLine command)" = '8 main later.sh exit 1' ]
}

@test "an earlier failure without set -e is not the cause of a later exit with the same status" {
  script later.sh <<'END'
. "$SHIM"
false
echo on
fail() {
  exit 1
}
fail
END
  run -1 service later.sh
  [ "$(ended errorLine command)" = '5 fail later.sh exit 1' ]
}

@test "an earlier failure without set -e is not the cause of a later end that fires no ERR" {
  script unbound.sh <<'END'
set -u
. "$SHIM"
false
echo on
echo "$NOPE"
END
  run -1 service unbound.sh
  [ "$(ended errorLine command)" = '5 main unbound.sh echo "$NOPE"' ]
}

@test "the status of a handled failure is what exit without an argument passes on" {
  script passes.sh <<'END'
. "$SHIM"
case $1 in
  fails) (exit 6); exit ;;
  succeeds) true; exit ;;
  variable) (exit 6); rc=$?; echo "$rc"; exit "$rc" ;;
  function) f() { return 6; }; f; exit ;;
  arithmetic) exit $((5 + 1)) ;;
  beyond) exit 262 ;;
  negative) exit -- -1 ;;
esac
END
  for how in fails succeeds variable function arithmetic beyond negative; do
    empty_records
    unchanged passes.sh "$how"
    [ "$(entries phase | wc -l)" -eq 2 ]
  done
}

@test "the command of exit is the word with the arguments that it received" {
  script list.sh <<<$'. "$SHIM"\nfalse && exit 0 || exit 1'
  script text.sh <<<$'. "$SHIM"\necho "will exit now with 2" >log; exit 64'
  script variable.sh <<<$'. "$SHIM"\nstatus=6\nexit "$status"'
  script none.sh <<<$'. "$SHIM"\nif ! (exit 5); then (exit 6) || exit; fi'
  for expected in "list exit 1" "text exit 64" "variable exit 6" "none exit"; do
    empty_records
    run service "${expected%% *}.sh"
    [ "$(ended command)" = "${expected#* }" ]
  done
}

@test "a function that prints a here-document and runs programs has its own line" {
  for document in '<<EOF' "<<'EOF' >&2" '<<-"EOF" | cat'; do
    for between in 'test -e /nowhere' 'cat <<<"$1"'; do
      script document.sh <<END
. "\$SHIM"
die() {
  cat $document
no disk
EOF
  $between
  exit 3
}
die
END
      run -3 service document.sh
      case $between in
      test*) [ "$(ended errorLine errorLineApproximate)" = "7 die document.sh -" ] ;;
      cat*) [ "$(ended errorLine errorLineApproximate)" = "9 main document.sh -" ] ;;
      esac
    done
  done
}

@test "the line of a function that only prints and exits is that of its caller" {
  script die.sh <<'END'
set -euo pipefail
. "$SHIM"
log() { printf '%s: %s\n' "$(date +%T)" "$*" >&2; }
die() {
  local status="${2:-1}"
  log "it's over; $1"
  if [ "$#" -gt 2 ]; then
    cat >&2 <<TEXT
rm -rf is not a command here
TEXT
  fi
  exit "$status"
}
work() {
  test -e /nowhere || die "no disk" 7
}
work
END
  run -7 service die.sh
  [ "$(ended errorLine errorLineApproximate command)" = "15 work die.sh - exit 7" ]
  [ "$(ended stack)" = '["12 die die.sh", "15 work die.sh", "17 main die.sh"]' ]
}

@test "the line of a function that exits and does more is its own" {
  script more.sh <<'END'
. "$SHIM"
stop() {
  echo "$1" >&2
  $2
  exit 3
}
need() {
  [ -e "$1" ] || { echo "no $1" >&2; exit 4; }
}
case $1 in
  stop) stop now : ;;
  need) need /nowhere ;;
esac
END
  run -3 service more.sh stop
  [ "$(ended errorLine)" = "5 stop more.sh" ]
  empty_records
  run -4 service more.sh need
  [ "$(ended errorLine)" = "8 need more.sh" ]
}

@test "a wrong argument of exit ends the service as it would have" {
  script wrong.sh <<'END'
. "$SHIM"
case $1 in
  word) exit nonsense ;;
  many) exit 1 2 ;;
  many-words) exit nonsense 2 ;;
esac
exit 6
END
  for how in word many many-words; do
    ln -sf "${BATS_TEST_FILENAME%/*}/absent.bash" shim.sh
    run service wrong.sh "$how"
    expected=("$status" "${output##*: exit: }")
    ln -sf "$SHIM" shim.sh
    run service wrong.sh "$how"
    [ "$status ${output##*: exit: }" = "${expected[*]}" ]
  done
}

@test "an exit in the middle of a stage is the failure of that stage" {
  script middle.sh <<'END'
. "$SHIM"
record_service_stage_start install
exit 3
END
  run -3 service middle.sh
  entries_are phase stage result exitCode errorLine <<'END'
service start - - - -
stage start install - - -
stage end install failure 3 3 main middle.sh
service end - failure 3 3 main middle.sh
END
}

@test "an exit 0 in the middle of a stage is no failure of the run" {
  script zero.sh <<'END'
. "$SHIM"
record_service_stage_start install
exit 0
END
  service zero.sh
  [ "$(ended result)" = success ]
  [ "$(entries phase | sed -n 3p)" = "stage end" ]
}

@test "where bash cannot tell the line, it is that of the call, said to be approximate" {
  script same.sh <<'END'
set -eu
. "$SHIM"
f() {
  if [ "${1-}" ]; then echo "$NOPE"; fi
  echo "$NOPE"
}
f
END
  run -1 service same.sh
  [ "$(ended errorLine errorLineApproximate)" = '7 main same.sh true' ]
}

@test "a stage that fails within a signal's trap has no line, for bash counts those of the trap" {
  script trap.sh <<'END'
. "$SHIM"
record_service_stage_start work
trap 'record_service_stage_failure' USR1
kill -USR1 $$
echo on
END
  run -0 service trap.sh
  entries_are phase result errorLine <<'END'
service start - -
stage start - -
stage end failure -
service end success -
END
}

@test "the stack ends where a signal's trap calls a function, for bash counts the lines of the trap" {
  script trap.sh <<'END'
set -euoE pipefail
. "$SHIM"
on_signal() {
  false
}
trap on_signal USR1
kill -USR1 $$
END
  run -1 service trap.sh
  [ "$(ended stack)" = '["4 on_signal trap.sh"]' ]
}

# A failure that the service handles, a misuse, and a failure that ends it.
all_kinds() {
  script failing.sh <<'END'
set -euo pipefail
. "$SHIM"
record_service_stage_start one
record_service_stage_failure
record_service_stage_success
cat /no/such/file
END
}

@test "without the file that finds the line, a line is approximate or absent" {
  local finder="${SHIM%/*}/service-record-failure.sh"
  all_kinds
  for how in absent torn "of another version" "not a file" "not shell"; do
    echo "$how"
    rm -rf records service-record-failure.sh
    case $how in
    torn) head -n 100 "$finder" >service-record-failure.sh ;;
    "of another version") sed '1s/[0-9.]*$/9.9.9/' "$finder" >service-record-failure.sh ;;
    "not a file") mkfifo service-record-failure.sh ;;
    "not shell") { head -n 1 "$finder" && printf '%s\n' 'if (' && tail -n 1 "$finder"; } >service-record-failure.sh ;;
    esac
    run --separate-stderr -1 service failing.sh
    [ "${stderr_lines[0]}" = "service-record: failing.sh: no stage is open; recorded as the end of a stage without a name" ]
    [ "${#stderr_lines[@]}" -eq 2 ]
    entries_are phase result errorLine errorLineApproximate command stack <<'END'
service start - - - - -
stage start - - - - -
stage end failure - - - -
stage end success - - - -
service end failure 6 main failing.sh true cat /no/such/file -
END
  done
}

@test "the file that finds the line is read from ../share/service-record, too, and by a name that is relative" {
  all_kinds
  rm service-record-failure.sh
  mkdir -p bin share/service-record
  ln -s "${SHIM%/*}/service-record-failure.sh" share/service-record
  ln -s "$SHIM" bin/bootstrap-service-record.sh
  surroundings+=(SHIM=bin/bootstrap-service-record.sh)
  run -1 service failing.sh
  [ "$(entries errorLine | tr '\n' ,)" = "-,-,4 main failing.sh,-,6 main failing.sh," ]
  [ "$(ended errorLineApproximate)" = - ]
}
