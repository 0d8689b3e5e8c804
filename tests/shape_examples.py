"""Texts for every shape of the files of data: each positive with its secrets, in many surroundings."""

import random
import re

# No public interface tells how a pattern is built. A Python that changes these two modules breaks only
# these tests, and nothing that users run.
import re._constants as constants  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from service_record.redaction import Redactor, Rules
from service_record.redaction.secrets import OURS, PUBLIC, SERVICES, rows

_RANDOM: Final = random.Random(20261123)
_RUN: Final = re.compile(r"\[([^\]]+)\]\{(\d+)\}")
_MOST_REPEATS: Final = 2


@dataclass(frozen=True, slots=True)
class ShapeExample:
    """A shape with a text that has it, and one that has not."""

    name: str
    text: str
    secrets: tuple[str, ...]
    near_miss: str
    is_line: bool
    """True when the shape needs the beginning of a line, and its end."""


def shape_examples() -> Iterator[ShapeExample]:
    """Yield one of each row, always the same."""
    for file in (OURS, PUBLIC, SERVICES):
        for number, row in enumerate(rows(file)):
            marked = (
                _expanded(row["positive"]) if file == OURS else f"key «{_matching(row['positive'])}» used"
            )
            secrets = tuple(re.findall("«(.*?)»", marked))
            yield ShapeExample(
                name=f"{number:02} {row.get('name', row['kind'])}",
                text=marked.replace("«", "").replace("»", ""),
                secrets=secrets,
                near_miss=row["near_miss"],
                is_line=row.get("alone", False) or "\n" in marked,
            )


def _expanded(text: str) -> str:
    r"""Return a text in which `[a-z]{7}` is seven random letters, and `\n` the end of a line."""
    return _RUN.sub(lambda run: _drawn(run[1], int(run[2])), text).replace("\\n", "\n")


def _drawn(characters: str, size: int) -> str:
    """Return random characters: a digit among them, and letters of either case, where they may be."""
    every = [chr(code) for code in range(33, 127) if re.match(f"[{characters}]", chr(code))]
    parts = ["0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    sure = [_RANDOM.choice(some) for part in parts if (some := [each for each in every if each in part])]
    drawn = sure[:size] + [_RANDOM.choice(every) for _ in range(size - len(sure))]
    plain = [each for each in drawn if each.isalnum()] or drawn
    _RANDOM.shuffle(drawn)
    ends = _RANDOM.choice(plain), _RANDOM.choice(plain)
    return "".join([ends[0], *drawn[1:-1], ends[1]]) if size > len(ends) + len(sure) else "".join(drawn)


def _matching(pattern: str) -> str:
    """Return a random text that a pattern matches."""
    return "".join(_text(kind, value) for kind, value in parser.parse(pattern))


def _text(kind: Any, value: Any) -> str:
    if kind is constants.LITERAL:
        return chr(value)
    if kind is constants.SUBPATTERN:
        return "".join(_text(*each) for each in value[3])
    if kind is constants.BRANCH:
        return "".join(_text(*each) for each in value[1][0])
    if kind is constants.IN:
        return _drawn(_class(value), 1)
    least, most, repeated = value
    times = max(least, min(int(most), _MOST_REPEATS) if least else 0)
    if len(repeated) == 1 and repeated[0][0] is constants.IN:
        return _drawn(_class(repeated[0][1]), times) if times else ""
    return "".join(_text(*each) for _ in range(times) for each in repeated)


def _class(members: Any) -> str:
    pieces = (
        f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        if kind is constants.RANGE
        else re.escape(chr(value))
        for kind, value in members
    )
    return "".join(pieces)


def _plain(text: str) -> str:
    return text


def _escaped(text: str) -> str:
    """Return a text as a string of JSON has it."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


SURROUNDINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "alone": _plain,
    "behind a blank": lambda text: f"words {text}",
    "JSON": lambda text: f'{{"a":1,"m":"{_escaped(text)}"}}',
    "JSON, line": lambda text: f'{{"m":"a\\n{_escaped(text)}\\nb"}}',
    "JSON, tab": lambda text: f'{{"m":"a\\t{_escaped(text)}"}}',
    "JSON, CR LF": lambda text: f'{{"m":"a\\r\\n{_escaped(text)}\\r\\nb"}}',
    "JSON, \\u": lambda text: f'{{"m":"a\\u2026{_escaped(text)}"}}',
    "JSON in JSON": lambda text: (
        f'{{"x":"{_escaped(f"""{{"m":"a{chr(92)}n{_escaped(text)}{chr(92)}nb"}}""")}"}}'
    ),
    "syslog": lambda text: f"Nov 21 h a[1]: it#012{text}",
    "\\x0a": lambda text: f"it\\x0a{text}",
    "octal": lambda text: f"it\\012{text}",
    "%20": lambda text: f"it%20{text}",
    "%0A": lambda text: f"it%0A{text}",
    "_": lambda text: f"it_{text}",
    "colour": lambda text: f"it\x1b[31m{text}\x1b[0m",
    "colour, escaped": lambda text: f"it\\u001b[31m{text}",
    "&#10;": lambda text: f"it&#10;{text}",
    "cat -A": lambda text: f"it^I{text}",
}
"""Texts around a secret, each by the function that puts it there."""
ENDS: Final = frozenset(
    {"alone", "JSON, line", "JSON, CR LF", "JSON in JSON", "\\x0a", "octal", "%0A", "&#10;", "syslog"}
)
"""Those that end the line before: a shape of whole lines is in these."""


def redacted(rules: Rules, text: bytes) -> bytes:
    """Return the text as it leaves."""
    redactor = Redactor(rules)
    return redactor.feed(text) + redactor.finish()


def leaking(example: ShapeExample, surrounding: str, rules: Rules) -> bool:
    """Tell whether a secret of an example can be read in surroundings."""
    after = redacted(rules, SURROUNDINGS[surrounding](example.text).encode()).decode()
    return any(part in after for secret in example.secrets for part in secret.split("\n"))


def suits(example: ShapeExample, surrounding: str) -> bool:
    """Tell whether a shape of whole lines begins one there."""
    return surrounding in ENDS or not example.is_line
