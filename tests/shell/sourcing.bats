#!/usr/bin/env bats
# However the shim comes to be sourced, one run has one start and one end, and states of two scripts never mix.

load helpers

@test "sourcing twice starts one run" {
  script twice.sh <<'END'
set -euo pipefail
. "$SHIM"
. "$SHIM"
END
  service twice.sh
  one_run
}

@test "sourcing again in a stage keeps the stage open" {
  script again.sh <<'END'
. "$SHIM"
record_service_stage_start one
. "$SHIM"
record_service_stage_success
END
  run -0 service again.sh
  [ "$output" = "" ]
  one_stage_is success
}

@test "a sourced script that sources the shim again belongs to the run" {
  script urls.sh <<'END'
. "$SHIM"
check() { record_service_stage_start "check-$1"; record_service_stage_success; }
END
  script main.sh <<'END'
set -euoE pipefail
. "$SHIM"
. ./urls.sh
check api
END
  service main.sh
  entries_are <<'END'
service start
stage start check-api
stage end check-api success
service end success
END
}

@test "a sourced script may be the only one that sources the shim" {
  script inner.sh <<<'. "$SHIM"'
  script outer.sh <<'END'
set -euo pipefail
. ./inner.sh
record_service_stage_start one
exit 3
END
  run -3 service outer.sh
  one_stage_is failure
}

@test "sourcing in a function works after the function has returned" {
  script function.sh <<'END'
set -euo pipefail
begin() { . "$SHIM"; }
begin
record_service_stage_start one
record_service_stage_success
END
  service function.sh
  one_stage_is success
}

@test "a child script has a run and a state of its own" {
  script child.sh <<'END'
. "$SHIM"
record_service_stage_start inner
record_service_stage_success
END
  script parent.sh <<'END'
set -euo pipefail
. "$SHIM"
record_service_stage_start outer
"$BASH" child.sh
record_service_stage_success
END
  run -0 service parent.sh
  [ "$output" = "" ]
  entries_are <<'END'
service start
stage start outer
service start
stage start inner
stage end inner success
service end success
stage end outer success
service end success
END
  [ "$(entries pid | sort -u | wc -l)" -eq 2 ]
}

@test "a child inherits no state when everything is exported" {
  script child.sh <<<'. "$SHIM"'
  script parent.sh <<'END'
set -a
. "$SHIM"
record_service_stage_start outer
"$BASH" child.sh
record_service_stage_success
END
  run -0 service parent.sh
  [ "$output" = "" ]
  entries_are <<'END'
service start
stage start outer
service start
service end success
stage end outer success
service end success
END
}

@test "a script that another execs has a run of its own though its pid is the same" {
  script second.sh <<<'. "$SHIM"'
  script first.sh <<'END'
set -a
. "$SHIM"
record_service_stage_start handing-over
exec "$BASH" second.sh
END
  service first.sh
  entries_are <<'END'
service start
stage start handing-over
service start
service end success
END
}

@test "exported functions of the shim do not keep a child from sourcing it" {
  script child.sh <<<'. "$SHIM"'
  script parent.sh <<'END'
. "$SHIM"
for name in $(compgen -A function); do export -f "$name"; done
"$BASH" child.sh
END
  service parent.sh
  [ "$(entries | grep -c 'service start')" -eq 2 ]
  [ "$(entries | grep -c 'service end success')" -eq 2 ]
}

@test "a stage name from the environment is not an open stage" {
  script named.sh <<'END'
set -e
. "$SHIM"
record_service_stage_start one
record_service_stage_success
END
  surroundings+=("STAGE_NAME=leaked" "RESULT=leaked" "ERROR_LINE=leaked" "ERROR_MESSAGE=leaked" "PHASE=leaked")
  run -0 service named.sh
  [ "$output" = "" ]
  one_stage_is success
  run ! grep -q leaked records/service.json
}

@test "a subshell that ends ends no run" {
  script subshell.sh <<'END'
. "$SHIM"
( exit 3 )
x=$( exit 4 )
{ exit 5; } &
wait $! || :
( : ) | cat
END
  service subshell.sh
  one_run
}

@test "bash -c is recorded" {
  service -c '. "$SHIM"; record_service_stage_start one; record_service_stage_success'
  one_stage_is success
}

@test "a script from standard input is recorded" {
  run -3 service <<'END'
. "$SHIM"
record_service_stage_start one
exit 3
END
  one_stage_is failure
}

@test "a shim from a pipe records and prints nothing" {
  script piped.sh <<'END'
trap "echo own" EXIT
. <(cat "$SHIM")
record_service_stage_start "größe"
record_service_stage_success
exit 3
END
  run --separate-stderr -3 service piped.sh
  [ "$output" = own ]
  [ "$stderr" = "" ]
  entries_are <<'END'
service start
stage start größe
stage end größe success
service end failure
END
}

@test "POSIX mode, as sh, is recorded" {
  ln -s "$TEST_BASH" sh
  run -3 env -i "${surroundings[@]}" ./sh -c '. "$SHIM"; record_service_stage_start one; record_service_stage_success; exit 3'
  entries_are <<'END'
service start
stage start one
stage end one success
service end failure
END
}

@test "sourcing gives success and leaves the arguments alone" {
  script arguments.sh <<'END'
set -- one "two three"
false
. "$SHIM" && echo "sourced $?"
printf '%s\n' "$@"
END
  run -0 service arguments.sh
  [ "$output" = $'sourced 0\none\ntwo three' ]
}

@test "what sourcing adds to the service has one prefix" {
  script prefix.sh <<'END'
{ compgen -v; compgen -A function; compgen -a; } | sort >before
. "$SHIM"
{ compgen -v; compgen -A function; compgen -a; } | sort >after
END
  service prefix.sh
  comm -13 before after | grep -Ev '^(__sr|record_service_|PIPESTATUS)' >added || :
  diff - added <<<exit
}
