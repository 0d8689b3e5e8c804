"""Masks the secrets of one stream, in one pass and in bounded memory. Pure.

Private keys in dumps of bytes, as xxd(1), hexdump(1) and od(1) print them in hexadecimal, are masked behind
the offset of each line, with the column of characters, from the line that has `PRIVATE KEY` to the one with
`END`.
"""

import binascii
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from service_record.redaction import types
from service_record.redaction.over_lines import PRIVATE_KEY, Body, FoundSpan, ValueFollower, sub_lines
from service_record.redaction.rules import Rules
from service_record.redaction.types import MASK_BEGIN, MaskedSpan, UnescapedText, line_end, mask, views_of

_LABEL: Final = b"PRIVATE KEY"
_END: Final = b"-END "
_LEAST_OF_LABEL: Final = 6
"""The least part of the label in one of its lines, wherever a line ends in it."""
_MAX_LINES: Final = 1000
"""A key of RSA 8192 has 400 lines of 16 bytes."""
_MAX_FOREIGN_LINES: Final = 160
_WORD_DIGITS: Final = 4
_LEAST_OFFSET_DIGITS: Final = 6
_HINT: Final = types.compiled(rb"(?i:54 *45 *20|50 *52 *49|4952|5250|2045|4554)")
"""A hint in each line that may have part of the label: `TE `, `PRI`, and either in words of 16 bits."""
_GROUPS: Final = types.compiled(rb"(?:^|[\s|>])((?:[0-9A-Fa-f]+(?::[ \t]*|[ \t]+|\r?$))+)")
_GROUP: Final = types.compiled(rb"[0-9A-Fa-f]+")


class Dump:
    """Follows a dump of a private key from line to line."""

    def __init__(self) -> None:
        self.is_open = False
        self._lines = 0
        self._foreign = 0
        self._tails = (b"", b"")
        """The end of the line before, in either order of bytes."""

    def spans(self, view: UnescapedText) -> Iterator[FoundSpan]:
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
            self._lines, self._tails = 0, (b"", b"")
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


BLOCK_BYTES: Final = 1 << 20
"""The size that is redacted at once, and up to which a line is kept whole."""
_OVERLAP: Final = 1 << 16
"""The part of a piece of a longer line that is kept for the next piece."""
_NEIGHBOURS: Final = 1 << 12
"""The text on both sides of a cut that is searched to see whether something secret is cut."""
_MOST_CUTS_TRIED: Final = 16
_RUN: Final = types.compiled(rb"""[^\s"'\\<>,]*""")


class Redactor:
    """Masks one stream by rules that many may share. The number of lines stays as it is.

    Held at a time: a block, the chunk that was fed last, and what is made of both.
    """

    def __init__(self, rules: Rules, *, only_certain: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        """The number of secrets masked so far, by kind."""
        self.first_line = 0
        """The line of the first of them, counted from 1; known when only the certain are masked."""
        self._rules = rules
        self._only_certain = only_certain
        self._body = Body()
        self._dump = Dump()
        self._values = ValueFollower()
        self._chunks: list[bytes] = []
        self._size = 0
        self._wanted = BLOCK_BYTES
        self._lines = 0
        self._is_cut_in_mask = False

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes, in chunks of any size; give what is ready, which may be nothing."""
        self._chunks.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return b""
        text = b"".join(self._chunks)
        output: list[bytes] = []
        while len(text) >= BLOCK_BYTES:
            text = self._behind_cut(text)
            spans = self._rules.exact_spans(text)
            end = self._end(text, spans)
            if not end:
                break
            output.append(self._masked(text[:end], spans))
            text = text[end:]
        self._chunks, self._size = [text], len(text)
        self._wanted = max(BLOCK_BYTES, len(text) + _OVERLAP)
        return b"".join(output)

    def finish(self) -> bytes:
        """Give what was held back. The stream has ended; nothing is fed after it."""
        text = self._behind_cut(b"".join(self._chunks))
        self._chunks, self._size = [], 0
        return self._masked(text, self._rules.exact_spans(text))

    def _behind_cut(self, text: bytes) -> bytes:
        """Return the text without the rest of an overlong secret whose beginning is masked already."""
        if not self._is_cut_in_mask:
            return text
        rest = text[_RUN.match(text).end() :]
        self._is_cut_in_mask = not rest
        return rest

    def _end(self, text: bytes, spans: Sequence[MaskedSpan]) -> int:
        """Return how much of a text can be masked now: all before its last whole line, or a piece of a long
        one.

        A secret may begin in that line and go on in the next.
        """
        last = text.rfind(b"\n") + 1
        before = text.rfind(b"\n", 0, last - 1) + 1
        for end in (before, last):
            outside = _outside(text, spans, end)
            if outside:
                return outside
        return _outside(text, spans, self._cut(text)) if len(text) >= BLOCK_BYTES + _OVERLAP else 0

    def _cut(self, text: bytes) -> int:
        """Return where to cut a long line, if possible so that nothing with the shape of a secret is cut."""
        latest = end = BLOCK_BYTES
        for _ in range(_MOST_CUTS_TRIED):
            end = text.rfind(b" ", latest - _OVERLAP, end)
            if end <= 0:
                break
            before, right = text[end - _NEIGHBOURS : end], text[end : end + _NEIGHBOURS]
            if self._shaped(before) + self._shaped(right) == self._shaped(before + right):
                return end
        return latest

    def _shaped(self, line: bytes) -> bytes:
        return self._rules.masked(line, Counter(), certain=self._only_certain)

    def _masked(self, text: bytes, spans: Sequence[MaskedSpan]) -> bytes:
        text_out = b"".join(self._by_shape(self._by_value(text, spans)))
        if self._only_certain:
            self._lines += text.count(b"\n")
        self._is_cut_in_mask |= text_out.endswith(b">") and text_out.rfind(MASK_BEGIN) > text_out.rfind(
            b">", 0, -1
        )
        return text_out

    def _by_value(self, text: bytes, spans: Sequence[MaskedSpan]) -> bytes:
        pieces: list[bytes] = []
        position = 0
        for span in spans:
            if span.end > len(text):
                break
            self.counts[span.kind] += span.is_first
            self._note(text, span.start)
            pieces += [text[position : span.start], mask(span.kind)]
            position = span.end
        return b"".join((*pieces, text[position:])) if pieces else text

    def _by_shape(self, text: bytes) -> Iterator[bytes]:
        # All triggers first: on a busy machine, taking turns with the shapes costs a fifth more (caches).
        suspects = iter(list(self._rules.suspects(text, certain=self._only_certain)))
        position = 0
        while (place := self._next_line(text, position, suspects)) is not None:
            start, end = place
            line = text[start:end]
            masked = self._line(line)
            if masked != line:
                self._note(text, start)
            yield text[position:start]
            yield masked
            yield text[end : end + 1]
            position = end + 1
        yield text[position:]

    def _next_line(
        self, text: bytes, position: int, suspects: Iterator[tuple[int, int]]
    ) -> tuple[int, int] | None:
        """Return where the next line to look at begins and ends."""
        is_open = self._body.is_open or self._dump.is_open or self._values.is_open
        if is_open and position < len(text):
            return position, line_end(text, position)
        return next((place for place in suspects if place[0] >= position), None)

    def _line(self, line: bytes) -> bytes:
        views = views_of(line)
        spans = [*self._body.spans(views[-1]), *self._dump.spans(views[-1])]
        if not self._only_certain:
            spans += self._values.spans(views[-1])
        is_known = bool(spans)
        masked = self._rules.without(line, spans, views, self.counts) if is_known else line
        masked = self._rules.masked(masked, self.counts, certain=self._only_certain)
        if masked != line and not is_known:
            self._body.follow(views[-1], masked)
        return masked

    def _note(self, text: bytes, position: int) -> None:
        if self._only_certain and not self.first_line:
            self.first_line = self._lines + text.count(b"\n", 0, position) + 1


def _outside(text: bytes, spans: Sequence[MaskedSpan], end: int) -> int:
    """Return the end, or the beginning of the line in which a secret begins that goes on beyond it."""
    first = 0
    for span in spans:
        if span.start >= end and span.is_first:
            break
        if span.is_first:
            first = span.start
        if span.end > end:
            return text.rfind(b"\n", 0, first) + 1
    return end
