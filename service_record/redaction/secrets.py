"""The forms that a secret takes on its way into a log: what encodes, escapes and quotes it. Pure.

Wrapping into lines is no form of its own: `exact` follows every form from line to line.
"""

import base64
import html
import json
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Final

LEAST_BYTES: Final = 8
"""A shorter secret is not taken: it would be found in innocent text."""
_LEAST_DIFFERENT: Final = 5
_LONG_BYTES: Final = 16
_MOST_BYTES: Final = 1 << 16
"""A longer one is cut to this: no file of a host that is one secret is as long."""
_TWICE_BYTES: Final = 4096
"""What is looked for in base64 of base64, too; nine forms of it are."""
_HIDDEN_CHARACTERS: Final = (0, 2, 3)
"""How many characters of base64 a secret shares with what stands 0, 1 or 2 bytes before it."""


def is_taken(value: bytes) -> bool:
    """Whether a value is a secret that can be looked for: long enough, and not just a word or a number."""
    value = value.strip()
    if len(value) < LEAST_BYTES or len(set(value)) < _LEAST_DIFFERENT:
        return False
    is_word = value.isalpha() and (value.islower() or value.isupper() or value.istitle())
    return len(value) >= _LONG_BYTES or not (is_word or value.isdigit())


def forms(value: bytes) -> dict[bytes, str]:
    """Every form of a secret, with its name; of equal forms the first name counts.

    Of a PEM block the raw form is its body alone, in one piece: header and line ends are no secrets. A JSON
    document has encoded forms only: its secret parts are secrets of their own, and the rest may stay.
    """
    value = value.strip()[:_MOST_BYTES]
    found: dict[bytes, str] = {}
    for text in _texts(value):
        for name, form in _of_text(text):
            found.setdefault(form, name)
    for name, form in _encoded(value):
        found.setdefault(form, name)
    return {form: name for form, name in found.items() if len(form) >= LEAST_BYTES}


def is_pem(value: bytes) -> bool:
    return value.startswith(b"-----BEGIN ")


def pem_body(value: bytes) -> bytes:
    """The base64 between the lines that begin and end a PEM block, without headers, in one piece."""
    lines = [line.strip() for line in value.splitlines()]
    return b"".join(line for line in lines if line and not line.startswith(b"-----") and b":" not in line)


def _texts(value: bytes) -> Iterator[bytes]:
    if is_pem(value):
        yield pem_body(value)
    elif not value.startswith(b"{"):
        yield value


def _of_text(value: bytes) -> Iterator[tuple[str, bytes]]:
    """The forms of what may stand in a line."""
    yield "raw", value
    yield from _escaped(value)
    yield from _url_encoded(value)
    yield from _quoted(value)
    yield "xml", html.escape(_text(value)).encode("latin-1")
    yield "hex", value.hex().encode()
    yield "hex", value.hex().upper().encode()
    yield "utf-16", _text(value).encode("utf-16-le")
    yield "utf-16", _text(value).encode("utf-16-be")


def _encoded(value: bytes) -> Iterator[tuple[str, bytes]]:
    """Base64 of it alone and amidst other bytes, and what is made of that."""
    for name, encode in _BASE64:
        yield name, encode(value)
        for core in _cores(value, encode):
            yield name, core
            yield from _url_encoded(core)
        if len(value) <= _TWICE_BYTES:
            for inner in _cores(value, encode):
                yield from (("base64 twice", core) for core in _cores(inner, base64.b64encode))
            for escaped in {form for _, form in _escaped(value)} - {value}:
                yield from ((name, core) for core in _cores(escaped, encode))


def _cores(value: bytes, encode: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """What base64 makes of the value whatever stands around it: once for each place among three bytes."""
    for before, hidden in enumerate(_HIDDEN_CHARACTERS):
        whole = 8 * (before + len(value)) // 6
        yield encode(bytes(before) + value)[hidden:whole]


_BASE64: Final[tuple[tuple[str, Callable[[bytes], bytes]], ...]] = (
    ("base64", base64.b64encode),
    ("base64url", base64.urlsafe_b64encode),
)


def _escaped(value: bytes) -> Iterator[tuple[str, bytes]]:
    """As in the strings of JSON, by Python, by Go, which hides `<`, `>` and `&`, and by PHP; in JSON in JSON."""
    text = value.decode(errors="surrogateescape")
    for ascii_only in (False, True):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        for form in (once, _go(once), once.replace("/", "\\/")):
            yield "json", form.encode(errors="surrogateescape")
            twice = json.dumps(form, ensure_ascii=ascii_only)[1:-1]
            yield "json in json", twice.encode(errors="surrogateescape")


def _go(text: str) -> str:
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _url_encoded(value: bytes) -> Iterator[tuple[str, bytes]]:
    """All but letters and digits; what a path or a query needs; as a form; every byte. In either case."""
    for safe in ("", "/", "/:@!$'()*,;=-._~", "/:@!$&'()*+,;=?"):
        quoted = urllib.parse.quote_from_bytes(value, safe=safe).encode()
        yield "url", quoted
        yield "url", _lower_case(quoted)
    yield "url", urllib.parse.quote_plus(value).encode()
    every = "".join(f"%{byte:02X}" for byte in value).encode()
    yield "url", every
    yield "url", every.lower()


def _lower_case(quoted: bytes) -> bytes:
    head, *rest = quoted.split(b"%")
    return b"%".join([head, *(piece[:2].lower() + piece[2:] for piece in rest)])


def _quoted(value: bytes) -> Iterator[tuple[str, bytes]]:
    """By shells, between quotes of either kind and without; by systemd, journald and C."""
    yield "shell", value.replace(b"'", b"'\\''")
    yield "shell", value.replace(b"'", b"'\"'\"'")
    yield "shell", _behind_backslash(value, b'"\\$`')
    yield "shell", _behind_backslash(value, bytes(set(range(32, 127)) - set(_SHELL_PLAIN)))
    for kept in (_PRINTABLE - set(b"\\"), _PRINTABLE - set(b"\\\"'"), _UNIT_PLAIN, frozenset[int]()):
        yield (
            "\\x",
            "".join(chr(byte) if byte in kept else f"\\x{byte:02x}" for byte in value).encode("latin-1"),
        )
    c_escapes = (
        value.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n").replace(b"\t", b"\\t")
    )
    yield "\\x", c_escapes
    yield "\\x", c_escapes.replace(b"'", b"\\'")


_PRINTABLE: Final = frozenset(range(32, 127))
_ALPHANUMERIC: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_UNIT_PLAIN: Final = _ALPHANUMERIC | set(b":_.")
"""What systemd-escape(1) leaves as it is; `/` becomes `-` there only in paths."""
_SHELL_PLAIN: Final = _ALPHANUMERIC | set(b"%+-./:=@_,")
"""What `printf %q` of bash leaves as it is."""


def _behind_backslash(value: bytes, special: bytes) -> bytes:
    return b"".join(b"\\%c" % byte if byte in special else b"%c" % byte for byte in value)


def _text(value: bytes) -> str:
    return value.decode("latin-1")
