"""Dates and names of X.509 certificates in PEM, as far as they are needed: no signature is checked. Pure.

The form is that of RFC 5280, section 4.1, in DER (ITU-T X.690). What is not like this is left out.
"""

import re
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final

import msgspec

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----\s*([A-Za-z0-9+/=\s]+?)-----END CERTIFICATE-----")
_SEQUENCE: Final = 0x30
_UTC_TIME: Final = 0x17
_EXPLICIT_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_OCTETS: Final = 0x04
_DNS_NAME: Final = 0x82
_IP_ADDRESS: Final = 0x87
_ALTERNATIVE_NAMES: Final = bytes.fromhex("551d11")
_LONG: Final = 0x80
_MOST_LENGTH_BYTES: Final = 3
"""A certificate is shorter than 16 MiB."""
_CENTURY: Final = 50
"""UTCTime has two digits of the year: 50 and later are of the twentieth century."""


class Certificate(msgspec.Struct, frozen=True):
    """The validity of a certificate: its times and names."""

    line: int
    """The line at which it begins in its file."""
    start: datetime
    end: datetime
    names: tuple[str, ...] = ()
    """DNS names and addresses that it is for."""


class _DerError(ValueError):
    """Bytes that are not DER."""


def certificates(text: str) -> Iterator[Certificate]:
    """Yield the certificates in a text, in their order; one that cannot be read is left out."""
    for block in _PEM.finditer(text):
        try:
            read = _certificate(b64decode(block[1]), text.count("\n", 0, block.start()) + 1)
        except (ValueError, IndexError):
            continue
        yield read


def _certificate(data: bytes, line: int) -> Certificate:
    whole = _content(data, _SEQUENCE)
    fields = list(_elements(_content(whole, _SEQUENCE)))
    if fields[0][0] == _EXPLICIT_VERSION:
        del fields[0]
    _serial, _algorithm, _issuer, (_, validity), _subject, _key, *rest = fields
    start, end = (_time(tag, value) for tag, value in _elements(validity))
    extensions = next((value for tag, value in rest if tag == _EXTENSIONS), b"")
    return Certificate(line, start, end, tuple(_names(extensions)))


def _names(extensions: bytes) -> Iterator[str]:
    if not extensions:
        return
    for _, extension in _elements(_content(extensions, _SEQUENCE)):
        (_, kind), *parts = _elements(extension)
        if kind != _ALTERNATIVE_NAMES:
            continue
        octets = next(value for tag, value in parts if tag == _OCTETS)
        for tag, value in _elements(_content(octets, _SEQUENCE)):
            if tag == _DNS_NAME:
                yield value.decode("ascii", errors="replace")
            elif tag == _IP_ADDRESS:
                yield str(ip_address(value))


def _time(tag: int, value: bytes) -> datetime:
    text = value.decode("ascii")
    if tag == _UTC_TIME:
        text = f"{19 if int(text[:2]) >= _CENTURY else 20}{text}"
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _content(data: bytes, tag: int) -> bytes:
    """Return what is in the first element, which has this tag. Raises _DerError."""
    first, content = next(_elements(data), (None, b""))
    if first != tag:
        raise _DerError
    return content


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each element. Raises _DerError, IndexError."""
    place = 0
    while place < len(data):
        tag, length = data[place], data[place + 1]
        place += 2
        if length & _LONG:
            count = length & ~_LONG
            if not 0 < count <= _MOST_LENGTH_BYTES:
                raise _DerError
            length = int.from_bytes(data[place : place + count])
            place += count
        if place + length > len(data):
            raise _DerError
        yield tag, data[place : place + length]
        place += length
