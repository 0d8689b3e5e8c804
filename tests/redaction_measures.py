"""What redaction masks, counted: shapes in surroundings, keys in wrappings, and clean lines.

    python -m tests.redaction_measures

prints the tables of docs/redaction.md and puts them there.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service_record.redaction import Redactor, Rules, Secret
from testing.clean_lines import clean_lines
from tests.key_wrappings import BYTES, DOCUMENTS, ENCODED, LINES, WRAPPINGS, left_of, private_keys
from tests.shape_examples import ENDS, SURROUNDINGS, ShapeExample, shape_examples

PAGE: Final = Path("docs/redaction.md")
_BEGIN: Final = "<!-- measured: python -m tests.redaction_measures -->\n"
_END: Final = "<!-- end -->\n"
_BEFORE: Final = b"the first line of it\n"
_BEHIND: Final = b"\nthe last line of it\n"


def redacted(rules: Rules, text: bytes) -> bytes:
    """Return the text as it leaves."""
    redactor = Redactor(rules)
    return redactor.feed(text) + redactor.finish()


@dataclass(frozen=True, slots=True)
class Count:
    """So many of all."""

    good: int
    all: int

    def __str__(self) -> str:
        return f"{self.good:,} of {self.all:,}"


def leaking(example: ShapeExample, surrounding: str, rules: Rules) -> bool:
    """Tell whether a secret of an example can be read in surroundings."""
    after = redacted(rules, SURROUNDINGS[surrounding](example.text).encode()).decode()
    return any(part in after for secret in example.secrets for part in secret.split("\n"))


def suits(example: ShapeExample, surrounding: str) -> bool:
    """Tell whether a shape of whole lines begins one there."""
    return surrounding in ENDS or not example.is_line


def kept_in_clean_lines(rules: Rules) -> Count:
    """Count the ordinary lines that stay as they are."""
    lines = clean_lines()
    after = redacted(rules, "".join(f"{line}\n" for line in lines).encode()).decode().splitlines()
    return Count(sum(a == b for a, b in zip(lines, after, strict=True)), len(lines))


def key_leaks(name: str, wrapping: str, rules: Rules) -> bool:
    """Tell whether a wrapped key can be read in part."""
    key = private_keys()[name]
    after = redacted(rules, _BEFORE + WRAPPINGS[wrapping](key) + _BEHIND)
    return left_of(name, key, wrapping, after) > 0


def tables() -> Iterator[str]:
    """Yield the lines of the tables."""
    rules = Rules()
    examples = list(shape_examples())
    yield f"| surroundings | shapes masked, of {len(examples)} |"
    yield "|---|---|"
    for surrounding in SURROUNDINGS:
        suited = [example for example in examples if suits(example, surrounding)]
        good = sum(not leaking(example, surrounding, rules) for example in suited)
        yield f"| {surrounding.replace('|', chr(92) + '|')} | {Count(good, len(suited))} |"
    yield ""
    yield f"| key | known, in {len(WRAPPINGS)} wrappings | not known: in lines | escaped | encoded | bytes |"
    yield "|---|---|---|---|---|---|"
    for name, key in private_keys().items():
        known = Rules([Secret("private-key", key)])
        cells = [
            _keys(name, WRAPPINGS, known),
            *(_keys(name, part, rules) for part in (LINES, DOCUMENTS, ENCODED, BYTES)),
        ]
        yield f"| {name} | {' | '.join(map(str, cells))} |"
    yield ""
    yield f"Ordinary lines that stay as they are: {kept_in_clean_lines(rules)}."


def _keys(name: str, wrappings: object, rules: Rules) -> Count:
    assert isinstance(wrappings, dict)
    return Count(sum(not key_leaks(name, wrapping, rules) for wrapping in wrappings), len(wrappings))


def main() -> None:
    """Print the tables, and put them into the page."""
    text = "".join(f"{line}\n" for line in tables())
    sys.stdout.write(text)
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(_BEGIN)
    _, _, behind = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{behind}", encoding="utf-8")


if __name__ == "__main__":
    main()
