"""Split command lines and lists of arguments into words. Pure.

There is one function for each syntax; those for commands of several lines are in `long_commands`. `commands`
decides which of the words are secret.
"""

import binascii
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from service_record.redaction.json_documents import Document
from service_record.redaction.types import UnescapedText, line_end
from service_record.redaction.values import Text


class Word(NamedTuple):
    """A word of a command."""

    text: bytes
    """Without the quotes around it."""
    start: int
    """Where the text begins in the line."""
    width: int = 1
    """The number of bytes in the line for each byte of the text: 2 for hexadecimal."""
    is_exact: bool = True
    """True if the syntax says where the word ends, as quotes do. In a message, a bare word may be prose."""
    is_operator: bool = False
    """True for a sign between commands, and for `<<<`."""

    def part(self, start: int, end: int) -> "Word":
        """Return a part of the word without the quotes around it."""
        text = self.text[start:end]
        if len(text) > 1 and text[:1] in _QUOTES and text[:1] == text[-1:]:
            text = text[1:-1]
            start += 1
        return Word(text, self.start + start * self.width, self.width)


_QUOTES: Final = (b'"', b"'", b"`")
_SHELL_WORD: Final = re.compile(
    rb"""([;|&]+|<<<)|[0-9]?[<>](?!redacted:)\S*"""
    rb"""|((?:[^\s"'\\]|\\.|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|["'\\])+)"""
)
"""Matches an operator, a redirection or a word. A quote that is not closed is an ordinary character.

Operators are only at the beginning of words: audit does not quote them inside.
"""
_QUOTED_WORD: Final = re.compile(rb"""[\[({$]*b?(["'`])(.*)\1[\])},;:.\\]*""", re.DOTALL)
"""Matches a word in quotes, also in a list of Python."""
_AFTER_WORD: Final = b"`,;\\"


def split_shell(text: bytes, start: int = 0, place: int = 0) -> Iterator[Word]:
    """Yield the words of a command line from `start` on, as a shell splits them.

    `place` is the offset of the text in the line.
    """
    lines = Text(text)
    for match in _SHELL_WORD.finditer(text, start):
        if match[1]:
            yield Word(match[1], place + match.start(), is_operator=True)
            continue
        raw = match[2]
        if not raw:
            continue
        quoted = _QUOTED_WORD.fullmatch(raw)
        if quoted is not None:
            yield Word(quoted[2], place + match.start() + quoted.start(2))
        else:
            end = match.start() + len(raw.rstrip(_AFTER_WORD))
            end = lines.end_before_marks(match.start(), end, 0, len(text))
            if end > match.start():
                yield Word(text[match.start() : end], place + match.start(), is_exact=False)
        if raw.endswith(b";"):
            yield Word(b";", place + match.end() - 1, is_operator=True)


AUDIT_TRIGGER: Final = b"type=EXECVE"
"""A pattern of records with the arguments of a process."""
_COUNT: Final = re.compile(rb"argc=\d+")
_ARGUMENT: Final = re.compile(rb' a\d+(?:\[\d+\])?=(?:"([^"\n]*)"|((?:[0-9A-F]{2})+)(?![^ \n]))')


def split_audit(text: bytes) -> list[Word]:
    """Return the arguments in a record EXECVE of audit(8), which may be hexadecimal."""
    begin, record = None, text.find(AUDIT_TRIGGER)
    while record >= 0 and begin is None:
        end = line_end(text, record)
        begin = _COUNT.search(text, record, end)
        record = text.find(AUDIT_TRIGGER, end)
    if begin is None:
        return []
    return [
        Word(match[1], match.start(1))
        if match[2] is None
        else Word(binascii.unhexlify(match[2]), match.start(2), width=2)
        for match in _ARGUMENT.finditer(text, begin.end())
    ]


def join_words(view: UnescapedText, words: Sequence[Word]) -> UnescapedText:
    """Return the words of a view with blanks between them."""
    pieces: list[tuple[bytes, int]] = []
    widths: list[int] = []
    for word in words:
        pieces += [(word.text, word.start), (b" ", word.start + len(word.text) * word.width)]
        widths += [word.width, 1]
    return UnescapedText.join(view, pieces[:-1], widths[:-1])


def split_lists(text: bytes, document: Document) -> Iterator[list[Word]]:
    """Yield the items of each list of strings in a JSON document."""
    for is_item, leaves in groupby(document.leaves, lambda leaf: leaf.is_item and leaf.is_string):
        if is_item:
            yield [Word(text[leaf.start : leaf.end], leaf.start) for leaf in leaves]
