"""Mask the secrets in a stream, in one pass and in bounded memory. Pure."""

import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Final

from service_record.redaction import blocks, types
from service_record.redaction.encodings import unescaped_views
from service_record.redaction.first_pass import EXACT, Suspect
from service_record.redaction.long_commands import TRACED_OUTPUT, CommandFollower
from service_record.redaction.masks import Mask, MaskedLine, clip_and_merge, make_masks, mask_lines
from service_record.redaction.private_keys import PRIVATE_KEY, KeyFollower
from service_record.redaction.reader import MAX_DEPTH, LineReader, forget_texts
from service_record.redaction.rules import NOTHING_OPEN, RememberedLines, Rules, State
from service_record.redaction.types import (
    MASK_BEGIN,
    ZEROS_FOR_DIGITS,
    Found,
    MaskedSpan,
    line_end,
)
from service_record.redaction.values_below import ValueFollower

BLOCK_BYTES: Final = 1 << 20
"""The size of a block, which is redacted at once. A longer line may be cut."""
_CUT_RANGE_BYTES: Final = 1 << 16
"""The range before the end of a block in which a long line may be cut, and the least text after the block."""
_CUT_CONTEXT_BYTES: Final = 1 << 12
"""The bytes on each side of a possible cut that are searched for a secret across the cut."""
_SEAM_BYTES: Final = 1 << 14
"""The last look searches this much text on each side of the end of a block for a known secret across it."""
_NEAR_BYTES: Final = 1 << 10
"""The last look searches this much text around a line that was read for known secrets."""
_MAX_REMEMBERED_BYTES: Final = 1 << 13
"""A longer line is read again each time that it occurs."""
_MIN_REPEATED_BYTES: Final = 12
"""A secret of this size or more is masked wherever it occurs in its line."""
_DEPENDS_ON_DIGITS: Final = re.compile(rb"0x|%[0A-Fa-f]{2}|#000|\^[\[IMJ]|\x1b|&[a-z]{2,5};|\\[\\uxU0]|ata\"")
"""Matches hexadecimal numbers, escapes and base64 in a map. Each digit matters in a line with one of them."""
_RUN: Final = types.compile_pattern(rb"""[^\s"'\\<>,]*""")


class Redactor:
    """Masks the secrets in one stream. The number of lines does not change.

    Redactors may share their rules. Memory: one block, the last chunk, and their masked copies. The rules
    keep up to 8 MB of remembered lines.
    """

    def __init__(
        self,
        rules: Rules,
        *,
        only_certain: bool = False,
        keeps_length: bool = False,
        looks_again: bool = False,
        depth: int = 0,
    ) -> None:
        """Take the rules of the host, and options.

        `only_certain` finds known secrets and shapes that are never legitimate, for the last look.
        `keeps_length` makes no mask longer than its secret.
        `looks_again` takes the last look at each masked block before it is returned; see `leak`.
        `depth` is the number of encodings around the text.
        """
        self.counts: Counter[str] = Counter()
        """The number of secrets masked so far, by kind."""
        self.first_line = 0
        """The line of the first secret, counted from 1; only set with `only_certain`."""
        self._rules = rules
        self._only_certain = only_certain
        self._keeps_length = keeps_length
        self._last_look = _LastLook(rules) if looks_again else None
        self._depth = depth
        # Not a method of this object: a reference cycle would keep its memory until the next collection.
        self._secrets_in = partial(_find_decoded, rules, only_certain=only_certain)
        self._reader = LineReader(self._secrets_in, certain=only_certain)
        self._key = KeyFollower()
        self._values = ValueFollower(self._reader.find_kind)
        self._commands = CommandFollower()
        self._state = NOTHING_OPEN
        """The state below the lines so far."""
        self._remembered = (
            RememberedLines()  # decoded texts seldom repeat
            if depth
            else rules.remembered_lines(only_certain=only_certain, keeps_length=keeps_length)
        )
        self._chunks: list[bytes] = []
        self._size = 0
        self._wanted = BLOCK_BYTES
        self._lines = 0
        self._is_cut_in_mask = False
        self.spans: list[Found] = []
        """The masked secrets by their offsets in the stream; only filled for decoded texts (`depth` > 0)."""
        self._consumed = 0
        """The offset of the current text in the stream."""

    @property
    def leak(self) -> tuple[str, int] | None:
        """Kind and line of the first secret that is left in the output, or None. Needs `looks_again`."""
        return self._last_look.leak if self._last_look is not None else None

    def feed(self, data: bytes) -> bytes:
        """Take the next chunk, of any size. Return the masked output that is ready, which may be empty."""
        self._chunks.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return b""
        text = b"".join(self._chunks)
        output: list[bytes] = []
        while len(text) >= BLOCK_BYTES:
            text = self._skip_cut_secret(text)
            spans = self._rules.exact_spans(text)
            end = self._safe_end(text, spans)
            if not end:
                break
            output.append(self._mask_text(text[:end], spans))
            self._consumed += end
            text = text[end:]
        self._chunks, self._size = [text], len(text)
        self._wanted = max(BLOCK_BYTES, len(text) + _CUT_RANGE_BYTES)
        return b"".join(output)

    def finish(self) -> bytes:
        """Return the rest of the masked output. Call it once, at the end of the stream."""
        text = self._skip_cut_secret(b"".join(self._chunks))
        self._chunks, self._size = [], 0
        return self._mask_text(text, self._rules.exact_spans(text))

    def look_at(self, text: bytes, spans: Sequence[MaskedSpan], suspects: list[Suspect]) -> None:
        """Count the secrets of the next text, given its known secrets and its suspect lines."""
        self._read_lines(text, spans, suspects)
        self._lines += text.count(b"\n")

    def _skip_cut_secret(self, text: bytes) -> bytes:
        """Return the text without the rest of a cut secret, whose beginning is already masked."""
        if not self._is_cut_in_mask:
            return text
        rest = text[_RUN.match(text).end() :]
        self._consumed += len(text) - len(rest)
        self._is_cut_in_mask = not rest
        return rest

    def _safe_end(self, text: bytes, spans: Sequence[MaskedSpan]) -> int:
        """Return the number of bytes that can be masked now; 0 if more text is needed.

        The last whole line is kept if possible, because a secret may begin in it and continue in the next
        line. A line that is too long is cut.
        """
        last = text.rfind(b"\n") + 1
        before = text.rfind(b"\n", 0, last - 1) + 1
        for latest in (before, last):
            end = _end_outside_secret(text, spans, latest)
            while end > latest - _CUT_RANGE_BYTES:
                start = text.rfind(b"\n", 0, end - 1) + 1
                line = text[start:end].rstrip(b"\n")
                if not (blocks.may_be_in_block(line) or TRACED_OUTPUT.search(line)):
                    break
                end = _end_outside_secret(text, spans, start)
            if end:
                return end
        if len(text) < BLOCK_BYTES + _CUT_RANGE_BYTES:
            return 0
        return _end_outside_secret(text, spans, self._find_cut(text))

    def _find_cut(self, text: bytes) -> int:
        """Return where to cut a long line: not in a private key, and if possible where no secret may be.

        A private key in JSON may have no blank in it, and a short piece of its base64 looks like a word. So
        the line is cut before the key.
        """
        latest = BLOCK_BYTES
        key = text.rfind(b"-----BEGIN ", latest - _CUT_RANGE_BYTES, latest)
        if key > 0 and text.find(b"-----END ", key, latest) < 0:
            return key
        last_blank = text.rfind(b" ", latest - _CUT_RANGE_BYTES, latest)
        for end in range(latest, latest - _CUT_RANGE_BYTES, -_CUT_CONTEXT_BYTES):
            blank = text.rfind(b" ", end - _CUT_CONTEXT_BYTES, end)
            around = text[blank - _CUT_CONTEXT_BYTES : blank + _CUT_CONTEXT_BYTES]
            if blank > 0 and not self._rules.is_suspect(around):
                return blank
        return last_blank if last_blank > 0 else latest

    def _mask_text(self, text: bytes, spans: Sequence[MaskedSpan]) -> bytes:
        inside = [span for span in spans if span.end <= len(text)]
        suspects = self._rules.find_suspects(
            text, certain=self._only_certain, harmless=self._remembered.harmless
        )
        masked, ranges = mask_lines(text, self._read_lines(text, inside, suspects))
        if self._only_certain:
            self._lines += text.count(b"\n")
        if self._last_look is not None:
            self._last_look.feed(masked, ranges)
        self._is_cut_in_mask |= masked.endswith(b">") and masked.rfind(MASK_BEGIN) > masked.rfind(b">", 0, -1)
        if not self._depth:
            forget_texts()
        return masked

    def _read_lines(
        self, text: bytes, spans: Sequence[MaskedSpan], suspects: Sequence[Suspect]
    ) -> list[MaskedLine]:
        """Return the lines that may have a secret, in order, with their masks.

        A line is read if it is a suspect, if it has a secret that is already found (one of `spans`, or one of
        several lines), or if a secret may continue in it that began above.
        """
        forms, texts = self._remembered.forms, self._remembered.texts
        found = [(each.start, each.end, each.kind if each.is_first else f"+{each.kind}") for each in spans]
        suspects = self._find_in_blocks(text, suspects, found)
        suspects.reverse()
        _add_sorted(found, self._commands.join(text, 0))
        lines: list[MaskedLine] = []
        state = self._state
        ahead = 0
        # The hot path for logs whose lines name secrets: most of these lines differ only in digits.
        while True:
            start = suspects[-1][0] if suspects else len(text)
            if state != NOTHING_OPEN:
                start = ahead
            elif found:
                start = min(start, text.rfind(b"\n", 0, found[0][0]) + 1)
            if start >= len(text):
                break
            if suspects and suspects[-1][0] == start:
                _, end, form, groups = suspects.pop()
            else:
                end, groups = line_end(text, start), 0
                form = text[start:end].translate(ZEROS_FOR_DIGITS)
            read = None
            if not found or found[0][0] >= end:
                read = forms.get((state, groups, form)) or texts.get((state, groups, text[start:end]))
            masks, state = read or self._read_line(text, (start, end, form, groups), state, found)
            lines.append((start, end, masks))
            ahead = end + 1
        self._state = state
        self._record(text, lines)
        return lines

    def _find_in_blocks(self, text: bytes, suspects: Sequence[Suspect], found: list[Found]) -> list[Suspect]:
        """Add the secrets in encoded blocks of lines to `found`. Return the suspects outside these blocks."""
        texts = self._remembered.texts
        outside: list[Suspect] = []
        block_end = read_until = 0
        for suspect in suspects:
            start, end, _, groups = suspect
            if start < read_until:
                continue
            # A line that may be in a block is not remembered.
            if groups & EXACT and (NOTHING_OPEN, groups, text[start:end]) not in texts:
                if blocks.ends_key(text[start:end]):
                    lines = blocks.key_lines_above(text, start, read_until)
                    _add_sorted(
                        found, [(*span, "+" * bool(at) + PRIVATE_KEY) for at, span in enumerate(lines)]
                    )
                elif start >= block_end and (block := blocks.find_block(text, start, block_end)) is not None:
                    secrets = self._block_secrets(block)
                    _add_sorted(found, secrets)
                    block_end = block.end
                    if secrets or block.is_dump:
                        # Nothing but the decoded text is in these lines.
                        read_until = block.end
                        continue
            outside.append(suspect)
        return outside

    def _block_secrets(self, block: blocks.Block) -> list[Found]:
        """Return the lines of a block that have secrets in the decoded text, or are encoded tokens."""
        found = block.places(self._secrets_in(block.plain, self._depth + 1))
        if not found and self._rules.is_suspect(block.word, certain=True):
            found = block.places(self._reader.secrets(block.word, self._depth)[:1])
        return found

    def _read_line(
        self, text: bytes, suspect: Suspect, state: State, found: list[Found]
    ) -> tuple[Sequence[Mask], State]:
        """Return the masks of a line, and the state below it. Remove its secrets from `found`."""
        start, end, form, groups = suspect
        line = text[start:end]
        begins_command = not self._only_certain and self._commands.begins_in(line)
        if begins_command and start >= self._commands.end:
            _add_sorted(found, self._commands.begin(text, start, end))
        own = _take_before(found, start, end)
        secrets = list(own)
        self._values.name, self._key.open = state
        finest = unescaped_views(line)[-1]
        over_lines = list(self._key.spans(finest))
        if not self._only_certain:
            over_lines += self._values.spans(finest)
        secrets += [(finest.place(first), finest.place(last), kind) for first, last, kind in over_lines]
        if groups:
            secrets += self._reader.secrets(line, self._depth, groups)
        if secrets:
            secrets = clip_and_merge(line, secrets)
        below = self._values.name, self._key.open
        masks = make_masks(line, secrets, keeps_length=self._keeps_length)
        depends = own or begins_command or (groups & EXACT and blocks.may_be_in_block(line))
        # The lines of a private key are not kept in memory.
        if not depends and len(line) <= _MAX_REMEMBERED_BYTES and not (masks and state[1]):
            is_form = not (groups & EXACT or over_lines) and _is_repeatable(form, secrets)
            self._remembered.add(form if is_form else line, groups, (state, below), masks, is_form=is_form)
        return masks, below

    def _record(self, text: bytes, lines: Sequence[MaskedLine]) -> None:
        """Record the secrets in the lines of a text."""
        self.counts.update(
            kind for _, _, masks in lines for _, _, kind, _ in masks if not kind.startswith("+")
        )
        if self._only_certain and not self.first_line:
            first = next((start for start, _, masks in lines if masks), None)
            if first is not None:
                self.first_line = self._lines + text.count(b"\n", 0, first) + 1
        if self._depth:
            self.spans += [
                (self._consumed + start + first, self._consumed + start + last, kind)
                for start, _, masks in lines
                for first, last, kind, _ in masks
            ]


def _add_sorted(found: list[Found], secrets: Iterable[Found]) -> None:
    """Insert secrets into a list that is sorted by start, after those that begin at the same offset."""
    for each in secrets:
        insort(found, each, key=_START)


_START: Final = itemgetter(0)


def _take_before(found: list[Found], start: int, end: int) -> list[Found]:
    """Remove the secrets before `end` from a sorted list, and return their places after `start`."""
    taken = bisect_left(found, end, key=_START)
    own = [(first - start, last - start, kind) for first, last, kind in found[:taken] if first >= start]
    del found[:taken]
    return own


def _find_decoded(rules: Rules, text: bytes, depth: int, *, only_certain: bool) -> list[Found]:
    """Return the secrets in a decoded text, by their offsets in it; none beyond the limit of depth."""
    if depth > MAX_DEPTH or not (rules.exact_spans(text) or rules.is_suspect(text, certain=only_certain)):
        return []
    redactor = Redactor(rules, only_certain=only_certain, depth=depth)
    redactor.feed(text)
    redactor.finish()
    return redactor.spans


class _LastLook:
    """Searches masked text for secrets that are left in it, block by block.

    It searches where masking may have failed: for known secrets in and around the lines that the redactor
    has read, and across the ends of blocks; for shapes that are never legitimate in the lines that it has
    read. The other lines are returned as they were, and the redactor has just searched them for all of that.
    Searching them again would find the same, and takes as long as compressing them.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._redactor = Redactor(rules, only_certain=True)
        self._tail = b""
        """The end of the text so far."""

    @property
    def leak(self) -> tuple[str, int] | None:
        """Kind and line of the first secret that was left, or None."""
        kind = next(iter(self._redactor.counts), None)
        return None if kind is None else (kind, self._redactor.first_line)

    def feed(self, text: bytes, read: Sequence[tuple[int, int]]) -> None:
        """Search the next block. The redactor has read its lines in the ranges `read`."""
        # Whole lines: if a part ended within a line, its end would look like a cut secret.
        parts = [(-len(self._tail), line_end(text, _SEAM_BYTES))]
        for start, end in read:
            first = text.rfind(b"\n", 0, max(start - _NEAR_BYTES, 0)) + 1
            last = line_end(text, end + _NEAR_BYTES)
            if first <= parts[-1][1] + 1:
                parts[-1] = parts[-1][0], max(parts[-1][1], last)
            else:
                parts.append((first, last))
        spans = [
            MaskedSpan(max(first + span.start, 0), first + span.end, span.kind, is_first=True)
            for first, last in parts
            for span in self._rules.exact_spans(text[first:last] if first >= 0 else self._tail + text[:last])
            if first + span.end > 0
        ]
        self._tail = (self._tail + text[-_SEAM_BYTES:])[-_SEAM_BYTES:]
        suspects = []
        for start, end in read:
            # With the line breaks around the lines: a trigger may begin or end with one.
            first = max(start - 1, 0)
            found = self._rules.find_suspects(text[first : end + 1], certain=True)
            suspects += [
                (first + a, first + b, form, groups) for a, b, form, groups in found if first + a < end
            ]
        self._redactor.look_at(text, spans, suspects)


def _is_repeatable(key: bytes, secrets: Sequence[Found]) -> bool:
    """Return True if all lines with this key have the same secrets, so that they may be cached.

    A secret that occurs twice in a line is masked twice. If it occurs once in the key, in which all digits
    are equal, it occurs once in each of these lines.
    """
    return (
        len(key) <= _MAX_REMEMBERED_BYTES
        and all(
            end - start < _MIN_REPEATED_BYTES or key.count(key[start:end]) == 1 for start, end, _ in secrets
        )
        and not _DEPENDS_ON_DIGITS.search(key)
    )


def _end_outside_secret(text: bytes, spans: Sequence[MaskedSpan], end: int) -> int:
    """Return `end`; if a secret continues beyond it, return the start of the line in which it begins."""
    first = 0
    for span in spans:
        if span.start >= end and span.is_first:
            break
        if span.is_first:
            first = span.start
        if span.end > end:
            return text.rfind(b"\n", 0, first) + 1
    return end
