"""The short pieces of a secret that a text is searched for: few, telling, and in nothing public. Pure."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from service_record.redaction.secrets import Form, forms, is_pem, pem_body

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
_LEAST_EC_BYTES: Final = 120
_LEAST_RSA_BYTES: Final = 700
"""Of a private key in base64. Keys of curves are shorter, RSA keys of 1024 bits and more are longer."""
_EC_PUBLIC_KEY: Final = bytes.fromhex("06072a8648ce3d0201")
"""The identifier with which the algorithm of a key of a curve begins in DER; see RFC 5480, 2.1.1."""


def anchored_forms(value: bytes, *, only_plain: bool) -> Iterator[tuple[bytes, list[bytes]]]:
    """Every form of a secret with its anchors; none of a short form, which is looked for as a whole.

    Forms of a family share their anchors where they can.
    """
    body = pem_body(value) if is_pem(value) else b""
    public = _forms_of(_algorithm(body))
    families: dict[int, list[bytes]] = {}
    for form in forms(value, only_plain=only_plain):
        if len(form.text) < _SHORT_BYTES:
            yield form.text, []
            continue
        shared = families.setdefault(form.family, [])
        anchors = [anchor for anchor in shared if anchor in form.text]
        if not anchors or len(form.text) < LONG_BYTES:
            anchors = _anchors(form, _private_part(value, len(body), len(form.text)), public)
            shared.extend(anchors)
        yield form.text, anchors


def _anchors(form: Form, private: tuple[int, int], public: tuple[bytes, ...]) -> list[bytes]:
    """Pieces of a form that are not in what is public, too.

    Halves of a short one: wherever a line ends in it, one is whole.
    """
    text, size = form.text, len(form.text)
    if size < LONG_BYTES:
        half = (size + 1) // 2
        return [text[:half], text[size - half :]]
    start, end = private
    stride = _STRIDES.get(form.name, _STRIDE)[size > _VERY_LONG_BYTES]
    last = end - _ANCHOR_BYTES
    begins = (
        _rarest(text, begin, min(begin + stride, after))
        for first, after in _outside(text, start, last, public)
        for begin in range(first, after, stride)
    )
    return list(dict.fromkeys(text[begin : begin + _ANCHOR_BYTES] for begin in begins))


def _outside(text: bytes, start: int, last: int, public: tuple[bytes, ...]) -> list[tuple[int, int]]:
    """Where anchors may begin, so that none is all in what is public."""
    found = max((each for each in public if each in text), key=len, default=None)
    if found is None:
        return [(start, last)]
    place = text.index(found)
    return [(start, min(place, last)), (max(place + len(found) - _ANCHOR_BYTES + 1, start), last)]


def _rarest(text: bytes, begin: int, end: int) -> int:
    """Where in a part of a text the least usual character is."""
    found = (text.find(character, begin, end) for character in _RARE)
    return next((place for place in found if place >= 0), begin)


def _private_part(value: bytes, body: int, size: int) -> tuple[int, int]:
    """Of a form of this size of a PEM block: where it is not what a certificate publishes, too.

    The modulus of an RSA key is in its first quarter; the point of an EC key is in its second half.
    """
    if body < _LEAST_EC_BYTES or b"OPENSSH" in value[:40]:
        return 0, size
    return (3 * size // 10, size) if body >= _LEAST_RSA_BYTES else (0, 9 * size // 20)


def _algorithm(body: bytes) -> bytes:
    """What a private key as of PKCS #8 says of its curve, in base64; its certificate may say it in the same.

    Empty where it says nothing, or is no base64.
    """
    if not _LEAST_EC_BYTES <= len(body) < _LEAST_RSA_BYTES:
        return b""
    try:
        key = base64.b64decode(body, validate=True)
    except binascii.Error:
        return b""
    begin = key.find(_EC_PUBLIC_KEY) - 2  # behind a tag and the length of all that follows
    if begin < 0:
        return b""
    end = begin + 2 + key[begin + 1]
    return body[(8 * begin + 5) // 6 : 8 * end // 6]


@cache
def _forms_of(public: bytes) -> tuple[bytes, ...]:
    return tuple(form.text for form in forms(public)) if public else ()
