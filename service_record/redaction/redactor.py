"""Mask the secrets in a stream, in one pass and in bounded memory. Pure."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Final

from service_record.redaction import encodings, types
from service_record.redaction.first_pass import EXACT, Suspect
from service_record.redaction.masks import Mask, clip_and_merge, make_masks
from service_record.redaction.ordinary_words import is_random
from service_record.redaction.over_lines import PRIVATE_KEY, Body, CommandFollower, CommandText, ValueFollower
from service_record.redaction.reader import MAX_DEPTH, LineReader, forget_texts
from service_record.redaction.rules import RememberedLines, Rules
from service_record.redaction.types import (
    MASK_BEGIN,
    ZEROS_FOR_DIGITS,
    Found,
    MaskedSpan,
    iterate_lines,
    line_end,
    unescaped_views,
)

BLOCK_BYTES: Final = 1 << 20
"""The size of a block, which is redacted at once. A longer line may be cut."""
_CUT_RANGE_BYTES: Final = 1 << 16
"""The range before the end of a block in which a long line may be cut, and the least text after the block."""
_CUT_CONTEXT_BYTES: Final = 1 << 12
"""The bytes on each side of a possible cut that are searched for a secret across the cut."""
_MAX_CUT_TRIES: Final = 16
_SEAM_BYTES: Final = 1 << 14
"""The last look searches this much text on each side of the end of a block for a known secret across it."""
_NEAR_BYTES: Final = 1 << 10
"""The last look searches this much text around a line that was read for known secrets."""
_MAX_REMEMBERED_BYTES: Final = 1 << 10
_MAX_CACHED_LINES: Final = 4
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
        self._reader = LineReader(rules.known, self._secrets_in, certain=only_certain)
        self._shape_secrets = lru_cache(maxsize=_MAX_CACHED_LINES)(
            self._reader.secrets
        )  # some logs repeat one line
        self._body = Body()
        self._values = ValueFollower()
        self._commands = CommandFollower()
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
        self._mask_lines(text, spans, suspects)
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
        for end in (before, last):
            outside = encodings.end_before_block(text, _end_outside_secret(text, spans, end))
            start = text.rfind(b"\n", 0, outside - 1) + 1
            if _TRACED_OUTPUT.search(text[start:outside]):
                outside = start  # the next line may be the other command of a pipeline
            if outside:
                return outside
        return (
            _end_outside_secret(text, spans, self._find_cut(text))
            if len(text) >= BLOCK_BYTES + _CUT_RANGE_BYTES
            else 0
        )

    def _find_cut(self, text: bytes) -> int:
        """Return where to cut a long line: not in a private key, and if possible not in another secret.

        A private key in JSON may have no blank in it, and a short piece of its base64 looks like a word. So
        the line is cut before the key.
        """
        latest = end = BLOCK_BYTES
        key = text.rfind(b"-----BEGIN ", latest - _CUT_RANGE_BYTES, latest)
        if key > 0 and text.find(b"-----END ", key, latest) < 0:
            return key
        for _ in range(_MAX_CUT_TRIES):
            end = text.rfind(b" ", latest - _CUT_RANGE_BYTES, end)
            if end <= 0:
                break
            before, right = text[end - _CUT_CONTEXT_BYTES : end], text[end : end + _CUT_CONTEXT_BYTES]
            if self._mask_by_shape(before) + self._mask_by_shape(right) == self._mask_by_shape(
                before + right
            ):
                return end
        return latest

    def _mask_by_shape(self, line: bytes) -> bytes:
        secrets = clip_and_merge(line, self._reader.secrets(line, MAX_DEPTH))
        output = _MaskedText(line)
        output.add_line(0, len(line), make_masks(line, secrets))
        return output.finish()[0]

    def _mask_text(self, text: bytes, spans: Sequence[MaskedSpan]) -> bytes:
        inside = [span for span in spans if span.end <= len(text)]
        suspects = self._rules.find_suspects(
            text, certain=self._only_certain, harmless=self._remembered.harmless
        )
        text_out, read = self._mask_lines(text, inside, suspects)
        if self._only_certain:
            self._lines += text.count(b"\n")
        if self._last_look is not None:
            self._last_look.feed(text_out, read)
        self._is_cut_in_mask |= text_out.endswith(b">") and text_out.rfind(MASK_BEGIN) > text_out.rfind(
            b">", 0, -1
        )
        if not self._depth:
            forget_texts()
        return text_out

    def _mask_lines(  # noqa: C901, PLR0912, PLR0915 - the steps of masking a line, in order
        self, text: bytes, spans: Sequence[MaskedSpan], suspects: list[Suspect]
    ) -> tuple[bytes, list[tuple[int, int]]]:
        """Return the masked text, and the ranges in it of the lines that were read.

        Neighbouring lines are one range. `suspects` is emptied.
        """
        suspects.reverse()
        known = list(spans)
        known.reverse()
        body, values, commands = self._body, self._values, self._commands
        output = _MaskedText(text)
        ahead = seen = 0
        """The end of the text that has been read, and of the last encoded block that was decoded."""
        joined, command_end = self._read_command(text, 0)
        while True:
            while suspects and suspects[-1][0] < ahead:
                suspects.pop()
            is_open = body.is_open
            limit = known[-1].start if known else len(text)
            if not is_open and ahead >= command_end:
                ahead = self._mask_remembered(output, suspects, ahead, limit)
            name = values.name
            start = suspects[-1][0] if suspects else len(text)
            if is_open or name is not None or ahead < command_end:
                start = ahead
            elif known:
                start = min(start, text.rfind(b"\n", 0, limit) + 1)
            if start >= len(text):
                break
            if suspects and suspects[-1][0] == start:
                _, end, form, groups = suspects.pop()
            else:
                end, groups = line_end(text, start), 0
                form = text[start:end].translate(ZEROS_FOR_DIGITS)
            if groups & EXACT and start >= seen and not is_open:
                ahead, seen = self._mask_block(output, start)
                _take_before(known, start, ahead)
                if ahead > start:
                    continue
            ahead = end + 1
            line = text[start:end]
            is_in_block = name is not None and values.is_in_block
            is_in_command = start < command_end
            begins_command = not (is_in_command or self._only_certain) and commands.begins_in(line)
            context = _pipeline(text, line, end) if b"+ " in line else None
            is_free = not (
                is_open or is_in_block or is_in_command or begins_command or context or limit < end
            )
            key = line if groups & EXACT else form
            remembered = self._remembered.masks.get((name, groups, key)) if is_free else None
            if remembered is not None:
                masks, below = remembered
                if name is not None or below is not None:
                    values.name = below
            else:
                own = _take_before(known, start, end)
                shapes = _take_joined(joined, start, end)
                if context is not None:
                    shapes += context.places(self._shape_secrets(context.text, self._depth))
                masks = self._read_line(line, groups, key if is_free else None, own, shapes)
            output.add_line(start, end, masks)
            if begins_command:
                commands.begin(line)
                joined, command_end = self._read_command(text, ahead)
        self._record(text, output.masked)
        return output.finish()

    def _mask_remembered(self, output: "_MaskedText", suspects: list[Suspect], ahead: int, limit: int) -> int:
        """Mask the next lines to read, up to `limit`, while their masks are remembered.

        `ahead` is the end of the text that has been read. Returns its new value.
        """
        # The hot path for logs whose lines name secrets: most of these lines differ only in digits.
        text, values, remembered_lines = output.text, self._values, self._remembered.masks
        name = values.name
        while True:
            if suspects and (name is None or suspects[-1][0] == ahead):
                start, end, form, groups = suspects[-1]
            elif name is not None and ahead < len(text):
                start, end, groups = ahead, line_end(text, ahead), 0
                form = text[start:end].translate(ZEROS_FOR_DIGITS)
            else:
                break
            if end > limit or groups & EXACT or b"+ " in form or (name is not None and values.is_in_block):
                break
            remembered = remembered_lines.get((name, groups, form))
            if remembered is None:
                break
            masks, below = remembered
            if name is not None or below is not None:
                values.name = name = below
            output.add_line(start, end, masks)
            if groups:
                suspects.pop()
            ahead = end + 1
        return ahead

    def _mask_block(self, output: "_MaskedText", start: int) -> tuple[int, int]:
        """Mask the secrets in the encoded block around a line.

        Returns where the line after them begins, or 0 without secrets, and the end of the block.
        """
        text = output.text
        found, end, dump_end = self._block_secrets(text, start, output.position)
        if not (found or dump_end):
            return 0, end
        first = text.rfind(b"\n", 0, found[0][0] if found else start) + 1
        last = dump_end or line_end(text, found[-1][1])
        for at, line in iterate_lines(text, first, last):
            own = [(a - at, b - at, kind) for a, b, kind in found if at <= a < at + len(line)]
            output.add_line(at, at + len(line), self._line_masks(line, clip_and_merge(line, own)))
        output.copy_until(last + 1)
        return last + 1, end

    def _block_secrets(self, text: bytes, start: int, floor: int) -> tuple[list[Found], int, int]:
        """Return the secrets in the encoded block around a line, and where the block and a dump end.

        Without a block, returns no secrets and zeros. The end of a dump is 0 for other blocks; the lines of
        a dump hold nothing but encoded bytes, so they need no further search.
        """
        line = text[start : line_end(text, start)]
        if encodings.ends_key(line):
            spans = encodings.key_lines_before(text, start, floor)
            return (
                [(first, last, "+" * bool(at) + PRIVATE_KEY) for at, (first, last) in enumerate(spans)],
                start,
                0,
            )
        block = encodings.find_block(text, start, floor)
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
            for at, span in enumerate(block.encoded_spans(first, last)):
                found.setdefault(span, "+" * bool(at) + kind)
        dump_end = block.end - text.endswith(b"\n", 0, block.end) if block.is_dump else 0
        return [(*span, kind) for span, kind in sorted(found.items())], block.end, dump_end

    def _read_line(
        self, line: bytes, groups: int, key: bytes | None, known: list[Found], shapes: list[Found]
    ) -> Sequence[Mask]:
        """Return the masks of a line, which may contain the shapes of `groups`.

        `known` are its known secrets, and `shapes` those that it has together with other lines.
        `key` is the line's key in the cache, or None if its secrets depend on other lines or it has a known
        secret. Lines with the same key have their secrets at the same offsets.
        """
        found = _extend_keys(line, known) if known else []
        if known and b"\\u00" in line:
            # Escapes may hide a part of a known secret, so search the unescaped line for all of it.
            for view in unescaped_views(line)[1:]:
                found += [
                    (view.place(start), view.place(end), f"+{kind.lstrip('+')}")
                    for start, end, kind in self._rules.known(view.text)
                ]
        name = self._values.name
        finest = unescaped_views(line)[-1]
        over_lines = list(self._body.spans(finest))
        if not self._only_certain:
            over_lines += self._values.spans(finest)
        found += [(finest.place(start), finest.place(end), kind) for start, end, kind in over_lines]
        if groups:
            shapes += self._shape_secrets(line, self._depth)
        secrets = clip_and_merge(line, [*found, *shapes]) if found or shapes else []
        if secrets and not over_lines:
            self._body.follow(line, secrets[-1])
        masks = self._line_masks(line, secrets)
        if key is not None and not found and not self._body.is_open and _is_repeatable(key, secrets):
            # The line is read again if it may be a part of a pipeline with the next one.
            is_alone = _TRACED_OUTPUT.search(line) is None
            self._remembered.add(key, groups, (name, self._values.name), masks, is_alone=is_alone)
        return masks

    def _read_command(self, text: bytes, position: int) -> tuple[list[Found], int]:
        """Return the secrets in the next lines of an open command, the last first, and where they end."""
        commands, end = self._commands.join(text, position)
        found = chain.from_iterable(
            command.places(self._reader.secrets(command.text, self._depth)) for command in commands
        )
        return sorted(found, reverse=True), end

    def _line_masks(self, line: bytes, secrets: Sequence[Found]) -> list[Mask]:
        return make_masks(line, secrets, keeps_length=self._keeps_length)

    def _record(self, text: bytes, masked: Sequence[tuple[int, Sequence[Mask]]]) -> None:
        """Record the secrets in the lines of a text, given the offset and the masks of each."""
        self.counts.update(kind for _, masks in masked for _, _, kind, _ in masks if not kind.startswith("+"))
        if masked and self._only_certain and not self.first_line:
            self.first_line = self._lines + text.count(b"\n", 0, masked[0][0]) + 1
        if self._depth:
            self.spans += [
                (self._consumed + start + first, self._consumed + start + last, kind)
                for start, masks in masked
                for first, last, kind, _ in masks
            ]


class _MaskedText:
    """A masked copy of a text, which is made line by line. Lines that are not added stay as they are."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.position = 0
        """The end of the text that is in the copy."""
        self.masked: list[tuple[int, Sequence[Mask]]] = []
        """The offset and the masks of each line with masks."""
        self._pieces: list[bytes] = []
        self._shift = 0
        """How far the text after `position` moves."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        """The ranges of added lines in the copy."""

    def add_line(self, start: int, end: int, masks: Sequence[Mask]) -> None:
        """Mask the line between two offsets. It is after the last line with masks."""
        first = start + self._shift
        if masks:
            text, pieces, position, shift = self.text, self._pieces, self.position, self._shift
            for begin, stop, _, cover in masks:
                pieces += text[position : start + begin], cover
                position = start + stop
                shift += len(cover) - stop + begin
            pieces.append(text[position:end])
            self.position, self._shift = end, shift
            self.masked.append((start, masks))
        starts, ends = self._starts, self._ends
        # A block of encoded lines may begin before lines that have been added.
        while ends and first <= ends[-1] + 1:
            first = min(first, starts.pop())
            ends.pop()
        starts.append(first)
        ends.append(end + self._shift)

    def copy_until(self, end: int) -> None:
        """Copy the text up to `end`, which no later mask is before."""
        self._pieces.append(self.text[self.position : end])
        self.position = end

    def finish(self) -> tuple[bytes, list[tuple[int, int]]]:
        """Return the copy, and the ranges in it of the added lines. Neighbouring lines are one range."""
        self.copy_until(len(self.text))
        return b"".join(self._pieces), list(zip(self._starts, self._ends, strict=True))


_TRACED_OUTPUT: Final = re.compile(rb"\+ (?:\S+: )?(?:echo|printf) (?:(?:-[neE]+|'?%s(?:\\n)?'?) )?\S+\s*\Z")
"""Matches an output of one word. Several words are mostly a message: `echo 'Unlocking the disk'`."""


def _pipeline(text: bytes, line: bytes, end: int) -> CommandText | None:
    """Return a line, a pipe, and the command in the next line; None if the two lines are no pipeline.

    `set -x` of a shell prints the commands of a pipeline on lines of their own. `end` is the end of the line
    in the text. The command that reads the output tells whether it is a password.
    """
    if (output := _TRACED_OUTPUT.search(line)) is None:
        return None
    prefix, plus, reader = text[end + 1 : line_end(text, end + 1)].partition(b"+ ")
    # There is one `+` for each level of subshells, which may differ.
    prefixes = {each.rstrip(b"+").translate(ZEROS_FOR_DIGITS) for each in (prefix, line[: output.start()])}
    if not plus or len(prefixes) > 1:
        return None
    return CommandText(line + b" | " + reader, [(0, 0, len(line))])


def _take_joined(joined: list[Found], start: int, end: int) -> list[Found]:
    """Remove the secrets before `end` from the end of a list, and return their places after `start`."""
    found: list[Found] = []
    while joined and joined[-1][0] < end:
        first, last, kind = joined.pop()
        if first >= start:
            found.append((first - start, last - start, kind))
    return found


def _take_before(known: list[MaskedSpan], start: int, end: int) -> list[Found]:
    """Remove the known secrets before `end` from the end of a list, and return their places after `start`."""
    found: list[Found] = []
    while known and known[-1].start < end:
        span = known.pop()
        found.append((span.start - start, span.end - start, span.kind if span.is_first else f"+{span.kind}"))
    return found


def _find_decoded(rules: Rules, text: bytes, depth: int, *, only_certain: bool) -> list[Found]:
    """Return the secrets in a decoded text, by their offsets in it; none beyond the limit of depth."""
    if depth > MAX_DEPTH or not (rules.known(text) or rules.is_suspect(text, certain=only_certain)):
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


def _extend_keys(line: bytes, known: Sequence[Found]) -> list[Found]:
    """Return the known secrets, with pieces of private keys extended over the base64 around them.

    In base64 of a larger text, only fragments of a key may be found.
    """
    found: list[Found] = []
    last = 0
    for start, end, kind in known:
        first, after = start, end
        if kind.endswith(PRIVATE_KEY):
            head, tail = (
                line[max(last, start - _CUT_CONTEXT_BYTES) : start],
                line[end : end + _CUT_CONTEXT_BYTES],
            )
            first -= len(head) - len(head.rstrip(_BASE64))
            after += len(tail) - len(tail.lstrip(_BASE64))
            is_between = 0 < last == first
            first = first if is_between or _is_rest(line[first:start]) else start
            after = after if _is_rest(line[end:after]) else end
        found.append((first, after, kind))
        last = end
    return found


_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_MIN_REST_BYTES: Final = 8


def _is_rest(text: bytes) -> bool:
    return len(text) >= _MIN_REST_BYTES and is_random(text)


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
