"""docs/scope.md: the tests it names exist, each row has a test or a reason, and its numbers are right."""

import re
from xml.etree import ElementTree as ET

import pytest

from tests.programs import REPOSITORY
from tests.scope import PAGE, faults, with_counts

TEXT = PAGE.read_text()
PICTURE = PAGE.with_name("scope.svg")
SMALL = with_counts("""\
## Who does what

| who | does |
|---|---|
| agent | registers the host |

## What the documents ask for

<!-- counts -->
<!-- /counts -->

### R: Records

| no. | what it asks for | state | shown by, or why not |
|---|---|---|---|
| R1 | a start | done | `tests/shell/recording.bats::timestamps carry milliseconds` |
| R2 | a page | done | `tests/test_scope.py::test_nothing_is_wrong_with_the_page` |
| R3 | a list | partly | no names; `tests/test_scope.py::test_nothing_is_wrong_with_the_page` |
| R4 | an order | not ours | agent, as R1 |
""")


def test_nothing_is_wrong_with_the_page() -> None:
    assert faults(TEXT) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        pytest.param("", "", [], id="nothing"),
        pytest.param(
            "timestamps carry", "times carry", ["R1: tests/shell/recording.bats has no test"], id="title"
        ),
        pytest.param(
            "a page | done | `tests/test_scope.py::test_nothing",
            "a page | done | `tests/test_scope.py::test_anything",
            ["R2: tests/test_scope.py has no test"],
            id="name",
        ),
        pytest.param("shell/recording", "shell/none", ["R1: there is no tests/shell/none.bats"], id="file"),
        pytest.param(
            "`tests/shell/recording.bats::timestamps carry milliseconds`",
            "it is clear",
            ["R1: it is called done, and no test is named"],
            id="done without a test",
        ),
        pytest.param("no names; ", "", ["R3: say what is missing"], id="no reason"),
        pytest.param("agent, as R1", "as R1", ["R4: the reason has to begin"], id="no owner"),
        pytest.param("as R1", "as R9", ["R4: there is no row R9"], id="no such row"),
        pytest.param("R3 |", "R5 |", ["R5: expected R3 here"], id="number"),
        pytest.param("| an order ", "", ["a row does not have four cells", "the numbers"], id="cells"),
        pytest.param("| partly |", "| almost |", ["R3: 'almost' is not a state", "the numbers"], id="state"),
        pytest.param("| 4 | 2 |", "| 4 | 3 |", ["the numbers above the table"], id="numbers"),
    ],
)
def test_what_is_wrong_with_a_page_is_told(before: str, after: str, said: list[str]) -> None:
    assert before in SMALL

    told = faults(SMALL.replace(before, after))

    assert len(told) == len(said)
    assert all(line.startswith(beginning) for line, beginning in zip(told, said, strict=True)), told


def test_the_picture_is_on_the_page_and_has_colours_for_dark_pages() -> None:
    assert f"]({PICTURE.name})" in TEXT
    ET.parse(PICTURE)
    light, dark = (
        set(re.findall(r"\.(\w+) { (?:fill|stroke)", part))
        for part in PICTURE.read_text().split("prefers-color-scheme: dark")
    )
    assert light == dark != set()


def test_the_readme_leads_to_the_page() -> None:
    assert "](docs/scope.md)" in (REPOSITORY / "README.md").read_text()
