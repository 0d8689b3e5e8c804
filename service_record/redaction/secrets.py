"""The forms of a known secret in a log (encoded, escaped, quoted), and the shapes of unknown ones. Pure.

A form wrapped into lines is not a separate form: `exact` finds each form across lines.

The shapes are data in three files: our own, and two from public sets of rules. If several shapes match, the
first one decides the kind.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from service_record.redaction import ordinary_words, types
from service_record.redaction.encodings import (
    BASE64,
    BASE64_URL,
    BYTES_APART,
    ENCODINGS,
    HEXADECIMAL,
    JSON,
    PERCENT,
    QUOTES,
    RunEncoding,
    from_base64,
)

MIN_BYTES: Final = 8
"""A shorter secret is not searched for: ordinary text contains it by chance."""
_MIN_DIFFERENT: Final = 5
_LONG_BYTES: Final = 16
_MAX_BYTES: Final = 1 << 16
"""A longer secret is cut to this size. No file that is a single secret is as long."""
_MAX_TWICE_BYTES: Final = 4096
"""Secrets up to this size are also searched for in base64 of base64, which has nine more forms."""


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
    is_body: bool = False
    """True if the form contains only the body of a PEM block, without its BEGIN and END lines."""


def forms(value: bytes, *, only_plain: bool = False) -> list[Form]:
    """Return all forms of a secret, without duplicates. `only_plain`: only the raw form and base64.

    The raw form of a PEM block is its body without line breaks. Its headers are not secret.
    """
    by_text: dict[bytes, Form] = {}
    for form in _iterate_forms(value.strip()[:_MAX_BYTES], only_plain=only_plain):
        if len(form.text) >= MIN_BYTES:
            by_text.setdefault(form.text, form)
    return list(by_text.values())


def _iterate_forms(value: bytes, *, only_plain: bool) -> Iterator[Form]:
    body = pem_body(value) if is_pem(value) else value
    yield Form("raw", body, is_body=True)
    for encoding in (BASE64,) if only_plain else ENCODINGS:
        is_body = not isinstance(encoding, RunEncoding)  # other encodings keep most characters
        for text in encoding.write(body if is_body else value):
            yield Form(encoding.name, text, is_body=is_body)
    if not only_plain:
        yield from _key_forms(from_base64(body)) if is_pem(value) else ()
        yield from _nested_forms(value, body)


def _key_forms(key: bytes) -> Iterator[Form]:
    """Yield the forms of the bytes of a PEM block. Its base64 is the raw form."""
    for encoding in (HEXADECIMAL, BYTES_APART, BASE64_URL):
        yield from (Form("der", text, is_body=True) for text in encoding.encode(key))


def _nested_forms(value: bytes, body: bytes) -> Iterator[Form]:
    """Yield the forms in two encodings that occur together in logs."""
    for text in dict.fromkeys(JSON.encode(body)):
        for twice in (*JSON.encode(text), *QUOTES.encode(text)):
            yield Form("json twice", twice, is_body=True)
    for text in dict.fromkeys(JSON.encode(value)):
        yield from (Form("base64 of json", inside) for inside in BASE64.inside(text))
    for inside in BASE64.inside(value):
        yield from (Form("percent of base64", text) for text in PERCENT.encode(inside))
        if len(value) <= _MAX_TWICE_BYTES:
            yield from (Form("base64 twice", twice) for twice in BASE64.inside(inside))


def is_pem(value: bytes) -> bool:
    return value.startswith(b"-----BEGIN ")


def pem_body(value: bytes) -> bytes:
    """Return the base64 of a PEM block, without BEGIN and END lines, headers and line breaks."""
    lines = [line.strip() for line in value.splitlines()]
    return b"".join(line for line in lines if line and not line.startswith(b"-----") and b":" not in line)


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
            check=_make_check(row.get("check", ordinary_words.is_value.__name__)),
            least=row.get("least", 1),
            is_certain=row.get("certain", False),
            is_run=row.get("run", False),
            named=_expand(row.get("named", "").encode(), parts),
            is_word=any(f"<<{part}>>" in row.get("pattern", "") for part in _WORDS),
        )


def _make_check(text: str) -> Callable[[bytes], bool]:
    """Return the check that a shape names. Of several, joined by `or`, one must accept a value."""
    checks: list[Callable[[bytes], bool]] = [getattr(ordinary_words, name) for name in text.split(" or ")]
    if len(checks) == 1:
        return checks[0]
    return lambda value: any(check(value) for check in checks)


_WORDS: Final = ("WORD", "QUOTED", "STRING")
"""The parts of patterns that begin a word."""


@cache
def _parts() -> Mapping[str, bytes]:
    return {key: text.encode() for key, text in _document(OURS)["parts"].items()}


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
