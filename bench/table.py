"""Show all measurements as one table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.machine import machine

HEAD = ("what", "median", "compared with", "its median", "ratio", "limit", "holds")
_HOLDS = {True: "yes", False: "**no**", None: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured thing, in words, beside what it is compared with."""

    what: str
    measured: str
    against: str = ""
    reference: str = ""
    ratio: str = ""
    limit: str = ""
    """The promise."""
    holds: bool | None = None

    def cells(self) -> tuple[str, ...]:
        row = (self.what, self.measured, self.against, self.reference, self.ratio, self.limit)
        return (*row, _HOLDS[self.holds])


def timed(
    what: str,
    seconds: float,
    against: str = "",
    reference: float | None = None,
    *,
    limit: str = "",
    holds: bool | None = None,
) -> Row:
    """Return a row of a time, beside the seconds of something else that was measured in the same rounds."""
    row = Row(what=what, measured=duration(seconds), limit=limit, holds=holds)
    if reference is None:
        return row
    return replace(row, against=against, reference=duration(reference), ratio=times(seconds, reference))


def limited(what: str, seconds: float, limit: float) -> Row:
    return timed(what, seconds, limit=duration(limit), holds=seconds <= limit)


def memory(what: str, size: int, limit: int | None = None) -> Row:
    """Return a row of the most bytes that something took at once, against its limit where it has one."""
    if limit is None:
        return Row(what=what, measured=megabytes(size))
    return Row(what=what, measured=megabytes(size), limit=megabytes(limit), holds=size <= limit)


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


def markdown(rows: Sequence[Row]) -> str:
    return aligned([HEAD, *(row.cells() for row in rows)])


def publish(rows: Sequence[Row], page: Path) -> int:
    """Print the table and write it into a page. Return the exit status: 1 when a promise does not hold."""
    text = f"{machine()}\n\n{markdown(rows)}"
    print(text)
    replace_between(page, "bench", text)
    return int(any(row.holds is False for row in rows))


def publish_some(rows: Sequence[Row], page: Path, name: str) -> int:
    """Print the rows and put them in the place of the rows of a page's table whose names begin with `name`.

    Return the exit status: 1 when a limit is exceeded.
    """
    print(markdown(rows))
    about, _, table = text_between(page, "bench").rstrip("\n").partition("\n\n")
    old = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    place = next((at for at, cells in enumerate(old) if cells[0].startswith(name)), len(old))
    kept = [cells for cells in old if not cells[0].startswith(name)]
    merged = [*kept[:place], *(row.cells() for row in rows), *kept[place:]]
    replace_between(page, "bench", f"{about}\n\n{aligned([HEAD, *merged])}")
    return int(any(row.holds is False for row in rows))


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
    head, _, tail = _parted(path, name)
    path.write_text(f"{head}{text}\n{tail}")


def _parted(path: Path, name: str) -> tuple[str, str, str]:
    """Split a page in three: up to its comment, between it and the closing one, and from that one on."""
    head, begin, rest = path.read_text().partition(f"<!-- {name} -->\n")
    between, end, tail = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise ValueError(f"{path}: no <!-- {name} --> and <!-- /{name} --> to write between")
    return head + begin, between, end + tail
