#!/usr/bin/env bats
# An entry is at most 4096 bytes with its newline, one write, and says when something was cut.

load helpers

whole_and_short() {
  "$PYTHON" -IS - <<'END'
import json
lines = [line for line in open("records/service.json", "rb").read().split(b"\n") if line]
assert lines
for line in lines:
    json.loads(line)
    assert len(line) + 1 <= 4096, len(line)
END
}

journal_of() { # <text>
  mkdir -p bin
  printf '%s\n' "$1" >journal
  printf '#!/bin/sh\ncat "%s/journal"\n' "$PWD" >bin/journalctl
  chmod +x bin/journalctl
  surroundings+=("PATH=$PWD/bin:$PATH" "INVOCATION_ID=0123456789abcdef0123456789abcdef")
}

failing() {
  script failing.sh <<'END'
set -e
. "$SHIM"
record_service_stage_start one
(exit 4)
END
}

@test "a long message loses its oldest end and says so" {
  # Three lines of 48 KiB, the most that journald takes in one by default.
  journal_of "oldest $(printf '%049152d\n' 0 0 0) newest"
  failing
  run -4 service failing.sh
  whole_and_short
  message=$(entries errorMessage | tail -n 1)
  [[ $message == …*"0 newest" ]]
  ((${#message} > 2000))
  [ "$(entries truncated | tail -n 1)" = true ]
}

@test "a message that grows when escaped is cut all the same" {
  for text in "$(printf '%04000d' 0 | tr 0 '\033')" "$(printf '%04000d' 0 | tr 0 '"')" "$(printf 'ä%.0s' {1..3000})" \
    "$(printf '\377%.0s' {1..3000})" "$(printf '😀%.0s' {1..2000})"; do
    rm -rf records
    journal_of "$text end"
    failing
    run -4 service failing.sh
    whole_and_short
    [[ $(entries errorMessage | tail -n 1) == *" end" ]]
    [ "$(entries truncated | tail -n 1)" = true ]
  done
}

@test "a message that fits is not cut" {
  journal_of "$(printf '%02500d' 0)"
  failing
  run -4 service failing.sh
  [ "$(entries truncated | sort -u)" = - ]
  [ "$(entries errorMessage | tail -n 1)" = "$(printf '%02500d' 0)" ]
}

@test "a long stage name is cut" {
  script name.sh <<END
. "\$SHIM"
record_service_stage_start "$(printf '%09000d' 0)"
record_service_stage_success
record_service_stage_start "$(printf '%04000d' 0 | tr 0 '\033')"
record_service_stage_success
record_service_stage_start short
record_service_stage_success
END
  service name.sh
  whole_and_short
  [ "$(entries phase | grep -c stage)" -eq 6 ]
  [ "$(entries truncated | tail -n 3 | sort -u)" = - ]
}

@test "a deep stack loses its outermost calls" {
  script deep.sh <<'END'
set -eE
. "$SHIM"
a_function_with_a_name_of_some_length() {
  (( $1 )) || false
  a_function_with_a_name_of_some_length "$(( $1 - 1 ))"
}
a_function_with_a_name_of_some_length 300
END
  run -1 service deep.sh
  whole_and_short
  [[ $(entries stack | tail -n 1) == '["4 a_function_with_a_name_of_some_length deep.sh", "5 a'* ]]
  [ "$(entries result truncated | tail -n 1)" = "failure true" ]
}

@test "everything long at once" {
  journal_of "$(printf '%049152d' 0)"
  surroundings+=("PRE_COMMAND=$(printf '%03000d' 0)")
  script all.sh <<END
set -eE
. "\$SHIM"
record_service_stage_start "$(printf '%03000d' 0)"
f() {
  test -e /nowhere/$(printf '%05000d' 0)
}
f
END
  run -1 service all.sh
  whole_and_short
  entries phase | sort | uniq -c | awk '{ print $1, $2, $3 }' >phases
  diff phases - <<'END'
1 pre-command end
1 pre-command start
1 stage end
1 stage start
END
}
