"""Each encoding of the table: a secret in it is found, known or unknown."""

import base64
import binascii
import gzip
import html
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias
from urllib.parse import quote

import pytest

from service_record.redaction import Rules, Secret
from service_record.redaction.encodings import ENCODINGS, Escape, LineEncoding, RunEncoding
from tests.redaction.measure import redact
from tests.redaction.wrappings import _hexdump, _xxd

SECRET: Final = b"Qw7rT2yU9iP4aB3x"
TEXT: Final = b'last user: "core", password: "' + SECRET + b'", path=/var/lib; count=7'
UNKNOWN: Final = Rules()
KNOWN: Final = Rules([Secret("some", SECRET)])


_XML: Final = (b"&#%d;", b"&#x%x;")


def _lines_of(encode: Callable[[bytes], bytes], size: int) -> Callable[[bytes], list[bytes]]:
    return lambda text: [b"\n".join(encode(text[at : at + size]) for at in range(0, len(text), size))]


def _swapped(text: bytes) -> str:
    return " ".join(f"{right:02x}{left:02x}" for left, right in zip(text[::2], text[1::2], strict=True))


def _od(text: bytes) -> list[bytes]:
    text += b"\n" * (len(text) % 2)
    return [b"\n".join(f"{at:07o} {_swapped(text[at : at + 16])}".encode() for at in range(0, len(text), 16))]


def _each_byte(form: bytes) -> Callable[[bytes], bytes]:
    return lambda text: b"".join(form % byte for byte in text)


PROGRAMS: Final[Mapping[str, Callable[[bytes], Iterable[bytes]]]] = {
    "JSON": lambda text: [json.dumps(text.decode())[1:-1].encode(), _each_byte(rb"\u%04x")(text)],
    "quotes": lambda text: [re.sub(rb"([\"$`\\])", rb"\\\1", text), _each_byte(rb"\%03o")(text)],
    "\\x": lambda text: [
        re.sub(rb"[^A-Za-z0-9]", lambda sign: rb"\x%02x" % ord(sign[0]), text),
        _each_byte(rb"\x%02x")(text),
    ],
    "percent": lambda text: [
        quote(text, safe="").encode(),
        quote(text).encode(),
        _each_byte(b"%%%02X")(text),
        _each_byte(b"%%%02x")(text),
    ],
    "XML": lambda text: [html.escape(text.decode()).encode(), *(_each_byte(form)(text) for form in _XML)],
    "UTF-16": lambda text: [text.decode().encode(each) for each in ("utf-16-le", "utf-16-be")],
    "hex": lambda text: [text.hex().encode(), text.hex().upper().encode()],
    "hex, bytes apart": lambda text: [text.hex(sign).encode() for sign in ":, "],
    "base64": lambda text: [base64.b64encode(text), base64.urlsafe_b64encode(text)],
    "base32": lambda text: [base64.b32encode(text)],
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
"""Writes text in each encoding."""


encodings = pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: encoding.name)
_AnyEncoding: TypeAlias = Escape | RunEncoding | LineEncoding


def is_left(encoding: _AnyEncoding, after: bytes) -> bool:
    """Return True if a part of the secret that has half its size can be read."""
    half = len(SECRET) // 2
    parts = [SECRET[at : at + half] for at in range(half + 1)]
    return any(
        form in after
        for part in parts
        for form in {part, *PROGRAMS[encoding.name](part)}
        if len(form) >= half
    )


@encodings
def test_unknown_secret_is_found(encoding: _AnyEncoding) -> None:
    for text in PROGRAMS[encoding.name](TEXT):
        before = b"it has\n" + text + b"\nin it\n"
        after = redact(before, UNKNOWN)
        assert not is_left(encoding, after), after
        assert after.startswith(b"it has\n")
        assert after.endswith(b"\nin it\n")


@encodings
def test_known_secret_is_found(encoding: _AnyEncoding) -> None:
    for text in (SECRET, b"the sent text is " + SECRET + b" and it is right", TEXT):
        for written in PROGRAMS[encoding.name](text):
            after = redact(b"it has\n" + written + b"\nin it\n", KNOWN)
            assert not is_left(encoding, after), after


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, binascii.hexlify])
def test_known_secret_is_found_among_other_bytes(encode: Callable[[bytes], bytes]) -> None:
    for before in range(8):
        text = encode(b"\x81" * before + SECRET + b"\x82\x83")
        after = redact(b"it is " + text + b" there\n", KNOWN)
        assert not any(text[at : at + 12] in after for at in range(before * 2 + 2, len(text) - 18)), after


@encodings
def test_encoded_text_is_decoded(encoding: _AnyEncoding) -> None:
    if isinstance(encoding, RunEncoding):
        for text in PROGRAMS[encoding.name](TEXT):
            assert TEXT in encoding.decode(text) or encoding.name == "compressed"


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
