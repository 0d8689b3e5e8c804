"""The forms in which a log may contain a known secret: encoded, escaped, quoted. Pure.

A form wrapped into lines is not a separate form: `exact` finds each form across lines.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

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

PEM_BEGIN: Final = rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
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
