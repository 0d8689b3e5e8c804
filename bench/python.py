"""Measure the cost of recording in Python, and of starting the command line."""

import compileall
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from unittest.mock import patch

import structlog
from msgspec.structs import replace

import service_record
from bench.rounds import medians, wall
from bench.shell import ARRAY_SIZES, ENTRY, array_of
from bench.table import Row, duration, limited, timed
from service_record.record.appending import Writer
from service_record.record.directory import Records
from service_record.record.entry import Entry, Phase, Result

APPENDS = 2_000
STAGES = 1_000
SYNCED = 20
IMPORTS_PER_ROUND = 5
ARRAY_LIMIT = 100e-6
IMPORT_LIMIT = 3e-3
HELP_LIMIT = 150e-3
FIRST_SERVICE = """
from time import perf_counter
from service_record import service
begun = perf_counter()
run = service("first", directory={directory!r}).start()
print(perf_counter() - begun)
run.end()
"""

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
        "stage": partial(record_stages, root),
        "plain stage": partial(append_twice, root / "plain.json"),
        "structlog": partial(log_by_structlog, root / "structlog.json"),
        "logging": partial(log_by_logging, root / "logging.log"),
        "first": partial(start_service, root),
        "import": partial(start, "import service_record"),
        "python": partial(start, "pass"),
        "help": partial(wall, COMMAND, "--help"),
    }
    # Where $PYTHONDONTWRITEBYTECODE is set, each import would compile what has changed.
    compileall.compile_dir(Path(service_record.__file__).parent, quiet=1)
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
    what = "python: a stage, its start and its end"
    yield timed(what, seconds["stage"], "open, fstat, write, close, twice", seconds["plain stage"])
    yield timed(what, seconds["stage"], "two lines by structlog", seconds["structlog"])
    yield timed(what, seconds["stage"], "two lines by logging", seconds["logging"])
    yield timed("python: the first service() of a process", seconds["first"])
    what, added = "python: import service_record", seconds["import"] - seconds["python"]
    holds = added <= IMPORT_LIMIT
    yield timed(what, added, "python -c pass", seconds["python"], limit=duration(IMPORT_LIMIT), holds=holds)
    yield limited("service-record --help", seconds["help"], HELP_LIMIT)


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


def record_stages(root: Path) -> float:
    """Seconds of one stage: two entries."""
    with service_record.service("stages", directory=root):
        begun = time.perf_counter()
        for _ in range(STAGES):
            with service_record.stage("pull"):
                pass
        return (time.perf_counter() - begun) / STAGES


def append_twice(path: Path) -> float:
    """Seconds of two entries by the system calls that any recorder needs which holds no file open."""
    line = Entry.from_json(ENTRY).to_line()
    path.touch()
    begun = time.perf_counter()
    for _ in range(2 * STAGES):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        os.fstat(descriptor)
        os.write(descriptor, line)
        os.close(descriptor)
    return (time.perf_counter() - begun) / STAGES


def log_by_structlog(path: Path) -> float:
    """Seconds of two lines of JSON by structlog, in a file that stays open."""
    with path.open("a") as file:
        logger = structlog.wrap_logger(
            structlog.WriteLogger(file),
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(),
            ],
            wrapper_class=structlog.BoundLogger,
            pid=os.getpid(),
        )
        begun = time.perf_counter()
        for _ in range(STAGES):
            logger.info("stage start", stage="pull")
            logger.info("stage end", stage="pull", result="success")
        return (time.perf_counter() - begun) / STAGES


def log_by_logging(path: Path) -> float:
    """Seconds of two lines by the standard library's logging, in a file that stays open."""
    logger, handler = logging.getLogger("bench"), logging.FileHandler(path)
    logger.setLevel(logging.INFO)
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    logger.addHandler(handler)
    begun = time.perf_counter()
    for _ in range(STAGES):
        logger.info("stage start %s", "pull")
        logger.info("stage end %s %s", "pull", "success")
    spent = time.perf_counter() - begun
    logger.removeHandler(handler)
    handler.close()
    return spent / STAGES


def start_service(root: Path) -> float:
    """Seconds of the first service() of a process, after the import."""
    command = [sys.executable, "-c", FIRST_SERVICE.format(directory=str(root))]
    done = [
        subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(IMPORTS_PER_ROUND)
    ]
    return min(float(each.stdout) for each in done)


def start(code: str) -> float:
    """Seconds of a Python that runs this and ends."""
    return min(wall(sys.executable, "-c", code) for _ in range(IMPORTS_PER_ROUND))
