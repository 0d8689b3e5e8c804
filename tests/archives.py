"""Archives to open: tar members of any kind, packed in any way."""

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

WRITTEN: Final = 1795223170


def extract_all(archive: tarfile.TarFile, directory: Path) -> None:
    """Extract an archive. Debian 12's Python (3.11.2) has neither `filter=` nor `data_filter`."""
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    archive.extractall(directory)  # an archive that the test made


def header(name: str, size: int = 0, *, layout: Layout = tarfile.GNU_FORMAT, **fields: object) -> bytes:
    """The header of a member, with its data to come; whatever the fields say."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, WRITTEN
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(layout)


def member(name: str, data: bytes = b"", **fields: object) -> bytes:
    return header(name, len(data), **fields) + data + bytes(-len(data) % tarfile.BLOCKSIZE)  # type: ignore[arg-type]


def record(service: str, *entries: Entry, below: str = SERVICES) -> bytes:
    """A member as upstream's gather makes it."""
    return member(f"{below}/{service}.json", array(*entries))


def tar(*members: bytes) -> bytes:
    return b"".join(members) + bytes(2 * tarfile.BLOCKSIZE)


def opened(archive: bytes, **limits: Any) -> Bundle:
    return open_bundle(io.BufferedReader(io.BytesIO(archive)), Limits(**limits))


def found(bundle: Bundle) -> dict[str, list[str]]:
    """Of each service the phases of its entries, and the reason in place of what is none."""
    return {
        service: [piece.phase.value if isinstance(piece, Entry) else piece.reason for piece in one.pieces()]
        for service, one in bundle.records.items()
    }


def reasons(bundle: Bundle) -> list[tuple[str, str]]:
    return [(part.path, part.reason) for part in bundle.left_out]
