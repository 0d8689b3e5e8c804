"""Make service_record/redaction/shapes_public.toml of the rules of CredSweeper, a set of rules on PyPI.

    python -m pip download --no-deps credsweeper==1.19.5
    python -m packages.public_shapes credsweeper-1.19.5-py3-none-any.whl

Rules are taken that need no model to judge them, that RE2 understands, and that begin with letters which
nothing else begins with. How often a character may be repeated becomes the least length of the secret.
"""

import re

# No public interface tells how a pattern is built. A Python that changes these two modules breaks only
# it when the file is made anew, and nothing that users run.
import re._constants as constants  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import re2
import yaml

TARGET: Final = Path("service_record/redaction/shapes_public.toml")
_RULES: Final = "credsweeper/rules/config.yaml"
_BOUNDARY: Final = re.compile(r"^\(\?:\^\|/\|\[\^.*?\]\{0,80\}m\)")
_AFTER: Final = re.compile(r"\(\?!\[[^\]]*\]\)$")
_VALUE: Final = re.compile(r"^\(\?P<value>(?P<inner>.*)\)$")
_COUNT: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_LEAST_PREFIX: Final = 4
_MARKS: Final = "-_."
"""A beginning that ends in one of these may be a character shorter."""
_EXACT: Final = 2
_LEAST_SECRET: Final = 20
_UNFIT: Final[dict[str, str]] = {
    "UUID": "no secret",
    "Product Activation Key": "no secret",
    "Firebase Domain": "no secret",
    "AWS S3 Bucket": "no secret",
    "AWS Client ID": "ours are narrower",
    "Github Classic Token": "ours",
    "JSON Web Token": "ours",
    "JSON Web Key": "base64 of any JSON",
    "Azure Access Token": "ours",
    "Grafana Provisioned API Key": "base64 of any JSON",
    "Composio Credentials": "begins like a variable",
    "Salesforce Credentials": "begins like a number",
    "Tencent WeChat API App ID": "no secret",
    "Jira / Confluence PAT token": "has no beginning of its own",
    "Discord Bot Token": "has no beginning of its own",
    "NKEY Seed": "has no beginning of its own",
    "Google OAuth Refresh Token": "begins like a path",
}


def shapes(wheel: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each rule that can be data for us."""
    with zipfile.ZipFile(wheel) as packed:
        rules = yaml.safe_load(packed.read(_RULES))
    for rule in rules:
        if rule["type"] != "pattern" or rule.get("use_ml") or rule["name"] in _UNFIT:
            continue
        row = shape_row(rule["name"], rule["values"][0])
        if row is not None:
            yield row


def shape_row(name: str, pattern: str) -> dict[str, Any] | None:
    """Return a rule as a row of data; None when its beginning is not its own. Raises re.error."""
    value = _VALUE.match(_AFTER.sub("", _BOUNDARY.sub("", pattern)))
    if value is None or "(?" in value["inner"]:
        return None
    inner = value["inner"]
    parsed = parser.parse(inner)
    least, prefixes = int(parsed.getwidth()[0]), sorted(_prefixes(parsed)[0])
    if least < _LEAST_SECRET or not all(map(_is_telling, prefixes)):
        return None
    row = {
        "name": name,
        "pattern": f"<<B>>({_COUNT.sub(_without_count, inner)})",
        "trigger": "|".join(map(_trigger, prefixes)),
        "least": least,
        "positive": inner,
        "near_miss": f"{prefixes[0]}x",
    }
    re2.compile(str(row["pattern"]).replace("<<B>>", "(?:^|[^A-Za-z0-9])"))
    return row


def _is_telling(prefix: str) -> bool:
    return len(prefix) + prefix.endswith(tuple(_MARKS)) >= _LEAST_PREFIX


def _trigger(prefix: str) -> str:
    """Return a pattern of a prefix. A short one does not match at the end of a word, as in `task-1`."""
    before = r"(?:^|[^a-z]|\\[nrt])" if len(prefix) < _LEAST_PREFIX else ""
    # A part of a UUID may end like the prefix, but the next part has at most 12 characters.
    after = "[A-Za-z0-9]{13}" if _HEXADECIMAL.fullmatch(prefix) else ""
    return before + re.escape(prefix) + after


_HEXADECIMAL: Final = re.compile(r"[0-9a-f]+-")


def _without_count(count: re.Match[str]) -> str:
    if count[2] is None and int(count[1]) <= _EXACT:
        return count[0]
    return "+" if int(count[1]) else "*"


def _prefixes(parsed: Any) -> tuple[set[str], bool]:
    """Return the literal texts that a pattern begins with, and whether they are all of it."""
    prefixes = {""}
    for kind, value in parsed:
        if kind is constants.LITERAL:
            prefixes = {text + chr(value) for text in prefixes}
            continue
        if kind is constants.SUBPATTERN:
            branches = [_prefixes(value[3])]
        elif kind is constants.BRANCH:
            branches = [_prefixes(branch) for branch in value[1]]
        else:
            return prefixes, False
        prefixes = {text + more for text in prefixes for texts, _ in branches for more in texts}
        if not all(is_all for _, is_all in branches):
            return prefixes, False
    return prefixes, True


def document(wheel: Path) -> str:
    """Return the file, as TOML."""
    head = f"# Made by packages/public_shapes.py of {wheel.name.removesuffix('.whl')}; not to be edited.\n#\n"
    with zipfile.ZipFile(wheel) as packed:
        (licence,) = (name for name in packed.namelist() if name.endswith("licenses/LICENSE"))
        notice = "".join(f"# {line}".rstrip() + "\n" for line in packed.read(licence).decode().splitlines())
    return head + notice + "\n" + "\n".join(map(shape_table, shapes(wheel)))


def shape_table(row: dict[str, Any]) -> str:
    """Return a row as TOML."""
    fields = ("name", "pattern", "trigger", "positive", "near_miss")
    lines = "".join(f"{field} = '''{row[field]}'''\n" for field in fields)
    return f'[[shape]]\nkind = "service-token"\nleast = {row["least"]}\ncheck = "prefixed"\n{lines}'


if __name__ == "__main__":
    TARGET.write_text(document(Path(sys.argv[1])), encoding="utf-8")
