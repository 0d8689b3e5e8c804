"""Masks the secrets of one stream, in one pass and in bounded memory. Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from service_record.redaction import encodings, types
from service_record.redaction.over_lines import PRIVATE_KEY, Body, OpenName, ValueFollower
from service_record.redaction.reader import ENCODED, MAX_DEPTH, RUNS, TOKENS, LineReader, placed
from service_record.redaction.rules import Rules, replaced
from service_record.redaction.types import MASK_BEGIN, ZEROS_FOR_DIGITS, Found, MaskedSpan, line_end, views_of

BLOCK_BYTES: Final = 1 << 20
"""The size that is redacted at once, and up to which a line is kept whole."""
_OVERLAP: Final = 1 << 16
"""The part of a piece of a longer line that is kept for the next piece."""
_NEIGHBOURS: Final = 1 << 12
"""The text on both sides of a cut that is searched to see whether something secret is cut."""
_MOST_CUTS_TRIED: Final = 16
_ENCODED_TAIL: Final = 40
"""A line that encodes a text together with its neighbours has no blank in so many bytes before its end."""
_MAX_REMEMBERED_BYTES: Final = 1 << 10
_MOST_REMEMBERED: Final = 4096
_LEAST_REPEATED: Final = 12
"""A value of so many bytes is masked wherever it is in its line."""
_DEPENDS_ON_DIGITS: Final = re.compile(rb"0x|[%#^\x1b]|&[a-z]{2,5};|\\[\\uxU0]")
"""Hexadecimal numbers, escapes, and escapes in escapes, which may hide an exact secret."""
_RUN: Final = types.compiled(rb"""[^\s"'\\<>,]*""")


_Key = TypeVar("_Key")
_Result = TypeVar("_Result")


class Redactor:
    """Masks one stream by rules that many may share. The number of lines stays as it is.

    Held at a time: a block, the chunk that was fed last, what is made of both, and 8 MB of lines read before.
    """

    def __init__(
        self, rules: Rules, *, only_certain: bool = False, keeps_length: bool = False, depth: int = 0
    ) -> None:
        """`keeps_length`: no mask is longer than its secret. `depth`: of encodings around the text."""
        self.counts: Counter[str] = Counter()
        """The number of secrets masked so far, by kind."""
        self.first_line = 0
        """The line of the first of them, counted from 1; known when only the certain are masked."""
        self._rules = rules
        self._only_certain = only_certain
        self._keeps_length = keeps_length
        self._depth = depth
        self._reader = LineReader(rules.known, self._secrets_in, certain=only_certain)
        self._body = Body()
        self._values = ValueFollower()
        self._secrets_of: dict[bytes, Sequence[Found]] = {}
        """Where the secrets of a line are, by its `_key`."""
        self._name_after: dict[tuple[OpenName | None, bytes], OpenName | None] = {}
        """Which name waits for a value below a line, by the name that waited above it and its `_key`."""
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
            outside = encodings.end_before_block(text, _outside(text, spans, end))
            if outside:
                return outside
        return _outside(text, spans, self._cut(text)) if len(text) >= BLOCK_BYTES + _OVERLAP else 0

    def _cut(self, text: bytes) -> int:
        """Return where to cut a long line: not in a private key, and if possible not in another secret.

        A key in JSON may have no blank in it, and a short piece of its base64 looks like a word.
        """
        latest = end = BLOCK_BYTES
        key = text.rfind(b"-----BEGIN ", latest - _OVERLAP, latest)
        if key > 0 and text.find(b"-----END ", key, latest) < 0:
            return key
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
        text_out = b"".join(self._pieces(text, [span for span in spans if span.end <= len(text)]))
        if self._only_certain:
            self._lines += text.count(b"\n")
        self._is_cut_in_mask |= text_out.endswith(b">") and text_out.rfind(MASK_BEGIN) > text_out.rfind(
            b">", 0, -1
        )
        return text_out

    def _pieces(  # noqa: C901, PLR0912, PLR0915 - from top to bottom this is what happens to a line
        self, text: bytes, spans: Sequence[MaskedSpan]
    ) -> Iterator[bytes]:
        """Yield the masked text in pieces: lines that may have a secret, and what is between them."""
        suspects = self._rules.suspects(text, certain=self._only_certain)
        suspects.reverse()
        known = list(spans)
        known.reverse()
        position = 0
        """The end of what was yielded."""
        ahead = 0
        """The end of what was read: lines that stay as they are yielded together with what follows."""
        seen = 0
        """The end of the last block that was looked into."""
        while True:
            while suspects and suspects[-1][0] < ahead:
                suspects.pop()
            start = suspects[-1][0] if suspects else len(text)
            if self._body.is_open or self._values.name is not None:
                start = ahead
            elif known:
                start = min(start, text.rfind(b"\n", 0, known[-1].start) + 1)
            if start >= len(text):
                break
            if suspects and suspects[-1][0] == start:
                _, end, groups = suspects.pop()
            else:
                end, groups = line_end(text, start), 0
            may_encode = groups & (TOKENS | ENCODED) or (
                groups & RUNS and b" " not in text[max(start, end - _ENCODED_TAIL) : end].rstrip()
            )
            if may_encode and start >= seen and not self._body.is_open:
                found, seen, dump_end = self._over_lines(text, start, position)
                if found or dump_end:
                    first = text.rfind(b"\n", 0, found[0][0] if found else start) + 1
                    last = dump_end or line_end(text, found[-1][1])
                    if found:
                        self._note(text, first)
                    yield text[position:first]
                    yield self._without_in_lines(
                        text[first:last], [(a - first, b - first, kind) for a, b, kind in found]
                    )
                    yield text[last : last + 1]
                    position = ahead = last + 1
                    while known and known[-1].start < position:
                        known.pop()
                    if position > start:
                        continue
            ahead = end + 1
            line = text[start:end]
            is_free = not (
                self._body.is_open or self._values.is_in_block or (known and known[-1].start < end)
            )
            if is_free and (secrets := self._remembered_secrets(line, groups)) is not None:
                # The hot path where many lines name secrets: most of them differ only in digits.
                if secrets:
                    self._note(text, start)
                    yield text[position:start]
                    yield replaced(line, secrets, self.counts, keeps_length=self._keeps_length)
                    position = end
                continue
            exact: list[Found] = []
            while known and known[-1].start < end:
                span = known.pop()
                exact.append(
                    (span.start - start, span.end - start, span.kind if span.is_first else "+" + span.kind)
                )
            masked = self._line(line, exact, groups, is_free=is_free)
            if masked != line:
                self._note(text, start)
                yield text[position:start]
                yield masked
                position = end
        yield text[position:]

    def _over_lines(self, text: bytes, start: int, floor: int) -> tuple[list[Found], int, int]:
        """Return the secrets in lines that encode a text together, and where these end.

        The last is where a dump ends, whose lines hold nothing else; 0 for other lines.
        """
        line = text[start : line_end(text, start)]
        if encodings.ends_key(line):
            spans = encodings.key_lines_before(text, start, floor)
            return (
                [(first, last, "+" * bool(at) + PRIVATE_KEY) for at, (first, last) in enumerate(spans)],
                start,
                0,
            )
        block = encodings.block_around(text, start, floor)
        if block is None:
            return [], 0, 0
        if block.is_key:
            return (
                [(*span, "+" * bool(at) + PRIVATE_KEY) for at, span in enumerate(block.spans)],
                block.end,
                0,
            )
        found: dict[tuple[int, int], str] = {}
        for first, last, kind in self._secrets_in(block.plain, self._depth + 1):
            for at, span in enumerate(block.spans_of(first, last)):
                found.setdefault(span, "+" * bool(at) + kind)
        dump_end = block.end - text.endswith(b"\n", 0, block.end) if block.is_dump else 0
        return [(*span, kind) for span, kind in sorted(found.items())], block.end, dump_end

    def _secrets_in(self, text: bytes, depth: int) -> list[Found]:
        """Return the secrets in a text that stood encoded in another: about where, and of which kinds."""
        certain = self._only_certain
        if depth > MAX_DEPTH or not (
            self._rules.exact_spans(text) or self._rules.is_suspect(text, certain=certain)
        ):
            return []
        inner = Redactor(self._rules, only_certain=certain, depth=depth)
        return list(_changes(text, inner.feed(text) + inner.finish()))

    def _without_in_lines(self, lines: bytes, found: list[Found]) -> bytes:
        position = 0
        after: list[bytes] = []
        for line in lines.split(b"\n"):
            end = position + len(line)
            own = [(a - position, b - position, kind) for a, b, kind in found if position <= a < end]
            after.append(self._without(line, own) if own else line)
            position = end + 1
        return b"\n".join(after)

    def _remembered_secrets(self, line: bytes, groups: int) -> Sequence[Found] | None:
        """Return the secrets of a line that was read before, or of one that differs only in digits."""
        key = _key(line, groups)
        secrets = self._secrets_of.get(key)
        if secrets is None or not _are_single(line, secrets):
            return None
        name = self._values.name
        if (name, key) not in self._name_after:
            return None
        self._values.name = self._name_after[name, key]
        return secrets

    def _line(self, line: bytes, known: list[Found], groups: int, *, is_free: bool) -> bytes:
        """Return a line without secrets. `groups` of shapes may be in it.

        `is_free`: no other line has a part in what is secret in it, but the name of a value above it.
        """
        if known and b"\\u00" in line:
            # What is found of a secret between escapes may be a part of it: look for the whole at once.
            for view in views_of(line)[1:]:
                known += [
                    (view.place(start), view.place(end), f"+{kind}")
                    for start, end, kind in self._rules.known(view.text)
                ]
        name = self._values.name
        masked = self._without(line, known) if known else line
        finest = views_of(masked)[-1]
        spans = list(self._body.spans(finest))
        if not self._only_certain:
            spans += self._values.spans(finest)
        if spans:
            masked = self._without(
                masked, [(finest.place(start), finest.place(end), kind) for start, end, kind in spans]
            )
        before = masked
        if before is not line:
            masked, _ = self._read(before)
        elif groups:
            masked = self._read_or_remembered(line, groups)
        if masked != before and not spans:
            self._body.follow(finest, masked)
        if is_free and groups and before is line and not self._body.is_open and b'ata"' not in line:
            # The base64 of a map named data depends on each digit.
            _remember(self._name_after, (name, _key(line, groups)), self._values.name)
        return masked

    def _read_or_remembered(self, line: bytes, groups: int) -> bytes:
        key = _key(line, groups)
        secrets = self._secrets_of.get(key)
        if secrets is not None and _are_single(line, secrets):
            return replaced(line, secrets, self.counts, keeps_length=self._keeps_length) if secrets else line
        masked, secrets = self._read(line)
        if secrets is not None and len(line) <= _MAX_REMEMBERED_BYTES and _are_single(line, secrets):
            _remember(self._secrets_of, key, secrets)
        return masked

    def _read(self, line: bytes) -> tuple[bytes, list[Found] | None]:
        return self._rules.read(
            line,
            self.counts,
            self._reader,
            certain=self._only_certain,
            keeps_length=self._keeps_length,
            depth=self._depth,
        )

    def _without(self, line: bytes, found: list[Found]) -> bytes:
        """Return a line without secrets; a `+` before the kind is a further part of a secret."""
        counts: Counter[str] = Counter()
        after = replaced(
            line,
            [(start, end, kind.lstrip("+")) for start, end, kind in placed(line, found)],
            counts,
            keeps_length=self._keeps_length,
        )
        for _, _, kind in found:
            if not kind.startswith("+"):
                self.counts[kind] += 1
        return after

    def _note(self, text: bytes, position: int) -> None:
        if self._only_certain and not self.first_line:
            self.first_line = self._lines + text.count(b"\n", 0, position) + 1


def _key(line: bytes, groups: int) -> bytes:
    """Return what a line has in common with all lines that are read like it.

    Logs repeat few messages very often, and most of them differ only in digits. Escapes and encodings depend
    on these, and so do some shapes.
    """
    if groups & (TOKENS | ENCODED):
        return line
    key = line.translate(ZEROS_FOR_DIGITS)
    return line if _DEPENDS_ON_DIGITS.search(key) else key


def _remember(results: dict[_Key, _Result], key: _Key, result: _Result) -> None:
    if len(results) >= _MOST_REMEMBERED:
        results.clear()
    results[key] = result


def _are_single(line: bytes, secrets: Sequence[Found]) -> bool:
    """Return whether no secret is anywhere else in its line, where it would be masked, too."""
    return all(end - start < _LEAST_REPEATED or line.count(line[start:end]) == 1 for start, end, _ in secrets)


_MASK: Final = re.compile(rb"<redacted:([a-z0-9-]*)>")


def _changes(text: bytes, masked: bytes) -> Iterator[Found]:
    """Yield the part of each line that is not the same behind redaction, and the kind of its first mask."""
    position = 0
    for before, after in zip(text.split(b"\n"), masked.split(b"\n"), strict=True):
        if before != after:
            head = _common(before, after)
            tail = _common(before[head:][::-1], after[head:][::-1])
            named = _MASK.search(after)
            kind = named.group(1).decode() if named is not None else "secret"
            yield position + head, position + max(len(before) - tail, head + 1), kind
        position += len(before) + 1


def _common(one: bytes, other: bytes) -> int:
    """Return how many bytes at the beginning are the same in both."""
    sizes = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(sizes, min(len(one), len(other)))


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
