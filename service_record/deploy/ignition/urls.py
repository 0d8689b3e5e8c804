"""URLs from which Ignition takes contents, including data URLs (RFC 2397)."""

import base64
import gzip
import hashlib
import re
import zlib
from io import BytesIO
from typing import Final
from urllib.parse import unquote_to_bytes

from service_record.http.proxies import split_url

_MAX_UNPACKED_BYTES: Final = 1 << 30
"""The limit against decompression bombs."""
_SCHEMES: Final = ("http", "https", "tftp", "s3", "arn", "gs")
_HASH: Final = re.compile(r"sha256-[0-9a-f]{64}|sha512-[0-9a-f]{128}", re.IGNORECASE | re.ASCII)


def encode_data_url(data: bytes) -> str:
    """Return a data URL with these bytes."""
    return f"data:;base64,{base64.b64encode(data).decode()}"


def compress(data: bytes) -> bytes:
    """Compress bytes with gzip. The result is reproducible: without time and file name."""
    packed = BytesIO()
    with gzip.GzipFile("", "wb", 9, packed, mtime=0) as stream:
        stream.write(data)
    return packed.getvalue()


def decompress(data: bytes) -> bytes:
    """Decompress gzip data. Raises ValueError if it is invalid or too large."""
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as stream:
            content = stream.read(_MAX_UNPACKED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"the data is not gzip, as its compression says: {error}") from None
    if not data or len(content) > _MAX_UNPACKED_BYTES:
        raise ValueError(f"unpacked, it has nothing, or more than {_MAX_UNPACKED_BYTES:,} bytes")
    return content


def decode_data_url(url: str) -> bytes:
    """Return the bytes in a data URL. Raises ValueError if its base64 is invalid."""
    head, _, data = url.partition(",")
    if head.endswith(";base64"):
        return base64.b64decode(data, validate=True)
    return unquote_to_bytes(data)


def check_url(url: str) -> None:
    """Raise ValueError if Ignition could not fetch from this URL."""
    is_name = url.lower().startswith("arn:") and url.isprintable()
    if not is_name and (not url.isprintable() or " " in url or split_url(url, _SCHEMES) is None):
        schemes = ", ".join(_SCHEMES)
        raise ValueError(f"no URL that Ignition fetches from; use https://HOST/PATH, or another of {schemes}")


def check_hash(text: str) -> None:
    """Raise ValueError if this is not a hash in Ignition's form."""
    if not _HASH.fullmatch(text):
        raise ValueError("no hash; one is sha512-DIGITS or sha256-DIGITS, in hexadecimal digits")


def compute_hash(data: bytes, kind: str = "sha512") -> str:
    """Return the hash of the bytes in Ignition's form."""
    return f"{kind}-{hashlib.new(kind, data).hexdigest()}"


def check_data_hash(data: bytes, text: str) -> None:
    """Raise ValueError if the bytes do not have this hash."""
    kind = text.partition("-")[0].lower()
    if compute_hash(data, kind) != text.lower():
        raise ValueError(f"the data has another {kind}, beginning {compute_hash(data, kind)[:20]}")
