"""Signal handlers of a Python service that record in the middle of its own appends to an array."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.builders import require

PROGRAM = """
import signal, sys, time, service_record

handled = appended = 0

def handle(number, frame):
    global handled
    # On a slow machine, the next signal always comes before a handler ends.
    nested, caller = 0, frame
    while caller and nested < 10:
        nested, caller = nested + (caller.f_code is handle.__code__), caller.f_back
    if nested == 10 or time.monotonic() > until:
        signal.setitimer(signal.ITIMER_REAL, 0)
    handled += 1
    with service_record.stage(f"handler-{handled}"):
        pass

until = time.monotonic() + 2
signal.signal(signal.SIGALRM, handle)
with service_record.service("job", directory=sys.argv[1]):
    signal.setitimer(signal.ITIMER_REAL, float(sys.argv[2]), float(sys.argv[2]))
    while time.monotonic() < until:
        appended += 1
        if not signal.getitimer(signal.ITIMER_REAL)[0]:
            signal.setitimer(signal.ITIMER_REAL, float(sys.argv[2]), float(sys.argv[2]))
        with service_record.stage(f"stage-{appended}"):
            pass
    signal.setitimer(signal.ITIMER_REAL, 0)
print(appended, handled)
"""


@pytest.mark.parametrize("seconds", ["0.0037", "0.0004", "0.0002"])
def test_entries_of_signal_handlers_are_in_the_array(tmp_path: Path, seconds: str) -> None:
    """At the shortest interval handlers interrupt each other, and one append more than once."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), seconds],
        env=os.environ | {"SERVICE_RECORDS_LAYOUT": "array"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    appended, handled = map(int, done.stdout.split())
    names = [f"stage-{number + 1}" for number in range(appended)]
    names += [f"handler-{number + 1}" for number in range(handled)]

    assert handled
    entries = json.loads((tmp_path / "job.json").read_bytes())
    phases = Counter((require(entry["stage"]), entry["phase"]) for entry in entries if "stage" in entry)
    assert phases == Counter((name, f"stage {moment}") for name in names for moment in ("start", "end"))
    assert done.stderr == ""
