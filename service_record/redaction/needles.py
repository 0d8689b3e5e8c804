"""The short pieces of a secret that a text is searched for: few, telling, and in nothing public. Pure."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Final

from service_record.redaction.secrets import PEM_BODY_FAMILY, Form, forms, is_pem, pem_body

_ANCHOR_BYTES: Final = 10
_RARE: Final = (b"Q", b"X", b"Z", b"J", b"K", b"V", b"W", b"Y", b"q", b"x", b"z", b"7")
"""What anchors begin with where they can: RE2 has the less to remember the less of a log may begin one."""
_SHORT_BYTES: Final = 16
"""A shorter form is looked for as a whole."""
LONG_BYTES: Final = 40
"""Of a form as long, fragments are secrets, too; of a shorter one only the whole."""
_VERY_LONG_BYTES: Final = 1024
_STRIDES: Final[Mapping[str, tuple[int, int]]] = {"raw": (24, 48), "base64": (24, 96)}
_STRIDE: Final = (96, 512)
"""One anchor begins in every so many bytes of a form, and of a very long form. One finds all of the form."""
_LEAST_PIECES: Final = 3
"""A part in which fewer would begin gets as many: of a key of P-256 only 32 bytes are secret."""
_LEAST_RSA_BYTES: Final = 700
"""Of a private key in base64. Keys of curves are shorter, RSA keys of 1024 bits and more are longer."""
_NUMBER: Final = re.compile(
    rb"\x02\x01\x01\x04(?P<size>[\x14-\x48])|\x06\x03\x2b\x65.\x04.\x04(?P<short_size>[\x20\x39])", re.DOTALL
)
"""What stands in DER before the number that is the key of a curve; see RFC 5915, 3, and RFC 8410, 7."""
_MOST_BEFORE_NUMBER: Final = 48
_LABEL: Final = b"PRIVATE KEY"
"""What the lines around a key have that those around a certificate have not."""


def anchored_forms(value: bytes, *, only_plain: bool) -> Iterator[tuple[bytes, list[bytes]]]:
    """Every form of a secret with its anchors; none of a short form, which is looked for as a whole.

    Forms of a family share their anchors where they can.
    """
    value = value.strip()
    families: dict[int, list[bytes]] = {}
    for form in forms(value, only_plain=only_plain):
        if len(form.text) < _SHORT_BYTES:
            yield form.text, []
            continue
        shared = families.setdefault(form.family, [])
        anchors = [anchor for anchor in shared if anchor in form.text]
        if not anchors or len(form.text) < LONG_BYTES:
            anchors = _needles_in(form, _private_parts(value, form))
            shared.extend(anchors)
        yield form.text, anchors


def _needles_in(form: Form, private: list[tuple[int, int]]) -> list[bytes]:
    """Pieces of the private parts of a form.

    Halves of a short one: wherever a line ends in it, one is whole.
    """
    text, size = form.text, len(form.text)
    if size < LONG_BYTES:
        half = (size + 1) // 2
        return [text[:half], text[size - half :]]
    stride = _STRIDES.get(form.name, _STRIDE)[size > _VERY_LONG_BYTES]
    begins = (begin for start, end in private for begin in _begins(text, start, end, stride))
    return list(dict.fromkeys(text[begin : begin + _ANCHOR_BYTES] for begin in begins))


def _begins(text: bytes, start: int, end: int, stride: int) -> Iterator[int]:
    last = end - _ANCHOR_BYTES
    stride = min(stride, max((end - start) // _LEAST_PIECES, 1))
    for begin in range(start, last, stride):
        yield _rarest(text, begin, min(begin + stride, last))


def _rarest(text: bytes, begin: int, end: int) -> int:
    """Where in a part of a text the least usual character is."""
    found = (text.find(character, begin, end) for character in _RARE)
    return next((place for place in found if place >= 0), begin)


def _private_parts(value: bytes, form: Form) -> list[tuple[int, int]]:
    """Of a form: what a certificate does not have, too."""
    size = len(form.text)
    body = pem_body(value) if is_pem(value) else b""
    if not body:
        return [(0, size)]
    first, last = _private_characters(value, body)
    if form.family == PEM_BODY_FAMILY:
        return [(first * size // len(body), last * size // len(body))]
    begin, end, label = value.find(body[:_ANCHOR_BYTES]), value.rfind(b"-----END "), value.rfind(_LABEL)
    span = end - begin  # with the ends of lines in it
    if min(begin, end, label) < 0:
        return [(0, size)]
    parts = [
        (begin + first * span // len(body), begin + last * span // len(body)),
        (label, label + len(_LABEL)),
    ]
    return [(start * size // len(value), after * size // len(value)) for start, after in parts]


def _private_characters(value: bytes, body: bytes) -> tuple[int, int]:
    """Which of the base64 of a private key are not published with it.

    The modulus of an RSA key is in its first quarter; of the key of a curve only one number is not public.
    """
    size = len(body.rstrip(b"="))
    if b"OPENSSH" in value[:40]:
        return 0, size
    if len(body) >= _LEAST_RSA_BYTES:
        return 3 * size // 10, size
    key = _decoded(body)
    number = _NUMBER.search(key, 0, _MOST_BEFORE_NUMBER)
    end = number.end() + (number["size"] or number["short_size"])[0] if number else len(key) + 1
    if number is None or end > len(key):
        return 0, size
    return (8 * number.end() + 5) // 6, 8 * end // 6


def _decoded(body: bytes) -> bytes:
    """The DER of a PEM block; empty where it is none."""
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error:
        return b""
