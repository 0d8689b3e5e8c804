"""Measure the cost of reading a long record, against decoding its lines and doing nothing with them."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from bench.python import COMMAND
from bench.rounds import medians, processor, wall
from bench.shell import ENTRY
from bench.table import Row, limited, memory, timed
from service_record.record.line import encoded

LONG = 100_000
VERY_LONG = 1_000_000
ROUNDS = 3
"""Of the very long record, each of which takes seconds."""
SHOW_LIMIT = 0.8
ANALYZE_LIMIT = 0.5
SLOWER_THAN_DECODING = {"show --output jsonl": 2, "analyze": 6}
SHOW_BYTES_LIMIT = 150_000_000

BARE = "bare orjson.loads per line"
BARE_CODE = """
import sys
import orjson
with open(sys.argv[1], "rb") as lines:
    for line in lines:
        if line != b"\\n":
            orjson.loads(line)
"""
_MEMORY_CODE = """
import resource
import subprocess
import sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
_START = datetime(2026, 11, 21, 1, 5, 10, tzinfo=UTC)
_APART = 0.37  # seconds from one entry to the next
_RUN = 10  # entries
_SUCCEEDED = {"result": "success", "exitCode": 0}
_FAILED = {
    "result": "failure",
    "errorLine": "7 join /usr/local/bin/some.sh",
    "errorMessage": "Waiting for the API...\nThe API is there\nerror: cannot join: connection refused",
    "exitCode": 1,
    "command": 'join --to "$API"',
    "stack": ["7 join /usr/local/bin/some.sh", "31 main /usr/local/bin/some.sh"],
}


def rows(root: Path) -> Iterator[Row]:
    path = record(root / "long", LONG)
    seconds = medians({verb: partial(wall, *_command(path, verb)) for verb in ("show", "analyze")})
    yield limited(f"service-record show: table, {LONG:,} entries", seconds["show"], SHOW_LIMIT)
    yield limited(f"service-record analyze: {LONG:,} entries", seconds["analyze"], ANALYZE_LIMIT)

    path = record(root / "very-long", VERY_LONG)
    verbs = tuple(SLOWER_THAN_DECODING)
    measures: dict[str, Callable[[], float]] = {
        BARE: partial(processor, sys.executable, "-c", BARE_CODE, path)
    }
    measures |= {verb: partial(processor, *_command(path, verb)) for verb in verbs}
    seconds = medians(measures, ROUNDS)
    for verb in verbs:
        most = SLOWER_THAN_DECODING[verb]
        what, holds = f"service-record {verb}: {VERY_LONG:,} entries", seconds[verb] <= most * seconds[BARE]
        yield timed(what, seconds[verb], BARE, seconds[BARE], limit=f"{most} x", holds=holds)
    for verb, limit in zip(verbs, (SHOW_BYTES_LIMIT, None), strict=True):
        yield memory(f"service-record {verb}: memory", most_memory(*_command(path, verb)), limit)
    path.unlink()


def _command(path: Path, verb: str) -> tuple[object, ...]:
    return COMMAND, *verb.split(), "--from", path.parent


def most_memory(*command: object) -> int:
    """Return the peak memory of a command in bytes; its output is thrown away.

    It is started by a process that is small: what that has counts until the command takes its place.
    """
    words = [sys.executable, "-c", _MEMORY_CODE, *map(str, command)]
    return int(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout) * 1024


def record(directory: Path, entries: int) -> Path:
    """Write a record of that many entries as writers write them; of each four runs one fails."""
    directory.mkdir()
    path = directory / "some.json"
    with path.open("wb") as stream:
        for run in range(entries // _RUN):
            if run:
                stream.write(b"\n")  # as the first entry of each writer has it
            stream.writelines(map(encoded, _run(run)))
    return path


def _run(run: int) -> Iterator[dict[str, object]]:
    """Yield the entries of one run of a service that is started again and again."""
    for place, fields in enumerate(_fields_of_run(fails=run % 4 == 0)):
        passed = (run * _RUN + place) * _APART
        yield {
            "timestamp": f"{_START + timedelta(seconds=passed):%Y-%m-%dT%H:%M:%S}.{run % 1000:03}Z",
            **fields,
            "bootId": ENTRY["bootId"],
            "invocationId": f"{run:032x}",
            "pid": 1000 + run,
            "uptime": round(60 + passed, 2),
            **({"recorder": "bash/0.1.0"} if place == 0 else {}),
        }


def _fields_of_run(*, fails: bool) -> Iterator[dict[str, object]]:
    ended = _FAILED if fails else _SUCCEEDED
    yield {"phase": "service start"}
    for stage in ("render", "pull", "wait", "join"):
        yield {"stage": stage, "phase": "stage start"}
        yield {"stage": stage, "phase": "stage end", **(ended if stage == "join" else _SUCCEEDED)}
    yield {"phase": "service end", **ended}
