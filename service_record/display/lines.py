"""Lines for people: pieces of text in a few inks, and the view they are made for."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from service_record.display.text import Clock


class Ink(StrEnum):
    """What a piece of text means, as a style of rich. It always goes with a word or a glyph."""

    PLAIN = ""
    STRONG = "bold"
    FAINT = "dim"
    GOOD = "green"
    BUSY = "cyan"
    CALM = "magenta"
    WORRYING = "yellow"
    BAD = "bold red"


Line: TypeAlias = tuple[tuple[str, Ink], ...]

BLANK: Final[Line] = ()


class Glyphs(msgspec.Struct, frozen=True, kw_only=True):
    """The characters beyond letters that a page uses."""

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


ASCII: Final = Glyphs(
    success="+",
    failure="x",
    running="*",
    stopped="o",
    interrupted="-",
    gutter="|",
    cut="...",
    times="x",
    bar="=",
    ongoing=">",
)


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What lines are made for: so many columns, this clock, these glyphs."""

    width: int = 80
    clock: Clock = Clock.UTC
    now: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    glyphs: Glyphs = msgspec.field(default_factory=Glyphs)


def glyphs_for(encoding: str) -> Glyphs:
    """The glyphs that can be written in an encoding."""
    glyphs = Glyphs()
    try:
        "".join(msgspec.structs.astuple(glyphs)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return glyphs


def painted(lines: Iterable[Line], *, color: bool) -> Iterator[str]:
    """The lines as text with their newlines; inks become ANSI sequences when there is colour."""
    if not color:
        for line in lines:
            yield "".join(text for text, _ in line).rstrip() + "\n"
        return
    from rich.color import ColorSystem  # noqa: PLC0415  # only where there is colour
    from rich.style import Style  # noqa: PLC0415

    styles = {ink: Style.parse(ink) for ink in Ink}
    for line in lines:
        yield (
            "".join(styles[ink].render(text, color_system=ColorSystem.STANDARD) for text, ink in line) + "\n"
        )
