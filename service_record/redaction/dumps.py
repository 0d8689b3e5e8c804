"""Private keys in dumps of bytes, as xxd(1), hexdump(1) and od(1) print them in hexadecimal. Pure.

Each line of the dump is masked behind its offset, with the column of characters, from the line that has
`PRIVATE KEY` to the one that has `END`.
"""

import binascii
from collections.abc import Iterator, Sequence
from typing import Any, Final

from service_record.redaction import engine
from service_record.redaction.bodies import PRIVATE_KEY, Found, sub_lines
from service_record.redaction.unescaped import View

_LABEL: Final = b"PRIVATE KEY"
_END: Final = b"-END "
_LEAST_OF_LABEL: Final = 6
"""So much of the label is in one of its lines, wherever a line ends in it."""
_MAX_LINES: Final = 1000
"""A key of RSA 8192 has 400 lines of 16 bytes."""
_MAX_FOREIGN_LINES: Final = 160
_WORD_DIGITS: Final = 4
_LEAST_OFFSET_DIGITS: Final = 6
_HINT: Final = engine.compiled(rb"(?i:54 *45 *20|50 *52 *49|4952|5250|2045|4554)")
"""In each line that may have part of the label: `TE `, `PRI`, and either in words of 16 bits."""
_GROUPS: Final = engine.compiled(rb"(?:^|[\s|>])((?:[0-9A-Fa-f]+(?::[ \t]*|[ \t]+|\r?$))+)")
_GROUP: Final = engine.compiled(rb"[0-9A-Fa-f]+")


class Dump:
    """Follows a dump of a private key from line to line."""

    def __init__(self) -> None:
        self.is_open = False
        self._lines = 0
        self._foreign = 0
        self._tails = (b"", b"")
        """The end of the line before, in either order of bytes."""

    def found(self, view: View) -> Iterator[Found]:
        """Yield what of the next line is a dump of a private key, and learn where one begins."""
        if not self.is_open and not _HINT.search(view.text):
            return
        for place, line in sub_lines(view):
            span = self._span(line)
            if span is not None:
                yield place + span[0], place + span[1], PRIVATE_KEY

    def _span(self, line: bytes) -> tuple[int, int] | None:
        groups = _groups(line)
        texts = _texts(groups)
        if not self.is_open:
            if not any(_has_label(text) for text in texts):
                return None
            self.is_open, self._lines, self._foreign, self._tails = True, 0, 0, (b"", b"")
        if not any(texts):
            self._foreign += 1
            self.is_open = self._foreign <= _MAX_FOREIGN_LINES
            return None
        joined = [tail + text for tail, text in zip(self._tails, texts, strict=True)]
        self._tails = (joined[0][-len(_END) :], joined[1][-len(_END) :])
        self._lines += 1
        self._foreign = 0
        self.is_open = self._lines <= _MAX_LINES and not any(_END in text for text in joined)
        return groups[0].start(), len(line.rstrip())


def _groups(line: bytes) -> Sequence[Any]:
    """Return the groups of digits in a line of a dump, without its offset."""
    runs = max(_GROUPS.finditer(line), key=lambda run: len(run.group(1)), default=None)
    if runs is None:
        return ()
    groups = list(_GROUP.finditer(line, *runs.span(1)))
    has_offset = len(groups) > 1 and (
        line[groups[0].end() : groups[0].end() + 1] == b":"
        or _LEAST_OFFSET_DIGITS <= len(groups[0].group()) != len(groups[1].group())
    )
    return groups[1:] if has_offset else groups


def _texts(groups: Sequence[Any]) -> tuple[bytes, bytes]:
    """Return the bytes of a dump: in the order of the digits, and with those of each 16-bit word swapped."""
    digits = [group.group() for group in groups if len(group.group()) % 2 == 0]
    swapped = (word[2:] + word[:2] for word in digits if len(word) == _WORD_DIGITS)
    return binascii.unhexlify(b"".join(digits)), binascii.unhexlify(b"".join(swapped))


def _has_label(text: bytes) -> bool:
    """Tell a line with the label, or with the part of it that stands before or behind the end of the line."""
    return (
        _LABEL in text
        or any(text.endswith(_LABEL[:size]) for size in range(_LEAST_OF_LABEL, len(_LABEL)))
        or any(text.startswith(_LABEL[-size:] + b"-") for size in range(_LEAST_OF_LABEL - 1, len(_LABEL)))
    )
