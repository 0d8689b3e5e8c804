"""Every output on every example is what the golden files have; `make golden` writes those anew."""

import difflib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service_record.cli import VERBS
from tests.faults import Faults
from tests.golden.outputs import (
    EXIT_CODES,
    GOLDEN,
    PLACE,
    REPOSITORY,
    TABLE_PAGE,
    choices,
    exit_codes,
    golden_files,
    render,
    sources,
    table,
)

EXPECTED = dict(golden_files())


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A host in another zone than that in which the files were written."""
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("verb", sorted({arguments[0] for arguments in EXPECTED.values()}))
def test_output_equals_golden_file(verb: str) -> None:
    with Faults() as faults:
        for path, arguments in EXPECTED.items():
            if arguments[0] == verb:
                with faults.case(path.relative_to(GOLDEN)):
                    changes = difference(path, render(path, arguments))
                    assert not changes, f"{changes}If that is what it should say: make golden"


def difference(path: Path, now: str) -> str:
    lines = path.read_text().splitlines(keepends=True), now.splitlines(keepends=True)
    return "".join(difflib.unified_diff(*lines, str(path.relative_to(REPOSITORY)), "now"))


def test_golden_files_match_the_list() -> None:
    kept = {f"docs/examples/{path.name}" for path in PLACE.iterdir() if path.suffix != ".md"}
    assert kept == set(sources().values())
    assert {path for path in GOLDEN.glob("*/*") if path.suffix != ".pyc"} == set(EXPECTED)


NOT_READING = {
    *("assisted", "bundle", "collector", "doctor", "hosts", "ignition", "initrd", "install"),
    *("mcp", "preflight", "report", "rotate", "run", "ship", "snippet", "triage", "uninstall"),
}
"""Verbs that do something on a host, make something for one, or ask a collector; they show no records."""


def test_reading_verbs_have_all_golden_files() -> None:
    golden = {arguments[0]: set[str]() for arguments in EXPECTED.values()}
    for arguments in EXPECTED.values():
        golden[arguments[0]].add(arguments[-1])
    assert set(golden) == set(VERBS) - NOT_READING
    assert golden["export"] == set(choices("export", "form"))
    for verb in golden.keys() - {"export", "validate"}:
        assert set(choices(verb, "output")) <= golden[verb]


def test_exit_codes_equal_golden_table() -> None:
    assert EXIT_CODES.read_text() == exit_codes()


def test_page_of_examples_has_their_first_lines() -> None:
    text = TABLE_PAGE.read_text()
    assert f"<!-- examples -->\n{table()}\n<!-- /examples -->" in text, "make golden writes it"


def test_page_of_examples_describes_each_host() -> None:
    text = (PLACE / "README.md").read_text()
    assert [name for name in sources() if f"\n- **{name}**" not in text] == []
