"""The encodings in which a secret can appear in a log, made by the programs and libraries that use them."""

import base64
import html
import json
import shlex
import subprocess
import textwrap
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Final

PREFIX: Final = b"Nov 21 01:05:10 master-0 bootkube.sh[2117]: "


def _json(secret: bytes) -> bytes:
    return json.dumps({"a": 1, "value": secret.decode(), "b": [2]}).encode()


def _json_in_json(secret: bytes) -> bytes:
    return json.dumps({"message": _json(secret).decode()}).encode()


def _go_json(secret: bytes) -> bytes:
    """Encode like Go's encoding/json, which escapes `&`, `<` and `>`."""
    text = json.dumps(secret.decode(), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e").encode()


def _wrap_base64(columns: int, indent: bytes = b"") -> Callable[[bytes], bytes]:
    def wrap(secret: bytes) -> bytes:
        encoded = base64.b64encode(b"some: yaml\n" + secret + b"\nmore: of it\n").decode()
        lines = textwrap.wrap(encoded, columns)
        return b"\n".join(indent + line.encode() for line in lines)

    return wrap


def _encode_within_document(before: int) -> Callable[[bytes], bytes]:
    """Encode a document around the secret as base64. `before` sets one of the three alignments."""
    return lambda secret: base64.b64encode(b"{" * before + b'"x": ' + secret + b', "y": 1}')


def _printf_q(secret: bytes) -> bytes:
    return subprocess.run(
        ["bash", "-c", 'printf %q "$1"', "-", secret], capture_output=True, check=True
    ).stdout


def _set_x(secret: bytes) -> bytes:
    """Return an argument as bash prints it with `set -x`."""
    return subprocess.run(
        ["bash", "-xc", ': "$1"', "-", secret], capture_output=True, check=True
    ).stderr.strip()


def _escape_for_unit(secret: bytes) -> bytes:
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:_."
    return b"".join(bytes([byte]) if byte in plain else b"\\x%02x" % byte for byte in secret)


FORMS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "raw": bytes,
    "base64": base64.b64encode,
    "base64, first of three": _encode_within_document(3),
    "base64, second of three": _encode_within_document(1),
    "base64, third of three": _encode_within_document(2),
    "base64url": lambda secret: base64.urlsafe_b64encode(b"?" + secret).rstrip(b"="),
    "base64 twice": lambda secret: base64.b64encode(
        b"x: " + base64.b64encode(b'{"' + secret + b'"}') + b"\n"
    ),
    "base64, wrapped at 40": _wrap_base64(40),
    "base64, wrapped at 64": _wrap_base64(64),
    "base64, wrapped at 76": _wrap_base64(76),
    "base64, wrapped and indented": _wrap_base64(64, b"        "),
    "base64, wrapped, in a journal": _wrap_base64(76, PREFIX),
    "URL-encoded": lambda secret: urllib.parse.quote(secret, safe="").encode(),
    "URL-encoded in part": lambda secret: urllib.parse.quote(secret, safe="/:@!$&'()*+,;=").encode(),
    "URL-encoded as a form": lambda secret: urllib.parse.urlencode({"x": secret}).encode(),
    "URL-encoded base64": lambda secret: urllib.parse.quote(
        base64.b64encode(b"ab" + secret), safe=""
    ).encode(),
    "every byte URL-encoded": lambda secret: b"".join(b"%%%02x" % byte for byte in secret),
    "JSON": _json,
    "JSON in JSON": _json_in_json,
    "JSON by Go": _go_json,
    "base64 of JSON": lambda secret: base64.b64encode(_json(secret)),
    "quoted for a shell": lambda secret: shlex.quote(secret.decode()).encode(),
    "printf %q": _printf_q,
    "set -x": _set_x,
    "escaped for a unit's name": _escape_for_unit,
    "every byte escaped": lambda secret: b"".join(b"\\x%02x" % byte for byte in secret),
    "hexadecimal": lambda secret: secret.hex().encode(),
    "XML": lambda secret: html.escape(secret.decode()).encode(),
    "UTF-16": lambda secret: secret.decode().encode("utf-16-le"),
}
