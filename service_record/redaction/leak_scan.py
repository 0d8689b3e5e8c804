"""The last look at what leaves: is a secret of this host in it, or what never may be. Pure over a stream.

Compressions and archives in one another are read to their end. What cannot be read is refused like a secret.
"""

import bz2
import gzip
import lzma
import sys
import tarfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader, RawIOBase
from typing import IO, Any, BinaryIO, Final, TypeAlias, cast

from service_record.redaction.redactor import Redactor
from service_record.redaction.rules import Rules
from service_record.redaction.types import Leak

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

UNREADABLE: Final = "unreadable"
"""The kind of a finding that is no secret, but may hide one."""
_CHUNK_BYTES: Final = 1 << 20
_MOST_LAYERS: Final = 8
_MOST_BYTES: Final = 16 << 30
"""Of everything, unpacked; more is refused."""
_BLOCK: Final = tarfile.BLOCKSIZE
_MAGIC: Final = slice(257, 262)
_Buffered: TypeAlias = "BufferedReader[Any]"
_OPENERS: Final[Mapping[bytes, Callable[[Any], IO[bytes]]]] = {
    b"\x1f\x8b": lambda stream: cast("IO[bytes]", gzip.GzipFile(fileobj=stream, mode="rb")),
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
    b"\x28\xb5\x2f\xfd": lambda stream: cast("IO[bytes]", zstd.ZstdFile(stream)),
}
"""First bytes of a stream -> what unpacks it, also when several are joined."""


def residual(rules: Rules, stream: BinaryIO, place: str = "") -> Leak | None:
    """The first secret in a bundle or any other stream, with the member it is in; None when there is none.

    A finding of the kind `unreadable` says that a part could not be looked into. Raises OSError when the
    stream itself cannot be read: what the disk does not give is no finding.
    """
    buffered: _Buffered = BufferedReader(cast("RawIOBase", stream), _CHUNK_BYTES)
    return _Scan(rules).stream(buffered, place, _MOST_LAYERS)


@dataclass(slots=True)
class _Scan:
    rules: Rules
    left: int = _MOST_BYTES

    def stream(self, stream: _Buffered, place: str, layers: int) -> Leak | None:
        head = stream.peek(_BLOCK)
        opener = next((opener for magic, opener in _OPENERS.items() if head.startswith(magic)), None)
        is_tar = head[_MAGIC] == b"ustar"
        if not layers and (opener or is_tar):
            return Leak(UNREADABLE, place, 0)
        if is_tar:
            return self._tar(stream, place, layers - 1)
        if opener is None:
            return self._text(stream, place)
        try:
            inner: _Buffered = BufferedReader(cast("RawIOBase", opener(stream)), _CHUNK_BYTES)
            return self.stream(inner, place, layers - 1)
        except (EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # those of gzip and bzip2 have none
                raise
            return Leak(UNREADABLE, place, 0)

    def _text(self, stream: BufferedIOBase, place: str) -> Leak | None:
        redactor = Redactor(self.rules, only_certain=True)
        while data := stream.read(_CHUNK_BYTES):
            self.left -= len(data)
            if self.left < 0:
                return Leak(UNREADABLE, place, 0)
            redactor.feed(data)
            if redactor.counts:
                break
        redactor.finish()
        kind = next(iter(redactor.counts), None)
        return Leak(kind, place, redactor.first_line) if kind is not None else None

    def _tar(self, stream: _Buffered, place: str, layers: int) -> Leak | None:
        """Each member, and each header of headers, whose data is names: all that is neither is zeros."""
        while block := stream.read(_BLOCK):
            if not block.strip(b"\0"):
                continue
            try:
                info = tarfile.TarInfo.frombuf(block, "utf-8", "backslashreplace")
            except tarfile.HeaderError:
                return Leak(UNREADABLE, place, 0)
            member = _StreamPart(stream, info.size)
            named = f"{place}: {info.name}" if place else info.name
            finding = self._name(info, place) or self.stream(
                BufferedReader(member, _CHUNK_BYTES), named, layers
            )
            if finding:
                return finding
            if member.left:
                return Leak(UNREADABLE, named, 0)
            stream.read(-info.size % _BLOCK)
        return None

    def _name(self, info: tarfile.TarInfo, place: str) -> Leak | None:
        redactor = Redactor(self.rules, only_certain=True)
        redactor.feed(f"{info.name}\n{info.linkname}".encode(errors="surrogateescape"))
        redactor.finish()
        kind = next(iter(redactor.counts), None)
        return Leak(f"{kind}, in the name of a member", place, 0) if kind is not None else None


class _StreamPart(RawIOBase):
    """So many bytes of a stream."""

    def __init__(self, stream: _Buffered, size: int) -> None:
        self._stream = stream
        self.left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader gives
        data = self._stream.read(min(len(buffer), self.left))
        self.left -= len(data)
        buffer[: len(data)] = data
        return len(data)
