"""Build entries with plausible values, and record files."""

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
    """Return the time `at` seconds after START in the format of an entry."""
    moment = START + timedelta(seconds=at)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def entry(phase: str = Phase.SERVICE_START, at: float = 0, **fields: object) -> Entry:
    """Return an entry like those of our writers, `at` seconds after START. By default, ends succeed."""
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
    """Return an entry like those of upstream's shim: whole seconds, strings, no boot, invocation or PID."""
    whole_seconds = timestamp(int(at)).replace(".000Z", "Z")
    absent = {"timestamp": whole_seconds, "uptime": None, "boot_id": None, "invocation_id": None, "pid": None}
    return entry(phase, at, **(absent | fields))


def failed_run(stage: str = "second", at: float = 0, **fields: object) -> list[Entry]:
    """Return the entries of a run that fails in `stage` after ten seconds. `fields` are set in its ends."""
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
    """Write a file in the lines layout. Bytes are written unchanged."""
    path.write_bytes(b"".join(piece if isinstance(piece, bytes) else piece.to_line() for piece in pieces))
    return path


def array(*entries: Entry) -> bytes:
    """Return the entries as upstream's jq prints them: an array, indented by two spaces."""
    return json.dumps([entry.to_json() for entry in entries], indent=2, ensure_ascii=False).encode() + b"\n"


def our_array(*entries: Entry, appended: Iterable[Entry] = ()) -> bytes:
    """Return an array as our writers lay it out: an entry in each line, blanks, then `appended` entries.

    A writer appends an entry after the array if it cannot get the lock.
    """
    lines = b",\n".join(entry.to_line().removesuffix(b"\n") for entry in entries)
    closed = b"[\n" + lines + b"\n]\n"
    blanks = b" " * (-len(closed) % 1024)
    return closed + blanks + b"".join(b"\n" + entry.to_line() for entry in appended)


def write_array(path: Path, *entries: Entry) -> Path:
    path.write_bytes(array(*entries))
    return path


T = TypeVar("T")


def require(found: T | None) -> T:
    """Return the value, which must not be None."""
    assert found is not None
    return found


def require_type(kind: type[T], found: object) -> T:
    """Return the value, which must be an instance of `kind`."""
    assert isinstance(found, kind), found
    return found
