"""Generate a text with a secret for every shape in the data files, and put it into many surroundings."""

import random
import re

# No public interface tells how a pattern is built. A Python that changes these two modules breaks only
# these tests, and nothing that users run.
import re._constants as constants  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from service_record.redaction import Redactor, Rules, secret_names
from service_record.redaction.shapes import COMMANDS, OURS, PUBLIC, SERVICES, rows

_RANDOM: Final = random.Random(20261123)
_RUN: Final = re.compile(r"\[([^\]]+)\]\{(\d+)\}")
_MOST_REPEATS: Final = 2


@dataclass(frozen=True, slots=True)
class ShapeExample:
    """A text that contains a secret of one shape, and a similar text that contains none."""

    name: str
    text: str
    secrets: tuple[str, ...]
    near_miss: str
    is_line: bool
    """True if the shape matches only whole lines."""


def shape_examples() -> Iterator[ShapeExample]:
    """Yield an example for each row of the data files. They are the same in every run."""
    tables = [(file, rows(file)) for file in (OURS, PUBLIC, SERVICES)]
    for file, table in [*tables, (OURS, secret_names.rows())]:
        for number, row in enumerate(table):
            _RANDOM.seed(row["positive"])  # so that an example does not depend on the other rows
            marked = (
                _expand(row["positive"]) if file == OURS else f"key «{_generate_match(row['positive'])}» used"
            )
            secrets = tuple(re.findall("«(.*?)»", marked))
            yield ShapeExample(
                name=f"{number:02} {row.get('name', row['kind'])}",
                text=marked.replace("«", "").replace("»", ""),
                secrets=secrets,
                near_miss=row["near_miss"],
                is_line=row.get("alone") is True or "\n" in marked,
            )


def command_examples() -> Iterator[ShapeExample]:
    """Yield an example for each program and each of its usages in the table of commands."""
    for row in rows(COMMANDS, "command"):
        for program in row["programs"]:
            for usage in row["usage"]:
                _RANDOM.seed(usage)
                marked = _expand(_call(program.replace("*", "x"), usage))
                yield ShapeExample(
                    name=f"{program} {usage}",
                    text=marked.replace("«", "").replace("»", ""),
                    secrets=tuple(re.findall("«(.*?)»", marked)),
                    near_miss=row["near_miss"],
                    is_line=False,
                )


def _call(program: str, usage: str) -> str:
    """Return a command with this usage, in which the secrets are patterns between « and »."""
    usage = re.sub(r"\((-[^|)]*)[^)]*\)", r"\1", usage)
    usage = re.sub(r" \[-[^\]]*\]|\.\.\. |\[[^\]]*\]|\|[^\s<]+", "", usage).replace("*", "x")
    usage = re.sub(r"PASSWORD|ARGUMENT|TOKEN|COOKIE", "«[A-Za-z0-9]{24}»", usage)
    usage = re.sub(r"\b[A-Z]{2,}\b", lambda word: word[0].lower(), usage)
    arguments, _, standard_input = usage.partition("<")
    call = f"{program} {arguments}".strip()
    return f"echo {standard_input.strip()} | {call}" if standard_input else call


def _expand(text: str) -> str:
    r"""Replace each `[a-z]{7}` in a text by seven random letters, and `\n` by a newline."""
    return _RUN.sub(lambda run: _draw(run[1], int(run[2])), text).replace("\\n", "\n")


def _draw(characters: str, size: int) -> str:
    """Return random characters, with a digit, a small and a capital letter if they are allowed."""
    every = [chr(code) for code in range(33, 127) if re.match(f"[{characters}]", chr(code))]
    parts = ["0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    sure = [_RANDOM.choice(some) for part in parts if (some := [each for each in every if each in part])]
    drawn = sure[:size] + [_RANDOM.choice(every) for _ in range(size - len(sure))]
    plain = [each for each in drawn if each.isalnum()] or drawn
    _RANDOM.shuffle(drawn)
    ends = _RANDOM.choice(plain), _RANDOM.choice(plain)
    return "".join([ends[0], *drawn[1:-1], ends[1]]) if size > len(ends) + len(sure) else "".join(drawn)


def _generate_match(pattern: str) -> str:
    """Return a random text that a pattern matches."""
    return "".join(_generate_part(kind, value) for kind, value in parser.parse(pattern))


def _generate_part(kind: Any, value: Any) -> str:
    if kind is constants.LITERAL:
        return chr(value)
    if kind is constants.SUBPATTERN:
        return "".join(_generate_part(*each) for each in value[3])
    if kind is constants.BRANCH:
        return "".join(_generate_part(*each) for each in value[1][0])
    if kind is constants.IN:
        return _draw(_format_class(value), 1)
    least, most, repeated = value
    times = max(least, min(int(most), _MOST_REPEATS) if least else 0)
    if len(repeated) == 1 and repeated[0][0] is constants.IN:
        return _draw(_format_class(repeated[0][1]), times) if times else ""
    return "".join(_generate_part(*each) for _ in range(times) for each in repeated)


def _format_class(members: Any) -> str:
    pieces = (
        f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        if kind is constants.RANGE
        else re.escape(chr(value))
        for kind, value in members
    )
    return "".join(pieces)


def _leave_unchanged(text: str) -> str:
    return text


def _escape_json(text: str) -> str:
    """Escape a text for a JSON string."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


SURROUNDINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "alone": _leave_unchanged,
    "behind a blank": lambda text: f"words {text}",
    "JSON": lambda text: f'{{"a":1,"m":"{_escape_json(text)}"}}',
    "JSON, line": lambda text: f'{{"m":"a\\n{_escape_json(text)}\\nb"}}',
    "JSON, tab": lambda text: f'{{"m":"a\\t{_escape_json(text)}"}}',
    "JSON, CR LF": lambda text: f'{{"m":"a\\r\\n{_escape_json(text)}\\r\\nb"}}',
    "JSON, \\u": lambda text: f'{{"m":"a\\u2026{_escape_json(text)}"}}',
    "JSON in JSON": lambda text: (
        f'{{"x":"{_escape_json(f"""{{"m":"a{chr(92)}n{_escape_json(text)}{chr(92)}nb"}}""")}"}}'
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
"""Name of a surrounding -> the function that puts a text into it."""
ENDS: Final = frozenset(
    {"alone", "JSON, line", "JSON, CR LF", "JSON in JSON", "\\x0a", "octal", "%0A", "&#10;", "syslog"}
)
"""The surroundings in which the text starts a line, as shapes of whole lines need."""


def redact(rules: Rules, text: bytes) -> bytes:
    """Return the text with masked secrets."""
    redactor = Redactor(rules)
    return redactor.feed(text) + redactor.finish()


def is_leaking(example: ShapeExample, surrounding: str, rules: Rules) -> bool:
    """Return whether a secret is still readable after redaction in a surrounding."""
    after = redact(rules, SURROUNDINGS[surrounding](example.text).encode()).decode()
    return any(part in after for secret in example.secrets for part in secret.split("\n"))


def can_surround(example: ShapeExample, surrounding: str) -> bool:
    """Return whether the surrounding starts a new line, if the shape needs one."""
    return surrounding in ENDS or not example.is_line
