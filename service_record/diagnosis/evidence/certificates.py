"""Read the dates and names of X.509 certificates in PEM. Signatures are not checked. Pure.

The format is RFC 5280, section 4.1, in DER (ITU-T X.690). Invalid certificates are skipped.
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
_MAX_LENGTH_BYTES: Final = 3
"""Length fields have at most three bytes: certificates are shorter than 16 MiB."""
_PIVOT_YEAR: Final = 50
"""UTCTime has a two-digit year: 50 to 99 are 1950 to 1999 (RFC 5280, section 4.1.2.5.1)."""


class Certificate(msgspec.Struct, frozen=True):
    """The validity period and the names of a certificate."""

    line: int
    """The line at which it begins in its file."""
    start: datetime
    end: datetime
    names: tuple[str, ...] = ()
    """Its DNS names and IP addresses."""


class _DerError(ValueError):
    """The bytes are not valid DER."""


def certificates(text: str) -> Iterator[Certificate]:
    """Yield the certificates in a text, in order. Invalid ones are skipped."""
    for block in _PEM.finditer(text):
        try:
            read = _parse_certificate(b64decode(block[1]), text.count("\n", 0, block.start()) + 1)
        except (ValueError, IndexError):
            continue
        yield read


def _parse_certificate(data: bytes, line: int) -> Certificate:
    whole = _read_content(data, _SEQUENCE)
    fields = list(_read_elements(_read_content(whole, _SEQUENCE)))
    if fields[0][0] == _EXPLICIT_VERSION:
        del fields[0]
    _serial, _algorithm, _issuer, (_, validity), _subject, _key, *rest = fields
    start, end = (_parse_time(tag, value) for tag, value in _read_elements(validity))
    extensions = next((value for tag, value in rest if tag == _EXTENSIONS), b"")
    return Certificate(line, start, end, tuple(_read_names(extensions)))


def _read_names(extensions: bytes) -> Iterator[str]:
    if not extensions:
        return
    for _, extension in _read_elements(_read_content(extensions, _SEQUENCE)):
        (_, kind), *parts = _read_elements(extension)
        if kind != _ALTERNATIVE_NAMES:
            continue
        octets = next(value for tag, value in parts if tag == _OCTETS)
        for tag, value in _read_elements(_read_content(octets, _SEQUENCE)):
            if tag == _DNS_NAME:
                yield value.decode("ascii", errors="replace")
            elif tag == _IP_ADDRESS:
                yield str(ip_address(value))


def _parse_time(tag: int, value: bytes) -> datetime:
    text = value.decode("ascii")
    if tag == _UTC_TIME:
        text = f"{19 if int(text[:2]) >= _PIVOT_YEAR else 20}{text}"
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _read_content(data: bytes, tag: int) -> bytes:
    """Return the content of the first element. Raises _DerError if it has another tag."""
    first, content = next(_read_elements(data), (None, b""))
    if first != tag:
        raise _DerError
    return content


def _read_elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each element. Raises _DerError or IndexError."""
    place = 0
    while place < len(data):
        tag, length = data[place], data[place + 1]
        place += 2
        if length & _LONG:
            count = length & ~_LONG
            if not 0 < count <= _MAX_LENGTH_BYTES:
                raise _DerError
            length = int.from_bytes(data[place : place + count])
            place += count
        if place + length > len(data):
            raise _DerError
        yield tag, data[place : place + length]
        place += length
