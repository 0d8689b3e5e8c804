"""Build tar archives from members of any kind, and open them as bundles."""

import bz2
import gzip
import io
import lzma
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from service_record.bundle import Bundle, Limits, open_bundle
from service_record.record.entry import Entry
from tests.builders import array

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SERVICES: Final = "log-bundle-20261121010510/bootstrap/services"
COMPRESSIONS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    ".tar": bytes,
    ".tar.gz": gzip.compress,
    ".tar.bz2": bz2.compress,
    ".tar.xz": lzma.compress,
    ".tar.zst": zstd.compress,
}
Layout: TypeAlias = Literal[0, 1, 2]

MTIME: Final = 1795223170


def extract_all(archive: tarfile.TarFile, directory: Path) -> None:
    """Extract an archive. Debian 12's Python (3.11.2) has neither `filter=` nor `data_filter`."""
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    archive.extractall(directory)  # an archive that the test made


def header(name: str, size: int = 0, *, layout: Layout = tarfile.GNU_FORMAT, **fields: object) -> bytes:
    """Return the header block of a member. `fields` are attributes of its TarInfo, valid or not."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, MTIME
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(layout)


def member(name: str, data: bytes = b"", **fields: object) -> bytes:
    return header(name, len(data), **fields) + data + bytes(-len(data) % tarfile.BLOCKSIZE)  # type: ignore[arg-type]


def record(service: str, *entries: Entry, below: str = SERVICES) -> bytes:
    """Return a member with a record, as upstream's gather writes it."""
    return member(f"{below}/{service}.json", array(*entries))


def tar(*members: bytes) -> bytes:
    return b"".join(members) + bytes(2 * tarfile.BLOCKSIZE)


def open_archive(archive: bytes, **limits: Any) -> Bundle:
    return open_bundle(io.BufferedReader(io.BytesIO(archive)), Limits(**limits))


def list_phases(bundle: Bundle) -> dict[str, list[str]]:
    """Return service -> the phase of each entry, or the reason for each damaged piece."""
    return {
        service: [piece.phase.value if isinstance(piece, Entry) else piece.reason for piece in one.pieces()]
        for service, one in bundle.records.items()
    }


def list_left_out(bundle: Bundle) -> list[tuple[str, str]]:
    return [(part.path, part.reason) for part in bundle.left_out]
