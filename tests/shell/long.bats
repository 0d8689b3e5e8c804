#!/usr/bin/env bats
# An entry has at most 4096 bytes with its newline, and is marked if a text was cut.

load helpers

# Fails unless each line of the record is a JSON object of at most 4096 bytes.
entries_are_short() {
  "$PYTHON" -IS - <<'END'
import json
lines = [line for line in open("records/service.json", "rb").read().split(b"\n") if line]
assert lines
for line in lines:
    json.loads(line)
    assert len(line) + 1 <= 4096, len(line)
END
}

# Puts a journalctl into PATH that prints a text.
write_journal() { # <text>
  mkdir -p bin
  printf '%s\n' "$1" >journal
  printf '#!/bin/sh\ncat "%s/journal"\n' "$PWD" >bin/journalctl
  chmod +x bin/journalctl
  surroundings+=("PATH=$PWD/bin:$PATH" "INVOCATION_ID=0123456789abcdef0123456789abcdef")
}

write_failing_script() {
  script failing.sh <<'END'
set -e
. "$SHIM"
record_service_stage_start one
(exit 4)
END
}

@test "long message loses its beginning and is marked as truncated" {
  # Three lines of 48 KiB, the most that journald takes in one by default.
  write_journal "oldest $(printf '%049152d\n' 0 0 0) newest"
  write_failing_script
  run -4 service failing.sh
  entries_are_short
  message=$(entries errorMessage | tail -n 1)
  [[ $message == …*"0 newest" ]]
  ((${#message} > 2000))
  [ "$(entries truncated | tail -n 1)" = true ]
}

@test "message that is too long after escaping is cut" {
  for text in "$(printf '%04000d' 0 | tr 0 '\033')" "$(printf '%04000d' 0 | tr 0 '"')" "$(printf 'ä%.0s' {1..3000})" \
    "$(printf '\377%.0s' {1..3000})" "$(printf '😀%.0s' {1..2000})"; do
    empty_records
    write_journal "$text end"
    write_failing_script
    run -4 service failing.sh
    entries_are_short
    [[ $(entries errorMessage | tail -n 1) == *" end" ]]
    [ "$(entries truncated | tail -n 1)" = true ]
  done
}

@test "message that fits is not cut" {
  write_journal "$(printf '%02500d' 0)"
  write_failing_script
  run -4 service failing.sh
  [ "$(entries truncated | sort -u)" = - ]
  [ "$(entries errorMessage | tail -n 1)" = "$(printf '%02500d' 0)" ]
}

@test "long stage name is cut" {
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
  entries_are_short
  [ "$(entries phase | grep -c stage)" -eq 6 ]
  [ "$(entries truncated | tail -n 3 | sort -u)" = - ]
}

@test "deep stack loses its outermost calls" {
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
  entries_are_short
  [[ $(entries stack | tail -n 1) == '["4 a_function_with_a_name_of_some_length deep.sh", "5 a'* ]]
  [ "$(entries result truncated | tail -n 1)" = "failure true" ]
}

@test "entry with all texts too long is cut to 4096 bytes" {
  write_journal "$(printf '%049152d' 0)"
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
  entries_are_short
  entries phase | sort | uniq -c | awk '{ print $1, $2, $3 }' >phases
  diff phases - <<'END'
1 pre-command end
1 pre-command start
1 stage end
1 stage start
END
}

# Runs a script with the shim and without it, and fails if the shim adds more processor time than the limit.
# The shim promises 10 ms; the limits are higher, because a busy machine needs several times as long.
costs_at_most() { # <milliseconds> <script>
  local cost=() target
  for target in "${BATS_TEST_FILENAME%/*}/absent.bash" "$SHIM"; do
    ln -sf "$target" shim.sh
    cost+=("$("$PYTHON" -IS -c 'import os, resource, subprocess, sys
seconds = []
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(sys.argv[1:], stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
print(int(min(seconds) * 1000))' env -i "${surroundings[@]}" "$TEST_BASH" "$2")")
  done
  echo "without ${cost[0]} ms, with ${cost[1]} ms"
  ((cost[1] - cost[0] <= $1))
}

@test "script of 20,000 lines adds at most 40 ms" {
  script lines.sh <<'END'
. ./bootstrap-service-record.sh
END
  ln -s shim.sh bootstrap-service-record.sh
  for ((n = 0; n < 20000; n++)); do echo "echo 'line $n' \"\$x\" | grep foo >/dev/null"; done >rest
  { cat lines.sh && echo 'exit 0' && cat rest; } >long.sh
  costs_at_most 40 long.sh
}

@test "ten stages with names of 1 MiB add at most 300 ms" {
  script name.sh <<'END'
printf -v name '%01048576d' 0
. "$SHIM"
for n in {1..10}; do
  record_service_stage_start "$name"
  record_service_stage_success
done
END
  surroundings+=(LC_ALL=C.UTF-8)
  costs_at_most 300 name.sh
  entries_are_short
}

@test "long environment variable adds at most 60 ms" {
  script fine.sh <<<'. "$SHIM"'
  printf -v long '%0120000d' 0
  for name in PRE_COMMAND SERVICE_NAME SERVICE_RECORDS_DIR SERVICE_RECORDS_LAYOUT SERVICE_RECORDS_SYNC INVOCATION_ID OTHER; do
    echo "$name"
    surroundings+=("$name=$long")
    costs_at_most 60 fine.sh
    surroundings=("${surroundings[@]:0:${#surroundings[@]}-1}")
  done
}

@test "failed command of 1 MiB adds at most 300 ms" {
  { printf '%s\n' 'set -e' '. "$SHIM"' && printf "test 1 = '%01000000d'\n" 0; } >failing.sh
  costs_at_most 300 failing.sh
  entries_are_short
  [ "$(entries errorLine | tail -n 1)" = "3 main failing.sh" ]
}
