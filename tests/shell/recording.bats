#!/usr/bin/env bats
# A service that sources the shim leaves the record that the format describes.

load helpers

# The sample script of the document that the format comes from, its check and its command filled in by the test.
sample() {
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

@test "the sample script records its start, its stages and its end" {
  sample true true
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

@test "the sample script records a failed stage before the next attempt at it" {
  sample '[ -e again ] || { : >again; exit 1; }' true
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

@test "the sample script records the failing command of its third stage and its line" {
  sample true 'exit 7'
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

@test "the fields stand in the order of the format" {
  sample true 'exit 7'
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

@test "upstream's fields are strings and ours have the types of the format" {
  sample true 'exit 7'
  run -7 service sample.sh
  run -0 "$PYTHON" -c '
import json
types = dict(exitCode=int, pid=int, uptime=float, stack=list, errorLineApproximate=bool, truncated=bool, dropped=int)
for line in filter(str.strip, open("records/service.json")):
    for name, value in json.loads(line).items():
        assert type(value) is types.get(name, str), (name, value)
'
}

@test "every entry says of which boot, invocation and process it is" {
  sample true true
  surroundings+=("INVOCATION_ID=0123456789abcdef0123456789abcdef")
  service sample.sh
  boot=$(tr -d - </proc/sys/kernel/random/boot_id)
  entries bootId invocationId | sort -u | diff - <(echo "$boot 0123456789abcdef0123456789abcdef")
  [ "$(entries pid | sort -u | wc -l)" -eq 1 ]
}

@test "only the start names its recorder" {
  sample true true
  service sample.sh
  [[ $(entries recorder | head -n 1) == bash/* ]]
  [ "$(entries recorder | tail -n +2 | sort -u)" = - ]
}

@test "timestamps are true UTC wherever the service believes to be" {
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

@test "timestamps carry milliseconds" {
  sample true true
  service sample.sh
  stamp='^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$'
  "$TEST_BASH" -c '((BASH_VERSINFO[0] >= 5))' || stamp=${stamp/'\.[0-9]{3}'/} # 4.4 has seconds only
  [ "$(entries timestamp | grep -Ec "$stamp")" -eq "$(entries | wc -l)" ]
}

@test "uptime is the machine's own and never goes back" {
  sample true true
  service sample.sh
  read -r now _ </proc/uptime
  entries uptime | sort -c -g
  "$PYTHON" -c 'import sys; low, high = map(float, sys.argv[1:]); assert 0 <= high - low < 5' "$(entries uptime | head -n 1)" "$now"
}

@test "a pre-command and a post-command are recorded under their names" {
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

@test "a command that a script names by a plain assignment before sourcing is recorded" {
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

@test "an explicit stage failure is recorded at the line that says so and the service goes on" {
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

@test "the directory and the file are made for root and its group only" {
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

@test "the directory and the file of an array are made for everybody to read, as OpenShift's gather does" {
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

@test "a directory that is there keeps its mode" {
  mkdir -m 0700 records
  script modes.sh <<<'. "$SHIM"'
  service modes.sh
  [ "$(stat -c %a records)" = 700 ]
}

@test "a slash at the end of the directory's name changes nothing" {
  script slash.sh <<<'. "$SHIM"'
  surroundings+=("SERVICE_RECORDS_DIR=$PWD/records/")
  service slash.sh
  [ "$(entries | wc -l)" -eq 2 ]
}

@test "a record goes on where the run before it stopped" {
  sample true true
  service sample.sh
  service sample.sh
  [ "$(entries | grep -c 'service start')" -eq 2 ]
  [ "$(entries | wc -l)" -eq 16 ]
}

@test "a torn last line keeps to itself" {
  sample true true
  service sample.sh
  printf '{"timestamp":"2026-11-21T01:0' >>records/service.json
  service sample.sh
  [ "$(grep -c '"timestamp":.*}$' records/service.json)" -eq 16 ]
}
