"""Decompress the layers around an archive while it is read. A stream's first bytes show its compression.

Limits bound the time and memory that any archive, including a malicious one, can take.
"""

import bz2
import lzma
import sys
import tarfile
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from service_record.record.recognition import is_tar

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30


class LimitError(Exception):
    """An archive exceeds a limit. The message is one line."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of reading, far above real bundles and low enough for a small machine."""

    read_bytes: int = 4 * _GIB
    """Bytes of all layers together, compressed and not. 20 MiB of gzip can unpack to 4 GiB."""
    free_bytes: int = 256 * _MIB
    """Bytes of all layers together that even a tiny archive may have."""
    growth: int = 200
    """Further bytes, as a multiple of the archive's size. Logs compress to a thirtieth; malicious data
    compresses to a thousandth in each layer."""
    members: int = 200_000
    """Members of all archives together, including extended headers. A million empty members compress to
    one or two MB."""
    records: int = 10_000
    """Records. A host has some hundred units, and each record takes a place in the output."""
    record_bytes: int = 64 * _MIB
    """Bytes of one record: 16384 entries of the greatest length, or half a million usual ones."""
    kept_bytes: int = 128 * _MIB
    """Bytes of all records. They are held in memory: archives are read in one pass, without files."""
    free_kept_bytes: int = 16 * _MIB
    """Bytes of all records that even a tiny archive may have."""
    kept_growth: int = 40
    """Further bytes of records, as a multiple of the archive's size. Real records compress to a tenth or a
    twentieth. Identical entries compress to a two-hundredth: judging half a megabyte of them would take half
    a gigabyte of memory."""
    layers: int = 8
    """Nested archives and compressions. A log bundle from assisted-service has three."""
    header_bytes: int = 64 * _KIB
    """Bytes of the extended headers of a member. A path has at most 4 KiB on Linux."""
    decoder_bytes: int = 256 * _MIB
    """Memory of the xz decoder. `xz -9` needs 65 MiB, and a file can ask for 4 GiB."""
    is_our_own: bool = False
    """True for an archive that this program has just made. ISA-L unpacks it, if installed; its error messages
    differ from those of zlib."""


class ReadingBudget(msgspec.Struct):
    """The amounts read from an archive so far. Each method raises LimitError beyond its limit."""

    limits: Limits
    read_bytes: int = 0
    packed_bytes: int = 0
    """The bytes of the archive itself, a part of `read_bytes`."""
    members: int = 0
    records: int = 0
    kept_bytes: int = 0

    def read(self, size: int, *, is_packed: bool) -> None:
        self.read_bytes += size
        self.packed_bytes += size if is_packed else 0
        growth = self.limits.growth
        if self.read_bytes > self.limits.free_bytes + growth * self.packed_bytes:
            raise LimitError(
                f"more than {growth} times its size to read, and {size_text(self.limits.free_bytes)}"
            )
        if self.read_bytes > self.limits.read_bytes:
            raise LimitError(f"more than {size_text(self.limits.read_bytes)} to read")

    def count_member(self) -> None:
        self.members += 1
        if self.members > self.limits.members:
            raise LimitError(f"more than {self.limits.members} members")

    def count_record(self) -> None:
        self.records += 1
        if self.records > self.limits.records:
            raise LimitError(f"more than {self.limits.records} records")

    def keep(self, size: int) -> None:
        self.kept_bytes += size
        if self.kept_bytes > self.limits.kept_bytes:
            raise LimitError(f"more than {size_text(self.limits.kept_bytes)} of records")
        growth, free = self.limits.kept_growth, self.limits.free_kept_bytes
        if self.kept_bytes > free + growth * self.packed_bytes:
            raise LimitError(f"records of more than {growth} times its size, and {size_text(free)}")


def size_text(size: int) -> str:
    """Return a size as text: `4 GiB`."""
    for unit, name in ((_GIB, "GiB"), (_MIB, "MiB"), (_KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} bytes"


HEAD_BYTES: Final = tarfile.BLOCKSIZE
"""The number of first bytes that is_packed() needs."""
CHUNK_BYTES: Final = 1 << 16

Pull: TypeAlias = Callable[[int], bytes]
"""Returns the next bytes, at most the given number; empty at the end. May raise one of `_damages()`."""


def _damages() -> tuple[type[Exception], ...]:
    """Return the exceptions that mean damaged data or an unreadable file."""
    return (OSError, EOFError, zlib.error, _fast_zlib().error, lzma.LZMAError, _zstd().ZstdError)


class Layer:
    """A stream with peek(). It ends at damaged data; `damage` is then the reason."""

    def __init__(self, pull: Pull, budget: ReadingBudget, around: "Layer | None" = None) -> None:
        self._pull = pull
        self._around = around
        self._peeked = b""
        self.budget = budget
        self.damage = ""
        self.depth: int = around.depth + 1 if around else 0
        """The number of outer layers."""

    @property
    def head(self) -> bytes:
        return self.peek(HEAD_BYTES)

    def peek(self, size: int) -> bytes:
        """Return the next bytes without consuming them."""
        self._peeked = self.read(size)
        return self._peeked

    @property
    def reason(self) -> str:
        """Return the damage that ended the stream, its own or an outer layer's; empty if there is none."""
        return self.damage or (self._around.reason if self._around else "")

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        """Return `size` bytes, fewer only at the end. Raises LimitError beyond a limit of the archive."""
        parts = [self._peeked[:size]]
        self._peeked = self._peeked[size:]
        missing = size - len(parts[0])
        while missing and (data := self._pull_next(missing)):
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def _pull_next(self, size: int) -> bytes:
        if self.damage:
            return b""
        try:
            data = self._pull(min(size, CHUNK_BYTES))
        except Exception as error:
            if not isinstance(error, _damages()):
                raise
            self.damage = self.reason or str(error)
            return b""
        self.budget.read(len(data), is_packed=self._around is None)
        return data


def decompressed_layer(layer: Layer) -> Layer:
    """Return the layer inside all compressions, up to the limit of layers."""
    while layer.depth < layer.budget.limits.layers and (new := _decoder(layer.head)):
        layer = Layer(_Decoded(layer, new).pull, layer.budget, layer)
    return layer


def is_packed(head: bytes) -> bool:
    """Return True if a stream that begins with `head` is an archive or compressed."""
    return is_archive(head) or _decoder(head) is not None


def is_archive(head: bytes) -> bool:
    """Return True if a stream that begins with `head` is a tar or zip archive."""
    return is_tar(head) or is_zip(head)


def is_zip(head: bytes) -> bool:
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


class _Decoder(Protocol):
    """The common interface of the decoders of bz2, lzma and zstd."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _GzipDecoder:
    """zlib's decoder with the interface of the others. The module `gzip` reads a header byte by byte, even an
    endless one.
    """

    def __init__(self, limits: Limits) -> None:
        library = _fast_zlib() if limits.is_our_own else zlib
        self._zlib = library.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self._has_output = False

    @property
    def eof(self) -> bool:
        return bool(self._zlib.eof)

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail and not self._has_output

    @property
    def unused_data(self) -> bytes:
        return bytes(self._zlib.unused_data)

    def decompress(self, data: bytes, max_length: int = 0) -> bytes:
        output: bytes = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self._has_output = len(output) == max_length
        return output


class _Decoded:
    """Decodes concatenated compressed streams, as `cat a.gz b.gz` makes them."""

    def __init__(self, layer: Layer, new: Callable[[Limits], _Decoder]) -> None:
        self._layer = layer
        self._new = new
        self._decoder = new(layer.budget.limits)
        self._input = b""

    def pull(self, size: int) -> bytes:
        data = b""
        while not data and self._has_more():
            data = self._decoder.decompress(self._input, size)
            self._input = b""
        return data

    def _has_more(self) -> bool:
        """Return True if there is more to decode. Zeros after a stream are skipped."""
        if self._decoder.eof:
            self._input = self._decoder.unused_data.lstrip(b"\0") or self._layer.read().lstrip(b"\0")
            if not self._input:
                return False
            self._decoder = self._new(self._layer.budget.limits)
        elif self._decoder.needs_input:
            self._input = self._layer.read()
            if not self._input:
                raise EOFError("the compressed data has no end")
        return True


@cache
def _fast_zlib() -> Any:
    """Return ISA-L, which takes a third of zlib's time, or zlib if it is not installed."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib
    return isal_zlib


def _zstd() -> Any:
    """Import zstd, which few bundles need."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


_DECODERS: Final[Mapping[bytes, Callable[[Limits], _Decoder]]] = {
    b"\x1f\x8b\x08": _GzipDecoder,
    b"BZh": lambda _: bz2.BZ2Decompressor(),
    b"\xfd7zXZ\0": lambda limits: lzma.LZMADecompressor(memlimit=limits.decoder_bytes),
    b"\x28\xb5\x2f\xfd": lambda _: _zstd().ZstdDecompressor(),
}
"""First bytes of a file -> its decoder. By default zstd refuses windows of more than 128 MiB."""


def _decoder(head: bytes) -> Callable[[Limits], _Decoder] | None:
    return next((decoder for magic, decoder in _DECODERS.items() if head.startswith(magic)), None)
