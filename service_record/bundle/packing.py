"""Pack the records of a host in the form that all readers of OpenShift's log bundles accept."""

import gzip
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from io import BytesIO
from typing import BinaryIO, Final, TypeAlias

from msgspec import structs

from service_record.export import FORMS
from service_record.record.appending import DAMAGED_SUFFIX, record_name
from service_record.record.entry import Entry, Malformed, Piece, UnknownFields

_LEVEL: Final = 6
_FILE_MODE: Final = 0o640
_UPSTREAM_FIELDS: Final = {
    name.casefold()
    for name in (
        *("timestamp", "preCommand", "postCommand", "stage"),
        *("phase", "result", "errorLine", "errorMessage"),
    )
}

_Records: TypeAlias = Iterable[tuple[str, Iterable[Piece]]]
_Copies: TypeAlias = Mapping[str, Callable[[], bytes]]


def pack(records: _Records, stream: BinaryIO, at: datetime, damaged: _Copies | None = None) -> None:
    """Write a gzipped tar archive with `log-bundle-<time>/bootstrap/services/<service>.json` for each record.

    `records` are pairs of a service name and its pieces, and `at` is an aware time. The same pieces and time
    give the same bytes. The modification time of a file is that of its last entry. Damaged parts are in
    `<service>.json.damaged`: first the bytes that `damaged[service]()` returns, if there are any, then the
    malformed pieces. Raises OSError if a record or its damaged copy cannot be read.
    """
    copies = damaged or {}
    directory = f"log-bundle-{at.astimezone(UTC):%Y%m%d%H%M%S}/bootstrap/services"
    with (
        gzip.GzipFile(
            filename="", mode="wb", compresslevel=_LEVEL, fileobj=stream, mtime=at.timestamp()
        ) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        names: set[str] = set()
        for service, record in sorted(records, key=lambda record: record[0]):
            path = f"{directory}/{free_name(service, names)}.json"
            entries, malformed = _split_pieces(record)
            written = next((entry.time for entry in reversed(entries) if entry.time is not None), at)
            _add(archive, path, b"".join(FORMS["array"](entries)), written)
            if malformed or service in copies:
                before = copies[service]() if service in copies else b""
                _add(archive, path + DAMAGED_SUFFIX, _join_lines(before, as_text(malformed)), written)


def free_name(service: str, names: set[str]) -> str:
    """Return a name that upstream's reader accepts and that is not in `names`, and add it there."""
    name = record_name(service)
    while name in names:
        name += "_"
    names.add(name)
    return name


def _split_pieces(pieces: Iterable[Entry | Malformed]) -> tuple[list[Entry], list[Malformed]]:
    entries: list[Entry] = []
    malformed: list[Malformed] = []
    for piece in pieces:
        if isinstance(piece, Entry):
            entries.append(unambiguous(piece))
        else:
            malformed.append(piece)
    return entries, malformed


def unambiguous(entry: Entry) -> Entry:
    """Return the entry with `x-` before unknown fields that upstream's reader would take for its own.

    That reader ignores the case of field names.
    """
    if not any(name.casefold() in _UPSTREAM_FIELDS for name in entry.extra):
        return entry
    extra = {
        f"x-{name}" if name.casefold() in _UPSTREAM_FIELDS else name: value
        for name, value in entry.extra.items()
    }
    return structs.replace(entry, extra=UnknownFields(extra))


def as_text(malformed: Sequence[Malformed]) -> bytes:
    """Return the pieces, each below a line with its place in the record and the reason."""
    lines = (f"line {piece.line}: {piece.reason}\n{piece.text}\n" for piece in malformed)
    return "".join(lines).encode(errors="backslashreplace")


def _join_lines(before: bytes, text: bytes) -> bytes:
    """Join two texts with a line break between them, if the first has none and both are not empty."""
    separator = b"\n" if before and text and not before.endswith(b"\n") else b""
    return before + separator + text


def _add(archive: tarfile.TarFile, path: str, data: bytes, written: datetime) -> None:
    member = tarfile.TarInfo(path)
    member.size = len(data)
    member.mtime = max(int(written.timestamp()), 0)
    member.mode = _FILE_MODE
    archive.addfile(member, BytesIO(data))
