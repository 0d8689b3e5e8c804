#!/usr/bin/env bats
# A failure is recorded with its line, function, file, call stack, command and exit status. A failure that the
# script handled is not recorded. tests/endings tests the line of every kind of ending.

load helpers

# Prints fields of the last entry.
last_entry() { # [field...]
  entries "$@" | tail -n 1
}

@test "stack lists the calls, innermost first" {
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
  [ "$(last_entry errorLine)" = "4 inner stack.sh" ]
  [ "$(last_entry stack)" = '["4 inner stack.sh", "7 outer stack.sh", "9 main stack.sh"]' ]
}

@test "without FUNCNAME, a failure has no line" {
  for instead in '' 'FUNCNAME=7'; do
    rm -rf records
    script unset.sh <<END
set -euo pipefail
. "\$SHIM"
unset FUNCNAME
$instead
die() { echo "\$1"; exit 4; }
die "no disk"
END
    run -4 service unset.sh
    [ "$output" = "no disk" ]
    [ "$(last_entry result exitCode command errorLine stack)" = "failure 4 exit 4 - -" ]
  done
}

@test "stack includes sourced files whose names contain a space" {
  printf 'inner() {\n  false\n}\n' >"a library.sh"
  script stack.sh <<'END'
set -euoE pipefail
. "$SHIM"
. "./a library.sh"
inner
END
  run -1 service stack.sh
  [ "$(last_entry errorLine)" = "2 inner ./a library.sh" ]
  [ "$(last_entry stack)" = '["2 inner ./a library.sh", "4 main stack.sh"]' ]
}

@test "command is recorded without expanding variables" {
  script secret.sh <<'END'
set -e
. "$SHIM"
TOKEN=hunter2
test -n "$TOKEN" -a -e "/nowhere/$TOKEN"
END
  run -1 service secret.sh
  [ "$(last_entry command)" = 'test -n "$TOKEN" -a -e "/nowhere/$TOKEN"' ]
  run ! grep hunter2 records/service.json
}

@test "command is cut to 200 characters" {
  script long.sh <<END
set -e
. "\$SHIM"
test -e /nowhere/$(printf '%0300d' 0)
END
  run -1 service long.sh
  command=$(last_entry command)
  ((${#command} <= 200))
  [[ $command == "test -e /nowhere/000"* ]]
}

@test "failed service records its exit status and the failed stage" {
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

@test "without set -e the last command sets the result and the error line" {
  script last.sh <<'END'
. "$SHIM"
false
test -e /nowhere
END
  run -1 service last.sh
  [ "$(last_entry errorLine command)" = '3 main last.sh test -e /nowhere' ]
}

@test "without set -e an earlier failed command does not fail the service" {
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

@test "handled failures do not fail the service" {
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

@test "error line of exit is not that of an earlier handled failure" {
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
  [ "$(last_entry errorLine command)" = '8 main later.sh exit 1' ]
}

@test "without set -e, error line of exit is not that of an earlier failure with the same status" {
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
  [ "$(last_entry errorLine command)" = '5 fail later.sh exit 1' ]
}

@test "without set -e, error line of an unset variable is not that of an earlier failure" {
  script unbound.sh <<'END'
set -u
. "$SHIM"
false
echo on
echo "$NOPE"
END
  run -1 service unbound.sh
  [ "$(last_entry errorLine command)" = '5 main unbound.sh echo "$NOPE"' ]
}

@test "exit keeps its status with and without an argument" {
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

@test "command of exit is recorded with its expanded arguments" {
  script list.sh <<<$'. "$SHIM"\nfalse && exit 0 || exit 1'
  script text.sh <<<$'. "$SHIM"\necho "will exit now with 2" >log; exit 64'
  script variable.sh <<<$'. "$SHIM"\nstatus=6\nexit "$status"'
  script none.sh <<<$'. "$SHIM"\nif ! (exit 5); then (exit 6) || exit; fi'
  for expected in "list exit 1" "text exit 64" "variable exit 6" "none exit"; do
    empty_records
    run service "${expected%% *}.sh"
    [ "$(last_entry command)" = "${expected#* }" ]
  done
}

@test "function that prints a here-document and runs programs has its own error line" {
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
      test*) [ "$(last_entry errorLine errorLineApproximate)" = "7 die document.sh -" ] ;;
      cat*) [ "$(last_entry errorLine errorLineApproximate)" = "9 main document.sh -" ] ;;
      esac
    done
  done
}

@test "function that only prints and exits has the error line of its caller" {
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
  [ "$(last_entry errorLine errorLineApproximate command)" = "15 work die.sh - exit 7" ]
  [ "$(last_entry stack)" = '["12 die die.sh", "15 work die.sh", "17 main die.sh"]' ]
}

@test "function that exits and runs other commands has its own error line" {
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
  [ "$(last_entry errorLine)" = "5 stop more.sh" ]
  empty_records
  run -4 service more.sh need
  [ "$(last_entry errorLine)" = "8 need more.sh" ]
}

@test "invalid argument of exit ends the service as without the shim" {
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

@test "exit in an open stage fails that stage" {
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

@test "exit 0 in an open stage is a success" {
  script zero.sh <<'END'
. "$SHIM"
record_service_stage_start install
exit 0
END
  service zero.sh
  [ "$(last_entry result)" = success ]
  [ "$(entries phase | sed -n 3p)" = "stage end" ]
}

@test "unknown error line is that of the call, marked as approximate" {
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
  [ "$(last_entry errorLine errorLineApproximate)" = '7 main same.sh true' ]
}

@test "stage failure in a signal trap has no error line" {
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

@test "stack ends at the function that a signal trap calls" {
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
  [ "$(last_entry stack)" = '["4 on_signal trap.sh"]' ]
}

# Writes a script with a handled failure, a misuse of the shim, and a failure that ends the service.
write_failing_script() {
  script failing.sh <<'END'
set -euo pipefail
. "$SHIM"
record_service_stage_start one
record_service_stage_failure
record_service_stage_success
cat /no/such/file
END
}

@test "without service-record-failure.sh an error line is approximate or absent" {
  local finder="${SHIM%/*}/service-record-failure.sh"
  write_failing_script
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

@test "without service-record-failure.sh the command of exit is recorded" {
  write_failing_script
  rm service-record-failure.sh
  script leaving.sh <<'END'
set -euo pipefail
. "$SHIM"
exit "$((3 + 1))"
END
  run -4 service leaving.sh
  [ "$(last_entry errorLine errorLineApproximate command)" = "3 main leaving.sh true exit 4" ]
}

@test "service-record-failure.sh is found in ../share/service-record and by a relative path" {
  write_failing_script
  rm service-record-failure.sh
  mkdir -p bin share/service-record
  ln -s "${SHIM%/*}/service-record-failure.sh" share/service-record
  ln -s "$SHIM" bin/bootstrap-service-record.sh
  surroundings+=(SHIM=bin/bootstrap-service-record.sh)
  run -1 service failing.sh
  [ "$(entries errorLine | tr '\n' ,)" = "-,-,4 main failing.sh,-,6 main failing.sh," ]
  [ "$(last_entry errorLineApproximate)" = - ]
}
