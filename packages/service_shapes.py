"""Make service_record/redaction/shapes_services.toml of the rules of gitleaks, Kingfisher and Nosey Parker.

    python -m packages.service_shapes GITLEAKS KINGFISHER NOSEYPARKER

Each argument is a checkout. Only data are taken from them: the tokens that begin with letters which nothing
else begins with. A token that the other shapes find already is left out.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from packages.public_shapes import shape_row, shape_table
from service_record.redaction import types
from service_record.redaction.shapes import OURS, PUBLIC, SecretShape, shapes_in

TARGET: Final = Path("service_record/redaction/shapes_services.toml")
_GITLEAKS_RULES: Final = "config/gitleaks.toml"
_COMMENT: Final = re.compile(r"(?m)(?<!\\)[ \t]#.*$")
_VERBOSE: Final = re.compile(r"\s*\(\?[a-z]*x")
_FLAGS: Final = re.compile(r"\(\?([xi]+)\)")
_EDGE: Final = r"(?:\\b|\\B|\(\?[:=!<]*[^()]*\))"
_BEFORE: Final = re.compile(rf"^{_EDGE}+")
_AFTER: Final = re.compile(rf"{_EDGE}+$")
_WHOLE: Final = re.compile(r"^\((?:\?P<[A-Za-z]+>)?([^()]*(?:\([^()]*\)[^()]*)*)\)$")
_WORD_BEGIN: Final = r"(?:^|[^a-z]|\\[nrt])"
_SOME_CHARACTERS: Final = "0a1b2c3d" * 4
_UNFIT: Final = re.compile(r"\(\?[^:]|\\[bB]|\.\*|\.\+|\[\^|[^\]})]\{0,|\\s|[\",/]|web_")
_PUBLIC: Final = re.compile(r"(?i:pub(?:lic|k)?[_ -]|sub-c|client id|domain|host|url|username|hash)")


def read_rules(gitleaks: Path, *others: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the pattern of each rule, without comments and blanks that only lay it out."""
    for rule in tomllib.loads((gitleaks / _GITLEAKS_RULES).read_text(encoding="utf-8"))["rules"]:
        yield f"gitleaks: {rule['id']}", rule.get("regex", "")
    for checkout in others:
        for path in sorted(checkout.glob("**/rules/**/*.yml")):
            for rule in (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("rules") or ():
                pattern = str(rule.get("pattern", ""))
                if _VERBOSE.match(pattern):
                    pattern = re.sub(r"\s+", "", _COMMENT.sub("", pattern))
                yield f"{checkout.name}: {rule['name']}", pattern


def token_rows(rules: list[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each rule whose token begins with letters of its own."""
    found: list[Any] = [types.compile_pattern(b"(?m)" + shape.trigger) for shape in _others()]
    for name, pattern in rules:
        bare = _AFTER.sub("", _BEFORE.sub("", _FLAGS.sub("", pattern)))
        whole = _WHOLE.match(bare)
        inner = (whole[1] if whole else bare).replace("[:alnum:]", "A-Za-z0-9")
        if _UNFIT.search(inner) or _PUBLIC.search(f"{name} {inner}"):
            continue
        try:
            row = shape_row(name, f"(?P<value>{inner})")
        except (re.error, ValueError):
            continue
        if row is None or any(each.search(text) for each in found for text in _beginnings(row)):
            continue
        # A beginning alone is common in logs (`NF-C`, `application_`), and each hit makes a line slow.
        after = "" if row["trigger"].endswith("}") else "[A-Za-z0-9]{8}"
        row["trigger"] = f"{_WORD_BEGIN}{row['trigger'].removeprefix(_WORD_BEGIN)}{after}"
        found.append(types.compile_pattern(row["trigger"].encode()))
        yield row


def _beginnings(row: dict[str, Any]) -> Iterator[bytes]:
    """Yield tokens as other shapes may know them already."""
    for prefix in (row["near_miss"][:-1], row["near_miss"][:-1].upper()):
        yield f"{prefix}{_SOME_CHARACTERS}".encode()


def _others() -> Iterator[SecretShape]:
    """Yield the shapes of the other two files."""
    return (shape for file in (OURS, PUBLIC) for shape in shapes_in(file))


def make_document(*checkouts: Path) -> str:
    """Return the file, as TOML."""
    rules = list(read_rules(*checkouts))
    notice = (checkouts[0] / "LICENSE").read_text(encoding="utf-8").splitlines()
    head = [
        "Made by packages/service_shapes.py; not to be edited. It holds data of these sets of rules:",
        "",
        "Kingfisher and Nosey Parker, under the Apache License, Version 2.0. Changed: only beginnings,",
        "alphabets and least lengths of tokens are kept. https://www.apache.org/licenses/LICENSE-2.0",
        "",
        "gitleaks, under this license:",
        "",
        *notice,
    ]
    return (
        "".join(f"# {line}".rstrip() + "\n" for line in head)
        + "\n"
        + "\n".join(map(shape_table, token_rows(rules)))
    )


if __name__ == "__main__":
    TARGET.write_text(make_document(*map(Path, sys.argv[1:])), encoding="utf-8")
