"""Last lines of services from a real journal at a collector, sent by `ship --follow` and by `run`."""

import json

from testing.machine import Machine

_SLOW = """\
record_service_stage_start pull
echo 'pulling layer 7'
sleep 3600
"""
_SCENARIO = """\
set -u
exec 2>&1
record() { /venv/bin/python /venv/bin/service-record "$@"; }
record collector serve --data /run/collector >/dev/null &
until curl -sf -o /dev/null http://127.0.0.1:8474/readyz; do sleep 0.2; done
record collector token create admin --data /run/collector --output /run/token
export SERVICE_RECORD_TOKEN_FILE=/run/token
start image wrapped
record ship image --to collector://127.0.0.1/web1 --follow &
answer() { curl -sf -H "Authorization: Bearer $(cat /run/token)" http://127.0.0.1:8474/api/v1/hosts/web1; }
until [[ $(answer) == *"layer 7"* && $(answer) == *"copying block 9"* ]]; do sleep 0.2; done
answer
"""


def test_open_stages_have_their_last_lines_at_the_collector(machine: Machine) -> None:
    machine.bash_service("image", _SLOW)
    machine.drop_in("image")
    run = "/venv/bin/service-record run --token-file /run/token --to collector://127.0.0.1/web1 --stage copy"
    script = "echo copying block 9; exec sleep 3600"
    machine.unit("wrapped", f"ExecStart=/venv/bin/python {run} -- /bin/sh -c '{script}'")

    lines = machine.boot(_SCENARIO).splitlines()

    kept = json.loads(lines[-1])["last_words"]
    assert {(each["service"], each["stage"], each["text"]) for each in kept} == {
        ("image", "pull", "pulling layer 7"),
        ("wrapped", "copy", "copying block 9"),
    }
