#!/usr/bin/env bats
# Misuse says one line on standard error and goes on, recorded as well as can be; it never ends the service.

load helpers

@test "a stage start within a stage closes the open one as a failure with that reason" {
  script nested.sh <<'END'
set -euoE pipefail
. "$SHIM"
record_service_stage_start first
record_service_stage_start second
record_service_stage_success
echo on
END
  run -0 --separate-stderr service nested.sh
  [ "$output" = on ]
  [ "${#stderr_lines[@]}" -eq 1 ]
  [[ $stderr == *first*second* || $stderr == *second*first* ]]
  entries_are <<'END'
service start
stage start first
stage end first failure
stage start second
stage end second success
service end success
END
  [[ $(entries errorMessage | sed -n 3p) == *second* ]]
}

@test "the line of a stage start within a stage is said" {
  script nested.sh <<'END'
. "$SHIM"
record_service_stage_start first
again() {
  record_service_stage_start second
}
again
END
  run -0 --separate-stderr service nested.sh
  [[ $stderr == *nested.sh:4:* ]]
}

@test "the line of a misuse is that of the service's call, however it is called" {
  local call
  for call in success failure start; do
    script calls.sh <<END
. "\$SHIM"
false || record_service_stage_$call
record_service_stage_$call || :
f() {
  record_service_stage_$call
}
f
g() {
  f
}
g
if record_service_stage_$call; then :; fi
! record_service_stage_$call
eval "record_service_stage_$call"
(record_service_stage_$call)
x=\$(record_service_stage_$call)
record_service_stage_$call | cat
record_service_stage_$call &
wait
call=record_service_stage_$call
"\$call"
. ./library.inc
END
    printf '\nrecord_service_stage_%s\n' "$call" >library.inc
    service calls.sh 2>err || :
    # The name that a stage start lacks is said of each; that one was open before it, from the second on.
    grep -o ' [a-z./]*:[0-9]*: ' err | uniq | tr -d '\n' >lines
    diff - <(echo "$(<lines)") <<<" calls.sh:2:  calls.sh:3:  calls.sh:5:  calls.sh:12:  calls.sh:13:  calls.sh:14:  calls.sh:15:  calls.sh:16:  calls.sh:17:  calls.sh:18:  calls.sh:21:  ./library.inc:2: "
  done
}

@test "a misuse within a trap names no line, for bash counts those of the trap" {
  script trap.sh <<'END'
. "$SHIM"
trap 'echo trapped
record_service_stage_failure' USR1
kill -USR1 $$
END
  run -0 --separate-stderr service trap.sh
  [[ $stderr == 'service-record: trap.sh: no stage is open; '* ]]
}

@test "a stage end without a stage is recorded without a name, and said" {
  script endless.sh <<'END'
set -euoE pipefail
. "$SHIM"
record_service_stage_success
record_service_stage_failure
echo on
END
  run -0 --separate-stderr service endless.sh
  [ "$output" = on ]
  [ "${#stderr_lines[@]}" -eq 2 ]
  entries_are <<'END'
service start
stage end success
stage end failure
service end success
END
}

@test "a stage that is ended again keeps its first end" {
  script twice.sh <<'END'
set -euoE pipefail
. "$SHIM"
record_service_stage_start pull
record_service_stage_failure
record_service_stage_failure
record_service_stage_success
echo on
END
  run -0 --separate-stderr service twice.sh
  [ "$output" = on ]
  [ "${#stderr_lines[@]}" -eq 2 ]
  entries_are <<'END'
service start
stage start pull
stage end pull failure
stage end failure
stage end success
service end success
END
}

@test "a stage without a name is recorded under a name of ours" {
  script nameless.sh <<'END'
set -euoE pipefail
. "$SHIM"
record_service_stage_start
record_service_stage_success
record_service_stage_start ""
record_service_stage_success
echo on
END
  run -0 --separate-stderr service nameless.sh
  [ "$output" = on ]
  [ "${#stderr_lines[@]}" -eq 2 ]
  [ "$(entries phase | grep -c stage)" -eq 4 ]
  [ "$(entries stage | sed -n 2,5p | sort -u | wc -l)" -eq 1 ]
  run ! grep -Fx -- - <(entries stage | sed -n 2,5p)
}

@test "every call gives status 0, misused or not" {
  script status.sh <<'END'
. "$SHIM"
record_service_stage_success; echo "$?"
record_service_stage_start; echo "$?"
record_service_stage_start second; echo "$?"
(exit 3); record_service_stage_failure; echo "$?"
END
  run -0 --separate-stderr service status.sh
  [ "$output" = $'0\n0\n0\n0' ]
}

@test "misuse is harmless when standard error is closed" {
  script closed.sh <<'END'
set -euo pipefail
. "$SHIM"
exec 2>&-
record_service_stage_success
record_service_stage_start first
record_service_stage_start second
echo on
END
  run -0 service closed.sh
  [ "$output" = on ]
  [ "$(entries | tail -n 1)" = "service end success" ]
  [ "$(entries phase | grep -c "stage start")" -eq 2 ]
}

@test "stage calls in a subshell, a pipeline or the background do no harm" {
  script elsewhere.sh <<'END'
set -euo pipefail
. "$SHIM"
( record_service_stage_start inner; record_service_stage_success )
record_service_stage_start outer | cat
record_service_stage_start outer
( record_service_stage_success ) &
wait $!
record_service_stage_success
echo on
END
  run -0 --separate-stderr service elsewhere.sh
  [ "$output" = on ]
  [ "$(entries | tail -n 1)" = "service end success" ]
}
