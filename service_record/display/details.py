"""What is known of one end: where, by which command, called from where, and what was said."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from service_record.display.page import Ink, Line, View
from service_record.display.phrases import place
from service_record.display.text import count, cut_within, lines_of, visible, wrap
from service_record.history.facts import Facts, Location

LABEL_WIDTH: Final = 9

_MAX_FRAMES: Final = 5
_MAX_MESSAGE_LINES: Final = 10
_MAX_MESSAGE_ROWS: Final = 4
"""How many rows one line of a message has, where it is not wanted whole."""


def details(facts: Facts, view: View, indent: int, *, whole: bool = False) -> Iterator[Line]:
    """The facts of a failure, labelled; very long ones cut unless they are wanted whole."""
    limit = None if whole else _MAX_FRAMES
    inner, callers = facts.frames_around
    yield from _where(facts, view, indent)
    yield from _frames("into", inner, view, indent, limit)
    yield from _frames("from", callers, view, indent, limit)
    if facts.message:
        yield from _message(facts.message, view, indent, whole=whole)


def labelled(label: str, texts: Iterable[tuple[str, Ink]], view: View, indent: int) -> Iterator[Line]:
    """Texts in a column of their own, wrapped; the label stands before the first."""
    room = max(view.width - indent - LABEL_WIDTH, 20)
    for text, ink in texts:
        for row in wrap(text, room):
            yield (" " * indent, Ink.PLAIN), (label.ljust(LABEL_WIDTH), Ink.FAINT), (row, ink)
            label = ""


def _where(facts: Facts, view: View, indent: int) -> Iterator[Line]:
    texts = []
    if facts.location is not None:
        near = "near " if facts.is_approximate else ""
        texts.append((near + place(facts.location), Ink.STRONG))
    if facts.command is not None:
        texts.append((visible(facts.command), Ink.PLAIN))
    yield from labelled("at" if facts.location is not None else "command", texts, view, indent)


def _frames(
    label: str, frames: Sequence[Location], view: View, indent: int, limit: int | None
) -> Iterator[Line]:
    texts = [(place(frame), Ink.PLAIN) for frame in frames[:limit]]
    if len(texts) < len(frames):
        texts.append((f"and {count(len(frames) - len(texts), 'frame')} more", Ink.FAINT))
    yield from labelled(label, texts, view, indent)


def _message(message: str, view: View, indent: int, *, whole: bool) -> Iterator[Line]:
    """The lines of a message, each beginning behind the gutter; a line of other programs may be very long."""
    room = max(view.width - indent - LABEL_WIDTH - 2, 20)
    lines = lines_of(message)
    if not whole:
        width = room * _MAX_MESSAGE_ROWS
        lines = [cut_within(line, width, view.glyphs.cut) for line in lines[-_MAX_MESSAGE_LINES:]]
    label = "message"
    for line in lines:
        for row in wrap(line, room):
            lead = (" " * indent, Ink.PLAIN), (label.ljust(LABEL_WIDTH), Ink.FAINT)
            yield *lead, (f"{view.glyphs.gutter} ", Ink.FAINT), (row, Ink.PLAIN)
            label = ""
