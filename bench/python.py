"""Measure the cost of recording in Python, and of starting the command line."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from unittest.mock import patch

from msgspec.structs import replace

from bench.rounds import medians, wall
from bench.shell import ARRAY_SIZES, ENTRY, array_of
from bench.table import Row, duration, limited, timed
from service_record.record.appending import Writer
from service_record.record.directory import Records
from service_record.record.entry import Entry, Phase, Result

APPENDS = 2_000
SYNCED = 20
IMPORTS_PER_ROUND = 5
ARRAY_LIMIT = 100e-6
IMPORT_LIMIT = 25e-3
HELP_LIMIT = 150e-3

COMMAND = Path(sys.executable).with_name("service-record")


def rows(root: Path) -> Iterator[Row]:
    for size in ARRAY_SIZES:
        (root / f"array_{size}.json").write_text(array_of(size))
    measures: Mapping[str, Callable[[], float]] = {
        "append": partial(append, Records(root).writer("append")),
        **{f"array {size}": partial(append, Records(root).writer(f"array_{size}")) for size in ARRAY_SIZES},
        "synced": partial(synced_append, Records(root).writer("synced")),
        "os.write": partial(bare_write, root / "bare.json"),
        "fsync": partial(bare_write, root / "bare-synced.json", SYNCED, sync=True),
        "import": partial(start, "import service_record"),
        "recorder": partial(start, "from service_record import service, stage"),
        "python": partial(start, "pass"),
        "help": partial(wall, COMMAND, "--help"),
    }
    seconds = medians(measures)

    yield timed("python: one entry", seconds["append"], "bare os.write", seconds["os.write"])
    for size in ARRAY_SIZES:
        what, took = f"python: one entry in an array of {size:,}", seconds[f"array {size}"]
        holds = took <= ARRAY_LIMIT
        yield timed(
            what, took, "bare os.write", seconds["os.write"], limit=duration(ARRAY_LIMIT), holds=holds
        )
    what = "python: one end, and on the disk"
    yield timed(what, seconds["synced"], "bare os.write and fsync", seconds["fsync"])
    yield imported("import service_record", seconds["import"], seconds["python"], IMPORT_LIMIT)
    yield imported("with all that records", seconds["recorder"], seconds["python"])
    yield limited("service-record --help", seconds["help"], HELP_LIMIT)


def imported(what: str, seconds: float, python: float, limit: float | None = None) -> Row:
    added = seconds - python
    promise, holds = (duration(limit), added <= limit) if limit else ("", None)
    return timed(f"python: {what}", added, "python -c pass", python, limit=promise, holds=holds)


def append(writer: Writer) -> float:
    """Seconds of one append by the library."""
    entry = Entry.from_json(ENTRY)
    begun = time.perf_counter()
    for _ in range(APPENDS):
        writer.append(entry)
    return (time.perf_counter() - begun) / APPENDS


def synced_append(writer: Writer) -> float:
    """Seconds of one append by the library of what is to be on the disk."""
    entry = replace(Entry.from_json(ENTRY), phase=Phase.SERVICE_END, stage=None, result=Result.SUCCESS)
    with patch.dict(os.environ, {"SERVICE_RECORDS_SYNC": "ends"}):
        begun = time.perf_counter()
        for _ in range(SYNCED):
            writer.append(entry)
        return (time.perf_counter() - begun) / SYNCED


def bare_write(path: Path, times: int = APPENDS, *, sync: bool = False) -> float:
    """Seconds of one write of an entry's bytes to a file that stays open."""
    line = Entry.from_json(ENTRY).to_line()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    begun = time.perf_counter()
    for _ in range(times):
        os.write(descriptor, line)
        if sync:
            os.fsync(descriptor)
    spent = time.perf_counter() - begun
    os.close(descriptor)
    return spent / times


def start(code: str) -> float:
    """Seconds of a Python that runs this and ends."""
    return min(wall(sys.executable, "-c", code) for _ in range(IMPORTS_PER_ROUND))
