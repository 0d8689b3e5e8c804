"""Decide by a name whether its value is secret. Pure.

secret_names.toml is the table. A name is split into words (`bmcPassword2` is `bmc`, `password` and `2`), and
its last words are looked up.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import accumulate
from typing import Any, Final, TypeAlias

from service_record.redaction import ordinary_words

_MAX_NAME_BYTES: Final = 64
_COLUMNS: Final = ("ends", "words", "alone")
_WORD: Final = re.compile(rb"[A-Z]+s?(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True, slots=True)
class Name:
    """The kind of the secrets that a name has as its values, and the check for a value."""

    kind: str
    check: Callable[[bytes], bool]


def find_name(name: bytes) -> Name | None:
    """Return the kind of a name by its last words; None if its value is not secret."""
    named = _look_up(name[-_MAX_NAME_BYTES:])
    return None if named is _PUBLIC else named


def is_public(name: bytes) -> bool:
    """Return True if a text ends in a name that looks like that of a secret, but whose value is public."""
    return _look_up(name[-_MAX_NAME_BYTES:]) is _PUBLIC


def is_evidence(name: bytes, *, is_assigned: bool) -> bool:
    """Return True if a random value of this name is not secret: a digest, an ID, or a name.

    `is_assigned`: there is a sign between the name and the value, not only a blank.
    """
    words = _split(name[-_MAX_NAME_BYTES:])
    if not words:
        return False
    is_thing = is_assigned and b"".join(words).endswith(_table().things)
    is_digest = not {words[-1], words[-1].removesuffix(b"s")}.isdisjoint(_table().evidence)
    return is_digest or is_thing or is_public(name)


def _split(name: bytes) -> list[bytes]:
    """Return the words of a name in small letters, without numbers at its end."""
    words = [word.lower() for word in _WORD.findall(name)]
    while words and words[-1].isdigit():
        words.pop()
    return words


@lru_cache(maxsize=1 << 10)
def _look_up(name: bytes) -> Name | None:
    words = _split(name)
    table = _table()
    while words and (words[-1] in table.suffixes or words[-1].isdigit()):
        words.pop()
    text = b"".join(words)
    if text in table.alone:
        return table.alone[text]
    starts = set(accumulate(map(len, words)))
    for at in range(len(text)):
        end = text[at:]
        if at in starts and end in table.words:
            return table.words[end]
        if end in table.ends:
            return table.ends[end]
    return None


def item_name(name: bytes) -> bytes:
    """Return the name of the items of a list: `token` for `tokens`.

    `secrets` stays: such lists mostly hold the names of Secrets.
    """
    is_plural = name.endswith(b"s") and not name.endswith(b"ss") and not name.lower().endswith(b"secrets")
    return name[:-1] if is_plural else name


_PUBLIC: Final = Name("public", lambda _value: False)
_Entries: TypeAlias = dict[bytes, Name]


@dataclass(frozen=True, slots=True)
class _NameTable:
    suffixes: frozenset[bytes]
    evidence: frozenset[bytes]
    things: tuple[bytes, ...]
    ends: _Entries
    words: _Entries
    alone: _Entries


@cache
def _table() -> _NameTable:
    suffixes, evidence, things = (
        [each.encode() for each in _document()[key]] for key in ("suffixes", "evidence", "things")
    )
    table = _NameTable(frozenset(suffixes), frozenset(evidence), tuple(things), {}, {}, {})
    for row in _document()["name"]:
        is_public_row = row["kind"] == _PUBLIC.kind
        name = _PUBLIC if is_public_row else Name(row["kind"], ordinary_words.find_check(row["check"]))
        for column, entries in zip(_COLUMNS, (table.ends, table.words, table.alone), strict=True):
            entries.update({each.replace(" ", "").encode(): name for each in row.get(column, ())})
    return table


@cache
def _document() -> dict[str, Any]:
    text = files("service_record.redaction").joinpath("secret_names.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def rows() -> list[dict[str, Any]]:
    """Return the rows of names whose values are secret, with their examples."""
    return [row for row in _document()["name"] if "check" in row]


def make_patterns() -> dict[str, bytes]:
    """Return patterns that find names in a text. They find every name of the table; `find_name` decides.

    PASSWORDS and TOKENS have the names that are not too common in prose, NAME has all, SUFFIX what may follow
    them, and NAMED all names with what follows them if their values may be secret.
    """
    passwords = [row for row in rows() if row["kind"] == "password"]
    tokens = [row for row in rows() if row["kind"] != "password"]
    suffixes = "|".join(_document()["suffixes"])
    marks = {row["mark"]: [each for each in rows() if each["mark"] == row["mark"]] for row in rows()}
    parts = {
        "PASSWORDS": _join_names(passwords),
        "TOKENS": _join_names(tokens),
        "NAME": _join_names(rows(), with_alone=True),
        "SUFFIX": rf"(?:[_.-]?(?:{suffixes}))?(?:[_.-]?[0-9]{{1,4}})?",
        "NAMED": "|".join(
            f"(?i:(?:{_join_names(some, with_alone=True)})<<SUFFIX>>)(?:{mark}|<<CLOSING>>)"
            for mark, some in marks.items()
        ),
    }
    return {key: pattern.encode() for key, pattern in parts.items()}


def _join_names(some: Sequence[dict[str, Any]], *, with_alone: bool = False) -> str:
    """Return a pattern of the names in some rows, sorted so that RE2 merges common prefixes."""
    ends, words, alone = (
        sorted({each for row in some for each in row.get(column, ())}) for column in _COLUMNS
    )
    if with_alone:
        patterns = sorted({*ends, *alone})
    else:
        whole = {each for row in rows() for each in row.get("alone", ())}
        patterns = [f"[a-z0-9][_.-]?{each}" if each in whole else each for each in ends]
    if words:
        in_camel_case = "|".join(words).title().replace(" ", "")
        patterns += [f"[_.-](?:{'|'.join(words)})", f"(?-i:[a-z](?:{in_camel_case}))"]
    return "|".join(patterns).replace(" ", "[_.-]?")
