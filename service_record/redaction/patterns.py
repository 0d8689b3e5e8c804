"""The shapes of secrets that nobody told us, out of two files of data: ours, and a public set of rules.

Of what several shapes match, the first names the kind.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from service_record.redaction import ordinary_words, types
from service_record.redaction.secrets import cores


@dataclass(frozen=True, slots=True)
class SecretShape:
    """One kind of secret, known by its form.

    A pattern of RE2. Its groups are masked; what stands around them is what they are known by, and stays.
    """

    kind: str
    pattern: bytes
    trigger: bytes
    """Matches wherever the pattern can match, in a text with its escapes.

    All triggers are one pattern, so one that counts or waits for the end of a line makes all of them slow.
    """
    check: Callable[[bytes], bool] = ordinary_words.is_value
    """Tells whether the text of a group is a secret."""
    least: int = 0
    """Shortest secret, in bytes. A count in the pattern costs RE2 a state for each byte."""
    is_certain: bool = False
    """Never legitimate in what leaves a host: shipping is refused for it."""
    is_assigned: bool = False
    """A bare value behind a name: what follows a separator belongs to the next name."""


OURS: Final = "shapes.toml"
PUBLIC: Final = "shapes_public.toml"

PEM_BEGIN: Final = rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"

_PART: Final = types.compiled(rb"<<([A-Z_]+)>>")
_BEGINNINGS: Final = (b'"auths"', b'"auth":', b"PRIVATE KEY-----", b"client-key-data")
"""Texts that only files of secrets have; each is searched for in base64."""
_TWICE: Final = (b"PRIVATE KEY-----", b'"auths"')
"""And these in base64 of base64."""
_THRICE: Final = (b"PRIVATE KEY-----",)
"""And this once more: a kubeconfig in a Secret in a file of an Ignition config."""


@cache
def shapes() -> tuple[SecretShape, ...]:
    """Return all shapes, ours first."""
    return tuple(shape for name in (OURS, PUBLIC) for shape in _shapes_in(name))


def part(pattern: bytes) -> bytes:
    """Return a pattern with the parts of our shapes in it."""
    return _whole(pattern, _parts())


def rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of one of the two files, with their examples."""
    shapes: list[dict[str, Any]] = _document(name)["shape"]
    return shapes


def _shapes_in(name: str) -> Iterator[SecretShape]:
    parts = _parts()
    for row in rows(name):
        yield SecretShape(
            kind=row["kind"],
            pattern=_whole(row["pattern"].encode(), parts),
            trigger=_whole(row["trigger"].encode(), parts),
            check=getattr(ordinary_words, row.get("check", ordinary_words.is_value.__name__)),
            least=row.get("least", 0),
            is_certain=row.get("certain", False),
            is_assigned=row.get("assigned", False),
        )


@cache
def _parts() -> Mapping[str, bytes]:
    parts = {key: text.encode() for key, text in _document(OURS)["parts"].items()}
    return parts | {"ENCODED": b"|".join(_encoded())}


@cache
def _document(name: str) -> dict[str, Any]:
    text = files("service_record.redaction").joinpath(name).read_text(encoding="utf-8")
    return tomllib.loads(text)


def _whole(pattern: bytes, parts: Mapping[str, bytes]) -> bytes:
    """Return a pattern with its parts, which may have parts themselves, in their places."""
    while part := _PART.search(pattern):
        inner = b"(?:" + parts[part.group(1).decode()] + b")"
        pattern = pattern[: part.start()] + inner + pattern[part.end() :]
    return pattern


def _encoded() -> Iterator[bytes]:
    for text in _BEGINNINGS:
        yield from (core.replace(b"+", rb"\+") for core in cores(text))
    for text in _TWICE:
        for twice in (twice for core in cores(text) for twice in cores(core)):
            yield twice.replace(b"+", rb"\+")
            yield from (thrice.replace(b"+", rb"\+") for thrice in cores(twice) if text in _THRICE)
