"""Pieces of a text that are to be masked: put in order, joined, and kept within their lines. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text to be masked; it never holds a newline."""

    start: int
    end: int
    kind: str
    is_first: bool
    """Of the pieces of one secret, which may go over several lines."""


def within_lines(text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A piece without the newlines in it: lines stay lines, also those of UTF-16."""
    while (newline := text.find(b"\n", start, end)) >= 0:
        if newline > start:
            yield start, newline
        start = newline + 1
    if end > start:
        yield start, end


def united(spans: Iterable[Span]) -> list[Span]:
    """The same in the order of the text, those that overlap or touch as one."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if found and span.start <= found[-1].end:
            last = found[-1]
            found[-1] = Span(last.start, max(last.end, span.end), last.kind, last.is_first)
        else:
            found.append(span)
    return found


def merged(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Beginnings and ends with those that touch as one, and none that is empty."""
    found: list[tuple[int, int]] = []
    for start, end in pieces:
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        elif end > start:
            found.append((start, end))
    return found
