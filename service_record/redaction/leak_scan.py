"""Scan outgoing data for secrets that are still in it. Reads only the stream.

Nested archives and compressed data are read to their end. Data that cannot be read counts as a leak.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from service_record.bundle.layers import (
    Layer,
    LimitError,
    Limits,
    ReadingBudget,
    decompressed_layer,
    is_packed,
)
from service_record.bundle.tar import Member, TarError, members
from service_record.record.recognition import is_tar
from service_record.redaction.redactor import Redactor
from service_record.redaction.rules import Rules
from service_record.redaction.types import Leak

_CHUNK_BYTES: Final = 1 << 20
UNREADABLE: Final = "unreadable"
"""The kind of a leak that is not a secret, but unreadable data that may hide one."""
_MAX_BYTES: Final = 16 << 30
"""The limit of all unpacked data. More counts as a leak."""
_MAX_MEMBERS: Final = 1 << 22
"""The limit of members. It is higher than in our bundles and copies, so that large ones are not refused."""
_LIMITS: Final = Limits(read_bytes=_MAX_BYTES, free_bytes=_MAX_BYTES, members=_MAX_MEMBERS, is_our_own=True)


def find_leak(rules: Rules, stream: BinaryIO, place: str = "") -> Leak | None:
    """Return the first secret in a bundle or other stream, or None.

    A leak of the kind `unreadable` marks a part that cannot be read or unpacked. Raises OSError if reading
    the stream fails, for example because of a disk error.
    """
    source = _Source(stream)
    leak = next(_Scan(rules).layer(Layer(source.read, ReadingBudget(_LIMITS)), place), None)
    if source.error is not None:
        raise source.error
    return leak


class _Source:
    """A stream that remembers its read error, because `Layer` treats such an error like damaged data."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except OSError as error:
            self.error = error
            raise


@dataclass(frozen=True, slots=True)
class _Scan:
    rules: Rules

    def layer(self, outside: Layer, place: str) -> Iterator[Leak]:
        try:
            layer = decompressed_layer(outside)
            if layer.depth >= layer.budget.limits.layers and is_packed(layer.head):
                yield Leak(UNREADABLE, place, 0)
            elif is_tar(layer.head):
                yield from self._tar(layer, place)
            else:
                yield from self._text(layer, place)
            if layer.reason:
                yield Leak(UNREADABLE, place, 0)
        except (LimitError, TarError):
            yield Leak(UNREADABLE, place, 0)

    def _tar(self, layer: Layer, place: str) -> Iterator[Leak]:
        """Yield the leaks in each member and its headers. Data other than zeros after the end is a leak."""
        for member in members(layer):
            yield from self._headers(member, place)
            named = f"{place}: {member.name}" if place else member.name
            yield from self.layer(Layer(member.read, layer.budget, layer), named)
            while member.read(1 << 16):
                pass
            if member.is_cut:
                yield Leak(UNREADABLE, named, 0)
        while rest := layer.read():
            if rest.strip(b"\0"):
                yield Leak(UNREADABLE, place, 0)

    def _text(self, layer: Layer, place: str) -> Iterator[Leak]:
        redactor = Redactor(self.rules, only_certain=True)
        while not redactor.counts and (data := layer.read(_CHUNK_BYTES)):
            redactor.feed(data)
        redactor.finish()
        for kind in redactor.counts:
            yield Leak(kind, place, redactor.first_line)

    def _headers(self, member: Member, place: str) -> Iterator[Leak]:
        redactor = Redactor(self.rules, only_certain=True)
        redactor.feed(member.name.encode(errors="surrogateescape") + b"\n" + member.headers)
        redactor.finish()
        for kind in redactor.counts:
            yield Leak(f"{kind}, in the name of a member", place, 0)
