"""Read the members of a zip archive, which may be damaged or malicious.

A zip archive has its list of members at its end, so it is copied first: to memory, or to a file without name
if it is large. The copy counts towards the limits of reading.
"""

import calendar
import lzma
import stat
import tempfile
import zlib
from collections.abc import Iterator
from typing import IO, Final
from zipfile import BadZipFile, LargeZipFile, ZipFile, ZipInfo

from service_record.bundle.layers import CHUNK_BYTES, Layer
from service_record.bundle.tar import A_DIRECTORY, TarError

_MAX_MEMORY_BYTES: Final = 16 << 20
_END: Final = b"PK\x05\x06"  # of the record at the end, which has the size of the list in bytes 12 to 16
_MAX_END_BYTES: Final = 22 + (1 << 16)  # with the longest comment
_MAX_LIST_BYTES: Final = 64 << 20
"""ZipFile reads the whole list into memory; 200,000 members with usual names take 20 MiB."""
_ENCRYPTED: Final = 0x1
_DAMAGES: Final = (
    BadZipFile,
    LargeZipFile,
    EOFError,
    OSError,
    zlib.error,
    lzma.LZMAError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
"""RuntimeError is raised for a password, NotImplementedError for an unknown compression, and MemoryError if
an LZMA header asks for too large a dictionary.
"""


class ZipMember:
    """One member, with the interface of a tar archive's `Member`."""

    def __init__(self, archive: ZipFile, info: ZipInfo) -> None:
        self.name = info.filename
        self.size = info.file_size
        self.written = _written(info)
        """The modification time of the file, in seconds since 1970; 0 if the archive has none."""
        self.kind = _kind(info)
        """The kind of a member that is not a plain file; empty for a plain file."""
        self.damage = ""
        """Why some of the data is missing. Valid after the data has been read."""
        self._archive = archive
        self._info = info
        self._file: IO[bytes] | None = None

    @property
    def is_cut(self) -> bool:
        """Return True if some of the data is missing."""
        return bool(self.damage)

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; empty at the end of the data, which may be too early (`is_cut`)."""
        if self.damage:
            return b""
        try:
            if self._file is None:
                self._file = self._archive.open(self._info)
            return self._file.read(size)
        except _DAMAGES as error:
            self.damage = str(error) or type(error).__name__
            return b""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def zip_members(layer: Layer) -> Iterator[ZipMember]:
    """Yield every member of a zip archive. Raises TarError at damage."""
    with tempfile.SpooledTemporaryFile(_MAX_MEMORY_BYTES) as copy:
        try:
            while chunk := layer.read(CHUNK_BYTES):
                copy.write(chunk)
        except OSError as error:  # a full disk, or a collector's process that may not write
            raise TarError(f"a zip archive that cannot be copied: {error.strerror}") from None
        if layer.reason:
            raise TarError(layer.reason)
        if _list_bytes(copy) > _MAX_LIST_BYTES:
            raise TarError(f"a zip archive whose list of members has more than {_MAX_LIST_BYTES >> 20} MiB")
        try:
            archive = ZipFile(copy)
        except _DAMAGES as error:
            raise TarError(f"a damaged zip archive: {error}") from None
        with archive:
            for info in archive.infolist():
                layer.budget.count_member()
                member = ZipMember(archive, info)
                yield member
                member.close()
                if member.damage:
                    raise TarError(
                        f"{member.name}: {member.damage}; the rest of the zip archive was not read"
                    )


def _list_bytes(copy: IO[bytes]) -> int:
    """Return the size of the list of members as stated in the archive; 0 if the archive is damaged."""
    size = copy.seek(0, 2)
    copy.seek(max(size - _MAX_END_BYTES, 0))
    end = copy.read()
    place = end.rfind(_END)
    return int.from_bytes(end[place + 12 : place + 16], "little") if place >= 0 else 0


def _written(info: ZipInfo) -> int:
    try:
        return calendar.timegm((*info.date_time, 0, 1, 0))
    except ValueError:  # month 0: Go's archive/zip writes it for a file without a time
        return 0


def _kind(info: ZipInfo) -> str:
    mode = info.external_attr >> 16
    if info.is_dir():
        return A_DIRECTORY
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if info.flag_bits & _ENCRYPTED:
        return "encrypted"
    return "" if not stat.S_IFMT(mode) or stat.S_ISREG(mode) else "a device"
