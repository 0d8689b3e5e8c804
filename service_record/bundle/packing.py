"""Making bundles: the records of a host as every reader of OpenShift's log bundles takes them."""

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
_UPSTREAMS: Final = {
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

    `at` is an aware time. The same pieces at the same time make the same bytes. A file is as old as its last
    entry. What is damaged is in `<service>.json.damaged` beside its record, which is whole without it: first
    what a writer replaced long ago, read by `damaged[service]` when there is such a copy. Raises OSError
    when a record or copy cannot be read.
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
            entries, malformed = _sorted_out(record)
            written = next((entry.time for entry in reversed(entries) if entry.time is not None), at)
            _add(archive, path, b"".join(FORMS["array"](entries)), written)
            if malformed or service in copies:
                before = copies[service]() if service in copies else b""
                _add(archive, path + DAMAGED_SUFFIX, _behind(before, as_text(malformed)), written)


def free_name(service: str, names: set[str]) -> str:
    """Return a name that upstream's reader takes, and that no other service of the bundle has."""
    name = record_name(service)
    while name in names:
        name += "_"
    names.add(name)
    return name


def _sorted_out(pieces: Iterable[Entry | Malformed]) -> tuple[list[Entry], list[Malformed]]:
    entries: list[Entry] = []
    malformed: list[Malformed] = []
    for piece in pieces:
        if isinstance(piece, Entry):
            entries.append(unambiguous(piece))
        else:
            malformed.append(piece)
    return entries, malformed


def unambiguous(entry: Entry) -> Entry:
    """Return the entry without unknown fields that upstream's reader, which ignores case, mistakes for its
    own.
    """
    if not any(name.casefold() in _UPSTREAMS for name in entry.extra):
        return entry
    extra = {
        f"x-{name}" if name.casefold() in _UPSTREAMS else name: value for name, value in entry.extra.items()
    }
    return structs.replace(entry, extra=UnknownFields(extra))


def as_text(malformed: Sequence[Malformed]) -> bytes:
    """Return each piece below a line that says where it stood and why it is not an entry."""
    lines = (f"line {piece.line}: {piece.reason}\n{piece.text}\n" for piece in malformed)
    return "".join(lines).encode(errors="backslashreplace")


def _behind(before: bytes, text: bytes) -> bytes:
    """Join two texts, the second on a line of its own; without a second text the first stays as it is."""
    separator = b"\n" if before and text and not before.endswith(b"\n") else b""
    return before + separator + text


def _add(archive: tarfile.TarFile, path: str, data: bytes, written: datetime) -> None:
    member = tarfile.TarInfo(path)
    member.size = len(data)
    member.mtime = max(int(written.timestamp()), 0)
    member.mode = _FILE_MODE
    archive.addfile(member, BytesIO(data))
