#!/usr/bin/env bats
# A service that sources the shim has a record in the documented format (docs/record-format.md).

load helpers

# Writes the sample script of OpenShift's "Bootstrap Service Records". The arguments are the shell code of the
# two commands that the sample script calls.
write_sample() { # <some_check> <some_command_that_may_fail>
  script sample.sh <<'END'
#!/usr/bin/env bash
set -euoE pipefail

. "$SHIM"

record_service_stage_start "first"

record_service_stage_success

while true
do
    record_service_stage_start "second-stage"

    if some_check
    then
        record_service_stage_success
        break
    else
        record_service_stage_failure
    fi
done

record_service_stage_start "third"

some_command_that_may_fail

record_service_stage_success
END
  mkdir -p bin
  printf '#!/bin/sh\n%s\n' "$1" >bin/some_check
  printf '#!/bin/sh\n%s\n' "$2" >bin/some_command_that_may_fail
  chmod +x bin/*
  surroundings+=("PATH=$PWD/bin:$PATH")
}

@test "sample script records its start, stages and end" {
  write_sample true true
  service sample.sh
  entries_are <<'END'
service start
stage start first
stage end first success
stage start second-stage
stage end second-stage success
stage start third
stage end third success
service end success
END
}

@test "sample script records a failed stage and its next attempt" {
  write_sample '[ -e again ] || { : >again; exit 1; }' true
  service sample.sh
  entries_are <<'END'
service start
stage start first
stage end first success
stage start second-stage
stage end second-stage failure
stage start second-stage
stage end second-stage success
stage start third
stage end third success
service end success
END
}

@test "sample script records the failed command and line of its third stage" {
  write_sample true 'exit 7'
  run -7 service sample.sh
  entries_are phase stage result exitCode errorLine command <<'END'
service start - - - - -
stage start first - - - -
stage end first success - - -
stage start second-stage - - - -
stage end second-stage success - - -
stage start third - - - -
stage end third failure 7 25 main sample.sh some_command_that_may_fail
service end - failure 7 25 main sample.sh some_command_that_may_fail
END
}

@test "fields are in the order of the format" {
  write_sample true 'exit 7'
  surroundings+=("INVOCATION_ID=0123456789abcdef0123456789abcdef" "PRE_COMMAND=before")
  run -7 service sample.sh
  run -0 "$PYTHON" -c '
import json, sys
order = """timestamp preCommand postCommand stage phase result errorLine errorMessage exitCode signal command stack
errorLineApproximate truncated bootId invocationId pid uptime serviceResult stopRequest dropped recorder""".split()
for line in filter(str.strip, open("records/service.json")):
    fields = list(json.loads(line))
    assert fields == sorted(fields, key=order.index), fields
'
}

@test "fields have the types of the format" {
  write_sample true 'exit 7'
  run -7 service sample.sh
  run -0 "$PYTHON" -c '
import json
types = dict(exitCode=int, pid=int, uptime=float, stack=list, errorLineApproximate=bool, truncated=bool, dropped=int)
for line in filter(str.strip, open("records/service.json")):
    for name, value in json.loads(line).items():
        assert type(value) is types.get(name, str), (name, value)
'
}

@test "every entry has the boot id, invocation id and pid" {
  write_sample true true
  surroundings+=("INVOCATION_ID=0123456789abcdef0123456789abcdef")
  service sample.sh
  boot=$(tr -d - </proc/sys/kernel/random/boot_id)
  entries bootId invocationId | sort -u | diff - <(echo "$boot 0123456789abcdef0123456789abcdef")
  [ "$(entries pid | sort -u | wc -l)" -eq 1 ]
}

@test "only the service start has the recorder" {
  write_sample true true
  service sample.sh
  [[ $(entries recorder | head -n 1) == bash/* ]]
  [ "$(entries recorder | tail -n +2 | sort -u)" = - ]
}

@test "timestamps are UTC in any time zone" {
  script zone.sh <<'END'
TZ=America/New_York
readonly TZ
export TZ
. "$SHIM"
END
  earlier=$(date -u +%FT%H:%M:%S)
  service zone.sh
  later=$(date -u +%FT%H:%M:%S)
  for stamp in $(entries timestamp); do
    utc=$(date -u -d "$stamp" +%FT%H:%M:%S)
    [[ ! $utc < $earlier && ! $utc > $later ]]
  done
}

@test "timestamps have milliseconds" {
  write_sample true true
  service sample.sh
  stamp='^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$'
  "$TEST_BASH" -c '((BASH_VERSINFO[0] >= 5))' || stamp=${stamp/'\.[0-9]{3}'/} # 4.4 has seconds only
  [ "$(entries timestamp | grep -Ec "$stamp")" -eq "$(entries | wc -l)" ]
}

@test "uptime is that of the kernel and never decreases" {
  write_sample true true
  service sample.sh
  read -r now _ </proc/uptime
  entries uptime | sort -c -g
  "$PYTHON" -c 'import sys; low, high = map(float, sys.argv[1:]); assert 0 <= high - low < 5' "$(entries uptime | head -n 1)" "$now"
}

@test "pre-command and post-command are recorded with their names" {
  script command.sh <<'END'
set -e
. "$SHIM"
record_service_stage_start pull
record_service_stage_success
END
  surroundings+=("PRE_COMMAND=pause image")
  service command.sh
  surroundings+=("PRE_COMMAND=" "POST_COMMAND=tidy")
  service command.sh
  entries_are <<'END'
pre-command start pause image
stage start pause image pull
stage end pause image pull success
pre-command end pause image success
post-command start tidy
stage start tidy pull
stage end tidy pull success
post-command end tidy success
END
}

@test "unexported PRE_COMMAND of the script is recorded" {
  script assigned.sh <<'END'
PRE_COMMAND="kubelet-pause-image"
. "$SHIM"
END
  service assigned.sh
  entries_are <<'END'
pre-command start kubelet-pause-image
pre-command end kubelet-pause-image success
END
}

@test "record_service_stage_failure records its line and the service continues" {
  script explicit.sh <<'END'
set -euo pipefail
. "$SHIM"
record_service_stage_start check
record_service_stage_failure
echo on
END
  run -0 service explicit.sh
  [ "$output" = on ]
  entries_are phase result errorLine <<'END'
service start - -
stage start - -
stage end failure 4 main explicit.sh
service end success -
END
}

@test "new directory and record have the modes 750 and 640" {
  script modes.sh <<'END'
umask 0
. "$SHIM"
umask
END
  run -0 service modes.sh
  [ "$output" = 0000 ]
  [ "$(stat -c %a records)" = 750 ]
  [ "$(stat -c %a records/service.json)" = 640 ]
}

@test "new directory and array have the modes 755 and 644, for OpenShift's gather" {
  script modes.sh <<'END'
umask 077
. "$SHIM"
umask
END
  surroundings+=(SERVICE_RECORDS_LAYOUT=array)
  run -0 service modes.sh
  [ "$output" = 0077 ]
  [ "$(stat -c %a records)" = 755 ]
  [ "$(stat -c %a records/service.json)" = 644 ]
}

@test "existing directory keeps its mode" {
  mkdir -m 0700 records
  script modes.sh <<<'. "$SHIM"'
  service modes.sh
  [ "$(stat -c %a records)" = 700 ]
}

@test "directory with a trailing slash is accepted" {
  script slash.sh <<<'. "$SHIM"'
  surroundings+=("SERVICE_RECORDS_DIR=$PWD/records/")
  service slash.sh
  [ "$(entries | wc -l)" -eq 2 ]
}

@test "second run appends to the record" {
  write_sample true true
  service sample.sh
  service sample.sh
  [ "$(entries | grep -c 'service start')" -eq 2 ]
  [ "$(entries | wc -l)" -eq 16 ]
}

@test "entry after a torn last line starts on a new line" {
  write_sample true true
  service sample.sh
  printf '{"timestamp":"2026-11-21T01:0' >>records/service.json
  service sample.sh
  [ "$(grep -c '"timestamp":.*}$' records/service.json)" -eq 16 ]
}
