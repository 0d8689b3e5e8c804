"""`triage` of 300 bundles with planted truth, and of 2,000 in a run that is ended again and again."""

import functools
import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

from pyarrow import dataset

from bench.planted import plant, table, triaged
from tests.command_line import environment
from tests.triage.test_triage import NO_SPACE, counts, failing, program
from tests.waiting import wait_for

BUNDLES = 2000
WRITES_OFTEN = """
from service_record.triage import index
index._WRITE_SECONDS = 0.1
from service_record.cli import main
main()
"""


def test_planted_truth_is_found(tmp_path: Path) -> None:
    truth = plant(tmp_path)
    rows = table(truth, triaged(tmp_path))
    assert [row for row in rows if row[1] != row[2]] == []


def test_ended_run_is_completed_by_the_next(tmp_path: Path) -> None:
    for n in range(BUNDLES):
        failing(tmp_path / f"b/{n}.tar", NO_SPACE, n)
    index = tmp_path / "i"
    options = ["-o", "json", "--index", str(index), str(tmp_path / "b")]
    command = [sys.executable, "-c", WRITES_OFTEN, "triage", *options]

    for end in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL, "a full disk"):
        before = len(list(index.glob("*.parquet")))
        with program(command, stderr=subprocess.PIPE) as running:
            wait_for(functools.partial(has_more_files, index, before + 1))
            if isinstance(end, signal.Signals):
                running.send_signal(end)
            else:  # for this process no file may grow beyond 100 bytes
                resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (100, 100))
            _, error = running.communicate(timeout=120)
        text = error.decode()
        if end == signal.SIGKILL:
            assert (running.returncode, text) == (-signal.SIGKILL, "")
        elif isinstance(end, signal.Signals):
            assert running.returncode == 128 + end
            assert text.startswith("Interrupted after ")
            assert text.endswith("; their rows are kept, and the same command judges the rest\n")
        else:
            assert running.returncode == 3
            assert text.startswith(f"Error: {index}: ")
            assert "make room there and run it again" in text
        assert text.count("\n") == (end != signal.SIGKILL)
        assert 0 < rows(index) < BUNDLES

    done = subprocess.run(command, env=environment(), capture_output=True, check=True, timeout=600)
    assert counts(json.loads(done.stdout)) == {"disk-full": BUNDLES}
    assert rows(index) == BUNDLES  # no bundle was judged twice


def has_more_files(index: Path, number: int) -> bool:
    return len(list(index.glob("*.parquet"))) > number


def rows(index: Path) -> int:
    return int(dataset.dataset(sorted(map(str, index.glob("*.parquet")))).count_rows())
