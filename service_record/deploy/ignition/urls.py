"""URLs of contents, and contents in URLs (RFC 2397)."""

import base64
import binascii
import hashlib
import re
import zlib
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

MOST: Final = 1 << 30
"""Bytes that contents may have when unpacked; more is a bomb."""
_SCHEMES: Final = ("http", "https", "tftp", "s3", "arn", "gs")
_DATA: Final = re.compile(
    r"data:(?:[\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=(?:[\w.!#$&+%-]+|\"[^\"]*\"))*(?P<base64>;base64)?,(?P<data>.*)",
    re.ASCII | re.DOTALL,
)
_SIGNS: Final = re.compile(r"(?:[A-Za-z0-9\-_.!~*'();/?:@&=+$,]|%[0-9A-Fa-f]{2})*", re.ASCII)
"""The data that RFC 2397 allows: characters of URLs, and escapes."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_BASE64_SIGNS: Final = re.compile(r"[A-Za-z0-9+/=]*", re.ASCII)
_HASHES: Final = {"sha256": 64, "sha512": 128}
"""Kind -> its hexadecimal digits."""


def data_url(data: bytes) -> str:
    """Return the bytes as a URL."""
    return f"data:;base64,{base64.b64encode(data).decode()}"


def compressed(data: bytes) -> bytes:
    """Return the bytes in gzip, always the same for the same bytes: without a time and a name in them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(data) + packer.flush()
    check = zlib.crc32(data).to_bytes(4, "little") + (len(data) & 0xFFFFFFFF).to_bytes(4, "little")
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff" + body + check


def decompressed(data: bytes) -> bytes:
    """Return the content of these bytes of gzip. Raises ValueError, with the fault in them."""
    parts: list[bytes] = []
    room = MOST
    while data:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            parts.append(unpacker.decompress(data, room))
        except zlib.error:
            raise ValueError("the data is not gzip, as its compression says") from None
        room -= len(parts[-1])
        if unpacker.unconsumed_tail or room <= 0:
            raise ValueError(f"unpacked, it has more than {MOST:,} bytes")
        if not unpacker.eof:
            raise ValueError("the gzip data is cut off")
        data = unpacker.unused_data
    if not parts:
        raise ValueError("the data is not gzip, as its compression says")
    return b"".join(parts)


def data_of(url: str) -> bytes:
    """Return the bytes in a data URL; ValueError has the fault."""
    parts = _DATA.fullmatch(url)
    if parts is None:
        raise ValueError("no data URL; one is data:,TEXT or data:;base64,DATA")
    data = parts["data"]
    if parts["base64"]:
        if not _BASE64_SIGNS.fullmatch(data):
            raise ValueError("the data URL has characters that base64 has not; encode the data again")
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise ValueError(f"the base64 of the data URL is damaged: {error}") from None
    if not _SIGNS.fullmatch(data):
        raise ValueError("the data URL has characters that need escaping; write them as %20 is")
    return unquote_to_bytes(data)


def check_url(url: str) -> None:
    """Raise ValueError if Ignition could not fetch from this URL."""
    if _CONTROL.search(url):
        raise ValueError("a URL has no control characters; write them as %0A is")
    scheme = url.partition(":")[0].lower()
    if scheme == "data":
        data_of(url)
        return
    if scheme not in _SCHEMES or ":" not in url:
        schemes = ", ".join([*_SCHEMES, "data"])
        raise ValueError(f"no URL that Ignition fetches from; it takes {schemes}")
    if scheme == "arn":
        return
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"no URL: {error}") from None
    if " " in parts.netloc or not parts.hostname:
        raise ValueError("the URL names no host; write one like https://HOST/PATH")


def check_hash(text: str) -> None:
    """Raise ValueError if this is not a hash in Ignition's form."""
    kind, dash, digits = text.partition("-")
    if not dash or kind not in _HASHES:
        raise ValueError("no hash; one is sha512-DIGITS or sha256-DIGITS")
    if len(digits) != _HASHES[kind]:
        raise ValueError(f"{len(digits)} digits; a {kind} has {_HASHES[kind]}")
    if not re.fullmatch(r"[0-9a-fA-F]+", digits):
        raise ValueError(f"a {kind} has hexadecimal digits only; make it with {kind}sum")


def hash_of(data: bytes, kind: str = "sha512") -> str:
    """Return the hash of the bytes in Ignition's form."""
    return f"{kind}-{hashlib.new(kind, data).hexdigest()}"


def check_verified(data: bytes, text: str) -> None:
    """Raise ValueError if the bytes do not have this hash."""
    kind = text.partition("-")[0]
    if hash_of(data, kind) != text.lower():
        raise ValueError(f"the data has another {kind}, beginning {hash_of(data, kind)[:20]}")
