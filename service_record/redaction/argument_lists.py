"""Read the arguments of a command that a program has printed as a list. Pure."""

import binascii
import re
from typing import Final

from service_record.redaction.encodings import UNBROKEN
from service_record.redaction.types import UnescapedText, line_end

TRIGGER: Final = b"type=EXECVE"
"""A pattern of records with the arguments of a process."""
_COUNT: Final = re.compile(rb"argc=\d+")
_ARGUMENT: Final = re.compile(rb' a\d+(?:\[\d+\])?=(?:"([^"\n]*)"|((?:[0-9A-F]{2})+)(?![^ \n]))')


def write_word(argument: bytes) -> bytes:
    """Return an argument as one word of a command line, of the same size. It has no quotes around it."""
    word = argument.translate(UNBROKEN)
    is_markup = word.startswith(b"<") and b">" in word
    return b"\x01" + word[1:] if len(word) > 1 and word.startswith(_SIGNS) and not is_markup else word


_SIGNS: Final = (b"'", b'"', b"`", b"|", b";", b"&", b"<", b">", b"(")
"""A word of a shell does not begin with one of these, but an argument may."""


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
        # In quotes, audit has no escapes.
        word = binascii.unhexlify(argument[2]) if is_hex else argument[1].replace(b"\\", b"\x01")
        pieces += [(write_word(word), argument.start(1 + is_hex)), (b" ", argument.end(1 + is_hex))]
        widths += [1 + is_hex, 1]
    return UnescapedText.join(view, pieces, widths) if pieces else None
