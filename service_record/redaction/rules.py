"""Patterns compiled once for all streams: a host's exact secrets, and the shapes of others. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from service_record.redaction.exact import Exact
from service_record.redaction.reader import LineReader, number_quote, patterns, placed
from service_record.redaction.types import MASK_BEGIN, Found, MaskedSpan, Secret, mask

_MOST_TURNS: Final = 8
"""The limit of passes: the text that a mask lays bare is looked at again; more than two passes are seldom
needed.
"""
_OTHER_MASK: Final = re.compile(rb"""[\\"'`]{0,8}<redacted:(?!private-key)[a-z0-9-]*>[\\"'`]{0,8}""")
"""A mask, whose kind may look like a name, and its quotes, which may look like a value.

What stands beside the mask of a key may be a part of the key.
"""
_SHORT_MASK: Final = b"***"


class Rules:
    """Compiled once, used for any number of streams, by any number of threads."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._exact = Exact(secrets)
        self._patterns = patterns()
        self._reader = LineReader(self.known, _nothing)

    @property
    def left_out(self) -> Counter[str]:
        """Count, by kind, the exact secrets over the limit, which are not looked for; the first ones are."""
        return self._exact.left_out

    def exact_spans(self, text: bytes) -> list[MaskedSpan]:
        """Return the exact secrets in a text of any number of lines."""
        return self._exact.spans(text)

    def known(self, text: bytes) -> list[Found]:
        """Return the places and kinds of the exact secrets in a text."""
        return [(span.start, span.end, span.kind) for span in self._exact.spans(text)]

    def is_suspect(self, text: bytes, *, certain: bool = False) -> bool:
        """Return whether a text may have the shape of a secret."""
        return self._patterns.groups_in(text, certain=certain) != 0

    def suspects(self, text: bytes, *, certain: bool = False) -> list[tuple[int, int, int]]:
        """Return begin and end of each line that may hold a secret, and the groups of shapes to try on it."""
        return self._patterns.suspects(text, certain=certain)

    def masked(self, line: bytes, counts: Counter[str], *, certain: bool = False) -> bytes:
        """Return the line, which has no newline, without what has the shape of a secret. Nothing is decoded.

        `certain`: without what is never legitimate, and with the rest.
        """
        reader = LineReader(self.known, _nothing, certain=True) if certain else self._reader
        return self.read(line, counts, reader, certain=certain)[0]

    def read(
        self,
        line: bytes,
        counts: Counter[str],
        reader: LineReader,
        *,
        certain: bool = False,
        keeps_length: bool = False,
        depth: int = 0,
    ) -> tuple[bytes, list[Found] | None]:
        """Return the masked line, and the secrets that were found by this reader.

        These are None when they were not found all at once, so that their places are those of several texts.
        """
        secrets: list[Found] | None = placed(line, reader.secrets(line, depth))
        found = secrets
        for _ in range(_MOST_TURNS):
            if not found:
                break
            line = replaced(line, found, counts, keeps_length=keeps_length)
            if not self.is_suspect(_OTHER_MASK.sub(MASK_BEGIN, line), certain=certain):
                break
            found = placed(line, reader.secrets(line, depth))
            secrets = None if found else secrets
        return line, secrets

    def values(self, text: bytes) -> Iterator[Secret]:
        """Yield the values that have the shape of a secret in a text of any number of lines, as they stand
        there.
        """
        for start, end, _ in self.suspects(text):
            line = text[start:end]
            for first, last, kind in placed(line, self._reader.secrets(line)):
                yield Secret(kind, line[first:last])


def _nothing(_text: bytes, _depth: int) -> list[Found]:
    return []


def replaced(
    line: bytes, found: Sequence[Found], counts: Counter[str], *, keeps_length: bool = False
) -> bytes:
    """Return a line with masks in the places of secrets.

    `keeps_length`: no mask is longer than its secret.
    """
    pieces: list[bytes] = []
    position = 0
    for start, end, kind in found:
        counts[kind] += 1
        quote = number_quote(line, start, end)
        cover = quote + mask(kind) + quote
        if keeps_length and len(cover) > end - start:
            cover = _short_mask(quote, end - start)
        pieces += [line[position:start], cover]
        position = end
    return b"".join((*pieces, line[position:]))


def _short_mask(quote: bytes, size: int) -> bytes:
    stars = size - 2 * len(quote)
    if stars > 0:
        return quote + _SHORT_MASK[:stars] + quote
    return b"0" if quote else b"*" * size
