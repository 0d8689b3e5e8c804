"""Read the arguments of a command that a program has printed as a list. Pure."""

import binascii
import re
from collections.abc import Iterator
from typing import Final

from service_record.redaction.encodings import UNBROKEN
from service_record.redaction.types import UnescapedText, line_end

TRIGGER: Final = b"type=EXECVE"
"""A pattern of records with the arguments of a process."""
_COUNT: Final = re.compile(rb"argc=\d+")
_ARGUMENT: Final = re.compile(rb' a\d+(?:\[\d+\])?=(?:"([^"\n]*)"|((?:[0-9A-F]{2})+)(?![^ \n]))')


def audit_command(view: UnescapedText) -> UnescapedText | None:
    """Return the command line of an EXECVE record of audit(8), or None. Its arguments may be hexadecimal."""
    begin, record = None, view.text.find(TRIGGER)
    while record >= 0 and begin is None:
        end = line_end(view.text, record)
        begin = _COUNT.search(view.text, record, end)
        record = view.text.find(TRIGGER, end)
    if begin is None:
        return None
    pieces: list[tuple[bytes, int]] = []
    widths: list[int] = []
    for argument in _ARGUMENT.finditer(view.text, begin.end()):
        is_hex = argument[1] is None
        word = binascii.unhexlify(argument[2]) if is_hex else argument[1]
        pieces += [(word.translate(UNBROKEN), argument.start(1 + is_hex)), (b" ", argument.end(1 + is_hex))]
        widths += [1 + is_hex, 1]
    return UnescapedText.join(view, pieces, widths) if pieces else None


def listed_commands(view: UnescapedText) -> Iterator[UnescapedText]:
    """Yield each list of quoted words that is a command as a command line.

    Programs print the arguments of a command as a list of Python or JSON: `['app', '-p', 'x']`. It has an
    option or a pipe among its words, or a name that says what it is.
    """
    is_list = b"['" in view.text or b'["' in view.text
    for each in _WORD_LIST.finditer(view.text) if is_list else ():
        before = view.text[max(0, each.start() - _MAX_NAME_BYTES) : each.start()]
        if _OPTION_IN_LIST.search(each[0]) is None and _COMMAND_NAME.search(before) is None:
            continue
        pieces: list[tuple[bytes, int]] = []
        for word in _LISTED_WORD.finditer(view.text, *each.span()):
            start, end = word.span(word.lastindex or 0)
            pieces += [(view.text[start:end].translate(UNBROKEN), start), (b" ", end)]
        yield UnescapedText.join(view, pieces)


_UNTIL: Final = rb"([^%b\\\n]{0,512}(?:\\.[^%b\\\n]{0,512}){0,64})"
_WORD_IN_QUOTES: Final = rb"(?:'" + _UNTIL % (b"'", b"'") + rb"'|\"" + _UNTIL % (b'"', b'"') + rb"\")"
_LISTED_WORD: Final = re.compile(_WORD_IN_QUOTES)
_OPTION_IN_LIST: Final = re.compile(rb"""["'], ?["'](?:-|\|["'])""")
_COMMAND_NAME: Final = re.compile(rb"""\b(?i:command|cmd|args?|argv|exec|entrypoint)["']?[ \t:=]{1,3}\Z""")
_MAX_NAME_BYTES: Final = 16
_WORD_LIST: Final = re.compile(rb"\[" + _WORD_IN_QUOTES + rb"(?:, ?" + _WORD_IN_QUOTES + rb"){1,64}\]")
"""Matches a list of two words or more. The counts bound the time for a list that never ends."""
