"""Dates and names of certificates in PEM: read from their bytes, and what is damaged is left out."""

from base64 import encodebytes
from datetime import UTC, datetime

import pytest

from service_record.diagnosis.evidence.certificates import certificates

UTC_TIME, GENERAL_TIME = 0x17, 0x18
START, END = b"260302090000Z", b"20270302090000Z"


def der(tag: int, *contents: bytes) -> bytes:
    """One element of DER."""
    content = b"".join(contents)
    if len(content) < 0x80:
        return bytes([tag, len(content)]) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(length)]) + length + content


def names(*of: tuple[int, bytes]) -> bytes:
    """The extensions of a certificate, with these alternative names behind another extension."""
    usage = der(0x30, der(0x06, bytes.fromhex("551d0f")), der(0x04, b"\x03"))
    octets = der(0x04, der(0x30, *(der(tag, value) for tag, value in of)))
    return der(
        0xA3, der(0x30, usage, der(0x30, der(0x06, bytes.fromhex("551d11")), der(0x01, b"\xff"), octets))
    )


def certificate(
    start: bytes = der(UTC_TIME, START),
    end: bytes = der(GENERAL_TIME, END),
    *rest: bytes,
    version: bytes = der(0xA0, der(0x02, b"\x02")),
    key: int = 9,
) -> bytes:
    algorithm = issuer = subject = der(0x30, b"")
    validity = der(0x30, start, end)
    fields = (version, der(0x02, b"\x01"), algorithm, issuer, validity, subject, der(0x30, b"k" * key), *rest)
    return der(0x30, der(0x30, *fields), algorithm, der(0x03, b"\x00"))


def pem(data: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{encodebytes(data).decode()}-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("key", [9, 200, 300, 70_000], ids=str)
def test_certificate_of_any_size_has_dates_and_names(key: int) -> None:
    alternative = names((0x82, b"api.lab"), (0x87, bytes([192, 0, 2, 5])), (0x81, b"mail"), (0x87, bytes(16)))
    unlike = certificate(
        der(UTC_TIME, START), der(UTC_TIME, START), der(0x81, b"id"), alternative, version=b"", key=key
    )
    text = f"x\n{pem(certificate(key=key))}\n{pem(unlike)}"
    first, second = certificates(text)
    assert (first.line, first.names, first.start.year, first.end.year) == (2, (), 2026, 2027)
    assert first.start == datetime(2026, 3, 2, 9, tzinfo=UTC)
    assert text.splitlines()[second.line - 1] == "-----BEGIN CERTIFICATE-----"
    assert (second.end, second.names) == (first.start, ("api.lab", "192.0.2.5", "::"))


@pytest.mark.parametrize(("digits", "year"), [(b"00", 2000), (b"49", 2049), (b"50", 1950), (b"99", 1999)])
def test_two_digit_year_is_from_1950_to_2049(digits: bytes, year: int) -> None:
    (read,) = certificates(pem(certificate(der(UTC_TIME, digits + START[2:]))))
    assert read.start.year == year


def test_certificate_after_a_damaged_one_is_read() -> None:
    good = certificate()
    damaged = [
        *(good[:end] for end in range(len(good))),
        b"\x31" + good[1:],
        certificate(der(UTC_TIME, b"soon")),
        certificate(b""),
        der(0x30, b"\x30\x80"),
        der(0x30, b"\x30\x84\x00\x00\x00\x00"),
        certificate(der(UTC_TIME, START), der(UTC_TIME, START), names((0x87, b"abc"))),
    ]
    text = "".join(map(pem, [*damaged, good]))
    assert [text.splitlines()[one.line - 1 :] for one in certificates(text)] == [pem(good).splitlines()]
