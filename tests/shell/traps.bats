#!/usr/bin/env bats
# Traps of the service, set before or after sourcing, run unchanged.

load helpers

recorded() { # <phase result> of the last entry
  [ "$(entries phase result | tail -n 1)" = "$1" ]
}

@test "an EXIT trap set before sourcing runs once with its status" {
  script before.sh <<'END'
trap 'echo "bye $?"' EXIT
. "$SHIM"
record_service_stage_start one
case $1 in
  ends) record_service_stage_success ;;
  exits) exit 3 ;;
  fails) set -e; (exit 4) ;;
  unbound) set -u; echo "$NOPE" ;;
  last) (exit 5) ;;
esac
END
  for how in ends exits fails unbound last; do
    unchanged before.sh "$how"
    [ "$(grep -c bye with/out)" -eq 1 ]
  done
  [ "$(entries phase | grep -c 'service end')" -eq 5 ]
  [ "$(entries phase result | grep -c 'service end failure')" -eq 4 ]
}

@test "an EXIT trap keeps its quotes and newlines" {
  script quotes.sh <<'END'
it="it's"
trap 'printf "%s|" "$it" '\''a  b'\'' "a
b" $(echo "sub $?"); echo \\; # a comment' EXIT
. "$SHIM"
exit 3
END
  unchanged quotes.sh
  recorded "service end failure"
}

@test "an EXIT trap set after sourcing runs, and the end is recorded" {
  script after.sh <<'END'
. "$SHIM"
trap 'echo "bye $?"' EXIT
record_service_stage_start one
trap 'echo "really bye $?"' EXIT
record_service_stage_success
[ "$1" = ends ] || exit 3
END
  unchanged after.sh ends
  recorded "service end success"
  unchanged after.sh exits
  recorded "service end failure"
}

@test "exit is recorded after an EXIT trap set last" {
  script exit.sh <<'END'
. "$SHIM"
trap 'echo "bye $?"' EXIT
exit 3
END
  unchanged exit.sh
  recorded "service end failure"
}

@test "errexit is recorded after an EXIT trap set last" {
  script fatal.sh <<'END'
set -euoE pipefail
. "$SHIM"
trap 'echo "bye $?"' EXIT
work() {
  false
}
work
END
  unchanged fatal.sh
  recorded "service end failure"
  [ "$(entries errorLine | tail -n 1)" = "5 work fatal.sh" ]
}

@test "an EXIT trap that is replaced runs unchanged" {
  script plain.sh <<'END'
. "$SHIM"
record_service_stage_start one
record_service_stage_success
trap 'echo "bye $?"' EXIT
true
END
  unchanged plain.sh
}

@test "an EXIT trap that is removed stays removed" {
  script removed.sh <<'END'
trap 'echo bye' EXIT
. "$SHIM"
trap - EXIT
record_service_stage_start one
record_service_stage_success
END
  unchanged removed.sh
  [ ! -s with/out ]
  recorded "service end success"
}

@test "an ignored EXIT trap stays ignored" {
  script ignored.sh <<'END'
trap '' EXIT
. "$SHIM"
exit 3
END
  unchanged ignored.sh
  recorded "service end failure"
}

@test "an EXIT trap can change the exit status" {
  script decides.sh <<'END'
[ "$1" = before ] && trap "$2" EXIT
. "$SHIM"
[ "$1" = after ] && trap "$2" EXIT
die() { rm -f own; kill -TERM "$$"; }
set -e
record_service_stage_start one
record_service_stage_success
false
END
  for when in before after; do
    for code in 'exit 5' 'exit' 'exit 0' 'false; echo unreached' '(exit 7)' ':' 'set +e; (exit 7)' 'return 3' \
      'kill "$$"' 'kill -- "$$" >own' die; do
      unchanged decides.sh "$when" "$code"
    done
  done
  [ "$(entries phase | grep -c 'service end')" -eq 22 ]
}

@test "an EXIT trap sees the service's variables, options and functions" {
  script sees.sh <<'END'
set -euo pipefail
IFS=,
cleanup() {
  local rc=$?
  echo "$rc $- $IFS ${FUNCNAME[*]} $value"
}
value=1
trap cleanup EXIT
. "$SHIM"
value=2
shopt -s nullglob
false
END
  unchanged sees.sh
  recorded "service end failure"
}

@test "an EXIT trap sees the script's arguments and no frame of ours" {
  script arguments.sh <<'END'
trap 'echo "$# $1 ${FUNCNAME[*]}"' EXIT
. "$SHIM"
[ "$1" = exits ] && exit 3
true
END
  unchanged arguments.sh ends
  unchanged arguments.sh exits
}

@test "an EXIT trap in a subshell records nothing" {
  script subshell.sh <<'END'
. "$SHIM"
(trap 'echo "subshell $?"' EXIT; exit 3)
x=$(trap 'echo "substitution $?"' EXIT; exit 4)
echo "$x $?"
END
  unchanged subshell.sh
  one_run
}

@test "an EXIT trap set again in a subshell records nothing" {
  script again.sh <<'END'
trap 'echo "bye $?"' EXIT
. "$SHIM"
(eval "$(trap -p EXIT)"; exit 3)
echo "$?"
END
  unchanged again.sh
  one_run
}

@test "an EXIT trap may record stages" {
  script cleanup.sh <<'END'
set -e
cleanup() { echo "cleaning $?"; }
. "$SHIM"
trap 'record_service_stage_start cleanup; cleanup; record_service_stage_success' EXIT
record_service_stage_start work
false
END
  run -1 service cleanup.sh
  [ "$(entries phase | grep -c 'service end')" -eq 1 ]
}

@test "an ERR trap set before sourcing runs unchanged" {
  script before.sh <<'END'
set "-$1"
trap 'echo "error $? line $LINENO in ${FUNCNAME[*]} command $BASH_COMMAND"' ERR
. "$SHIM"
f() {
  false
  echo "f $?"
}
f || :
f
record_service_stage_start one
(exit 4)
record_service_stage_success
true | false
echo "$?"
false
END
  # In 4.4 the trap sees a command of ours (docs/shell-guarantees.md).
  "$TEST_BASH" -c '((BASH_VERSINFO[0] >= 5))' || sed -i 's/ command \$BASH_COMMAND//' before.sh
  for options in E eE e u; do
    unchanged before.sh "$options"
  done
}

@test "an ERR trap set after sourcing leads to no false line" {
  script after.sh <<'END'
set -eE
. "$SHIM"
trap 'echo "error $? line $LINENO"' ERR
f() {
  false
}
f
END
  unchanged after.sh
  recorded "service end failure"
  [[ $(entries errorLine errorLineApproximate | tail -n 1) =~ ^("5 f after.sh -"|.*true|"- -")$ ]]
}

@test "an ERR trap that exits sets the exit status" {
  script exits.sh <<'END'
trap 'echo "error $?"; exit 9' ERR
. "$SHIM"
record_service_stage_start one
false
echo unreached
END
  unchanged exits.sh
  recorded "service end failure"
}

@test "RETURN and DEBUG traps run unchanged" {
  script debug.sh <<'END'
f() { :; }
count=0
trap 'echo "return from ${FUNCNAME[0]-}"' RETURN
trap 'count=$((count + 1))' DEBUG
. "$SHIM"
f
record_service_stage_start one
f
record_service_stage_success
trap - DEBUG
echo "$count"
trap -p RETURN DEBUG
END
  unchanged debug.sh
  recorded "service end success"
}

@test "signal traps are printed and run unchanged" {
  script signals.sh <<'END'
trap 'echo usr1' USR1
trap '' HUP
. "$SHIM"
trap 'echo usr2' USR2
record_service_stage_start one
kill -USR1 "$$"
kill -USR2 "$$"
kill -HUP "$$"
record_service_stage_success
trap -p USR1 USR2 HUP TERM INT PIPE QUIT XFSZ CHLD
END
  unchanged signals.sh
  recorded "service end success"
}

@test "a long EXIT trap blocks nothing" {
  script long.sh <<END
. "\$SHIM"
trap ': $(printf '%0100000d' 0); echo bye' EXIT
record_service_stage_start one
record_service_stage_success
END
  unchanged long.sh
}

# The script sources the shim by its name, as services do, and not through a variable.
named_as_installed() { # <shell code before sourcing> <shell code after a stage has started>
  ln -sf "$SHIM" bootstrap-service-record.sh
  script "$how.sh" <<END
$1
. ./bootstrap-service-record.sh
record_service_stage_start one
$2
record_service_stage_success
END
}

is_closed() {
  [ "$(entries | tail -n 1)" = "service end success" ]
  rm -r records
}

@test "the EXIT trap of a script without the word is not read" {
  command -v strace >/dev/null || skip "strace is not installed"
  for how in without with; do
    named_as_installed '# trap' "$([ $how = without ] || echo 'trap -p USR1')"
    env -i "${surroundings[@]}" strace -qq -e trace=openat -o trace "$TEST_BASH" "$how.sh"
    [ "$(grep -c sh-thd trace)" -eq "$([ $how = without ] && echo 2 || echo 8)" ] # one file, opened twice, at sourcing
  done
}

@test "an EXIT trap from a library, eval or the environment is found" {
  echo 'trap "echo bye" EXIT' >library
  for how in trap source dot eval word same-line environment; do
    case $how in
    trap) named_as_installed '' 'trap "echo bye" EXIT' ;;
    source) named_as_installed '' 'source ./library' ;;
    dot) named_as_installed '' 'true && . ./library' ;;
    eval) named_as_installed 'a=tr b=ap' 'eval "$a$b \"echo bye\" EXIT"' ;;
    word) named_as_installed 'how=trap' '$how "echo bye" EXIT' ;;
    same-line) named_as_installed '' '. ./bootstrap-service-record.sh; trap "echo bye" EXIT' ;;
    environment)
      surroundings+=('BASH_FUNC_bye%%=() { trap "echo bye" EXIT; }')
      named_as_installed '' 'bye'
      ;;
    esac
    run -0 service "$how.sh"
    [ "$output" = bye ]
    is_closed
  done
}

@test "an EXIT trap is found in a script without a file" {
  ln -sf "$SHIM" bootstrap-service-record.sh
  text='. ./bootstrap-service-record.sh; record_service_stage_start one; trap "echo bye" EXIT; record_service_stage_success'
  run -0 service -c "$text"
  [ "$output" = bye ]
  is_closed
  run -0 service <<<"$text"
  [ "$output" = bye ]
  is_closed
}

@test "a script that saves and restores its traps never sees ours" {
  script restores.sh <<'END'
[ "$1" != own ] || trap 'echo "own $?"' EXIT
. "$SHIM"
record_service_stage_start one
old=$(trap -p EXIT)
echo "[$old]"
trap 'echo "mine $?"' EXIT
record_service_stage_success
trap -p EXIT
eval "$old"
case $2 in
  exits) exit 3 ;;
  fails) set -e; false ;;
esac
END
  for own in own none; do
    for how in exits fails ends; do
      unchanged restores.sh "$own" "$how"
      [ "$(entries phase | grep -c 'service end')" -eq "$([ "$how" = ends ] && echo 0 || echo 1)" ]
      rm -r records
    done
  done
}

@test "a trap made from our command records no false status" {
  script composed.sh <<'END'
. "$SHIM"
record_service_stage_start one
record_service_stage_success
set -- "$1" "$(trap -p EXIT)"
text=${2#"trap -- '"}
trap "echo before; false; ${text%"' EXIT"} echo after" EXIT
case $1 in
  exits) exit 3 ;;
  fails) set -e; (exit 4) ;;
  stage) record_service_stage_start two; record_service_stage_success ;;
  unbound) set -u; echo "$NOPE" ;;
esac
END
  for how in exits fails stage unbound ends; do
    unchanged composed.sh "$how"
    case $how in
    exits | fails) recorded "service end failure" ;;
    stage) recorded "service end success" ;;
    *) recorded "stage end success" ;;
    esac
    [ "$(entries phase | grep -c 'service end')" -le 1 ]
    rm -r records
  done
}

@test "exit is recorded after the traps were removed" {
  script gone.sh <<'END'
set -e
. "$SHIM"
record_service_stage_start one
record_service_stage_success
trap - EXIT ERR
[ "$1" = ends ] || exit 3
END
  unchanged gone.sh exits
  recorded "service end failure"
  rm -r records
  unchanged gone.sh ends
  recorded "stage end success"
}

@test "an EXIT trap that reads frames or returns runs unchanged" {
  script frames.sh <<'END'
[ "$1" = before ] && trap "$2" EXIT
. "$SHIM"
bye() { echo "${FUNCNAME[1]}:${BASH_LINENO[0]} $(caller)"; }
[ "$1" = after ] && trap "$2" EXIT
[ "$1" = plain ] && {
trap bye EXIT
}
record_service_stage_start one
record_service_stage_success
f() { exit 3; }
f
END
  for when in before after plain; do
    for code in bye 'return 5' 'echo "$# $*"' 'echo "${FUNCNAME[*]}"'; do
      unchanged frames.sh "$when" "$code"
      recorded "service end failure"
    done
  done
}

@test "the end of a plain script with an EXIT trap set last is recorded" {
  script plain.sh <<'END'
. "$SHIM"
record_service_stage_start one
record_service_stage_success
cleanup() { echo "bye $?"; }
trap cleanup EXIT INT
trap - INT # as before
f() { [ "$1" = ends ]; true; }
[ "$1" = ends ] || set -e
f "$1"
END
  unchanged plain.sh ends
  recorded "service end success"
  unchanged plain.sh fails
  recorded "service end failure"
}

@test "the end of a script that sources libraries is recorded" {
  mkdir lib
  echo 'library_function() { eval "set -- $1"; [ "$1" = ends ]; }' >lib/lib.sh
  echo '. "$(dirname "${BASH_SOURCE[0]}")/more.sh"' >>lib/lib.sh
  echo 'cleanup() { trap - INT; echo "bye $?"; }' >lib/more.sh
  sources=('. "$(dirname "$0")/lib/lib.sh"' "source $PWD/lib/lib.sh" '. "${0%/*}"/lib/lib.sh'
    $'HERE=$( cd "$( dirname "${BASH_SOURCE[0]}" )" >/dev/null 2>&1 && pwd -P )\nset -a; source "${HERE}/lib/lib.sh"; set +a'
    'for i in 1 2; do [ ! -e lib/lib.sh ] || source ./lib/lib.sh; done'
    '[ -r /etc/no-such-file ] && . /etc/no-such-file; . "$(dirname "$0")/lib/lib.sh"')
  traps=('trap cleanup EXIT INT TERM' 'trap -- "echo \"$0\"; cleanup" 0 2' 'f() { trap cleanup EXIT; }; f'
    $'trap \'\n  cleanup\n\' SIGHUP EXIT # both' 'true && trap cleanup ERR EXIT' 'trap "echo "$0"; cleanup" EXIT')
  for number in "${!sources[@]}"; do
    script sources.sh <<END
set -u
. "\$SHIM"
${sources[number]}
record_service_stage_start one
record_service_stage_success
${traps[number]}
[ "\$1" = ends ] || set -e
library_function "\$1"
END
    echo "${sources[number]}; ${traps[number]}"
    unchanged "$PWD/sources.sh" ends
    recorded "service end success"
    unchanged "$PWD/sources.sh" fails
    recorded "service end failure"
  done
}

@test "RETURN, DEBUG and removed ERR traps run unchanged" {
  for code in 'f() { trap "echo returned" RETURN; }; f; f' 'trap "echo debugs" DEBUG; :; trap - DEBUG; :' \
    'trap "echo error" ERR; false; trap - ERR; false' 'trap "echo bye" EXIT INT; trap -p INT' \
    'f() { trap "echo inner" ERR; false; trap - ERR; false; }; trap "echo outer" ERR; f; false' \
    'builtin trap "echo bye" EXIT; type trap' 'for signal in DEBUG; do trap "echo debugs" $signal; done'; do
    for where in script library; do
      echo "$code; true" >library # ERR would see the end of the library
      [ "$where" = library ] || echo >library
      script cannot.sh <<END
. "\$SHIM"
[ "\$1" = without ] || set -E
record_service_stage_start one
. "\$(dirname "\$0")/library"
record_service_stage_success
trap 'echo bye' EXIT
trap : USR1
$([ "$where" = library ] || echo "$code")
true
END
      unchanged "$PWD/cannot.sh" "$([ "$where" = library ] && echo without || echo with)"
    done
  done
}

@test "the status that an EXIT trap sets is recorded" {
  script status.sh <<'END'
. "$SHIM"
[ "$2" = e ] && set -e
trap "$1" EXIT
record_service_stage_start one
record_service_stage_success
END
  for code in 'exit 5' 'rc=$?; exit $rc' 'echo bye # a comment' 'false; echo on'; do
    for options in e -; do
      unchanged status.sh "$code" "$options"
      case "$code $options" in
      'exit 5 '* | 'false'*' e') recorded "service end failure" ;;
      *) recorded "service end success" ;;
      esac
    done
  done
}

@test "an EXIT trap may exit with any number, or with none" {
  script number.sh <<'END'
. "$SHIM"
trap 'exit "$1" 2>/dev/null' EXIT
END
  for number in 0 007 08 256 -1 -256 +3 ' 4' '' abc 99999999999999999999; do
    unchanged number.sh "$number"
    case $number in
    0 | 256 | -256) recorded "service end success" ;;
    ' 4' | '' | abc | 9*) recorded "service start -" ;; # no end: bash refuses most of these
    *) recorded "service end failure" ;;
    esac
  done
}

@test "exec of a missing command ends unchanged" {
  : >plain-file
  for how in 'exec no-such-command' 'exec ./plain-file x || exit 9' 'f() { exec -a name "$missing" x; }; f' \
    'exec 3>&1' 'if exec /no/such; then :; fi'; do
    script exec.sh <<END
. "\$SHIM"
missing=no-such-command
$how
END
    unchanged exec.sh
    case $how in
    'exec 3>&1') recorded "service end success" ;;
    # For a path bash leaves the EXIT trap out.
    *./plain* | *exec\ /*) run ! grep -q '"service end","result":"success"' records/service.json ;;
    *) recorded "service end failure" ;;
    esac
    rm -r records
  done
}

@test "reading the traps leaves no descriptor open" {
  script descriptors.sh <<'END'
. "$SHIM"
. /dev/null # any file may set traps
record_service_stage_start one
before=(/proc/$$/fd/1[0-9])
record_service_stage_success
record_service_stage_start two
record_service_stage_success
after=(/proc/$$/fd/1[0-9])
[[ ${before[*]} == "${after[*]}" ]] || echo "${before[*]}; ${after[*]}"
END
  run -0 service descriptors.sh
  [ "$output" = "" ]
}
