"""Masks the secrets of one stream, in one pass and in bounded memory. Pure.

What leaves as a whole, a text, lines of records and a template of an installer (a kickstart, a preseed), is
refused where a secret is left in it. Lines that are sent by their place in a file keep their lengths.

Private keys in dumps of bytes, as xxd(1), hexdump(1) and od(1) print them in hexadecimal, are masked behind
the offset of each line, with the column of characters, from the line that has `PRIVATE KEY` to the one with
`END`.
"""

import binascii
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from io import BytesIO
from typing import Any, Final

from service_record.redaction import types
from service_record.redaction.over_lines import PRIVATE_KEY, Body, FoundSpan, ValueFollower, sub_lines
from service_record.redaction.rules import Rules
from service_record.redaction.types import MASK_BEGIN, MaskedSpan, UnescapedText, mask, views_of

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
        before = text.rfind(b"\n", 0, max(last - 1, 0)) + 1
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
        position = 0
        while position < len(text):
            start = self._next_suspect(text, position)
            if start is None:
                break
            end = text.find(b"\n", start)
            end = len(text) if end < 0 else end
            line = text[start:end]
            masked = self._line(line)
            if masked != line:
                self._note(text, start)
            yield text[position:start]
            yield masked
            yield text[end : end + 1]
            position = end + 1
        yield text[position:]

    def _next_suspect(self, text: bytes, position: int) -> int | None:
        """Return where the next line begins that is to be looked at."""
        if self._body.is_open or self._dump.is_open or self._values.is_open:
            return position
        place = self._rules.suspect(text, position, certain=self._only_certain)
        return None if place is None else max(position, text.rfind(b"\n", position, place) + 1)

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


class LeakError(Exception):
    """A secret would have left the host."""


def outgoing(data: bytes, rules: Rules) -> bytes:
    """Return the data without secrets. Raises LeakError where one still is in it."""
    redactor = Redactor(rules)
    masked = redactor.feed(data) + redactor.finish()
    refuse_leaks(masked, rules)
    return masked


def outgoing_text(text: str, rules: Rules) -> str:
    """Return the text without secrets. Raises LeakError where one still is in it."""
    return outgoing(text.encode(errors="surrogateescape"), rules).decode(errors="surrogateescape")


def refuse_leaks(data: bytes, rules: Rules) -> None:
    """Raise LeakError where a secret is in what is about to leave."""
    if _has_leak(data, rules):
        raise LeakError("a secret of this host would have left it: nothing was sent")


def _has_leak(data: bytes, rules: Rules) -> bool:
    if _is_text(data):
        redactor = Redactor(rules, only_certain=True)
        redactor.feed(data)
        redactor.finish()
        return bool(redactor.counts)
    from service_record.redaction.leak_scan import find_leak  # noqa: PLC0415  # reads archives, too

    return find_leak(rules, BytesIO(data)) is not None


def _is_text(data: bytes) -> bool:
    """Return whether data is certainly no archive and not compressed.

    An archive has NULs, and gzip, xz and zstd begin with what no UTF-8 has.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data and not data.startswith(_BZIP2)


_BZIP2: Final = b"BZh"
_MASK: Final = types.compiled(types.escaped(MASK_BEGIN) + rb"[^<>]*>")
_SHORT: Final = b"***"
"""Shorter than any secret that is masked."""


def masked_in_place(lines: bytes, rules: Rules) -> bytes:
    """Whole lines without their secrets, each as long as before: blanks stand at the end of shorter ones.

    A line in which the masks take more room than the secrets has short ones, and where that is not enough, it
    is masked as a whole.
    """
    redactor = Redactor(rules)
    masked = redactor.feed(lines) + redactor.finish()
    if masked == lines:
        return lines
    pairs = zip(lines.split(b"\n"), masked.split(b"\n"), strict=True)
    return b"\n".join(_fitted(line, changed) for line, changed in pairs)


def _fitted(line: bytes, masked: bytes) -> bytes:
    if len(masked) > len(line):
        masked = _MASK.sub(_SHORT, masked)
    if len(masked) > len(line):
        return b"*" * len(line)
    return masked.ljust(len(line))


_TEMPLATE_MASK: Final = mask("password")
# debconf's own line: owner, question, type, value. A password's type is password, or its question says so.
_PRESEED: Final = types.compiled(
    rb"(?m)^([ \t]*\S+[ \t]+(?:\S+[ \t]+password|\S*passw\S*[ \t]+string)[ \t]+)(\S[^\n]*)"
)


def outgoing_template(data: bytes, rules: Rules) -> bytes:
    """Return the template without secrets. Raises LeakError where one still is in it."""
    return outgoing(_PRESEED.sub(rb"\1" + _TEMPLATE_MASK, data), rules)


def refuse_template_leaks(data: bytes) -> None:
    """Raise LeakError where a template that came from elsewhere has what a host would have masked."""
    if outgoing_template(data, _shapes()) != data:
        raise LeakError("the template has a secret that is not masked")


@cache
def _shapes() -> Rules:
    """Return the rules without any exact secret: those of its host only the host knows."""
    return Rules(())
