"""The forms in which a log may contain a known secret, and the pieces of them to search for. Pure.

Escapes and line breaks do not make further forms: `exact` reads a text without them.
"""

import base64
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from service_record.redaction.encodings import decode_code, from_base64

PEM_BEGIN: Final = rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
MIN_BYTES: Final = 8
"""A shorter secret is not searched for: ordinary text contains it by chance."""
_MIN_DIFFERENT: Final = 5
_MIN_WORD_BYTES: Final = 16
"""A shorter word or number is not searched for either."""
_MAX_BYTES: Final = 1 << 16
"""A longer secret is cut to this size. No file that is a single secret is as long."""

_SHORT_BYTES: Final = 16
"""A shorter form has only one needle."""
LONG_BYTES: Final = 40
"""A form of this size or more may be masked in part. A shorter one must be whole or cut by a limit."""
_STRIDE_BYTES: Final = 24
"""The distance between the needles of an unencoded secret. Each line of a private key contains a needle."""
_ENCODED_STRIDE_BYTES: Final = 96
_RARE_WORD: Final = re.compile(rb"[QXZJKVWYqxz7][A-Za-z0-9]{9}")
"""Matches a needle that begins with a rare byte, so that RE2 needs fewer states for a log."""
_WORD: Final = re.compile(rb"[A-Za-z0-9]{4,10}")

# Certificates contain parts of a private key, so needles are only chosen from the private part.
_MIN_RSA_BYTES: Final = 700
"""The least size of an RSA private key in base64; elliptic-curve keys are shorter."""
_RSA_PUBLIC_SHARE: Final = 0.3
_NUMBER: Final = re.compile(
    rb"\x02\x01\x01\x04(?P<size>[\x14-\x48])|\x06\x03\x2b\x65.\x04.\x04(?P<short_size>[\x20\x39])", re.DOTALL
)
"""Matches the DER bytes before the private number in an elliptic-curve key (RFC 5915, 3; RFC 8410, 7)."""
_MAX_HEADER_BYTES: Final = 48

_Part: TypeAlias = tuple[float, float]
"""The private part of a text: its start and end as shares of the text's size."""
_WHOLE: Final[_Part] = (0, 1)


def is_searchable(value: bytes) -> bool:
    """Return True if a secret can be searched for: long enough, and not just a word or number."""
    value = value.strip()
    if len(value) < MIN_BYTES or len(set(value)) < _MIN_DIFFERENT:
        return False
    return len(value) >= _MIN_WORD_BYTES or not _is_word(value)


def _is_word(value: bytes) -> bool:
    """Return True for a word or a number."""
    return value.isdigit() or (value.isalpha() and (value.islower() or value.isupper() or value.istitle()))


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a secret, without escapes and line breaks."""

    text: bytes
    needles: tuple[bytes, ...]
    """Pieces of the private part. Wherever the form is, whole or in part, one of them probably is, too."""


def forms(value: bytes) -> list[Form]:
    """Return all forms of a secret, without duplicates."""
    found: dict[bytes, Form] = {}
    for text, part, stride in _iterate_texts(value.strip()[:_MAX_BYTES]):
        if len(text) >= MIN_BYTES and text not in found:
            found[text] = Form(text, _choose_needles(text, part, stride))
    return list(found.values())


def _iterate_texts(value: bytes) -> Iterator[tuple[bytes, _Part, int]]:
    """Yield the text of each form, its private part, and the distance between its needles."""
    data, in_data, in_value = value, _WHOLE, _WHOLE
    if value.startswith(b"-----BEGIN "):
        body = _read_pem_body(value)
        data, in_data = from_base64(body), _find_private_part(body)
        in_value = _find_part_of_file(value, body, in_data)
        yield body, in_data, _STRIDE_BYTES
        yield data.hex(":").encode(), in_data, _ENCODED_STRIDE_BYTES  # as `openssl pkey -text` prints it
    else:
        yield from ((text, _WHOLE, _STRIDE_BYTES) for text in _write_raw(value))
    for text in _write_base64(value):
        yield text, in_value, _ENCODED_STRIDE_BYTES
    for digits in (data.hex(), data.hex().upper()):
        yield digits.encode(), in_data, _ENCODED_STRIDE_BYTES


def _write_raw(value: bytes) -> Iterator[bytes]:
    """Yield the forms of a secret in a text without line breaks, before and after its escapes are decoded."""
    value = b"".join(line.strip() for line in value.split(b"\n"))
    yield value
    yield from (value.replace(b"'", quote) for quote in (rb"'\''", b"'\"'\"'", b"''"))  # shells and YAML
    yield value.replace(b" ", b"+")  # forms of HTML
    codes = map(ord, value.decode(errors="surrogateescape"))
    yield b"".join(map(decode_code, codes))  # `\u00e4` becomes one byte


def _write_base64(value: bytes) -> Iterator[bytes]:
    """Yield base64 of a secret at each place in a group of four characters, as inside other text.

    Characters that also encode bits of the other text are left out.
    """
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            first, last = -(-8 * before // 6), 8 * (before + len(value)) // 6
            yield encode(bytes(before) + value)[first:last]


def _choose_needles(text: bytes, part: _Part, stride: int) -> tuple[bytes, ...]:
    """Return pieces of the private part of a form.

    If possible they have only letters and digits, which are seldom escaped, and are no words, which ordinary
    logs contain, too: each hit takes time.
    """
    start, end = math.ceil(part[0] * len(text)), int(part[1] * len(text))
    number = 1 if len(text) < _SHORT_BYTES else max((end - start) // stride, 2)
    size = (end - start) // number
    pieces = [text[begin : begin + size] for begin in range(start, end - size + 1, size)]
    words = filter(None, map(_choose_word, pieces))
    return tuple(words) or tuple(piece[:_SHORT_BYTES] for piece in pieces)


def _choose_word(piece: bytes) -> bytes:
    """Return the rarest letters and digits of a piece, or empty bytes if they are all ordinary words."""
    rare = _RARE_WORD.search(piece)
    words = [rare[0]] if rare else [word for word in _WORD.findall(piece) if not _is_word(word)]
    return max(words, key=len, default=b"")


def _read_pem_body(value: bytes) -> bytes:
    """Return the base64 of a PEM block, without BEGIN and END lines, headers and line breaks."""
    lines = [line.strip() for line in value.splitlines()]
    return b"".join(line for line in lines if line and not line.startswith(b"-----") and b":" not in line)


def _find_private_part(body: bytes) -> _Part:
    """Return the part of a private key that its certificate does not contain.

    The public modulus is in the first quarter of an RSA key. In an elliptic-curve key only one number is
    private. In other keys all counts as private.
    """
    if len(body) >= _MIN_RSA_BYTES:
        return _RSA_PUBLIC_SHARE, 1
    key = from_base64(body, is_strict=True)
    number = _NUMBER.search(key, 0, _MAX_HEADER_BYTES)
    if number is None:
        return _WHOLE
    end = number.end() + (number["size"] or number["short_size"])[0]
    return (number.end() / len(key), end / len(key)) if end <= len(key) else _WHOLE


def _find_part_of_file(value: bytes, body: bytes, part: _Part) -> _Part:
    """Return the private part of a PEM block. `part` is the private part of its base64."""
    begin, end = value.find(body[:_SHORT_BYTES]), value.rfind(b"-----END ")
    if min(begin, end) < 0:
        return _WHOLE
    start, last = ((begin + share * (end - begin)) / len(value) for share in part)
    return start, last
