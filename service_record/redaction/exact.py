"""Find the known secrets of a host in a text: in every form, whole or in part, and across lines. Pure.

RE2 searches for *needles*, short pieces of all forms, in one pass. Around each needle the text is read in
each possible way: without its escapes, and without its line breaks. There it is compared with the forms.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from service_record.redaction import types
from service_record.redaction.encodings import ESCAPED_RUN, make_escaped_pattern, readings
from service_record.redaction.prefixes import prefix_end
from service_record.redaction.secrets import LONG_BYTES, forms, is_searchable
from service_record.redaction.types import (
    Found,
    MaskedSpan,
    Secret,
    UnescapedText,
    iterate_lines,
    line_end,
    merge_spans,
)

_FRAGMENT_BYTES: Final = 16
_MAX_NEEDLES: Final = 16_000
"""The limit of needles. RE2 cannot compile a pattern of many more within its limit of memory."""
_AROUND_BYTES: Final = 1 << 10
"""The text on each side of a needle that is read with it, and the rest of its lines."""
_CUT_BEHIND: Final = (b"\n", b"\r", b'"', b"'", b"\\", "\u2026".encode())
_CUT_BEFORE: Final = (b"\n", b'"', b"'", "\u2026".encode())
"""A text may be cut next to one of these: a line break, a quote or an ellipsis."""
_LINE_START: Final = b" \t>#*|\"'"
_LINE_END: Final = b" \t\r\\\"'+,"
"""What programs add to the lines of a wrapped text."""


class _Place(NamedTuple):
    """The place of a needle in a form of a secret."""

    kind: str
    form: bytes
    offset: int


class Exact:
    """Finds secrets by their known values."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._places: defaultdict[bytes, list[_Place]] = defaultdict(list)
        """The places of each needle."""
        signs: set[bytes] = set()
        self.left_out: Counter[str] = Counter()
        """The number of secrets beyond the limit, by kind. They are not searched for."""
        for secret in secrets:
            if not is_searchable(secret.value):
                continue
            if len(self._places) >= _MAX_NEEDLES:
                self.left_out[secret.kind] += 1
                continue
            for form in forms(secret.value):
                for needle in form.needles:
                    place = _Place(secret.kind, form.text, form.text.find(needle))
                    self._places[needle].append(place)
                if not any(needle.isalnum() for needle in form.needles):
                    signs.update(form.needles)
        self._sizes = sorted({len(needle) for needle in self._places})
        # Sorted, so that RE2 merges common prefixes of the alternatives.
        patterns = [
            make_escaped_pattern(needle) if needle in signs else types.escape_literal(needle)
            for needle in sorted(self._places)
        ]
        self._needles = types.Finder(b"|".join([*patterns, ESCAPED_RUN]))

    def spans(self, text: bytes) -> list[MaskedSpan]:
        """Return the spans of the secrets in a text, sorted and disjoint. None contains a newline."""
        found: list[MaskedSpan] = []
        for start, end in self._find_regions(text) if self._places else ():
            for view in _read(text[start:end]):
                for first, last, kind in self._find_forms(view.text):
                    found += [
                        MaskedSpan(start + a, start + b, kind, is_first=number == 0)
                        for number, (a, b) in enumerate(view.spans(first, last))
                    ]
        return merge_spans(found)

    def _find_regions(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Yield start and end of the lines around each needle, and around each run of escapes."""
        end = 0
        while (hit := self._needles.find(text, end)) is not None:
            start = text.rfind(b"\n", 0, max(hit[0] - _AROUND_BYTES, 0)) + 1
            end = line_end(text, hit[1] + _AROUND_BYTES)
            yield start, end

    def _find_forms(self, text: bytes) -> Iterator[Found]:
        """Yield the forms around each needle in a text, whole or in part."""
        position = 0
        compared: dict[tuple[str, bytes, int], int] = {}
        """The end of each form that was compared, by its place. Needles before this end are part of it."""
        while (hit := self._needles.find(text, position)) is not None:
            start = hit[0]
            needles = (text[start : start + size] for size in self._sizes)
            places = [place for needle in needles for place in self._places.get(needle, ())]
            for kind, form, offset in places:
                key = kind, form, start - offset
                if start < compared.get(key, 0):
                    continue
                begin, end = _extend_match(text, form, start, offset)
                compared[key] = end
                is_fragment = len(form) >= LONG_BYTES and end - begin >= _FRAGMENT_BYTES
                if end - begin == len(form) or is_fragment or _is_cut(text, begin, end, form):
                    yield begin, end, kind
            position = start + 1 if places else hit[1]


def _read(text: bytes) -> Iterator[UnescapedText]:
    """Yield the text in each way in which it may be read: with or without escapes and line breaks."""
    for view in readings(text):
        yield view
        if b"\n" in view.text:
            yield _join_lines(view)


def _join_lines(view: UnescapedText) -> UnescapedText:
    """Return the text without line breaks, and without what programs add to each line of a text."""
    pieces: list[tuple[bytes, int]] = []
    for place, line in iterate_lines(view.text, 0, len(view.text)):
        message = line[prefix_end(line) :].lstrip(_LINE_START)
        pieces.append((message.rstrip(_LINE_END), place + len(line) - len(message)))
    return UnescapedText.join(view, pieces)


def _is_cut(text: bytes, begin: int, end: int, form: bytes) -> bool:
    """Return True if a span is at least half of a form, and the text is cut next to it."""
    if 2 * (end - begin) < len(form):
        return False
    if form.startswith(text[begin:end]):
        return end == len(text) or text.startswith(_CUT_BEHIND, end)
    return form.endswith(text[begin:end]) and (begin == 0 or text.endswith(_CUT_BEFORE, 0, begin))


def _extend_match(text: bytes, form: bytes, start: int, offset: int) -> tuple[int, int]:
    """Return start and end of the longest match of a form that has its byte `offset` at `start` in a text."""
    first = start - offset
    if first >= 0 and text.startswith(form, first):
        return first, first + len(form)
    before, behind = text[max(first, 0) : start], text[start : first + len(form)]
    begin = start - _common_length(before[::-1], form[:offset][::-1])
    return begin, start + _common_length(behind, form[offset:])


def _common_length(left: bytes, right: bytes) -> int:
    """Return the number of equal bytes at the start of two texts."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
