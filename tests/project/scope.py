"""The table in docs/project/scope.md: the requirements of five documents, their states, and their tests.

`python -m tests.project.scope` counts the rows, writes the numbers above the table, and prints its errors.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.programs import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "project" / "scope.md"
STATES: Final = ("done", "partly", "absent", "different", "not ours")
_SWITCHED_OFF: Final = ("mark.skip(", "mark.xfail")
_TITLE: Final = re.compile(r"^### ([A-Z]): (.+)$", re.MULTILINE)
_LINE: Final = re.compile(r"^\| [A-Z]\d+ \|", re.MULTILINE)
_ROW: Final = re.compile(r"^\| ([A-Z])(\d+) \| (.+?) \| (.+?) \| (.+) \|$", re.MULTILINE)
_REFERENCE: Final = re.compile(r"\b[A-Z]\d+\b")
_TEST: Final = re.compile(r"`(tests/[^`]+?)::([^`]+)`")
_BATS_TEST: Final = re.compile(r'^@test "(.*)" \{', re.MULTILINE)
_COUNTS: Final = re.compile(r"<!-- counts -->\n(.*)<!-- /counts -->", re.DOTALL)
_OWNER: Final = re.compile(r"^\| ([\w-]+) \| ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One requirement."""

    document: str
    number: int
    state: str
    tests: tuple[tuple[str, str], ...]
    """File and name, or title in a bats file, of each test."""
    reason: str
    """Text of the last cell besides its tests."""

    @property
    def name(self) -> str:
        return f"{self.document}{self.number}"


def rows(page: str) -> Iterator[Row]:
    """Yield the rows of the table."""
    for document, number, _, state, shown in _ROW.findall(page):
        tests = tuple(_TEST.findall(shown))
        reason = _TEST.sub("", shown).strip(" ,;")
        yield Row(document=document, number=int(number), state=state, tests=tests, reason=reason)


def faults(page: str) -> list[str]:
    """Return what is wrong with the page, in a line each."""
    found, owners = tuple(rows(page)), tuple(_owners(page))
    names = {row.name for row in found}
    wrong = [
        f"{row.name}: {fault}"
        for row in found
        for fault in (*_faults_of(row, names, owners), *_missing_tests(row))
    ]
    last: Counter[str] = Counter()
    for row in found:
        last[row.document] += 1
        if row.number != last[row.document]:
            wrong.append(f"{row.name}: expected {row.document}{last[row.document]} here")
    if len(_LINE.findall(page)) != len(found):
        wrong.append("a row does not have four cells")
    if _said_counts(page) != counts(page):
        wrong.append("the numbers above the table are wrong: run python -m tests.project.scope")
    return wrong


def counts(page: str) -> str:
    """Return the table of how many rows have which state."""
    found = Counter((row.document, row.state) for row in rows(page))
    titles = [*_TITLE.findall(page), ("", "all five")]
    lines = ["| document | all | " + " | ".join(STATES) + " |", "|---|" + "---:|" * (len(STATES) + 1)]
    for letter, title in titles:
        numbers = [
            sum(n for (document, state), n in found.items() if state == each and letter in {"", document})
            for each in STATES
        ]
        named = f"{letter}: {title}" if letter else title
        lines.append(f"| {named} | " + " | ".join(map(str, [sum(numbers), *numbers])) + " |")
    return "\n".join(lines) + "\n"


def with_counts(page: str) -> str:
    """Return the page with the numbers of its rows above the table."""
    return _COUNTS.sub(lambda _: f"<!-- counts -->\n{counts(page)}<!-- /counts -->", page)


def _faults_of(row: Row, names: set[str], owners: tuple[str, ...]) -> Iterator[str]:
    if row.state not in STATES:
        yield f"{row.state!r} is not a state; the states are {', '.join(STATES)}"
    elif row.state == "done" and not row.tests:
        yield "it is called done, and no test is named"
    elif row.state != "done" and not row.reason:
        yield "say what is missing, why it is different, or whose it is"
    elif row.state == "not ours" and not row.reason.startswith(owners):
        yield "the reason has to begin with a name of the table of who does what"
    yield from (f"there is no row {name}" for name in sorted(set(_REFERENCE.findall(row.reason)) - names))


def _missing_tests(row: Row) -> Iterator[str]:
    for file, name in row.tests:
        if not (REPOSITORY / file).is_file():
            yield f"there is no {file}"
        elif name not in (known := _tests_in(file)):
            yield f"{file} has no test {name!r}"
        elif any(word in known[name] for word in _SWITCHED_OFF):
            yield f"{file}: {name} is switched off"


@cache
def _tests_in(file: str) -> Mapping[str, str]:
    """Return the tests of a file by name or title, with their decorators."""
    text = (REPOSITORY / file).read_text()
    if file.endswith(".bats"):
        return dict.fromkeys(_BATS_TEST.findall(text), "")
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return {
        function.name: " ".join(map(ast.unparse, function.decorator_list))
        for function in functions
        if function.name.startswith("test_")
    }


def _owners(page: str) -> set[str]:
    """Return the names in the table of who does what."""
    section = page.partition("## Who does what")[2].partition("\n## ")[0]
    return set(_OWNER.findall(section)) - {"who"}


def _said_counts(page: str) -> str:
    found = _COUNTS.search(page)
    return found[1] if found else ""


if __name__ == "__main__":
    PAGE.write_text(with_counts(PAGE.read_text()))
    print(*faults(PAGE.read_text()), sep="\n", end="")
