"""Texts as troff takes them, with the macros of man(7)."""

import re
from collections.abc import Iterable, Iterator

_SPECIAL = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}
_PATTERN = re.compile(r"[\\\-'`^~]")


def escaped(text: str) -> str:
    """A text in which nothing is a command, and every character is the one that can be copied and typed."""
    return _PATTERN.sub(lambda found: _SPECIAL[found[0]], text)


def line(text: str) -> str:
    """Escaped text as a line of its own, which no control character begins."""
    return f"\\&{text}" if text.startswith(".") else text


def bold(text: str) -> str:
    return f"\\fB{escaped(text)}\\fR"


def italic(text: str) -> str:
    return f"\\fI{escaped(text)}\\fR"


def page(name: str, section: int, date: str, version: str, lines: Iterable[str]) -> str:
    """A whole page, ragged and without hyphens: options and names are to be found in it, and copied."""
    head = [f'.TH {escaped(name.upper())} {section} {date} "{escaped(version)}"', ".nh", ".ad l"]
    return "\n".join([*head, *_without_idle_paragraphs(lines)]) + "\n"


def _without_idle_paragraphs(lines: Iterable[str]) -> Iterator[str]:
    before = ""
    for row in lines:
        if row != ".PP" or not before.startswith((".SH", ".SS")):
            yield row
        before = row


def verbatim(text: str) -> Iterable[str]:
    """Lines that stay as they are, indented."""
    yield from (".PP", ".RS 4", ".nf")
    yield from (line(escaped(row)) if row else r"\&" for row in text.splitlines())
    yield from (".fi", ".RE")
