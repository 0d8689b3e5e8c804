"""Measure how soon `service-record follow` shows an entry."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.python import COMMAND
from bench.shell import ENTRY
from bench.table import Row, limited
from service_record.record.directory import Records
from service_record.record.entry import Entry

ENTRIES = 100
LIMIT = 100e-3


def rows(root: Path) -> Iterator[Row]:
    yield limited("service-record follow: an entry, shown", shown_after(root), LIMIT)


def shown_after(root: Path) -> float:
    """Seconds from the call that writes an entry to its line in a pipe: the median of many."""
    writer = Records(root / "followed").writer("some")
    entry = Entry.from_json(ENTRY)
    spent = []
    command = [str(COMMAND), "follow", "--output", "jsonl", "--from", str(root / "followed")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as follow:
        assert follow.stdout is not None
        writer.append(entry)
        follow.stdout.readline()  # it is there, and follows
        for _ in range(ENTRIES):
            begun = time.perf_counter()
            writer.append(entry)
            assert follow.stdout.readline()
            spent.append(time.perf_counter() - begun)
        follow.terminate()
    return median(spent)
