"""Each encoding of the table: a secret in it is found, known or unknown."""

import base64
import binascii
import gzip
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import pytest

from service_record.redaction import Rules, Secret
from service_record.redaction.encodings import ENCODINGS, Encoding, Escape, LineEncoding, RunEncoding
from tests.redaction.measure import redact
from tests.redaction.wrappings import _hexdump, _xxd

SECRET: Final = b"Qw7rT2yU9iP4aB3x"
TEXT: Final = b'last user: "core", password: "' + SECRET + b'", path=/var/lib; count=7'
UNKNOWN: Final = Rules()
KNOWN: Final = Rules([Secret("some", SECRET)])


def _lines_of(encode: Callable[[bytes], bytes], size: int) -> Callable[[bytes], list[bytes]]:
    return lambda text: [b"\n".join(encode(text[at : at + size]) for at in range(0, len(text), size))]


def _swapped(text: bytes) -> str:
    return " ".join(f"{right:02x}{left:02x}" for left, right in zip(text[::2], text[1::2], strict=True))


def _od(text: bytes) -> list[bytes]:
    text += b"\n" * (len(text) % 2)
    return [b"\n".join(f"{at:07o} {_swapped(text[at : at + 16])}".encode() for at in range(0, len(text), 16))]


PROGRAMS: Final[Mapping[str, Callable[[bytes], Iterable[bytes]]]] = {
    "hexdump -C": lambda text: [_hexdump(text.decode()).encode()],
    "xxd": lambda text: [_xxd(text.decode()).encode()],
    "od -x": _od,
    "xxd -p": _lines_of(binascii.hexlify, 30),
    "base64 in lines": lambda text: [base64.encodebytes(text * 2)],
    "quoted-printable": lambda text: [binascii.b2a_qp(text * 2)],
    "uuencode in lines": lambda text: [
        b"begin 644 x\n" + _lines_of(binascii.b2a_uu, 45)(text)[0] + b"`\nend"
    ],
    "compressed": lambda text: [base64.b64encode(pack(text)) for pack in (gzip.compress, zlib.compress)],
    "syslog": lambda text: [text.replace(b" ", b"#011")],
    "colour": lambda text: [text.replace(b'"', b"\x1b[31m")],
    "colour, cat -v": lambda text: [text.replace(b'"', b"^[[31m")],
}
"""Writes text in the encodings that have more than the encoded text: offsets, line breaks, marks."""
UNREADABLE: Final = frozenset({"base85", "ascii85", "uuencode"})
"""Nothing tells these from other text in one line, so only known secrets are found in it."""


def written(encoding: Encoding, text: bytes) -> list[bytes]:
    if encoding.name in PROGRAMS:
        return list(PROGRAMS[encoding.name](text))
    return [*encoding.encode(text), *(encoding.write(text) if isinstance(encoding, Escape) else ())]


def is_left(encoding: Encoding, after: bytes) -> bool:
    """Return True if a part of the secret that has half its size can be read."""
    half = len(SECRET) // 2
    parts = [SECRET[at : at + half] for at in range(half + 1)]
    return any(form in after for part in parts for form in {part, *encoding.write(part)} if len(form) >= half)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: encoding.name)
def test_unknown_secret_is_found(encoding: Encoding) -> None:
    texts = written(encoding, TEXT)
    assert texts
    for text in texts:
        before = b"it has\n" + text + b"\nin it\n"
        after = redact(before, UNKNOWN)
        assert encoding.name in UNREADABLE or not is_left(encoding, after), after
        assert after.startswith(b"it has\n")
        assert after.endswith(b"\nin it\n")


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: encoding.name)
def test_known_secret_is_found(encoding: Encoding) -> None:
    alone = [b"it is " + text + b" there\n" for text in encoding.write(SECRET)]
    inside = [
        b"it is " + text + b" there\n"
        for before in range(8 if isinstance(encoding, RunEncoding) and encoding.bits else 0)
        for text in encoding.encode(b"\x81" * before + SECRET + b"\x82\x83")
    ]
    whole = written(encoding, TEXT) if encoding.name not in UNREADABLE else []
    for text in (*alone, *inside, *(b"it has\n" + text for text in whole)):
        after = redact(text, KNOWN)
        assert not is_left(encoding, after), after


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: encoding.name)
def test_encoded_text_is_decoded(encoding: Encoding) -> None:
    """Both directions of a row agree."""
    if isinstance(encoding, RunEncoding):
        for text in written(encoding, TEXT):
            assert TEXT in encoding.decode(text) or encoding.name == "compressed"
    elif isinstance(encoding, Escape):
        for form in encoding.any_byte:
            assert b"".join(encoding.decode(form % byte) for byte in TEXT) == TEXT
    elif isinstance(encoding, LineEncoding):
        for text in encoding.encode(b"plain text"):
            assert encoding.decode(text)


@pytest.mark.parametrize("text", [b"password%253DQw7rT2yU9iP4aB3x", b"password%25253DQw7rT2yU9iP4aB3x"])
def test_text_that_is_escaped_again_is_read(text: bytes) -> None:
    assert b"rT2yU9" not in redact(b"GET /x?y=" + text + b"\n", UNKNOWN)


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(TEXT.decode().encode("utf-16-le")),
        base64.b64encode(TEXT.decode().encode("utf-16-be")),
        TEXT.decode().encode("utf-16-le").hex().encode(),
        gzip.compress(TEXT).hex().encode(),
        base64.b64encode(base64.b32encode(TEXT)),
        base64.b32encode(TEXT).hex().encode(),
        base64.b64encode(base64.b64encode(zlib.compress(TEXT))),
    ],
)
def test_encodings_are_nested(text: bytes) -> None:
    assert text not in redact(b"powershell -EncodedCommand " + text + b"\n", UNKNOWN)
    assert text not in redact(b"it is " + text + b" there\n", UNKNOWN)
