"""Show all measurements as one table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

HEAD = ("what", "median", "compared with", "its median", "ratio", "limit", "holds")
_HOLDS = {True: "yes", False: "**no**", None: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured thing beside what it is compared with."""

    what: str
    seconds: float
    against: str = ""
    reference: float | None = None
    """Seconds of what it is compared with, measured in the same rounds."""
    limit: str = ""
    """The promise, in words."""
    holds: bool | None = None

    def cells(self) -> tuple[str, ...]:
        reference = "" if self.reference is None else duration(self.reference)
        ratio = "" if self.reference is None else times(self.seconds, self.reference)
        return (
            self.what,
            duration(self.seconds),
            self.against,
            reference,
            ratio,
            self.limit,
            _HOLDS[self.holds],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """The most memory that something took at once, against its limit where it has one."""

    what: str
    size: int
    """In bytes."""
    limit: int | None = None

    @property
    def holds(self) -> bool | None:
        return None if self.limit is None else self.size <= self.limit

    def cells(self) -> tuple[str, ...]:
        limit = "" if self.limit is None else megabytes(self.limit)
        return (self.what, megabytes(self.size), "", "", "", limit, _HOLDS[self.holds])


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Something measured that is no time of a median of rounds, in words."""

    what: str
    measured: str
    against: str = ""
    reference: str = ""
    ratio: str = ""
    limit: str = ""
    holds: bool | None = None

    def cells(self) -> tuple[str, ...]:
        row = (self.what, self.measured, self.against, self.reference, self.ratio, self.limit)
        return (*row, _HOLDS[self.holds])


AnyRow: TypeAlias = Row | MemoryRow | Figure


def limited(what: str, seconds: float, limit: float) -> Row:
    return Row(what=what, seconds=seconds, limit=duration(limit), holds=seconds <= limit)


def megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def duration(seconds: float) -> str:
    """Three digits with the unit that suits them."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def times(seconds: float, reference: float) -> str:
    """Say how many times dearer or cheaper this is than the reference."""
    if seconds >= reference:
        return f"{seconds / reference:.1f} x"
    return f"1/{reference / seconds:,.0f}"


def markdown(rows: Sequence[AnyRow]) -> str:
    """Return the table of the measurements."""
    return aligned([HEAD, *(row.cells() for row in rows)])


def aligned(cells: Sequence[Sequence[str]]) -> str:
    """Rows of cells, the first their head, with aligned columns, so that they read as well on a terminal."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    head, *body = ("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells)
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([head, rule, *body])


def text_between(path: Path, name: str) -> str:
    """Return the text between a page's comments `<!-- NAME -->` and `<!-- /NAME -->`."""
    return _parted(path, name)[1]


def replace_between(path: Path, name: str, text: str) -> None:
    """Put another text there."""
    head, _, tail = _parted(path, name)
    path.write_text(f"{head}{text}\n{tail}")


def _parted(path: Path, name: str) -> tuple[str, str, str]:
    """Split a page in three: up to its comment, between it and the closing one, and from that one on."""
    head, begin, rest = path.read_text().partition(f"<!-- {name} -->\n")
    between, end, tail = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise ValueError(f"{path}: no <!-- {name} --> and <!-- /{name} --> to write between")
    return head + begin, between, end + tail
