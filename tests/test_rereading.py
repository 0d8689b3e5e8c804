"""Long records on a disk: nothing is held that can be read again, and what has changed is not made up."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from service_record.history import History, build_history
from service_record.history.completed_runs import SettledRun
from service_record.read.source import open_source
from service_record.record.directory import LEAST_BYTES, OpenFile, Records
from service_record.record.entry import Entry, Malformed
from service_record.record.layout import read_entries, read_stretches
from tests.builders import failed_run, our_array, write_lines
from tests.command_line import PROGRAM, environment


def run(number: int) -> list[Entry]:
    return [replace(one, invocation_id=f"{number:032x}") for one in failed_run(f"stage {number}")]


def runs_of_bytes(size: int) -> list[Entry]:
    """Runs enough for a record of that size; each has a stage and an invocation of its own."""
    each = sum(len(one.to_line()) for one in run(0))
    return [one for number in range(size // each + 1) for one in run(number)]


@pytest.fixture(scope="module")
def long_record() -> bytes:
    """Of more bytes than are held."""
    return b"".join(map(Entry.to_line, runs_of_bytes(LEAST_BYTES)))


def history_of(*places: Path) -> History:
    return build_history(open_source([str(place) for place in places]).records)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_the_runs_of_a_long_record_are_those_of_its_entries(tmp_path: Path, long_record: bytes) -> None:
    path = tmp_path / "job.json"
    path.write_bytes(long_record)
    apart = build_history([("job", read_entries(BytesIO(long_record)))]).services[0].runs
    for place in (tmp_path, path):
        (service,) = history_of(place).services
        assert all(isinstance(head, SettledRun) for head in service.runs.heads)
        assert service.runs == apart


def test_a_long_record_is_open_as_long_as_somebody_has_its_history(
    tmp_path: Path, long_record: bytes
) -> None:
    (tmp_path / "long.json").write_bytes(long_record)
    short = write_lines(tmp_path / "short.json", *run(0))
    assert history_of(short).services[0].runs[0].in_stage  # whose lines are those that were asked for last
    before = descriptors()
    history: History | None = history_of(tmp_path / "long.json")
    assert descriptors() == before + 1
    history = None
    assert history_of(short).services[0].runs[0].in_stage
    assert (history, descriptors()) == (None, before)


def test_a_long_record_may_be_replaced_while_it_is_read(tmp_path: Path, long_record: bytes) -> None:
    path = tmp_path / "job.json"
    path.write_bytes(long_record)
    (service,) = history_of(tmp_path).services
    write_lines(tmp_path / "new", *run(0)).replace(path)
    assert service.runs[-1].in_stage == f"stage {len(service.runs) - 1}"


def test_an_array_may_grow_while_it_is_read(tmp_path: Path) -> None:
    entries = [*run(0), *run(1)]
    path = tmp_path / "job.json"
    path.write_bytes(our_array(*entries))
    elements = our_array(*entries).rstrip().removesuffix(b"]").removeprefix(b"[\n")
    with path.open("rb") as stream:
        stream.seek(len(b"[\n"))
        source = OpenFile(os.dup(stream.fileno()), stream.tell(), path)
        history = build_history([("job", read_stretches(stream, len(elements) - 1, source))])
    path.write_bytes(our_array(*entries, *run(2)))
    assert all(isinstance(head, SettledRun) for head in history.services[0].runs.heads)
    assert [made.in_stage for made in history.services[0].runs] == ["stage 0", "stage 1"]


def other_runs(content: bytes) -> bytes:
    return content.replace(b'"invocationId":"00', b'"invocationId":"ff')


def moved_by_a_line(content: bytes) -> bytes:
    return content.partition(b"\n")[2] + content.partition(b"\n")[0] + b"\n"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda content: content[:-1], id="shorter"),
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda content: b"\0" * len(content), id="overwritten"),
        pytest.param(lambda content: b"\n" * len(content), id="blank"),
        pytest.param(other_runs, id="other runs"),
        pytest.param(moved_by_a_line, id="moved by a line"),
    ],
)
def test_a_record_that_was_changed_while_it_was_read_is_told_and_not_made_up(
    tmp_path: Path, long_record: bytes, change: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "job.json"
    path.write_bytes(long_record)
    (service,) = history_of(tmp_path).services
    path.write_bytes(change(long_record))
    with pytest.raises(OSError, match="the record was changed while it was read") as refused:
        service.runs[-1]
    assert refused.value.filename == path


def test_analyze_says_in_one_line_that_a_record_was_cut_while_it_was_read(
    tmp_path: Path, long_record: bytes
) -> None:
    path, pipe = tmp_path / "job.json", tmp_path / "pipe.json"
    path.write_bytes(long_record)
    os.mkfifo(pipe)
    command = [*PROGRAM, "analyze", "--from", str(path), "--from", str(pipe)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as analyze:
        with pipe.open("wb") as stream:
            stream.write(b"\n" * (1 << 20))  # more than fits: some of it is read, when all of the first is
            os.truncate(path, 0)
        _, told = analyze.communicate()
    assert (analyze.returncode, told) == (
        3,
        f"Error: {path}: the record was changed while it was read; try again\n",
    )


def test_damage_far_into_a_long_record_has_its_line(tmp_path: Path, long_record: bytes) -> None:
    lines = long_record.splitlines(keepends=True)
    torn = [len(lines) // 3, len(lines) // 3 + 1, len(lines) - 400, len(lines) - 1]
    for place in torn:
        lines[place] = b"torn\n"
    content = b"".join(lines) + b" " * LEAST_BYTES
    (tmp_path / "job.json").write_bytes(content)
    found = [piece.line for piece in Records(tmp_path).read("job") if isinstance(piece, Malformed)]
    assert found == [piece.line for piece in read_entries(BytesIO(content)) if isinstance(piece, Malformed)]
    assert {line - 1 for line in found} >= {torn[0], *torn[2:]}


def test_a_long_record_on_standard_input_is_read_from_where_it_stands(
    tmp_path: Path, long_record: bytes
) -> None:
    first, _, rest = long_record.partition(b"\n")
    path = tmp_path / "job.json"
    path.write_bytes(long_record + b"torn\n")
    with path.open("rb", buffering=0) as stream:
        stream.seek(len(first) + 1)
        command = [*PROGRAM, "analyze", "-o", "json", "--from", "-"]
        done = subprocess.run(command, stdin=stream, capture_output=True, check=False, env=environment())
    assert (done.returncode, done.stderr) == (1, b"")
    assert f'"line": {rest.count(10) + 1}'.encode() in done.stdout
