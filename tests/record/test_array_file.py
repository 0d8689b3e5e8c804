"""An array's exact bytes, and what a writer does when something comes in between, in this process."""

import fcntl
import json
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service_record.record import array_file
from service_record.record.appending import Writer
from tests.array_files import CLOSED, JSON, PADDING
from tests.array_writers import is_locked, read_elements
from tests.builders import entry

LATER = [entry("stage start", 40, stage="later").to_json(), entry("stage start", 41, stage="last").to_json()]


def filled(lines: list[bytes], size: int) -> bytes:
    """Return an array of these lines, with white space up to a size: a newline ends it and each sector."""
    content = bytearray(b"[\n" + b",\n".join(lines) + b"\n]")
    written = len(content)
    content += b" " * (size - written)
    for place in {*range(511, size, 512), size - 1}:
        if place >= written:
            content[place] = ord("\n")
    return bytes(content)


def test_array_grows_by_whole_blocks(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    for length in range(21, 1300):
        path.write_bytes(b"")
        lines: list[bytes] = []
        size = 0
        for each in (length, 21, 1321 - length):
            lines.append(b"{" + b"x" * (each - 2) + b"}")
            with path.open("r+b", buffering=0) as file:
                array_file.append(file.fileno(), lines[-1], lock_seconds=0)
            needed = len(filled(lines, 0)) + 1 + 1024
            size = size if needed <= size else -(-needed // 1024) * 1024
            assert path.read_bytes() == filled(lines, size), (length, each)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where there is a record that is a closed array with room."""
    monkeypatch.setenv("SERVICE_RECORDS_LAYOUT", "array")
    path = tmp_path / "job.json"
    path.write_bytes(CLOSED.rstrip() + PADDING * 2)
    return path


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Have the kernel write no byte of a file behind a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(("missing", "is_written"), [(0, True), (2, True), (3, False)])
def test_entry_lacking_only_the_array_end_counts(path: Path, missing: int, is_written: bool) -> None:
    end = len(CLOSED.removesuffix(b"\n]\n")) + len(b",\n" + entry(at=40).to_line().rstrip() + b"\n]")
    with full_disk(end - missing):
        assert Writer(path).append(entry(at=40)) is is_written


def test_new_array_on_full_disk_recovers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.unlink()
    writer = Writer(path)
    with full_disk(4):
        assert not writer.append(LATER[0])
    assert path.read_bytes() == b"[\n]\n"
    monkeypatch.delenv("SERVICE_RECORDS_LAYOUT")
    assert writer.append(LATER[1])
    assert [each["dropped"] for each in read_elements(path.read_bytes())] == [1]


def test_writer_sleeps_while_waiting_for_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock, tries = fcntl.flock, list[int]()

    def counted_flock(descriptor: int, operation: int) -> None:
        tries.append(operation)
        flock(descriptor, operation)

    with path.open("rb") as holder:
        flock(holder, fcntl.LOCK_EX)
        threading.Timer(0.4, flock, [holder, fcntl.LOCK_UN]).start()
        monkeypatch.setattr(fcntl, "flock", counted_flock)
        assert Writer(path).append(LATER[0])
    assert len(tries) < 1500
    assert read_elements(path.read_bytes()) == [*JSON, LATER[0]]


def on_lock(monkeypatch: pytest.MonkeyPatch, do: Callable[[int], object]) -> None:
    """Do something once, right after a writer has got its lock."""
    flock = fcntl.flock

    def flock_and_do(descriptor: int, operation: int) -> None:
        flock(descriptor, operation)
        if operation & fcntl.LOCK_EX:
            monkeypatch.setattr(fcntl, "flock", flock)
            do(descriptor)

    monkeypatch.setattr(fcntl, "flock", flock_and_do)


def test_forked_child_does_not_keep_the_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[int] = []
    on_lock(monkeypatch, lambda descriptor: copies.append(os.dup(descriptor)))
    assert Writer(path).append(LATER[0])
    assert not is_locked(path)
    os.close(*copies)


@pytest.mark.parametrize(
    "moment", ["before-the-lock", "before-the-size", "before-the-room", "after-the-write"]
)
def test_signal_handler_entry_is_moved_into_array(
    path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whenever the handler runs in the middle of an append."""
    writer = Writer(path)
    name = {"before-the-size": "fstat", "before-the-room": "pread", "after-the-write": "pwrite"}.get(moment)
    handled = []

    def handle_signal(descriptor: int) -> None:
        handled.append(descriptor)
        if moment == "before-the-lock":
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        else:
            hook = getattr(os, str(name))

            def call_and_handle(*arguments: object) -> object:
                monkeypatch.setattr(os, str(name), hook)
                result = hook(*arguments)
                assert writer.append(LATER[0])
                return result

            monkeypatch.setattr(os, str(name), call_and_handle)
            return
        assert writer.append(LATER[0])

    on_lock(monkeypatch, handle_signal)
    assert writer.append(LATER[1])
    assert handled
    found = read_elements(path.read_bytes())
    assert found in ([*JSON, *LATER], [*JSON, *LATER[::-1]])
    assert json.loads(path.read_bytes()) == found
    assert writer.append(LATER[0])
    assert json.loads(path.read_bytes()) == [*found, LATER[0]]


def test_entries_of_others_behind_the_array_stay_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(path)

    def handle_signal(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        writer.append(LATER[0])
        with path.open("ab") as file:
            file.write(b"{torn\n")

    before = path.read_bytes()
    on_lock(monkeypatch, handle_signal)
    assert writer.append(LATER[1])
    lines = [line for line in path.read_bytes().removeprefix(before).split(b"\n") if line]
    assert lines[1] == b"{torn"
    assert [json.loads(lines[0]), json.loads(lines[2])] == LATER


def open_files() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.mark.parametrize("layout", ["array", "lines"])
def test_a_writer_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    monkeypatch.setenv("SERVICE_RECORDS_LAYOUT", layout)
    monkeypatch.setenv("SERVICE_RECORDS_SYNC", "ends")
    path = tmp_path / "job.json"
    before = open_files()
    writer = Writer(path)
    for _ in range(2):
        assert writer.append(entry("service end", result="success"))
    path.unlink()
    assert writer.append(entry())
    path.unlink()
    os.mkfifo(path)
    assert not writer.append(entry())
    assert open_files() == before
