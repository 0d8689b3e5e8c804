"""Read the members of a tar archive in one pass, from a stream that may be damaged or malicious.

`tarfile` parses each header, but this module walks from header to header: `tarfile` takes a damaged header
for the end of the archive, keeps every member in memory, and follows extended headers without a limit. The
formats are those of pax(1) and tar(5): v7, ustar, pax and GNU.
"""

import re
import tarfile
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from service_record.bundle.layers import CHUNK_BYTES, Layer

_BLOCK: Final = tarfile.BLOCKSIZE
_END: Final = bytes(_BLOCK)
_ERRORS: Final = "backslashreplace"

_FILES: Final = {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE}
A_DIRECTORY: Final = "a directory"
_NO_DATA_KINDS: Final[Mapping[bytes, str]] = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.DIRTYPE: A_DIRECTORY,
    tarfile.FIFOTYPE: "a FIFO",
}
"""Member types without data. A size in their header is ignored."""
_SPARSE: Final = "a sparse file"
_LONG_NAME: Final = tarfile.GNUTYPE_LONGNAME
_PAX: Final = {tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE}
_PAX_LENGTH: Final = re.compile(rb"([1-9]\d{0,6}) ")
_MAX_PAX_RECORDS: Final = 64
"""Limits the time that a header takes. Headers of real files have a few records."""
_IGNORED: Final = {tarfile.GNUTYPE_LONGLINK, tarfile.XGLTYPE}
"""Types of extended headers that have no name or size of a member."""
_SPARSE_MORE_FOLLOW: Final = (482, 504)
"""The offset of the "more blocks follow" flag in an old GNU sparse header, and in each further block."""


class TarError(Exception):
    """An archive cannot be read any further. The message is one line."""


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    size: int
    kind: str
    written: int
    raw: bytes


class Member:
    """One member. Its data can be read until the iterator moves on."""

    def __init__(self, header: _Header, layer: Layer) -> None:
        self.name = header.name
        self.kind = header.kind
        """The kind of a member that is not a plain file; empty for a plain file."""
        self.size = header.size
        self.written = header.written
        """The modification time of the file, in seconds since 1970."""
        self.headers = header.raw
        """The bytes of all its headers, including ignored ones."""
        self._layer = layer
        self._left = header.size
        self._padding = -header.size % _BLOCK

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; empty at the end of the data, which may be too early (`is_cut`)."""
        data = self._layer.read(min(size, self._left))
        self._left -= len(data)
        return data

    @property
    def is_cut(self) -> bool:
        """Return True if some of the data is missing. Valid after the data has been read."""
        return self._left > 0

    @property
    def damage(self) -> str:
        """Return why some of the data is missing; empty if it is complete."""
        return damage_of(self._layer) if self.is_cut else ""

    def skip(self) -> None:
        while self.read(CHUNK_BYTES):
            pass
        if self.is_cut:
            raise TarError(damage_of(self._layer))
        self._layer.read(self._padding)


def members(layer: Layer) -> Iterator[Member]:
    """Yield every member up to the end of the archive. Raises TarError at damage."""
    while header := _header(layer):
        member = Member(header, layer)
        yield member
        member.skip()


def damage_of(layer: Layer) -> str:
    """Return why a layer ended before the end of its archive."""
    return layer.reason or "the archive has no end: the rest is missing"


def _header(layer: Layer) -> _Header | None:
    """Return the headers of the next member, or None at the end of the archive."""
    name, pax, raw = "", dict[str, str](), bytearray()
    while (block := _block(layer)) != _END:
        layer.budget.count_member()
        info = _parse_header(block)
        raw += block
        if info.type == _LONG_NAME:
            data = _data(layer, info.size)
            name = data.partition(b"\0")[0].decode(errors=_ERRORS)
        elif info.type in _PAX:
            data = _data(layer, info.size)
            pax = _parse_pax_records(data)
        elif info.type in _IGNORED:
            data = _data(layer, info.size)
        else:
            if info.type == tarfile.GNUTYPE_SPARSE:
                _skip_sparse_map(layer, block)
            return _merge_headers(info, name, pax, bytes(raw))
        if len(raw) + len(data) > layer.budget.limits.header_bytes:
            raise TarError(f"more than {layer.budget.limits.header_bytes} bytes of headers before a member")
        raw += data
    return None


def _block(layer: Layer) -> bytes:
    block = layer.read(_BLOCK)
    if len(block) < _BLOCK:
        raise TarError(damage_of(layer))
    return block


def _parse_header(block: bytes) -> tarfile.TarInfo:
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", _ERRORS)
    except tarfile.HeaderError as error:
        raise TarError(f"a damaged header: {error}") from None
    if info.size < 0:
        raise TarError("a damaged header: negative size")
    return info


def _data(layer: Layer, size: int) -> bytes:
    """Return the content of an extended header."""
    limit = layer.budget.limits.header_bytes
    if size > limit:
        raise TarError(f"an extended header of {size} bytes; at most {limit} are read")
    data = layer.read(size)
    if len(data) < size:
        raise TarError(damage_of(layer))
    layer.read(-size % _BLOCK)
    return data


def _parse_pax_records(data: bytes) -> dict[str, str]:
    """Parse lines of `LENGTH NAME=VALUE`, where LENGTH counts the whole line; see pax(1)."""
    records: dict[str, str] = {}
    start = 0
    while match := _PAX_LENGTH.match(data, start):
        end = start + int(match[1])
        name, equals, value = data[match.end() : end - 1].partition(b"=")
        if not equals or data[end - 1 : end] != b"\n" or len(records) == _MAX_PAX_RECORDS:
            break
        records[name.decode(errors=_ERRORS)] = value.decode(errors=_ERRORS)
        start = end
    if data[start:].strip(b"\0"):
        raise TarError("a damaged extended header")
    return records


def _skip_sparse_map(layer: Layer, block: bytes) -> None:
    first, then = _SPARSE_MORE_FOLLOW
    has_more = block[first]
    while has_more:
        layer.budget.count_member()
        has_more = _block(layer)[then]


def _merge_headers(info: tarfile.TarInfo, name: str, pax: Mapping[str, str], raw: bytes) -> _Header:
    """Return the header of a member, with the values of its extended headers."""
    is_sparse = info.type == tarfile.GNUTYPE_SPARSE or any(key.startswith("GNU.sparse.") for key in pax)
    is_file = info.type in _FILES
    kind = _SPARSE if is_sparse else "" if is_file else _NO_DATA_KINDS.get(info.type, "of an unknown type")
    size = pax.get("size", str(info.size))
    if not (size.isascii() and size.isdigit() and len(size) <= len(str(1 << 63))):
        raise TarError("a damaged extended header: size")
    return _Header(
        name=pax.get("GNU.sparse.name") or pax.get("path") or name or info.name,
        size=0 if info.type in _NO_DATA_KINDS else int(size),
        kind=kind,
        written=int(info.mtime),
        raw=raw,
    )
