"""Find the known secrets of a host in a text: in every form, whole or in fragments, and across lines. Pure.

RE2 searches for *needles*, short pieces of all forms, in one pass. Around each needle, the text is compared
with the form in both directions, and across line breaks.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from service_record.redaction import types
from service_record.redaction.encodings import from_base64
from service_record.redaction.secrets import Form, forms, is_pem, is_searchable, pem_body
from service_record.redaction.types import (
    Found,
    MaskedSpan,
    Secret,
    merge_adjacent,
    merge_spans,
    split_at_newlines,
)

_NEEDLE_BYTES: Final = 10
_RARE: Final = (b"Q", b"X", b"Z", b"J", b"K", b"V", b"W", b"Y", b"q", b"x", b"z", b"7")
"""Needles begin with one of these rare bytes if possible, so that RE2 needs fewer states for a log."""
_SHORT_BYTES: Final = 16
"""RE2 searches for the whole of a shorter form."""
LONG_BYTES: Final = 40
"""Fragments are masked if the form has at least this size. A shorter form must be whole or cut by a limit."""
_VERY_LONG_BYTES: Final = 1024
_STRIDES: Final[Mapping[str, tuple[int, int]]] = {"raw": (24, 24), "base64": (24, 96), "der": (24, 192)}
_STRIDE: Final = (96, 512)
"""The distance between needles in bytes, for normal and very long forms. One needle finds a whole form."""
_MIN_NEEDLES: Final = 3
"""The least number of needles in a part of a form. Only 32 bytes of a P-256 key are secret."""
_MIN_RSA_BYTES: Final = 700
"""The least size of an RSA private key in base64.

Elliptic-curve keys are shorter; RSA keys of 1024 bits and more are longer.
"""
_NUMBER: Final = re.compile(
    rb"\x02\x01\x01\x04(?P<size>[\x14-\x48])|\x06\x03\x2b\x65.\x04.\x04(?P<short_size>[\x20\x39])", re.DOTALL
)
"""Matches the DER bytes before the private number in an elliptic-curve key (RFC 5915, 3; RFC 8410, 7)."""
_MAX_HEADER_BYTES: Final = 48
_LABEL: Final = b"PRIVATE KEY"
"""Distinguishes the BEGIN and END lines of a key from those of a certificate."""


def forms_with_needles(value: bytes, *, only_plain: bool) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield each form of a secret with its needles. A short form has none: it is searched for as a whole.

    Forms share needles if possible, because the total number of needles is limited.
    """
    value = value.strip()
    shared: list[bytes] = []
    for form in forms(value, only_plain=only_plain):
        if len(form.text) < _SHORT_BYTES:
            yield form.text, []
            continue
        bytes_in_form = bytes(set(form.text))  # a needle with another byte need not be searched for
        needles = [
            needle for needle in shared if not needle.translate(None, bytes_in_form) and needle in form.text
        ]
        if not needles or len(form.text) < LONG_BYTES:
            needles = _choose_needles(form, _private_parts(value, form))
            shared.extend(needles)
        yield form.text, needles


def _choose_needles(form: Form, private: list[tuple[int, int]]) -> list[bytes]:
    """Return pieces of the private parts of a form.

    A short form is halved, so that one half stays whole if a line break splits the form.
    """
    text, size = form.text, len(form.text)
    if size < LONG_BYTES:
        half = (size + 1) // 2
        return [text[:half], text[size - half :]]
    stride = _STRIDES.get(form.name, _STRIDE)[size > _VERY_LONG_BYTES]
    begins = (begin for start, end in private for begin in _needle_starts(text, start, end, stride))
    needles = list(dict.fromkeys(text[begin : begin + _NEEDLE_BYTES] for begin in begins))
    if not text.startswith(b"{"):
        return needles
    # Ordinary logs also contain the keys, hosts and addresses in a pull secret, and each hit is slow.
    return [each for each in needles if not _ORDINARY.fullmatch(each)] or needles


_ORDINARY: Final = re.compile(rb"[a-z.,:@{}\"_-]*")


def _needle_starts(text: bytes, start: int, end: int, stride: int) -> Iterator[int]:
    last = end - _NEEDLE_BYTES
    stride = min(stride, max((end - start) // _MIN_NEEDLES, 1))
    for begin in range(start, last, stride):
        yield _rarest_position(text, begin, min(begin + stride, last))


def _rarest_position(text: bytes, begin: int, end: int) -> int:
    """Return the position of the rarest character in a part of a text; `begin` if it has no rare one."""
    places = (text.find(character, begin, end) for character in _RARE)
    return next((place for place in places if place >= 0), begin)


def _private_parts(value: bytes, form: Form) -> list[tuple[int, int]]:
    """Return the spans of a form that do not also occur in the certificate of the key."""
    size = len(form.text)
    body = pem_body(value) if is_pem(value) else b""
    if not body:
        return [(0, size)]
    first, last = _private_characters(value, body)
    if form.is_body:
        return [(first * size // len(body), last * size // len(body))]
    begin, end, label = value.find(body[:_NEEDLE_BYTES]), value.rfind(b"-----END "), value.rfind(_LABEL)
    span = end - begin  # includes line breaks
    if min(begin, end, label) < 0:
        return [(0, size)]
    parts = [
        (begin + first * span // len(body), begin + last * span // len(body)),
        (label, label + len(_LABEL)),
    ]
    return [(start * size // len(value), after * size // len(value)) for start, after in parts]


def _private_characters(value: bytes, body: bytes) -> tuple[int, int]:
    """Return the span of a private key's base64 that its certificate does not contain.

    The public modulus is in the first quarter of an RSA key. In an elliptic-curve key only one number is
    private. In other keys all of the base64 counts as private.
    """
    size = len(body.rstrip(b"="))
    if value.startswith(b"-----BEGIN OPENSSH "):
        return 0, size
    if len(body) >= _MIN_RSA_BYTES:
        return 3 * size // 10, size
    key = from_base64(body, is_strict=True)
    number = _NUMBER.search(key, 0, _MAX_HEADER_BYTES)
    if number is None:
        return 0, size
    end = number.end() + (number["size"] or number["short_size"])[0]
    if end > len(key):
        return 0, size
    return (8 * number.end() + 5) // 6, 8 * end // 6


_FRAGMENT_BYTES: Final = 16
_MANY_NEEDLES: Final = 8_000
"""Soft limit. Further secrets are searched for only unchanged and in base64."""
_MAX_NEEDLES: Final = 16_000
"""Hard limit. RE2 exceeds its memory limit beyond it."""
_RESUMED_BYTES: Final = 8
"""After a line break, at least this much of the form must follow, or all of its rest."""
_PREFIX_BYTES: Final = 256
"""How far before a form a line break is searched for."""
_GAP_BYTES: Final = 1 << 13
"""The limit of text between two lines of a secret: prefixes, journal fields, other programs' lines."""

_WRITTEN_BREAK_BYTES: Final = 16

_CUT_BEHIND: Final = (b"\n", b"\r", b'"', b"'", b"\\", "\u2026".encode())
_CUT_BEFORE: Final = (b"\n", b'"', b"'", "\u2026".encode())
"""A text may be cut next to one of these: a line break, a quote or an ellipsis."""

_WRITTEN_BREAK: Final = rb"\\+(?:[nr]|x0[AaDd]|u000[AaDd]|01[25])|%0[AaDd]|&#1[03];"
_BREAK: Final = rb"(?:" + _WRITTEN_BREAK + rb"|[ \t\r\\\"'+,]*\n[ \t>#*|\"']*)"


@dataclass(frozen=True, slots=True)
class _SecretForm:
    kind: str
    text: bytes

    @property
    def min_bytes(self) -> int:
        """The least size of a fragment that is masked."""
        return _FRAGMENT_BYTES if len(self.text) >= LONG_BYTES else len(self.text)


@dataclass(frozen=True, slots=True)
class _Match:
    kind: str
    pieces: Sequence[tuple[int, int]]
    is_whole: bool
    """True if the match is the complete form in one piece."""

    @property
    def size(self) -> int:
        return sum(end - begin for begin, end in self.pieces)


class Exact:
    """Finds secrets by their known values."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._needles: dict[bytes, list[tuple[_SecretForm, int]]] = {}
        self._short: dict[bytes, str] = {}
        self._break = types.compile_pattern(_BREAK + b"+")
        self._written_breaks = types.compile_pattern(b"(?:" + _WRITTEN_BREAK + b")+$")
        self.left_out: Counter[str] = Counter()
        """The number of secrets beyond the limit, by kind. They are not searched for."""
        for secret in secrets:
            if not is_searchable(secret.value):
                continue
            if len(self._needles) >= _MAX_NEEDLES:
                self.left_out[secret.kind] += 1
            else:
                self._add(secret, only_plain=len(self._needles) >= _MANY_NEEDLES)
        self._sizes = sorted({len(needle) for needle in self._needles})
        self._pattern = self._compile_pattern()

    def spans(self, text: bytes) -> list[MaskedSpan]:
        """Return the spans of the secrets in a text, sorted and disjoint."""
        spans: list[MaskedSpan] = []
        position = 0
        while hit := self._pattern and self._pattern.search(text, position):
            position = hit.start() + 1
            for match in self._matches(text, hit.start(), hit.end()):
                position = match.pieces[0][1] if match.is_whole else position
                pieces = [piece for each in match.pieces for piece in split_at_newlines(text, *each)]
                spans.extend(
                    MaskedSpan(start, end, match.kind, number == 0)
                    for number, (start, end) in enumerate(pieces)
                )
        return merge_spans(spans)

    def find(self, text: bytes) -> list[Found]:
        """Return the secrets in a text. A `+` before a kind marks a further piece of one secret."""
        return [
            (span.start, span.end, span.kind if span.is_first else f"+{span.kind}")
            for span in self.spans(text)
        ]

    def _add(self, secret: Secret, *, only_plain: bool) -> None:
        for text, needles in forms_with_needles(secret.value, only_plain=only_plain):
            if not needles:
                self._short.setdefault(text, secret.kind)
            form = _SecretForm(secret.kind, text)
            for needle in needles:
                self._needles.setdefault(needle, []).append((form, text.find(needle)))

    def _compile_pattern(self) -> types.Pattern | None:
        if not self._needles and not self._short:
            return None
        # Sorted, so that RE2 merges common prefixes of the alternatives.
        literals = [types.escape_literal(needle) for needle in sorted(self._needles)]
        wrapped = [_wrapped_pattern(text) for text in sorted(self._short)]
        return types.compile_pattern(b"|".join(wrapped + literals), groups=False)

    def _matches(self, text: bytes, start: int, end: int) -> list[_Match]:
        """Return the longest complete form with a needle at `start`, or else the fragments of all forms.

        RE2 reports only one needle, but several forms may share it or have another needle at this place.
        """
        places = (
            place for size in self._sizes for place in self._needles.get(text[start : start + size], ())
        )
        around = (self._match_around(text, start, form, offset) for form, offset in places)
        matches = [match for match in around if match is not None]
        if matches:
            best = max(matches, key=lambda match: (match.is_whole, match.size))
            return [best] if best.is_whole else matches
        return [] if text[start:end] in self._needles else [self._short_match(text, start, end)]

    def _short_match(self, text: bytes, start: int, end: int) -> _Match:
        kind = self._short.get(text[start:end])
        if kind is not None:
            return _Match(kind, [(start, end)], is_whole=True)
        breaks = self._break.finditer(text, start, end)
        edges = [start, *(edge for each in breaks for edge in each.span()), end]
        pieces = list(zip(edges[::2], edges[1::2], strict=True))
        bare = b"".join(text[a:b] for a, b in pieces)
        return _Match(self._short.get(bare, "secret"), pieces, is_whole=False)

    def _match_around(self, text: bytes, start: int, form: _SecretForm, offset: int) -> _Match | None:
        """Return the pieces of text around a needle that equal the form; None if they are too short."""
        begin, size = start - offset, len(form.text)
        if begin >= 0 and text[begin : begin + size] == form.text:
            return _Match(form.kind, [(begin, begin + size)], is_whole=True)
        if form.min_bytes == size and not _may_break(text[max(0, begin - _PREFIX_BYTES) : start + size]):
            return _match_cut_text(text, start, form, offset)
        pieces = [
            *self._pieces_before(text, start, form.text, offset),
            *self._pieces_after(text, start, form.text, offset),
        ]
        match = _Match(form.kind, merge_adjacent(pieces), is_whole=False)
        return match if match.size >= form.min_bytes else _match_cut_text(text, start, form, offset)

    def _pieces_after(self, text: bytes, start: int, form: bytes, offset: int) -> Iterator[tuple[int, int]]:
        size = _common_length(text, start, form, offset)
        yield start, start + size
        position, offset = start + size, offset + size
        while offset < len(form):
            needed = min(_RESUMED_BYTES, len(form) - offset)
            for resumed in self._resumptions(text, position, form[offset:]):
                size = _common_length(text, resumed, form, offset)
                if size >= needed:
                    break
            else:
                return
            yield resumed, resumed + size
            position, offset = resumed + size, offset + size

    def _resumptions(self, text: bytes, position: int, rest: bytes) -> Iterator[int]:
        """Yield the positions where a form may continue: after a line break, or after a line's prefix."""
        broken = self._break.match(text, position)
        if broken is not None:
            yield broken.end()
        piece, limit = rest[:_RESUMED_BYTES], position + _GAP_BYTES
        place = text.find(piece, position, limit)
        while place >= 0:
            if _is_piece(text, place, piece) and _has_break(text, position, place):
                yield place
                return
            place = text.find(piece, place + 1, limit)

    def _pieces_before(self, text: bytes, start: int, form: bytes, offset: int) -> list[tuple[int, int]]:
        pieces: list[tuple[int, int]] = []
        size = _common_length_before(text, start, form, offset)
        if size:
            pieces.append((start - size, start))
        position, offset = start - size, offset - size
        while offset and (broken := self._end_before(text, position, form, offset)) is not None:
            size = _common_length_before(text, broken, form, offset)
            if size < min(_RESUMED_BYTES, offset):
                break
            pieces.append((broken - size, broken))
            position, offset = broken - size, offset - size
        return pieces[::-1]

    def _end_before(self, text: bytes, position: int, form: bytes, offset: int) -> int | None:
        """Return the end of the form's part in the line above, or None. The line break may be escaped."""
        piece = form[max(0, offset - _RESUMED_BYTES) : offset]
        first = max(0, position - _GAP_BYTES)
        written = self._written_breaks.search(text[max(0, position - _WRITTEN_BREAK_BYTES) : position])
        if written is not None and text.endswith(piece, first, position - len(written.group())):
            return position - len(written.group())
        place = text.rfind(piece, first, position)
        while place >= 0:
            end = place + len(piece)
            if _is_piece(text, place, piece) and _has_break(text, end, position):
                return end
            place = text.rfind(piece, first, end - 1)
        return None


def _match_cut_text(text: bytes, start: int, form: _SecretForm, offset: int) -> _Match | None:
    """Return a fragment of at least half of a form, if the text is cut at its start or end; else None."""
    begin = start - _common_length_before(text, start, form.text, offset)
    end = start + _common_length(text, start, form.text, offset)
    is_head = begin == start - offset and (end == len(text) or text.startswith(_CUT_BEHIND, end))
    is_tail = end == start - offset + len(form.text) and (begin == 0 or text.endswith(_CUT_BEFORE, 0, begin))
    if not (is_head or is_tail) or 2 * (end - begin) < len(form.text):
        return None
    return _Match(form.kind, [(begin, end)], is_whole=False)


def _wrapped_pattern(text: bytes) -> bytes:
    """Return a pattern of the text that allows a line break and an indent at any place in it."""
    characters = (types.escape_literal(text[at : at + 1]) for at in range(len(text)))
    return (_BREAK + b"?").join(characters)


def _may_break(text: bytes) -> bool:
    return any(sign in text for sign in (b"\n", b"\r", b"\\", b"%0", b"&#1"))


def _common_length(text: bytes, position: int, form: bytes, offset: int) -> int:
    """Return the number of equal bytes in `text` from `position` on and in `form` from `offset` on."""
    low, high = 0, len(form) - offset
    while low < high:
        middle = (low + high + 1) // 2
        if text[position + low : position + middle] == form[offset + low : offset + middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_length_before(text: bytes, position: int, form: bytes, offset: int) -> int:
    """Return the number of equal bytes in `text` before `position` and in `form` before `offset`."""
    low, high = 0, min(offset, position)
    while low < high:
        middle = (low + high + 1) // 2
        if text[position - middle : position - low] == form[offset - middle : offset - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _is_piece(text: bytes, place: int, piece: bytes) -> bool:
    """Return True if a piece of a form counts at this place. A short piece must consist of whole words."""
    if len(piece) == _RESUMED_BYTES:
        return True
    return not (_is_inside(text, place) or _is_inside(text, place + len(piece)))


def _is_inside(text: bytes, place: int) -> bool:
    """Return True if a position is inside a word."""
    return text[place - 1 : place].isalnum() and text[place : place + 1].isalnum()


def _has_break(text: bytes, start: int, end: int) -> bool:
    return text.find(b"\n", start, end) >= 0 or _may_break(text[start:end])
