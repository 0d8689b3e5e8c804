#!/usr/bin/env bats
# The shim works under unusual settings of the service's shell, and does not change them. tests/matrix tests
# the options of bash.

load helpers

# Writes a script that changes a setting of its shell, records a stage, and prints its own state afterwards.
write_service_with() { # <shell code before sourcing> [shell code after sourcing] [shell code at the end]
  script odd.sh <<END
own='its own'
$1
. "\$SHIM"
$2
record_service_stage_start one
(exit 3) | (exit 4) | :
echo "\$? \${PIPESTATUS[*]} \$own \$* \$-"
record_service_stage_success
(exit 5)
echo "\$?"
set +o
shopt
umask
declare -p own
trap -p TERM INT HUP
$3
true
END
}

# Fails unless the script prints the same with and without the shim, and is recorded.
unchanged_and_recorded() {
  rm -rf records
  unchanged odd.sh
  one_stage_is success
}

@test "service with set -v is recorded" {
  write_service_with "set -v"
  service odd.sh 2>/dev/null
  [ "$(entries | wc -l)" -eq 4 ]
}

@test "set -x traces only the calls of the shim" {
  write_service_with 'PS4='\''+$LINENO '\''; set -x'
  service odd.sh 2>traced
  run ! grep -E '__sr|record' <(grep -v '^+[0-9]* \(\.\|record_service_stage_[a-z]*\( one\)*$\)' traced)
  rm -rf records
  write_service_with 'exec 7>trace; BASH_XTRACEFD=7; set -x'
  unchanged_and_recorded
}

@test "IFS of the service may have any value" {
  for ifs in '' ',' e 0123456789 $'\n' '"' / ' :{}'; do
    for how in "IFS='$ifs'" "readonly IFS='$ifs'"; do
      echo "$how"
      write_service_with "$how"
      unchanged_and_recorded
    done
  done
  for how in "unset IFS" "export IFS=e"; do
    write_service_with "$how"
    unchanged_and_recorded
  done
}

@test "locale of the service may have any value" {
  for locale in C POSIX C.UTF-8 de_DE.UTF-8 nonsense; do
    for how in "LC_ALL=$locale" "export LC_ALL=$locale" "LC_NUMERIC=$locale LANG=$locale" "readonly LC_ALL=$locale"; do
      echo "$how"
      write_service_with "$how"
      unchanged_and_recorded
    done
  done
}

# Names that a shim without a prefix might use, and that services use.
GENERIC=(STAGE_NAME PHASE RESULT ERROR_LINE ERROR_MESSAGE REPLY MAPFILE i j n line name result status entry file message
  stack command phase stage timestamp text fd pid)
SPECIAL=(TZ LC_ALL LC_CTYPE LANG OPTARG HOME TIMEFORMAT)
INHERITED=(PATH SERVICE_NAME SERVICE_RECORDS_DIR PRE_COMMAND POST_COMMAND)

# Fails unless the service's variables keep their values and attributes, and none of them is in the record.
variables_are_kept() { # <shell code that declares the variables> <name>...
  echo "$1"
  write_service_with "$1" '' "declare -p ${*:2}"
  unchanged_and_recorded
  run ! grep -q leaked records/service.json
}

@test "readonly variables with common names are kept" {
  variables_are_kept "readonly ${GENERIC[*]/%/=leaked} ${SPECIAL[*]/%/=leaked}" "${GENERIC[@]}" "${SPECIAL[@]}"
  variables_are_kept "readonly ${INHERITED[*]}" PATH
  for name in OPTIND FUNCNEST POSIXLY_CORRECT; do
    variables_are_kept "readonly $name=100" "$name"
  done
}

@test "exported variables, arrays and attributes with common names are kept" {
  variables_are_kept "export ${GENERIC[*]/%/=leaked}" "${GENERIC[@]}"
  variables_are_kept "unset ${GENERIC[*]}; declare -A ${GENERIC[*]/%/=([leaked]=leaked)}" "${GENERIC[@]}"
  variables_are_kept "unset ${GENERIC[*]}; declare -i ${GENERIC[*]/%/=1}; declare -u own" "${GENERIC[@]}"
}

mapfile -t NAMES < <(grep -ohE '\<__sr(_[a-z_0-9]+)?\>' "$SHIM" "${SHIM%/*}/service-record-failure.sh" | sort -u)

@test "variables of the shim are not taken from the environment" {
  for name in "${NAMES[@]}"; do
    surroundings+=("$name=leaked")
  done
  write_service_with :
  unchanged_and_recorded
  run ! grep -q leaked records/service.json
}

@test "readonly variables of the shim do not disturb the service" {
  for name in "${NAMES[@]}"; do
    echo "readonly $name"
    write_service_with "readonly $name=leaked" 'set -e'
    sed -i 's/^(exit.*/true | true/' odd.sh
    if [ -d without ]; then # without the shim, the output is the same for each name
      run_into with odd.sh
      diff -r without with
    else
      unchanged odd.sh
    fi
  done
}

BUILTINS=(. : '[' alias break command compgen continue declare echo enable eval exec export false getopts hash kill let
  local mapfile printf read readarray readonly return set shift shopt source test times trap true type typeset ulimit
  umask unset wait)

@test "functions with names of builtins are not called" {
  {
    for name in "${BUILTINS[@]}"; do
      echo "$name() { builtin echo \"hijacked \$FUNCNAME \${FUNCNAME[1]}\"; builtin $name \"\$@\"; }"
    done
    cat <<END
builtin . "\$SHIM"
record_service_stage_start one
record_service_stage_success
builtin unset -f ${BUILTINS[*]}
END
  } | script functions.sh
  unchanged functions.sh
  [ "$(entries | wc -l)" -eq 4 ]
}

@test "functions with names of builtins, defined after sourcing, are not called" {
  {
    echo '. "$SHIM"'
    for name in "${BUILTINS[@]}"; do
      [ "$name" != exec ] || continue # docs/shell-guarantees.md
      echo "$name() { builtin echo \"hijacked \$FUNCNAME \${FUNCNAME[1]}\"; builtin $name \"\$@\"; }"
    done
    cat <<END
record_service_stage_start one
record_service_stage_success
builtin unset -f ${BUILTINS[*]}
exit 3
END
  } | script functions.sh
  unchanged functions.sh
  [ "$(entries | wc -l)" -eq 4 ]
}

@test "exit function of the service is kept" {
  script own-exit.sh <<'END'
exit() { echo "leaving with $1"; builtin exit "$1"; }
. "$SHIM"
exit 3
END
  unchanged own-exit.sh
  [ "$(entries | tail -n 1)" = "service end failure" ]
}

@test "function named builtin does not disturb the service" {
  script builtin.sh <<'END'
builtin() { command builtin "$@"; }
. "$SHIM"
record_service_stage_start one
record_service_stage_success
exit 3
END
  unchanged builtin.sh
}

@test "aliases with names of builtins are not expanded" {
  local names=("${BUILTINS[@]:3}" builtin exit) # without . : and [
  script aliases.sh <<END
shopt -s expand_aliases
alias ${names[*]/%/="'echo hijacked'"}
\\. "\$SHIM"
record_service_stage_start one
record_service_stage_success
\\shopt -p expand_aliases
END
  unchanged aliases.sh
  [ "$(entries | wc -l)" -eq 4 ]
}

@test "disabled builtins do not disturb the service" {
  for name in command printf local read trap shopt declare; do
    echo "enable -n $name"
    script disabled.sh <<END
set -e
enable -n $name
. "\$SHIM"
record_service_stage_start one
record_service_stage_success
echo on
END
    unchanged disabled.sh
  done
}

# Bash itself prints a message in this case (see docs/shell-guarantees.md).
@test "service with builtin or mapfile disabled runs unrecorded" {
  for name in builtin mapfile; do
    script disabled.sh <<END
set -eu
enable -n $name
. "\$SHIM"
record_service_stage_start one
echo on
exit 3
END
    run_into with disabled.sh
    diff with/out - <<<on
    diff with/status - <<<"ended 3"
    [ ! -e records/service.json ]
  done
}

@test "closed standard descriptors stay closed" {
  for closed in '0<&-' '1>&-' '2>&-' '0<&- 1>&-' '1>&- 2>&-' '0<&- 1>&- 2>&-'; do
    for when in before after; do
      echo "exec $closed $when sourcing"
      script closed.sh <<END
[ $when = after ] || exec $closed
. "\$SHIM"
[ $when = before ] || exec $closed
record_service_stage_start one
echo out
echo "echo gave \$?" >>said
echo err >&2
read -r line
echo "read gave \$?" >>said
record_service_stage_success
(exit 3)
END
      rm -rf records said
      unchanged closed.sh
      [ "$(sort said | uniq -c | awk '{print $1}' | sort -u)" = 2 ]
      [ "$(entries | wc -l)" -eq 4 ]
      run ! grep -qx out records/service.json
    done
  done
}

@test "service runs unchanged with a low ulimit -n" {
  for limit in 5 8 12; do
    echo "ulimit -n $limit"
    write_service_with "ulimit -n $limit"
    unchanged odd.sh
  done
}

@test "service runs unchanged with special variables unset" {
  for name in EPOCHREALTIME EPOCHSECONDS BASHPID BASH_SOURCE FUNCNAME BASH_LINENO BASH_COMMAND LINENO PIPESTATUS \
    SECONDS PATH HOME PWD BASH_ALIASES; do
    echo "unset $name"
    write_service_with "set -Eu; unset $name; trap ': \$?' ERR"
    unchanged odd.sh
  done
  for name in BASHPID BASH_COMMAND LINENO BASH_ALIASES; do
    echo "unset $name after sourcing"
    write_service_with 'set -Eu' "unset $name"
    unchanged odd.sh
  done
}

@test "nocasematch changes no option of the service" {
  write_service_with 'shopt -s nocasematch expand_aliases; set -E' ':' 'trap "false; echo \$-" EXIT; false; exit 3'
  unchanged odd.sh
  write_service_with 'shopt -s nocasematch; set -ea' ':' 'trap - ERR; alias one=false; one'
  unchanged odd.sh
}

@test "variables that bash sets keep the values of the service" {
  script results.sh <<'END'
[[ abc =~ b ]]
read -r <<<"its own"
mapfile -t <<<"its own"
getopts a: option -a value
coproc cat
before="$! ${COPROC[*]}"
. "$SHIM"
record_service_stage_start one
record_service_stage_success
echo "${BASH_REMATCH[*]} $REPLY ${MAPFILE[*]} $OPTIND $OPTARG $option"
[ "$! ${COPROC[*]}" = "$before" ] && echo "the same processes"
END
  unchanged results.sh
}

@test "variables that limit the shell do not prevent recording" {
  for limit in TMOUT=1 'GLOBIGNORE=*' HISTCONTROL=ignorespace CHILD_MAX=1; do
    echo "$limit"
    write_service_with "$limit"
    unchanged_and_recorded
  done
}

@test "service runs unchanged with a low FUNCNEST" {
  for limit in 1 2 3 4 5 6 7 8; do
    write_service_with "FUNCNEST=$limit"
    unchanged odd.sh
  done
}

@test "file names that match glob patterns do not prevent recording" {
  touch -- 1 2 e -e -n '"' "\\" '*' '?' '[a]' '{}' success failure
  write_service_with 'shopt -s nullglob dotglob extglob'
  unchanged_and_recorded
  write_service_with 'shopt -s failglob'
  unchanged_and_recorded
}

@test "relative records directory is kept when the working directory changes or is removed" {
  surroundings+=("SERVICE_RECORDS_DIR=records")
  write_service_with : 'mkdir -p away; cd away; rmdir ../away'
  unchanged_and_recorded
}

@test "service with many positional parameters is recorded" {
  write_service_with 'set -- $(seq 2000)'
  unchanged_and_recorded
}

@test "service with monitor mode, lastpipe and a coprocess is recorded" {
  write_service_with 'set -m; shopt -s lastpipe' 'coproc cat; echo hello >&"${COPROC[1]}"; read -r said <&"${COPROC[0]}"; echo "$said"'
  unchanged_and_recorded
}

@test "set -a exports no variable or function of the shim" {
  script exporting.sh <<'END'
set -a
. "$SHIM"
own='its own'
record_service_stage_start one
"$BASH" -c 'declare -Fx; [[ $own == "its own" ]] && env | grep -E "__sr|record_service|^BASH_FUNC"; true'
record_service_stage_success
END
  run -0 service exporting.sh
  [ "$output" = "" ]
  [ "$(entries | wc -l)" -eq 4 ]
}

@test "aliases with names of keywords are not expanded" {
  local names=('if' 'then' 'else' 'fi' 'for' 'in' 'do' 'done' 'while' 'case' 'esac' 'local' 'function' '[[')
  script keywords.sh <<END
shopt -s expand_aliases
alias ${names[*]/%/="'echo hijacked'"}
\\. "\$SHIM"
record_service_stage_start one
record_service_stage_success
alias
shopt -p expand_aliases
END
  unchanged keywords.sh
  [ "$(entries | wc -l)" -eq 4 ]
}

@test "set -v prints only the first lines of the shim" {
  script verbose.sh <<'END'
set -v
. "$SHIM"
record_service_stage_start one
record_service_stage_success
END
  service verbose.sh 2>shown
  run ! grep -E 'Records what|^record_service_stage_[a-z]*\(\)|__sr_append' shown
  [ "$(entries | wc -l)" -eq 4 ]
}

@test "RETURN trap under set -T sees each call and one function of the shim" {
  script returns.sh <<'END'
set -T
. "$SHIM"
trap 'echo "return ${FUNCNAME-}"' RETURN
record_service_stage_start one
record_service_stage_success
trap - RETURN
END
  run -0 service returns.sh
  diff - <(echo "$output") <<'END'
return __sr_quieten
return record_service_stage_start
return __sr_quieten
return record_service_stage_success
END
}

@test "nothing is printed if bash cannot redirect" {
  ln -s "$SHIM" bootstrap-service-record.sh
  for how in 'ulimit -n 4; . "$SHIM"' '. "$SHIM"; ulimit -n 4' 'PATH=$PATH:.; . bootstrap-service-record.sh; set -r'; do
    script limited.sh <<END
[ -e /proc/self/fd/3 ] && exec 3>&-
$how
record_service_stage_start one
record_service_stage_success
record_service_stage_failure
(exit 3)
END
    rm -rf records
    run --separate-stderr -3 service limited.sh
    [ "$output$stderr" = "" ]
  done
}

@test "exec function of the service is not called" {
  script exec.sh <<'END'
exec() { echo "called exec $*" >>called; builtin exec "$@"; }
. "$SHIM"
record_service_stage_start one
record_service_stage_failure
(builtin exit 3)
END
  for SERVICE_RECORDS_LAYOUT in lines array; do
    export SERVICE_RECORDS_LAYOUT
    rm -rf records
    run -3 service exec.sh
    [ ! -e called ]
  done
}
