"""`service-record follow`, as it is started, on files that are written meanwhile."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from service_record.record.directory import Records
from service_record.record.entry import Entry
from tests.builders import entry, failed_run, require, write_lines
from tests.command_line import PROGRAM, environment, service_record
from tests.programs import REPOSITORY

PATIENCE_SECONDS = 60

WRITE_UNTIL_STOPPED = """
import itertools, pathlib, sys, time
from service_record.record.directory import Records
from tests.builders import entry
directory, service, stage = sys.argv[1:]
writer = Records(directory).writer(service)
for number in itertools.count():
    if pathlib.Path(directory, "stop").exists():
        break
    message = "x" * (number * 37 % 2000)
    assert writer.append(entry("stage start", stage=stage, exit_code=number, error_message=message))
    time.sleep(0.001)
print(number)
"""


class Follower:
    """A `follow` that is running, and what it prints."""

    def __init__(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        self.process = process
        self._output = output
        self._buffered = b""

    def line(self) -> str:
        """The next line; fails the test when none comes in time."""
        while b"\n" not in self._buffered:
            readable, _, _ = select.select([self._output], [], [], PATIENCE_SECONDS)
            assert readable, "nothing came"
            more = os.read(self._output.fileno(), 65536)
            assert more, "it ended"
            self._buffered += more
        line, _, self._buffered = self._buffered.partition(b"\n")
        return line.decode()

    def stages(self, count: int) -> list[str]:
        """The stages of that many entries; of a damaged piece its text."""
        documents = (json.loads(self.line()) for _ in range(count))
        return [each.get("stage") or each["malformed"]["text"] for each in documents]


@contextmanager
def following(*arguments: object, output: str = "jsonl", **variables: str) -> Iterator[Follower]:
    command = [*PROGRAM, "follow", "-o", output, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(**variables)) as process:
        assert process.stdout is not None
        try:
            yield Follower(process, process.stdout)
        finally:
            process.kill()


def stage(name: str, at: float = 0, **fields: object) -> Entry:
    return entry("stage start", at, stage=name, **fields)


@pytest.fixture(params=["lines", "array"])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SERVICE_RECORDS_LAYOUT", request.param)
    return str(request.param)


@pytest.fixture
def records(tmp_path: Path, layout: str) -> Records:
    """Those of a directory with one service that has recorded."""
    records = Records(tmp_path / "records")
    records.writer("job").append(stage("first"))
    return records


def test_follow_waits_for_directory_file_and_entry(tmp_path: Path, layout: str) -> None:
    directory = tmp_path / "not" / "there" / "yet"
    (tmp_path / "not").mkdir()
    with following("--from", directory) as follower:
        for number in range(3):
            Records(directory).writer(f"service{number}").append(stage(f"stage {number}"))
            assert json.loads(follower.line())["service"] == f"service{number}"


def test_rotated_or_truncated_record_is_followed(records: Records) -> None:
    path, writer = records.path("job"), records.writer("job")
    with following("--from", records.directory) as follower:
        assert follower.stages(1) == ["first"]
        path.rename(path.with_suffix(".json.1"))
        records.writer("job").append(stage("rotated"))
        assert follower.stages(1) == ["rotated"]
        path.write_bytes(b"")
        writer.append(stage("truncated"))
        assert follower.stages(1) == ["truncated"]
        path.unlink()
        writer.append(stage("made anew"))
        assert follower.stages(1) == ["made anew"]


def test_recreated_directory_is_followed(records: Records) -> None:
    with following("--from", records.directory) as follower:
        assert follower.stages(1) == ["first"]
        records.path("job").unlink()
        records.directory.rmdir()
        records.writer("other").append(stage("again"))
        assert follower.stages(1) == ["again"]


def test_each_entry_of_many_writers_comes_once(tmp_path: Path, layout: str) -> None:
    """Three writers to one record, which is rotated meanwhile, and one to another."""
    path, rotations = tmp_path / "job.json", 0
    numbers: dict[str, list[int]] = {"a": [], "b": [], "c": [], "d": []}
    with following("--from", tmp_path, "-n", "all") as follower:
        writers = {
            stage: started_writer(tmp_path, "other" if stage == "d" else "job", stage) for stage in numbers
        }
        while rotations < 3:
            take(follower, numbers)
            if sum(map(len, numbers.values())) > 100 * (rotations + 1) and is_seen(path, numbers):
                rotations += 1
                path.rename(path.with_suffix(f".{rotations}"))
        (tmp_path / "stop").touch()
        wrote = {
            stage: int(writer.communicate(timeout=PATIENCE_SECONDS)[0]) for stage, writer in writers.items()
        }
        while sum(map(len, numbers.values())) < sum(wrote.values()):
            take(follower, numbers)
    assert numbers == {stage: list(range(count)) for stage, count in wrote.items()}


def started_writer(directory: Path, service: str, stage: str) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-c", WRITE_UNTIL_STOPPED, str(directory), service, stage]
    return subprocess.Popen(program, cwd=REPOSITORY, stdout=subprocess.PIPE)


def take(follower: Follower, numbers: dict[str, list[int]]) -> None:
    document = json.loads(follower.line())
    numbers[document["stage"]].append(document["exitCode"])


def is_seen(path: Path, numbers: dict[str, list[int]]) -> bool:
    """Return whether the file is there, and its first entry was shown: of a file that came and went nobody
    knows.
    """
    if not path.exists():
        return False
    first = next((piece for piece in Records(path.parent).read("job")), None)
    return isinstance(first, Entry) and first.exit_code in numbers.get(first.stage or "", ())


def test_entry_is_shown_within_100_ms(records: Records) -> None:
    """The fastest of some: a machine may be busy now and then."""
    writer, spent = records.writer("job"), []
    with following("--from", records.directory) as follower:
        follower.line()
        for number in range(20):
            begun = time.perf_counter()
            writer.append(stage(f"stage {number}"))
            follower.line()
            spent.append(time.perf_counter() - begun)
    assert min(spent) < 0.1


def test_follow_sleeps_while_nothing_happens(records: Records) -> None:
    with following("--from", records.directory) as follower:
        follower.line()
        before = switches(follower.process.pid)
        time.sleep(1.5)
        assert switches(follower.process.pid) - before < 10


def switches(pid: int) -> int:
    """Return how often a process went to sleep so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("-n 2", ["service end", "stage start"]),
        ("-n 1 bootkube", ["service end"]),
        ("-n all bootkube.service", ["service start", "stage start", "stage end", "service end"]),
        ("--failed", ["stage end", "service end"]),
        ("--stage second", ["stage start", "stage end"]),
    ],
)
def test_selected_history_comes_first(tmp_path: Path, arguments: str, expected: list[str]) -> None:
    write_lines(tmp_path / "bootkube.json", *failed_run())
    write_lines(tmp_path / "other.json", stage("later", 60))
    with following("--from", tmp_path, *arguments.split()) as follower:
        assert [json.loads(follower.line())["phase"] for _ in expected] == expected
        write_lines(tmp_path / "bootkube.json", *failed_run(), *failed_run(at=100))
        fresh = [json.loads(follower.line()) for _ in range(2)]
    assert [each["service"] for each in fresh] == ["bootkube", "bootkube"]


def test_without_history_only_what_is_new_comes(records: Records) -> None:
    with following("--from", records.directory, "-n", "0") as follower:
        while not is_asleep(follower.process.pid):
            time.sleep(0.01)
        records.writer("job").append(stage("second"))
        assert follower.stages(1) == ["second"]


def test_last_entries_need_only_the_end_of_file(tmp_path: Path) -> None:
    many = b"".join(stage(f"stage {number}").to_line() for number in range(1000))
    (tmp_path / "job.json").write_bytes(many * 100 + stage("last").to_line())
    with following("--from", tmp_path, "-n", "2") as follower:
        assert follower.stages(2) == ["stage 999", "last"]
    with following("--from", tmp_path, "-n", "all") as follower:
        assert follower.stages(100_001)[::1000] == ["stage 0"] * 100 + ["last"]


def is_asleep(pid: int) -> bool:
    """Return whether it waits in poll(2), for which nothing else of it does."""
    return "poll" in Path(f"/proc/{pid}/wchan").read_text()


def test_interrupt_exits_with_130_without_traceback(records: Records) -> None:
    with following("--from", records.directory) as follower:
        follower.line()
        follower.process.send_signal(signal.SIGINT)
        assert follower.process.wait(PATIENCE_SECONDS) == 130


def test_follow_ends_when_its_reader_ends(records: Records) -> None:
    with following("--from", records.directory) as follower:
        follower.line()
        require(follower.process.stdout).close()
        assert follower.process.wait(PATIENCE_SECONDS) == 141


def test_invalid_place_is_reported_in_one_line(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "job.json", entry())
    answer = service_record("follow", "--from", file)
    assert (answer.status, answer.out) == (2, "")
    assert "is a file" in answer.err
    assert service_record("follow", "-n", "few").status == 2


def test_wait_for_missing_directory_is_announced(tmp_path: Path) -> None:
    command = [*PROGRAM, "follow", "--from", str(tmp_path / "later")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment()) as process:
        assert require(process.stderr).readline().decode() == f"Waiting for {tmp_path}/later\n"
        process.kill()


def test_missing_record_is_named(tmp_path: Path) -> None:
    write_lines(tmp_path / "kubelet.json", entry())
    command = [*PROGRAM, "follow", "--from", str(tmp_path), "kubelet", "crio"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment()) as process:
        assert require(process.stderr).readline().decode() == "Waiting for the first record of crio\n"
        process.kill()


def test_entry_fits_a_line_of_the_terminal(tmp_path: Path) -> None:
    run = failed_run(error_message="first line\nlast line \x1b[2J" + "m" * 200)
    write_lines(tmp_path / "bootkube.json", *run, b"oops\n", stage("n" * 300, 30))
    shown = on_a_terminal(7, "--from", tmp_path, "--color", "never")
    assert shown[0] == "2026-11-20 UTC-05:00"
    assert shown[1] == "20:05:10.000 ● bootkube  started"
    assert shown[2] == "20:05:11.000 ● bootkube  stage second started"
    assert shown[3].startswith(r"20:05:20.000 ✗ bootkube  stage second failed: exit 1: last line \x1b[2Jmm")
    assert shown[5] == "             ! bootkube  line 5: not an entry: oops"
    assert [len(line) for line in shown if len(line) > 70] == [80, 80, 80]
    assert "\x1b[1;31m✗ \x1b[0m" in on_a_terminal(7, "--from", tmp_path)[3]


def test_new_boot_is_announced_and_lines_are_aligned(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.json", stage("one"), stage("two", 2), stage("three", 4, boot_id="c1" * 16))
    write_lines(tmp_path / "longer.json", stage("four", 3), stage("five", 5), stage("six", 6, boot_id=None))
    with following("--from", tmp_path, output="table") as follower:
        assert [follower.line() for _ in range(8)] == [
            *("2026-11-21 UTC", "01:05:10.000 ● a       stage one started"),
            *("01:05:12.000 ● a       stage two started", "01:05:13.000 ● longer  stage four started"),
            *("boot c1c1c1c1", "01:05:14.000 ● a       stage three started"),
            *("01:05:15.000 ● longer  stage five started", "01:05:16.000 ● longer  stage six started"),
        ]


def test_failures_are_shown_in_full_on_request(tmp_path: Path) -> None:
    write_lines(tmp_path / "bootkube.json", *failed_run(error_message="first\nlast"))
    with following("--from", tmp_path, "-n", "1", output="wide") as follower:
        assert [follower.line() for _ in range(4)][1:] == [
            "01:05:20.000 ✗ bootkube  failed: exit 1: last",
            "             at       /usr/local/bin/job.sh:12 in main",
            "             message  │ first",
        ]


def on_a_terminal(lines: int, *arguments: object) -> list[str]:
    """The first so many lines that appear on a terminal of 80 columns."""
    leader, side = pty.openpty()
    command = [*PROGRAM, "follow", *map(str, arguments)]
    with subprocess.Popen(command, stdout=side, env=environment(COLUMNS="80", LINES="24")) as process:
        os.close(side)
        with os.fdopen(leader, "rb", buffering=0) as output:
            follower = Follower(process, output)
            shown = [follower.line().removesuffix("\r") for _ in range(lines)]
            process.kill()
    return shown


def test_stop_is_shown_as_a_stop(tmp_path: Path) -> None:
    stop: dict[str, Any] = {
        "error_line": None,
        "exit_code": None,
        "signal": "TERM",
        "service_result": "success",
    }
    unknown = stop | {"signal": "unknown", "service_result": None}
    write_lines(tmp_path / "app.json", *failed_run(**stop), *failed_run(at=20, **unknown))
    with following("--from", tmp_path, output="table") as follower:
        shown = [follower.line() for _ in range(9)]
    assert shown[3:5] == [
        "01:05:20.000 ■ app  stage second stopped: stopped by SIGTERM",
        "01:05:20.000 ■ app  stopped: stopped by SIGTERM",
    ]
    assert shown[8] == "01:05:40.000 ▲ app  interrupted: stopped or killed by a signal"
