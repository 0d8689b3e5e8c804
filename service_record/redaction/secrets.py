"""The forms of a known secret in a log (encoded, escaped, quoted), and the shapes of unknown ones. Pure.

A form wrapped into lines is not a separate form: `exact` finds each form across lines.

The shapes are data in three files: our own, and two from public sets of rules. If several shapes match, the
first one decides the kind.
"""

import base64
import html
import json
import re
import tomllib
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeAlias

from service_record.redaction import ordinary_words, types
from service_record.redaction.types import from_base64

_Named: TypeAlias = tuple[str, bytes]

PEM_BODY_FAMILY: Final = 0
"""The family of forms that contain only the body of a PEM block, without its BEGIN and END lines."""

MIN_BYTES: Final = 8
"""A shorter secret is not searched for: ordinary text contains it by chance."""
_MIN_DIFFERENT: Final = 5
_LONG_BYTES: Final = 16
_MAX_BYTES: Final = 1 << 16
"""A longer secret is cut to this size. No file that is a single secret is as long."""
_MAX_TWICE_BYTES: Final = 4096
"""Secrets up to this size are also searched for in base64 of base64, which has nine more forms."""
_HIDDEN_CHARACTERS: Final = (0, 2, 3)
"""Base64 characters that also encode bits of 0, 1 or 2 bytes before a secret. They are not in the form."""


def is_searchable(value: bytes) -> bool:
    """Return True if a secret can be searched for: long enough, and not just a word or number."""
    value = value.strip()
    if len(value) < MIN_BYTES or len(set(value)) < _MIN_DIFFERENT:
        return False
    is_word = value.isalpha() and (value.islower() or value.isupper() or value.istitle())
    return len(value) >= _LONG_BYTES or not (is_word or value.isdigit())


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a secret."""

    name: str
    text: bytes
    family: int
    """Forms of one family differ only in special characters, so they can share needles."""


def forms(value: bytes, *, only_plain: bool = False) -> list[Form]:
    """Return all forms of a secret, without duplicates. `only_plain`: only the raw form and base64.

    The raw form of a PEM block is its body without line breaks. Its headers are not secret.
    """
    value = value.strip()[:_MAX_BYTES]
    by_text: dict[bytes, Form] = {}
    families = [[*_text_forms(text), *(_key_forms(text) if is_pem(value) else ())] for text in _texts(value)]
    if not only_plain:
        families += [[form] for form in _byte_forms(value)]
    families += _base64_forms(value, only_plain=only_plain)
    for number, family in enumerate(families):
        for name, text in family[: 1 if only_plain else None]:
            if len(text) >= MIN_BYTES:
                by_text.setdefault(text, Form(name, text, number))
    return list(by_text.values())


def is_pem(value: bytes) -> bool:
    return value.startswith(b"-----BEGIN ")


def pem_body(value: bytes) -> bytes:
    """Return the base64 of a PEM block, without BEGIN and END lines, headers and line breaks."""
    lines = [line.strip() for line in value.splitlines()]
    return b"".join(line for line in lines if line and not line.startswith(b"-----") and b":" not in line)


def _texts(value: bytes) -> Iterator[bytes]:
    yield pem_body(value) if is_pem(value) else value


def _text_forms(value: bytes) -> list[_Named]:
    """Return the forms that keep most characters of the value."""
    return [
        ("raw", value),
        *_json_forms(value),
        *_url_forms(value),
        *_quoted_forms(value),
        ("xml", html.escape(_text(value)).encode("latin-1")),
    ]


def _key_forms(body: bytes) -> list[_Named]:
    """Return the body of a PEM block in base64url, and its bytes in hexadecimal, without and with colons."""
    key = from_base64(body)
    if not key:
        return []
    digits = [("der", key.hex().encode()), ("der", key.hex(":").encode())]
    return [("base64url", body.translate(bytes.maketrans(b"+/", b"-_"))), *digits]


def _byte_forms(value: bytes) -> list[_Named]:
    """Return the forms that encode each byte of the value."""
    every = value.hex(" ").encode().split()
    return [
        ("hex", value.hex().encode()),
        ("hex", value.hex().upper().encode()),
        ("url", b"".join(b"%" + byte.upper() for byte in every)),
        ("url", b"".join(b"%" + byte for byte in every)),
        ("\\x", b"".join(b"\\x" + byte for byte in every)),
        ("utf-16", _text(value).encode("utf-16-le")),
        ("utf-16", _text(value).encode("utf-16-be")),
    ]


def _base64_forms(value: bytes, *, only_plain: bool) -> list[list[_Named]]:
    """Return base64 of the value, alone and inside other data, and the forms of that base64."""
    encodings: list[list[_Named]] = [
        [("base64", base64.b64encode(value)), ("base64url", base64.urlsafe_b64encode(value))]
    ]
    for core, url_core in zip(
        cores(value, base64.b64encode), cores(value, base64.urlsafe_b64encode), strict=True
    ):
        encodings.append([("base64", core), ("base64url", url_core), *_url_forms(core)])
        if len(value) <= _MAX_TWICE_BYTES and not only_plain:
            encodings += [[("base64 twice", twice)] for twice in cores(core)]
    if not only_plain:
        for escaped in {form for name, form in _json_forms(value) if name != "json in quotes"} - {value}:
            encodings += [[("base64", core)] for core in cores(escaped)]
    return encodings


def cores(value: bytes, encode: Callable[[bytes], bytes] = base64.b64encode) -> Iterator[bytes]:
    """Yield the base64 of the value inside other data, once for each alignment to groups of three bytes."""
    for before, hidden in enumerate(_HIDDEN_CHARACTERS):
        whole = 8 * (before + len(value)) // 6
        yield encode(bytes(before) + value)[hidden:whole]


def _json_forms(value: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the value as a JSON string, and that string in another JSON string.

    Go also escapes `<`, `>` and `&`, and PHP escapes `/`.
    """
    text = value.decode(errors="surrogateescape")
    for ascii_only in (False, True):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        for form in (once, _escape_like_go(once), once.replace("/", "\\/")):
            yield "json", form.encode(errors="surrogateescape")
            twice = json.dumps(form, ensure_ascii=ascii_only)[1:-1]
            yield "json in json", twice.encode(errors="surrogateescape")
            # In the single quotes of a shell or of Python only a backslash and the quote itself are escaped.
            quoted = form.replace("\\", "\\\\").encode(errors="surrogateescape")
            yield "json in quotes", quoted
            yield "json in quotes", quoted.replace(b"'", b"\\'")


def _escape_like_go(text: str) -> str:
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _url_forms(value: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the value percent-encoded: all but letters and digits, as in paths and queries, and as a form.

    Hexadecimal digits are in upper and in lower case.
    """
    for safe in ("", "/", "/:@!$'()*,;=-._~", "/:@!$&'()*+,;=?"):
        quoted = urllib.parse.quote_from_bytes(value, safe=safe).encode()
        yield "url", quoted
        yield "url", _lower_case(quoted)
    yield "url", urllib.parse.quote_plus(value).encode()


def _lower_case(quoted: bytes) -> bytes:
    head, *rest = quoted.split(b"%")
    return b"%".join([head, *(piece[:2].lower() + piece[2:] for piece in rest)])


def _quoted_forms(value: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the value as shells (in both quotes and without), systemd, journald and C write it."""
    yield "shell", value.replace(b"'", b"'\\''")
    yield "shell", value.replace(b"'", b"'\"'\"'")
    yield "shell", _add_backslashes(value, b'"\\$`')
    yield "shell", _BASH_SPECIAL.sub(rb"\\\g<0>", value)
    yield "shell", value.replace(b"'", b"''")  # as YAML and SQL do
    for unescaped in (_PRINTABLE - set(b"\\"), _PRINTABLE - set(b"\\\"'"), _UNIT_PLAIN):
        yield (
            "\\x",
            "".join(chr(byte) if byte in unescaped else f"\\x{byte:02x}" for byte in value).encode("latin-1"),
        )
    c_escapes = (
        value.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n").replace(b"\t", b"\\t")
    )
    yield "\\x", c_escapes
    yield "\\x", c_escapes.replace(b"'", b"\\'")


_PRINTABLE: Final = frozenset(range(32, 127))
_ALPHANUMERIC: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_UNIT_PLAIN: Final = _ALPHANUMERIC | set(b":_.")
"""The bytes that systemd-escape(1) does not escape. It replaces `/` by `-` only in paths."""
_BASH_SPECIAL: Final = re.compile(rb"(?![A-Za-z0-9%+./:=@_#~-])[ -~]|^[#~]|(?<=[:=])~")
"""Matches what `printf %q` of bash escapes: `#` only as the first character, `~` where bash expands it."""


def _add_backslashes(value: bytes, special: bytes) -> bytes:
    return b"".join(b"\\%c" % byte if byte in special else b"%c" % byte for byte in value)


def _text(value: bytes) -> str:
    return value.decode("latin-1")


@dataclass(frozen=True, slots=True)
class SecretShape:
    """One kind of secret that is found by a pattern.

    Only the groups of the pattern are masked.
    """

    kind: str
    pattern: bytes
    trigger: bytes
    """Matches wherever the pattern can match, in the text with its escapes.

    Triggers are joined into a few patterns, so a trigger with a count or a `$` would slow down all of them.
    """
    check: Callable[[bytes], bool] = ordinary_words.is_value
    """Returns True if the text of a group is a secret."""
    least: int = 1
    """The least size of a secret in bytes. A count in the pattern would cost RE2 a state for each byte."""
    is_certain: bool = False
    """True if outgoing data never has this shape for a good reason. Such data is refused."""
    named: bytes = b""
    """A pattern of names, used with an empty `pattern`. The syntax of the text decides where a value ends."""
    is_run: bool = False
    """True if the trigger is a run of letters and digits without a fixed word. See `reader.RUNS`."""
    is_word: bool = False
    """True if a group begins a word of a command line. The syntax of the text decides where it ends."""


OURS: Final = "shapes.toml"
PUBLIC: Final = "shapes_public.toml"
SERVICES: Final = "shapes_services.toml"
"""Tokens of services, from other public sets of rules."""
COMMANDS: Final = "commands.toml"
"""Usages of programs, in the table `command`."""

PEM_BEGIN: Final = rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"

_PART: Final = types.compile_pattern(rb"<<([A-Z_]+)>>")
_BEGINNINGS: Final = (b'"auths"', b'"auth":', b"PRIVATE KEY-----", b"client-key-data")
"""Texts that only occur in files with secrets. They are searched for in base64."""
_TWICE: Final = (b"PRIVATE KEY-----", b'"auths"')
"""Texts that are also searched for in base64 of base64."""
_THRICE: Final = (b"PRIVATE KEY-----",)
"""Texts that are also encoded three times: a kubeconfig in a Secret in a file of an Ignition config."""


@cache
def shapes() -> tuple[SecretShape, ...]:
    """Return all shapes, ours first."""
    return tuple(shape for name in (OURS, PUBLIC, SERVICES) for shape in shapes_in(name))


def expand_parts(pattern: bytes) -> bytes:
    """Return a pattern with each `<<NAME>>` replaced by that part of shapes.toml."""
    return _expand(pattern, _parts())


def rows(name: str, table: str = "shape") -> list[dict[str, Any]]:
    """Return the rows of a table in a file of data, with their examples."""
    found: list[dict[str, Any]] = _document(name)[table]
    return found


def shapes_in(name: str) -> Iterator[SecretShape]:
    """Yield the shapes of one file."""
    parts = _parts()
    for row in rows(name):
        yield SecretShape(
            kind=row["kind"],
            pattern=_expand(row.get("pattern", "").encode(), parts),
            trigger=_expand(row["trigger"].encode(), parts),
            check=getattr(ordinary_words, row.get("check", ordinary_words.is_value.__name__)),
            least=row.get("least", 1),
            is_certain=row.get("certain", False),
            is_run=row.get("run", False),
            named=_expand(row.get("named", "").encode(), parts),
            is_word=any(f"<<{part}>>" in row.get("pattern", "") for part in _WORDS),
        )


_WORDS: Final = ("WORD", "QUOTED", "STRING")
"""The parts of patterns that begin a word."""


@cache
def _parts() -> Mapping[str, bytes]:
    parts = {key: text.encode() for key, text in _document(OURS)["parts"].items()}
    return parts | {"ENCODED": b"|".join(_encoded_names())}


@cache
def _document(name: str) -> dict[str, Any]:
    text = files("service_record.redaction").joinpath(name).read_text(encoding="utf-8")
    return tomllib.loads(text)


def _expand(pattern: bytes, parts: Mapping[str, bytes]) -> bytes:
    """Return a pattern with each `<<NAME>>` replaced by that part. Parts may contain other parts."""
    while part := _PART.search(pattern):
        inner = b"(?:" + parts[part.group(1).decode()] + b")"
        pattern = pattern[: part.start()] + inner + pattern[part.end() :]
    return pattern


def _encoded_names() -> Iterator[bytes]:
    for text in _BEGINNINGS:
        yield from (core.replace(b"+", rb"\+") for core in cores(text))
    for text in _TWICE:
        for twice in (twice for core in cores(text) for twice in cores(core)):
            yield twice.replace(b"+", rb"\+")
            yield from (thrice.replace(b"+", rb"\+") for thrice in cores(twice) if text in _THRICE)
