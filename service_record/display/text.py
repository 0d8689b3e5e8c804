"""Format texts, times and durations for people. The results are safe to print, whatever the input."""

import re
import textwrap
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from service_record.record.visible import UNSEEN, visible

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


class Clock(StrEnum):
    """How times are shown."""

    UTC = "utc"
    LOCAL = "local"
    RELATIVE = "relative"


def escape_invisible(document: str) -> str:
    r"""Return a JSON or YAML document with its invisible characters escaped: `\u202e`.

    They may only be inside quoted strings: elsewhere the escape would be invalid.
    """
    return re.sub(UNSEEN, lambda match: f"\\u{ord(match[0]):04x}", document)


def split_lines(text: str) -> list[str]:
    """Return the lines of a message, with invisible characters escaped."""
    return [visible(line.removesuffix("\r")) for line in text.rstrip("\n").split("\n")]


# ASCII and the signs of our own pages. `wcwidth` takes 15 ms or more to load, a fifth of `show`, and most
# pages have no other characters.
_NARROW: Final = re.compile(r"[ -~━│─├└✓✗●▲■→\xd7·…]*")


def cell_len(text: str) -> int:
    """Return the width of a text in terminal cells. A Chinese character, for example, takes two."""
    if _is_narrow(text):
        return len(text)
    import wcwidth

    return wcwidth.wcswidth(text)


def _is_narrow(text: str) -> bool:
    return text.isascii() or _NARROW.fullmatch(text) is not None


def set_cell_size(text: str, width: int) -> str:
    """Return the text in exactly `width` cells, cut or padded with blanks."""
    if cell_len(text) > width:
        piece = chop_cells(text, width)[0]
        text = piece if cell_len(piece) <= width else ""
    return text + " " * (width - cell_len(text))


def chop_cells(text: str, width: int) -> list[str]:
    """Return the text in pieces of at most `width` cells each, or of one character if that is wider."""
    if _is_narrow(text) and width > 0:
        return [text[start : start + width] for start in range(0, len(text), width)] or [""]
    import wcwidth

    pieces = [""]
    room = width
    for character in text:
        cells = max(wcwidth.wcwidth(character), 0)
        if cells > room and (pieces[-1] or not width):
            pieces.append("")
            room = width
        pieces[-1] += character
        room -= cells
    return pieces


@lru_cache(maxsize=256)  # a service that fails again and again logs the same message
def wrap(text: str, width: int) -> tuple[str, ...]:
    """Return the text in lines of at most `width` cells, broken between words if it has any."""
    if cell_len(text) <= width:
        return (text,)
    if _is_narrow(text) or all(cell_len(character) == 1 for character in text):
        return tuple(textwrap.wrap(text, width, replace_whitespace=False, break_on_hyphens=False))
    return tuple(chop_cells(text, width))


def cut(text: str, width: int, mark: str) -> str:
    """Return the text in at most `width` cells. If it is longer, `mark` replaces its end."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - len(mark), 0)) + mark


def cut_within(text: str, width: int, mark: str) -> str:
    """Return the text in at most `width` cells. If it is longer, `mark` replaces its middle.

    Only a quarter of the result is the beginning, because error messages have the reason at their end.
    Digests are shortened first: readers do not need them.
    """
    if cell_len(text) > width:
        text = _cut_digests(text, mark)
    if cell_len(text) <= width:
        return text
    head = set_cell_size(text, width // 4)
    tail = text[-(width - cell_len(head) - cell_len(mark)) :]
    while cell_len(head) + cell_len(mark) + cell_len(tail) > width:
        tail = tail[1:]
    return f"{head}{mark}{tail}"


def _cut_digests(text: str, mark: str) -> str:
    return re.sub(r"(?a)\b([0-9a-f]{8})[0-9a-f]{24,}\b", rf"\1{mark}", text)


def cut_around(text: str, part: str, width: int, mark: str) -> str:
    """Return the text in at most `width` cells, cut so that `part` is in the result.

    If the part itself is too long, its beginning is shown.
    """
    cut_text = cut_within(text, width, mark)
    text, part = _cut_digests(text, mark), _cut_digests(part, mark)
    at = text.find(part)
    if part in cut_text or at < 0:
        return cut_text
    start = max(at - width // 4, 0)  # the words before the part are its context
    head, rest = (mark if start else ""), text[start:]
    room = width - cell_len(head)
    if cell_len(rest) > room:
        rest = set_cell_size(rest, room - cell_len(mark)) + mark
    return f"{head}{rest}"


def one_line(text: str) -> str:
    """Return the text as one line that is safe to print."""
    return visible(" ".join(text.split()))


def count(number: int, thing: str, things: str = "") -> str:
    """Return a number of things: `1 run`, `12 runs`, `2 entries`."""
    return f"{number} {thing}" if number == 1 else f"{number} {things or thing + 's'}"


def times(number: int) -> str:
    """Return a number of times in words: `once`, `twice`, `12 times`."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def duration(seconds: float) -> str:
    """Return a number of seconds in at most two units: `0.12s`, `9.5s`, `2m 3s`, `1h 5m`, `3d 4h`."""
    if seconds < 1:
        return f"{seconds:.2f}s"
    if round(seconds, 1) < _MINUTE:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE}m"
    return f"{whole // _DAY}d {whole % _DAY // _HOUR}h"


def age(seconds: float) -> str:
    """Return an age in one unit: `42s`, `12m`, `5h`, `3d`."""
    whole = max(int(seconds), 0)
    for unit, letter in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if whole >= unit:
            return f"{whole // unit}{letter}"
    return f"{whole}s"


def moment(time: datetime | None, clock: Clock, now: datetime) -> str:
    """Return a time in UTC (`2026-11-21 03:12:05Z`), in local time with its offset, or as `3m 2s ago`."""
    if time is None:
        return "time unknown"
    if clock is Clock.UTC:
        return utc(time, "seconds").replace("T", " ")
    if clock is Clock.LOCAL:
        return time.astimezone().isoformat(" ", "seconds").replace("+00:00", "Z")
    passed = (now - time).total_seconds()
    return f"{duration(passed)} ago" if passed >= 0 else f"in {duration(-passed)}"


def zone(offset: timedelta) -> str:
    """Return an offset from UTC: `UTC-05:00`."""
    minutes = round(offset.total_seconds() / _MINUTE)
    return f"UTC{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def utc(time: datetime, precision: str = "milliseconds") -> str:
    """Return a time in UTC in the format of RFC 3339."""
    return time.astimezone(UTC).isoformat(timespec=precision).removesuffix("+00:00") + "Z"


class Ink(StrEnum):
    """The style of a piece of text. A word or glyph always says the same, for people who see no colours."""

    PLAIN = ""
    STRONG = "bold"
    FAINT = "dim"
    GOOD = "green"
    BUSY = "cyan"
    CALM = "magenta"
    WORRYING = "yellow"
    BAD = "bold red"


_CODES: Final = {
    Ink.PLAIN: "",
    Ink.STRONG: "1",
    Ink.FAINT: "2",
    Ink.GOOD: "32",
    Ink.BUSY: "36",
    Ink.CALM: "35",
    Ink.WORRYING: "33",
    Ink.BAD: "1;31",
}
"""Ink -> its ANSI codes (SGR)."""

Line: TypeAlias = tuple[tuple[str, Ink], ...]
"""A line of output: pieces of text, each with its style."""

BLANK: Final[Line] = ()


class Glyphs(msgspec.Struct, frozen=True, kw_only=True):
    """The special characters in the output of a command."""

    success: str = "✓"
    failure: str = "✗"
    running: str = "●"
    stopped: str = "■"
    interrupted: str = "▲"
    damaged: str = "!"
    gutter: str = "│"
    cut: str = "…"
    times: str = "×"  # noqa: RUF001
    bar: str = "━"
    ongoing: str = "→"
    up: str = "·"


ASCII: Final = Glyphs(
    success="+",
    failure="x",
    running="*",
    stopped="o",
    interrupted="-",
    gutter="|",
    up=".",
    cut="...",
    times="x",
    bar="=",
    ongoing=">",
)


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The format of the output: width in terminal cells, clock, and special characters."""

    width: int = 80
    clock: Clock = Clock.UTC
    now: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    glyphs: Glyphs = msgspec.field(default_factory=Glyphs)


def wrap_lines(text: str, look: Ink, view: View, indent: int = 0, most: int | None = None) -> Iterator[Line]:
    """Yield the lines of a wrapped text, indented by `indent` blanks; at most the first `most` lines."""
    for row in wrap(text, view.width - indent)[:most]:
        yield ((" " * indent + row, look),)


def choose_glyphs(encoding: str) -> Glyphs:
    """Return the default glyphs, or ASCII if the encoding does not have all of them."""
    glyphs = Glyphs()
    try:
        "".join(msgspec.structs.astuple(glyphs)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return glyphs


def render_lines(lines: Iterable[Line], *, color: bool) -> Iterator[str]:
    """Yield the lines as text with newlines. With `color`, inks become ANSI sequences."""
    if not color:
        for line in lines:
            yield "".join(text for text, _ in line).rstrip() + "\n"
        return
    for line in lines:
        parts = (f"\033[{_CODES[ink]}m{text}\033[0m" if _CODES[ink] and text else text for text, ink in line)
        yield "".join(parts) + "\n"
