"""What tests are built from: entries with everything filled in, and files that hold them."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from service_record.record.entry import Entry, Phase, Result

START = datetime(2026, 11, 21, 1, 5, 10, tzinfo=UTC)
UPTIME = 60.0
BOOT_ID = "b0" * 16
INVOCATION_ID = "1f" * 16
PID = 4711


def timestamp(at: float = 0) -> str:
    """The time `at` seconds after START, as it stands in an entry."""
    moment = START + timedelta(seconds=at)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def entry(phase: str = Phase.SERVICE_START, at: float = 0, **fields: object) -> Entry:
    """An entry as our writers make it, `at` seconds after START; an end succeeds unless told otherwise."""
    kind = Phase(phase)
    defaults: dict[str, object] = {
        "timestamp": timestamp(at),
        "uptime": UPTIME + at,
        "boot_id": BOOT_ID,
        "invocation_id": INVOCATION_ID,
        "pid": PID,
        "result": Result.SUCCESS if kind.is_end else None,
    }
    return Entry(phase=kind, **(defaults | fields))  # type: ignore[arg-type]


def upstream_entry(phase: str = Phase.SERVICE_START, at: float = 0, **fields: object) -> Entry:
    """An entry as upstream's shim makes it: whole seconds, texts only, no identity of its run."""
    whole_seconds = timestamp(int(at)).replace(".000Z", "Z")
    absent = {"timestamp": whole_seconds, "uptime": None, "boot_id": None, "invocation_id": None, "pid": None}
    return entry(phase, at, **(absent | fields))


def failed_run(stage: str = "second", at: float = 0, **fields: object) -> list[Entry]:
    """The entries of a run that fails in `stage`, ten seconds after its start; `fields` go to its ends."""
    failure = {
        "result": Result.FAILURE,
        "error_line": "12 main /usr/local/bin/job.sh",
        "exit_code": 1,
    } | fields
    return [
        entry(Phase.SERVICE_START, at, recorder="bash/0.1.0"),
        entry(Phase.STAGE_START, at + 1, stage=stage),
        entry(Phase.STAGE_END, at + 10, stage=stage, **failure),
        entry(Phase.SERVICE_END, at + 10, **failure),
    ]


def write_lines(path: Path, *pieces: Entry | bytes) -> Path:
    """A file in the lines layout; pieces of bytes stand in it as they are."""
    path.write_bytes(b"".join(piece if isinstance(piece, bytes) else piece.to_line() for piece in pieces))
    return path


def array(*entries: Entry) -> bytes:
    """The entries as upstream's jq prints them: one array, indented by two spaces."""
    return json.dumps([entry.to_json() for entry in entries], indent=2, ensure_ascii=False).encode() + b"\n"


def our_array(*entries: Entry, behind: Iterable[Entry] = ()) -> bytes:
    """The array layout of our own writers: an entry to a line, blanks, and what came too late for it."""
    lines = b",\n".join(entry.to_line().removesuffix(b"\n") for entry in entries)
    closed = b"[\n" + lines + b"\n]\n"
    blanks = b" " * (-len(closed) % 1024)
    return closed + blanks + b"".join(b"\n" + entry.to_line() for entry in behind)


def write_array(path: Path, *entries: Entry) -> Path:
    path.write_bytes(array(*entries))
    return path


T = TypeVar("T")


def require(found: T | None) -> T:
    """Return a finding that has to be there."""
    assert found is not None
    return found


def require_type(kind: type[T], found: object) -> T:
    """Return a finding that has to be of this kind."""
    assert isinstance(found, kind), found
    return found
