"""The exit helper has systemd rotate a record that has grown too long, in parallel with the service."""

from service_record.history.outcome import Outcome
from testing.machine import Machine

COMMAND = """\
#!/bin/sh
PYTHONPATH=/src exec /venv/bin/python -c 'from service_record.cli import main; main()' "$@"
"""
LIMIT = 24 << 10


def test_failing_service_keeps_a_short_record(machine: Machine) -> None:
    machine.program("service-record", COMMAND)
    machine.bash_service(
        "looping",
        'record_service_stage_start pull\necho "no image" >&2\nexit 7\n',
        f"Environment=SERVICE_RECORDS_MAX_BYTES={LIMIT}",
        "StartLimitIntervalSec=0",
    )
    machine.drop_in()
    machine.boot(
        "for n in {1..60}; do start looping; rest looping; done; rest service-record-rotate;"
        " start looping; rest looping service-record-rotate"
    )
    path = machine.records.path("looping")
    assert path.stat().st_size <= LIMIT + 4096
    attempts = machine.attempts("looping")
    assert (len(attempts) < 61, attempts[-1].attempt, attempts[-1].outcome) == (True, 61, Outcome.FAILURE)
    assert "61 attempts" in machine.analyze(status=1)
    assert "failed runs left out" in machine.show()
    assert "service-record-rotate" not in machine.records.services()
