"""Finding the exact secrets of a host in a text, in every form, whole or in fragments, across lines. Pure.

RE2 looks for *anchors*, short pieces of every form, in one pass however many there are. Around each the text
is compared with the form itself, to both sides and from line to line.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from service_record.redaction import engine
from service_record.redaction.faces import Secret
from service_record.redaction.secrets import forms, is_pem, is_taken, pem_body

_ANCHOR_BYTES: Final = 12
_SHORT_BYTES: Final = 16
"""A shorter form is looked for as a whole."""
_LONG_BYTES: Final = 40
"""Of a form as long, fragments are secrets, too; of a shorter one only the whole."""
_FRAGMENT_BYTES: Final = 16
_STRIDE: Final = 24
_LONG_STRIDE: Final = 48
"""Between anchors of a form of more than 1024 bytes: every 59 bytes of it hold one. Lines of base64 have 64."""
_VERY_LONG_BYTES: Final = 1024
_RESUMED_BYTES: Final = 8
"""So much has to go on in the next line, or all that is left."""
_PREFIX_BYTES: Final = 256
"""What is looked at of a line for where a journal's prefix ends."""

_LEAST_EC_BYTES: Final = 120
_LEAST_RSA_BYTES: Final = 700
"""Of a private key in base64. Keys of curves are shorter, RSA keys of 1024 bits and more are longer."""

_WRITTEN_BREAK_BYTES: Final = 16

_INDENT: Final = b" \t>#*|\"'"
_LINE_END: Final = b" \t\r\\\"',"
_WRITTEN_BREAK: Final = rb"\\+(?:[nr]|x0[AaDd]|u000[AaDd]|01[25])|%0[AaDd]|&#1[03];"
_BREAK: Final = rb"(?:" + _WRITTEN_BREAK + rb"|[ \t\r\\\"'+,]*\n[ \t>#*|\"']*)"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text to be masked; it never holds a newline."""

    start: int
    end: int
    kind: str
    is_first: bool
    """Of the pieces of one secret, which may go over several lines."""


@dataclass(frozen=True, slots=True)
class _Form:
    kind: str
    text: bytes

    @property
    def needed(self) -> int:
        return _FRAGMENT_BYTES if len(self.text) >= _LONG_BYTES else len(self.text)


@dataclass(frozen=True, slots=True)
class _Match:
    kind: str
    pieces: Sequence[tuple[int, int]]
    size: int


class Exact:
    """Secrets that are looked for."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._anchors: dict[bytes, list[tuple[_Form, int]]] = {}
        self._short: dict[bytes, str] = {}
        self._break = engine.compiled(_BREAK + b"+")
        self._written_breaks = engine.compiled(b"(?:" + _WRITTEN_BREAK + b")+$")
        for secret in secrets:
            if is_taken(secret.value):
                self._take(secret)
        self._sizes = sorted({len(anchor) for anchor in self._anchors})
        self._pattern = self._one_pattern()

    def spans(self, text: bytes) -> list[Span]:
        """What of the text is secret, in its order, without overlaps."""
        found: list[Span] = []
        position = 0
        while hit := self._pattern and self._pattern.search(text, position):
            match = self._match(text, hit.start(), hit.end())
            position = hit.start() + 1
            if match is not None:
                found.extend(
                    Span(start, end, match.kind, number == 0)
                    for number, (start, end) in enumerate(match.pieces)
                )
        return _united(found)

    def _take(self, secret: Secret) -> None:
        body = len(pem_body(secret.value)) if is_pem(secret.value) else 0
        for text in forms(secret.value):
            form = _Form(secret.kind, text)
            if len(text) < _SHORT_BYTES:
                self._short.setdefault(text, secret.kind)
                continue
            private = _private_part(secret.value, body, len(text))
            for offset, size in _anchors(len(text), private):
                self._anchors.setdefault(text[offset : offset + size], []).append((form, offset))

    def _one_pattern(self) -> engine.Pattern | None:
        if not self._anchors and not self._short:
            return None
        # In order, so that RE2 finds what alternatives have in common.
        literals = [engine.escaped(anchor) for anchor in sorted(self._anchors)]
        wrapped = [_wrapped(text) for text in sorted(self._short)]
        return engine.compiled(b"|".join(wrapped + literals), groups=False)

    def _match(self, text: bytes, start: int, end: int) -> _Match | None:
        """The longest of the secrets that have an anchor there; RE2 names but one of them."""
        places = (
            place for size in self._sizes for place in self._anchors.get(text[start : start + size], ())
        )
        matches = (self._around(text, start, form, offset) for form, offset in places)
        whole = [match for match in matches if match is not None]
        if whole:
            return max(whole, key=lambda match: match.size)
        return None if text[start:end] in self._anchors else self._short_match(text, start, end)

    def _short_match(self, text: bytes, start: int, end: int) -> _Match | None:
        breaks = [(found.start(), found.end()) for found in self._break.finditer(text, start, end)]
        hit = text[start:end]
        if hit in self._short or not breaks:
            return _Match(self._short.get(hit, "secret"), [(start, end)], end - start)
        edges = [start, *(edge for each in breaks for edge in each), end]
        pieces = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]
        bare = b"".join(text[a:b] for a, b in pieces)
        return _Match(self._short.get(bare, "secret"), pieces, len(bare))

    def _around(self, text: bytes, start: int, form: _Form, offset: int) -> _Match | None:
        """The text around an anchor as far as it is the form."""
        pieces = [*self._before(text, start, form.text, offset), *self._after(text, start, form.text, offset)]
        merged = _merged(pieces)
        size = sum(end - begin for begin, end in merged)
        return _Match(form.kind, merged, size) if size >= form.needed else None

    def _after(self, text: bytes, start: int, form: bytes, offset: int) -> Iterator[tuple[int, int]]:
        size = _common(text, start, form, offset)
        yield start, start + size
        position, offset = start + size, offset + size
        while offset < len(form):
            broken = self._break.match(text, position)
            if broken is None:
                return
            needed = min(_RESUMED_BYTES, len(form) - offset)
            for resumed in _resumptions(text, broken.end()):
                size = _common(text, resumed, form, offset)
                if size >= needed:
                    break
            else:
                return
            yield resumed, resumed + size
            position, offset = resumed + size, offset + size

    def _before(self, text: bytes, start: int, form: bytes, offset: int) -> list[tuple[int, int]]:
        pieces: list[tuple[int, int]] = []
        size = _common_before(text, start, form, offset)
        if size:
            pieces.append((start - size, start))
        position, offset = start - size, offset - size
        while offset and (broken := self._end_before(text, position)) is not None:
            size = _common_before(text, broken, form, offset)
            if size < min(_RESUMED_BYTES, offset):
                break
            pieces.append((broken - size, broken))
            position, offset = broken - size, offset - size
        return pieces[::-1]

    def _end_before(self, text: bytes, position: int) -> int | None:
        r"""Where the previous line ends, when the text at this position begins one; `\n` may be its end."""
        written = self._written_breaks.search(text[max(0, position - _WRITTEN_BREAK_BYTES) : position])
        if written is not None:
            return position - (written.end() - written.start())
        line = text.rfind(b"\n", max(0, position - _PREFIX_BYTES), position) + 1
        head = text[line:position]
        if not line or (head.strip(_INDENT) and not head.endswith(b": ")):
            return None
        previous = max(0, line - 1 - _PREFIX_BYTES)
        return previous + len(text[previous : line - 1].rstrip(_LINE_END))


def _anchors(size: int, private: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Where the anchors of a form of this size are, in its private part, and how long each is.

    Halves of a short one: wherever a line ends in it, one is whole.
    """
    if size < _LONG_BYTES:
        half = (size + 1) // 2
        yield 0, half
        yield size - half, half
        return
    start, end = private
    stride = _LONG_STRIDE if size > _VERY_LONG_BYTES else _STRIDE
    for offset in range(start, end - _ANCHOR_BYTES, stride):
        yield offset, _ANCHOR_BYTES
    yield end - _ANCHOR_BYTES, _ANCHOR_BYTES


def _private_part(value: bytes, body: int, size: int) -> tuple[int, int]:
    """Of a form of this size of a PEM block: where it is not what a certificate publishes, too.

    The modulus of an RSA key is in its first quarter; the point of an EC key is in its second half.
    """
    if body < _LEAST_EC_BYTES or b"OPENSSH" in value[:40]:
        return 0, size
    return (3 * size // 10, size) if body >= _LEAST_RSA_BYTES else (0, 6 * size // 10)


def _wrapped(text: bytes) -> bytes:
    """A pattern of the text with the end of a line, and what indents the next, at any place in it."""
    characters = (engine.escaped(text[at : at + 1]) for at in range(len(text)))
    return (_BREAK + b"?").join(characters)


def _common(text: bytes, position: int, form: bytes, offset: int) -> int:
    """How many bytes from there on are the same in both."""
    low, high = 0, min(len(form) - offset, len(text) - position)
    while low < high:
        middle = (low + high + 1) // 2
        if text[position + low : position + middle] == form[offset + low : offset + middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_before(text: bytes, position: int, form: bytes, offset: int) -> int:
    """How many bytes up to there are the same in both."""
    low, high = 0, min(offset, position)
    while low < high:
        middle = (low + high + 1) // 2
        if text[position - middle : position - low] == form[offset - middle : offset - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _resumptions(text: bytes, position: int) -> Iterator[int]:
    """Where the text may go on behind the end of a line: at once, or behind the prefix of a journal."""
    yield position
    end = text.find(b"\n", position, position + _PREFIX_BYTES)
    end = min(position + _PREFIX_BYTES, len(text)) if end < 0 else end
    for found in (text.find(b"]: ", position, end) + 1, text.rfind(b": ", position, end)):
        if found > 0:
            yield found + 2


def _united(spans: list[Span]) -> list[Span]:
    """The same in the order of the text, those that overlap or touch as one."""
    united: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if united and span.start <= united[-1].end:
            last = united[-1]
            united[-1] = Span(last.start, max(last.end, span.end), last.kind, last.is_first)
        else:
            united.append(span)
    return united


def _merged(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in pieces:
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], end)
        elif end > start:
            merged.append((start, end))
    return merged
