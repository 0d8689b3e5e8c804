"""`example:NAME`: each verb that reads can be tried on a host without records."""

from pathlib import Path

import pytest

from service_record.read.examples import example_path
from tests.command_line import service_record
from tests.programs import REPOSITORY

EXAMPLES = sorted(path for path in (REPOSITORY / "docs/examples").iterdir() if path.name != "README.md")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_is_found_by_its_name(path: Path) -> None:
    assert example_path(f"example:{path.name}").samefile(path)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["show", "example:failed-stage"], 0),
        (["show", "--from", "example:upstream", "bootkube"], 0),
        (["analyze", "example:stuck"], 1),
        (["timeline", "--from", "example:boot-loop"], 0),
        (["diff", "example:good", "example:oom"], 1),
        (["export", "--to", "jsonl", "--from", "example:good", "kubelet"], 0),
        (["validate", "example:failed-stage"], 0),
    ],
)
def test_verb_reads_an_example(arguments: list[str], status: int) -> None:
    answer = service_record(*arguments)

    assert (answer.status, answer.err) == (status, "")
    assert "docs/examples" not in answer.out


def test_unknown_example_is_answered_with_those_there_are() -> None:
    answer = service_record("show", "example:nothing")

    assert answer.status == 3
    assert answer.err.startswith("Error: example:nothing: no such example; there are example:boot-loop, ")
    assert len(answer.err.splitlines()) == 1
