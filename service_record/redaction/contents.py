"""The secrets in a file that is known to hold some: by their shapes, also within what is encoded. Pure."""

import base64
import binascii
import contextlib
import json
import urllib.parse
import zlib
from collections.abc import Iterator
from typing import Any, Final

from service_record.redaction import engine
from service_record.redaction.faces import Secret
from service_record.redaction.patterns import PEM_BEGIN
from service_record.redaction.rules import Rules

_MOST_LAYERS: Final = 4
"""A MachineConfig holds data URLs, of manifests, that hold Secrets, whose values are base64."""
_UNPACKED_BYTES: Final = 8 << 20
_MOST_PRINTED: Final = 4096
_PEM: Final = engine.compiled(
    rb"(?s)(" + PEM_BEGIN + rb".*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)"
)
_DATA_URL: Final = "data-url"
"""Masked wherever it stands, but no secret by itself: it may hold the name of the host."""
_CREDENTIALS: Final = frozenset({"registry-auth", "authorization"})
"""Kinds of what is base64 of `user:password`."""
_GZIP: Final = b"\x1f\x8b"


class Contents:
    """Reads secrets out of files; makes its patterns once."""

    def __init__(self) -> None:
        self._rules = Rules()

    def secrets(self, text: bytes, layers: int = _MOST_LAYERS) -> Iterator[Secret]:
        """Every secret in a text: as it stands there, and decoded. Some may come several times."""
        for found in _PEM.finditer(text):
            yield Secret("private-key", found.group(1))
        for secret in self._rules.values(text):
            if secret.kind != _DATA_URL:
                yield secret
                yield from (Secret(secret.kind, bare) for bare in _bare(secret.value))
            if layers:
                yield from self._decoded(secret, layers - 1)
        if layers:
            for inner in _inner_texts(text):
                yield from self.secrets(inner, layers - 1)

    def _decoded(self, secret: Secret, layers: int) -> Iterator[Secret]:
        decoded = _from_base64(secret.value)
        if not decoded:
            return
        if _is_line(decoded) and secret.kind != _DATA_URL:
            yield Secret(secret.kind, decoded.strip())
        if _is_line(decoded) and secret.kind in _CREDENTIALS:
            yield Secret(secret.kind, decoded.strip().partition(b":")[2])
        yield from self.secrets(decoded, layers)


def _bare(value: bytes) -> Iterator[bytes]:
    """What a value is without the escapes of JSON or of a URL, in which it may stand in its file."""
    if b"\\" in value:
        with contextlib.suppress(ValueError):
            yield str(json.loads(b'"' + value + b'"')).encode(errors="surrogatepass")
    if b"%" in value:
        yield urllib.parse.unquote_to_bytes(value)


def _inner_texts(text: bytes) -> Iterator[bytes]:
    """What is written in a text in another way: JSON's strings that hold more than a word, and data URLs."""
    if text.lstrip()[:1] in {b"{", b"["}:
        yield from _strings(text)
    if b"data:," in text or b"%22auths%22" in text:
        yield urllib.parse.unquote_to_bytes(text)


def inline_files(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Path and content of the files in an Ignition config, or in a MachineConfig with one in it."""
    for value in _values(text):
        contents = value.get("contents") if isinstance(value, dict) else None
        source = contents.get("source") if isinstance(contents, dict) else None
        if isinstance(source, str) and source.startswith("data:") and isinstance(value.get("path"), str):
            head, _, data = source.partition(",")
            plain = urllib.parse.unquote_to_bytes(data)
            yield value["path"], _from_base64(plain) if head.endswith(";base64") else plain


def _strings(text: bytes) -> Iterator[bytes]:
    for value in _values(text):
        if isinstance(value, str) and any(character in value for character in '\n"%'):
            yield value.encode(errors="surrogatepass")


def _values(text: bytes) -> Iterator[Any]:
    """Every value in a JSON document, however deep; none of what is no JSON."""
    try:
        waiting = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _from_base64(value: bytes) -> bytes:
    """What a value is the base64 of, unpacked; nothing when it is none."""
    packed = value.replace(b"%2B", b"+").replace(b"%2F", b"/").replace(b"%3D", b"=").replace(b"\\n", b"")
    try:
        decoded = base64.b64decode(
            packed + b"=" * (-len(packed) % 4), b"-_" if b"-" in packed else None, validate=True
        )
    except binascii.Error:
        return b""
    if not decoded.startswith(_GZIP):
        return decoded
    try:
        return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS).decompress(decoded, _UNPACKED_BYTES)
    except zlib.error:
        return b""


def _is_line(decoded: bytes) -> bool:
    """Text of one line: what was a secret in base64 is a secret without it."""
    return (
        len(decoded) <= _MOST_PRINTED and decoded.isascii() and decoded.strip().decode("ascii").isprintable()
    )
