"""How much of an archive is read, so that none, however made, takes the reader's time or memory for long."""

from dataclasses import dataclass
from typing import Final

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30


class LimitError(Exception):
    """A limit that an archive exceeds, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of reading. Each is far beyond a real bundle, and within reach of a small machine."""

    read_bytes: int = 4 * _GIB
    """All layers together, compressed or not. 20 MiB of gzip can unpack to as much."""
    free_bytes: int = 256 * _MIB
    """All layers together, however small the archive is."""
    growth: int = 200
    """Times the size of the archive that may be read besides: logs pack to a thirtieth, and what is
    made to do harm to a thousandth in each layer."""
    members: int = 200_000
    """All archives together, headers of headers too. A million empty members pack to a megabyte or two."""
    records: int = 10_000
    """A host has some hundred units; each record takes a place in the output."""
    record_bytes: int = 64 * _MIB
    """One record: 16384 entries of the greatest length, or half a million of a usual one."""
    kept_bytes: int = 128 * _MIB
    """All records, which are held in memory: archives are read in one pass, and nothing goes to disk."""
    layers: int = 8
    """Archives and compressions in one another. A log bundle that assisted-service hands out has three."""
    header_bytes: int = 64 * _KIB
    """The extended header of a member. A path has at most 4 KiB on Linux."""
    decoder_bytes: int = 256 * _MIB
    """Memory for unpacking; `xz -9` needs 65 MiB, and a file can ask for 4 GiB."""


@dataclass(slots=True)
class ReadingBudget:
    """The amounts read from an archive so far. Each method raises LimitError beyond its limit."""

    limits: Limits
    read_bytes: int = 0
    packed_bytes: int = 0
    """The part of them that is the archive itself."""
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

    def meet_member(self) -> None:
        self.members += 1
        if self.members > self.limits.members:
            raise LimitError(f"more than {self.limits.members} members")

    def meet_record(self) -> None:
        self.records += 1
        if self.records > self.limits.records:
            raise LimitError(f"more than {self.limits.records} records")

    def keep(self, size: int) -> None:
        self.kept_bytes += size
        if self.kept_bytes > self.limits.kept_bytes:
            raise LimitError(f"more than {size_text(self.limits.kept_bytes)} of records")


def size_text(size: int) -> str:
    """Return a limit for people: `4 GiB`."""
    for unit, name in ((_GIB, "GiB"), (_MIB, "MiB"), (_KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} bytes"
