"""Secrets that go on over lines: the base64 below `BEGIN PRIVATE KEY`, and that of a wrapped file. Pure.

Each line is masked by itself, so that lines stay lines and nothing is held back until the end is seen.
"""

from collections import Counter
from typing import Final

from service_record.redaction import engine
from service_record.redaction.faces import MASK_BEGIN, mask
from service_record.redaction.patterns import PEM_BEGIN

_MOST_LINES: Final = 2000
_MOST_FOREIGN_LINES: Final = 32
"""Lines of other programs between those of a key, in a journal."""
_WRAPPED_AT: Final = 57
"""Base64 that fills a line is wrapped at 60, 64, 72 or 76 columns; a shorter line is the last."""

_BEGIN: Final = engine.compiled(PEM_BEGIN + rb"""[\s\\nr"',+]*$""")
_END: Final = engine.compiled(rb"-----END [A-Z0-9 ]*PRIVATE KEY")
_BODY: Final = engine.compiled(
    rb"""^(?:[^\n]*[:|] +|[ \t>#*|"']*(?:[+-] +)?)([A-Za-z0-9+/_-]{1,}={0,2})(?:\\+[nr]|["', \t\r+\\])*$"""
)
_PEM_UNIT: Final = 4
_LONG: Final = 24


class Body:
    """Whether such a secret is open, from line to line."""

    def __init__(self) -> None:
        self._kind = ""
        self._is_pem = False
        self._lines = 0
        self._foreign = 0

    @property
    def is_open(self) -> bool:
        return bool(self._kind)

    def begins_in(self, line: bytes, masked: bytes) -> None:
        """Look at a line that has the shape of a secret, as it was and as it is masked."""
        if _BEGIN.search(line):
            self._open("private-key", is_pem=True)
        elif masked.rstrip(b" \t\r\"',\\").endswith(mask("encoded-secret")):
            found = _BODY.search(line)
            if found is None or len(found.group(1)) >= _WRAPPED_AT:
                self._open("encoded-secret", is_pem=False)

    def masked(self, line: bytes, counts: Counter[str]) -> bytes:
        """The next line while one is open."""
        self._lines += 1
        found = _BODY.search(line)
        if _END.search(line) or self._lines > _MOST_LINES:
            self._kind = ""
            return line
        if MASK_BEGIN in line:
            return line
        if found is None or not self._fits(found.group(1)):
            return self._foreign_line(line)
        self._foreign = 0
        counts[self._kind] += self._lines == 1 and self._is_pem
        kind = self._kind
        if not self._is_pem and len(found.group(1)) < _WRAPPED_AT:
            self._kind = ""
        return line[: found.start(1)] + mask(kind) + line[found.end(1) :]

    def _fits(self, token: bytes) -> bool:
        """Not just a word behind a colon."""
        return len(token) >= _LONG or (len(token) % _PEM_UNIT == 0) >= self._is_pem

    def _foreign_line(self, line: bytes) -> bytes:
        self._foreign += 1
        if not self._is_pem or self._foreign > _MOST_FOREIGN_LINES:
            self._kind = ""
        return line

    def _open(self, kind: str, *, is_pem: bool) -> None:
        self._kind, self._is_pem, self._lines, self._foreign = kind, is_pem, 0, 0
