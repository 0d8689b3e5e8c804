"""Derive records from the journals and installers' logs of a source, or from this host's own journal."""

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from service_record.diagnosis.evidence.journal_forms import Read
from service_record.diagnosis.evidence.journal_runs import read_runs
from service_record.diagnosis.evidence.log_lines import Era, stream_of
from service_record.history.from_journal import merge
from service_record.read.host_files import host_files
from service_record.read.source import Source
from service_record.record.entry import Entry, Phase, Piece, Result
from service_record.record.recognition import HEAD_BYTES, LOGS, FileForm, recognise

if TYPE_CHECKING:
    from service_record.bundle.contents import Leave

_JOURNALS: Final = frozenset(
    {FileForm.JOURNAL, FileForm.JOURNAL_JSON, FileForm.JOURNAL_EXPORT, FileForm.JOURNAL_VERBOSE}
)
_ENDS: Final = rb"end(?:s|ing)? at [A-Z][a-z]{2} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
"""In the line that journalctl prints above a journal as text."""
_FIELDS: Final = (
    *("MESSAGE", "MESSAGE_ID", "UNIT", "USER_UNIT", "INVOCATION_ID", "JOB_RESULT", "UNIT_RESULT"),
    *("EXIT_CODE", "EXIT_STATUS", "SYSLOG_IDENTIFIER", "_PID", "_SYSTEMD_UNIT", "_SYSTEMD_INVOCATION_ID"),
)
_JOURNALCTL: Final = (
    *("journalctl", "--quiet", "--no-pager", "--all", "--output=json"),
    f"--output-fields={','.join(_FIELDS)}",
)
_MAX_FAILED: Final = 50
"""Failed units whose own lines are read from this host's journal."""
_LIVE: Final = "the journal of this host"

Records = Mapping[str, Sequence[Entry]]


def add_derived(source: Source, leave: "Leave | None" = None) -> Source:
    """Return the source with the runs that its journals and installers' logs tell of.

    Of an invocation that is recorded, only an end that the record lacks is added.
    """
    files: list[Records] = []
    for path, read in host_files(source, leave=leave, every_boot=True) or ():
        records = _read_file(path, read)
        if records:
            files.append(records)
    return _with_records(source, _joined(files))


def journal_of_this_host(source: Source | None) -> Source | None:
    """Return the records of this host with what its journal tells; None where it tells nothing.

    `source` has the records, and is None where there are none.
    """
    records = _live_records()
    if not records and source is None:
        return None
    if source is None:
        return _with_records(Source(_LIVE, ()), records)
    return replace(_with_records(source, records), name=f"{source.name}, {_LIVE}")


def _read_file(path: str, read: Read) -> Records:
    head = read(HEAD_BYTES)
    form = recognise(head)
    if form not in LOGS:
        return {}
    stream = stream_of(path, head)
    if stream is not None and stream.host:
        return {}  # of another host of the cluster
    whole = chain([head], iter(lambda: read(_BLOCK_BYTES), b""))

    def read_again(_size: int) -> bytes:
        return next(whole, b"")

    if form in _JOURNALS:
        return read_runs(form, read_again, Era(last=_end(head))).records()
    return {}


_BLOCK_BYTES: Final = 1 << 20


def _end(head: bytes) -> datetime:
    """Return when a journal ends, by the line that journalctl prints above it, else the present."""
    match = re.search(_ENDS, head[:500])
    return datetime.now(UTC) if match is None else datetime.fromisoformat(f"{match[1].decode()}+00:00")


def _joined(files: Iterable[Records]) -> Records:
    """Return the records of several files. Of a service in one boot, the file that tells most counts."""
    best: dict[str, dict[str | None, Sequence[Entry]]] = {}
    for records in files:
        for service, entries in records.items():
            boots: dict[str | None, list[Entry]] = {}
            for entry in entries:
                boots.setdefault(entry.boot_id, []).append(entry)
            known = best.setdefault(service, {})
            for boot_id, own in boots.items():
                if len(own) > len(known.get(boot_id, ())):
                    known[boot_id] = own
    return {service: list(chain.from_iterable(boots.values())) for service, boots in best.items()}


def _with_records(source: Source, derived: Records) -> Source:
    records: dict[str, Iterable[Piece]] = dict(source.records)
    for service, entries in derived.items():
        recorded = records.get(service)
        records[service] = entries if recorded is None else merge(recorded, entries)
    if not records:
        return source
    return replace(source, records=tuple(records.items()), refusal="")


def _live_records() -> Records:
    """Read what systemd logged, and then the lines of the units that failed."""
    runs = read_runs(FileForm.JOURNAL_JSON, BytesIO(_printed("_PID=1")).read, Era()).records()
    failed = [
        service
        for service, entries in runs.items()
        if any(entry.phase is Phase.SERVICE_END and entry.result is Result.FAILURE for entry in entries)
    ]
    if not failed:
        return runs
    units = chain.from_iterable(
        ("+", f"_SYSTEMD_UNIT={service}.service") for service in failed[-_MAX_FAILED:]
    )
    return read_runs(FileForm.JOURNAL_JSON, BytesIO(_printed("_PID=1", *units)).read, Era()).records()


def _printed(*matches: str) -> bytes:
    try:
        done = subprocess.run(
            (*_JOURNALCTL, *matches), stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError:
        return b""
    return done.stdout
