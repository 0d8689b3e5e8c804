"""What input made to do harm costs: a whole read stays within time and memory that its size bounds."""

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.archives import COMPRESSIONS, SERVICES, header, member, tar
from tests.builders import require
from tests.command_line import PROGRAM, environment

OPENED_BYTES: Final = 1 << 20
SECONDS_A_MEGABYTE: Final = 0.2
BUSY: Final = 8
"""Slow-down of a slow machine that does other work meanwhile. Costs with the square of the size exceed it."""
LEAST_SECONDS: Final = 0.3
"""For what takes the same however much is read: compiling rules, a first page."""
START_SECONDS: Final = 0.3
"""To load a program."""
MEMORY_BYTES: Final = 300 << 20
OUTPUT_TIMES: Final = 10
"""Limit of writes for each byte that was read, in the most wordy form."""

_START: Final = b'{"timestamp":"2026-11-21T01:05:10Z","phase":"service start"}\n'
_FAILURE: Final = (
    b'{"timestamp":"2026-11-21T01:05:11Z","phase":"service end",'
    b'"result":"failure","errorMessage":"MESSAGE"}\n'
)
_STAGE: Final = b'{"timestamp":"2026-11-21T01:05:10Z","stage":"s","phase":"stage start"}\n'
_IDS: Final = '"bootId":"b","invocationId":"iNUMBER","pid":NUMBER'
_NOT_ENDED: Final = (
    f'{{"timestamp":"2026-11-21T01:05:10Z","phase":"service start",{_IDS}}}\n'
    f'{{"timestamp":"2026-11-21T01:05:11Z","stage":"one","phase":"stage start",{_IDS}}}\n'
)
_ENDED: Final = (
    f'{_NOT_ENDED}{{"timestamp":"2026-11-21T01:05:12Z","phase":"service end","result":"success",{_IDS}}}\n'
)
_NAMELESS: Final = (
    '{"timestamp":"2026-11-21T01:05:10Z","phase":"service start"}\n'
    '{"timestamp":"2026-11-21T01:05:10Z","stage":"s","phase":"stage start"}\n'
    '{"timestamp":"2026-11-21T01:05:11Z","stage":"s","phase":"stage end","result":"success"}\n'
    '{"timestamp":"2026-11-21T01:05:12Z","phase":"service end","result":"success"}\n'
)
"""A run that names neither boot nor process, as OpenShift's own shim writes it."""
_SHORT: Final = '{"timestamp":"2026-11-21T01:05:10Z","phase":"service end"}\n'
_PROGRAM: Final = """
import contextlib, gc, json, os, re, sys
from service_record.cli import main

def cost(arguments):
    gc.collect()
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # the peak of memory is counted from here on
    began, status = sum(os.times()[:4]), 0
    with open("out", "w") as out, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main(arguments, prog_name="service-record")
        except SystemExit as end:
            status = end.code
    seconds = sum(os.times()[:4]) - began
    peak = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]
    return status, seconds, int(peak) << 10, os.path.getsize("out")

for arguments in json.load(sys.stdin):
    open("small.json", "a").close()
    cost([*arguments[:-1], "small.json"])  # loads what it needs
    with contextlib.suppress(FileNotFoundError):
        os.unlink("redacted.tar.gz")
    print(json.dumps(cost(arguments)), flush=True)
"""


def filled(text: bytes) -> bytes:
    return (text * (OPENED_BYTES // len(text) + 1))[:OPENED_BYTES]


def packed_records(text: bytes, compress: Callable[[bytes], bytes] = gzip.compress) -> bytes:
    quarter = filled(text)[: OPENED_BYTES // 4]
    return compress(tar(*[member(f"{SERVICES}/r{n}.json", quarter) for n in range(4)]))


def nested() -> bytes:
    archive = tar(member("zeros", bytes(OPENED_BYTES // 4)))
    for _ in range(6):
        archive = gzip.compress(tar(member("inner.tar.gz", archive)))
    return archive


INPUTS: Final[Mapping[str, Callable[[], bytes]]] = {
    "nuls": lambda: bytes(OPENED_BYTES),
    "newlines": lambda: filled(b"\n"),
    "text-and-newlines": lambda: b"x" + filled(b"\n"),
    "one-endless-line": lambda: filled(b"a"),
    "no-utf-8": lambda: filled(b"\xff"),
    "brackets": lambda: filled(b"["),
    "braces": lambda: filled(b"{"),
    "braces-with-keys": lambda: filled(b'{"a":'),
    "quotes": lambda: filled(b'{"'),
    "commas": lambda: filled(b","),
    "lines-of-text": lambda: filled(b"x\n"),
    "lines-of-braces": lambda: filled(b"{\n"),
    "lines-of-quotes": lambda: filled(b'"\n'),
    "small-objects": lambda: filled(b"{}\n"),
    "small-objects-with-keys": lambda: filled(b'{"a":""}\n'),
    "torn-entries": lambda: filled(b'{"timestamp":"2026\n'),
    "text-between-entries": lambda: filled(_START + b"x\n"),
    "nuls-between-entries": lambda: filled(_START + bytes(10_000) + b"\n"),
    "one-long-number": lambda: b'{"a":' + filled(b"1") + b"}\n",
    "one-long-message": lambda: _START + _FAILURE.replace(b"MESSAGE", filled(b"a")),
    "stages-without-end": lambda: filled(_STAGE),
    "records-of-nuls.tar.gz": lambda: packed_records(b"\0"),
    "records-of-newlines.tar.gz": lambda: packed_records(b"\n"),
    "records-of-nuls.tar.zst": lambda: packed_records(b"\0", COMPRESSIONS[".tar.zst"]),
    "many-members.tar.gz": lambda: gzip.compress(header("m") * (OPENED_BYTES // 512)),
    "many-small-records.tar.gz": lambda: gzip.compress(
        tar(*[member(f"{SERVICES}/r{n}.json", b"\0") for n in range(OPENED_BYTES // 1024)])
    ),
    "nested.tar.gz": nested,
    "many-empty-streams.gz": lambda: filled(gzip.compress(b"")),
}

VERBS: Final[Mapping[str, list[str]]] = {
    "wide": ["show", "--output", "wide", "--from"],
    "json": ["show", "--output", "json", "--from"],
    "jsonl": ["show", "--output", "jsonl", "--from"],
    "analyze": ["analyze", "--from"],
    "timeline": ["timeline", "--from"],
    "traces": ["export", "--to", "otlp", "--from"],
    "validate": ["validate"],
    "redact": ["bundle", "--output", "redacted.tar.gz", "--redact"],
}


READS_TWICE: Final = {"traces"}
"""Verbs that read a file twice, so that they need not keep all of it: the clock of each boot comes first."""


@dataclass(frozen=True, slots=True)
class Cost:
    verb: str
    status: int
    seconds: float
    """Of processors: other work on the machine counts for little."""
    memory_bytes: int
    output_bytes: int

    @property
    def is_bounded(self) -> bool:
        readings = 2 if self.verb in READS_TWICE else 1
        seconds = LEAST_SECONDS + readings * SECONDS_A_MEGABYTE * OPENED_BYTES / 1e6
        return (
            self.status in {0, 1, 3, 4}
            and self.seconds <= BUSY * seconds
            and self.memory_bytes <= MEMORY_BYTES
            and self.output_bytes <= OUTPUT_TIMES * OPENED_BYTES
        )


def costs(directory: Path, name: str) -> dict[str, Cost]:
    """Return the cost of each verb on a file, in one process, which is ended when it costs far too much."""
    (directory / "small.json").write_bytes(_START)
    commands = [[*command, name] for command in VERBS.values()]
    done = subprocess.run(
        ["prlimit", "--cpu=60", f"--as={2 << 30}", sys.executable, "-c", _PROGRAM],
        input=json.dumps(commands),
        env=environment(),
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [
        Cost(verb, *json.loads(line)) for verb, line in zip(VERBS, done.stdout.splitlines(), strict=False)
    ]
    assert len(found) == len(VERBS), f"ended at {[*VERBS][len(found)]}: {done.stderr[-500:]}"
    return dict(zip(VERBS, found, strict=True))


@pytest.mark.parametrize("name", INPUTS)
def test_no_input_costs_more_than_its_size_allows(name: str, tmp_path: Path) -> None:
    place = name if "." in name else f"{name}.json"
    (tmp_path / place).write_bytes(INPUTS[name]())
    unbounded = {verb: cost for verb, cost in costs(tmp_path, place).items() if not cost.is_bounded}
    assert not unbounded


# Text between single entries takes `follow` about 0.5 s for each MB: it looks at each piece by itself.
_FOLLOWED: Final = [name for name in INPUTS if "." not in name and name != "text-between-entries"]


_MANY_RUNS_BYTES: Final = 6 << 20
_MOST_TIMES: Final = 9
"""Limit of copies in memory for each byte of such a record: runs are held until all of them are complete."""
_MOST_TIMES_OF_SHORT_RUNS: Final = 18


@pytest.mark.parametrize(
    ("line", "most_times"),
    [
        pytest.param(_ENDED, _MOST_TIMES, id="runs of three short entries"),
        pytest.param(_NOT_ENDED, _MOST_TIMES, id="runs without an end"),
        pytest.param(_NAMELESS, _MOST_TIMES, id="runs of OpenShift's shim"),
        pytest.param(_SHORT, _MOST_TIMES_OF_SHORT_RUNS, id="runs of one short entry"),
    ],
)
def test_record_of_many_runs_needs_little_memory(line: str, most_times: int, tmp_path: Path) -> None:
    """The document is several times as long as the record, and the objects of it are longer still."""
    text = "".join(line.replace("NUMBER", str(number)) for number in range(_MANY_RUNS_BYTES // len(line)))
    (tmp_path / "job.json").write_text(text)
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(
        command,
        input=json.dumps([["show", "--output", "json", "--from", "job.json"]]),
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    status, _, peak, _ = json.loads(done.stdout)
    assert status == 0
    assert peak <= (60 << 20) + most_times * len(text)
    assert peak <= MEMORY_BYTES


@pytest.mark.parametrize("name", _FOLLOWED)
def test_following_costs_no_more_either(name: str, tmp_path: Path) -> None:
    last = _START.replace(b"2026-11-21", b"2026-11-22")
    (tmp_path / "job.json").write_bytes(INPUTS[name]() + b"\n" + last)
    command = ["follow", "--lines", "1", "--output", "jsonl", "--from", str(tmp_path)]
    with subprocess.Popen([*PROGRAM, *command], stdout=subprocess.PIPE, env=environment()) as follower:
        line = require(follower.stdout).readline()
        times = Path(f"/proc/{follower.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        status = Path(f"/proc/{follower.pid}/status").read_text()
        follower.terminate()
    assert json.loads(line)["timestamp"] == "2026-11-22T01:05:10Z"
    seconds = sum(map(int, times)) / os.sysconf("SC_CLK_TCK") - START_SECONDS
    peak = int(re.findall(r"VmHWM:\s*(\d+)", status)[0]) << 10
    assert Cost("follow", 0, seconds, peak, len(line)).is_bounded
