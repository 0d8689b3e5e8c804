"""`example:NAME`: each verb that reads can be tried on a host without records."""

import subprocess
from pathlib import Path

import pytest

from service_record.read.examples import example_path
from tests.command_line import PROGRAM, environment, service_record
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


TRIED = {
    "show": "show example:failed-stage",
    "analyze": "analyze example:stuck",
    "timeline": "timeline --from example:boot-loop",
    "diff": "diff example:good example:failed-stage",
    "export": "export --to jsonl --from example:good --directory lines",
    "validate": "validate example:failed-stage",
    "mcp": "mcp example:stuck",
    "run": "run --service try -- false",
    "rotate": "rotate",
    "install": "install --all-services --dry-run",
    "uninstall": "uninstall --dry-run",
    "ignition": "ignition --role worker -o worker.ign",
    "snippet": "snippet bash --url https://c.example",
    "doctor": "doctor",
    "bundle": "bundle --redact example:failed-stage",
    "report": "report --dry-run",
    "triage": "triage example:failed-stage",
}
"""Verb -> an example of its help that works on a host without records, network and root."""


@pytest.mark.parametrize("verb", TRIED)
def test_help_has_an_example_that_works_anywhere(verb: str, tmp_path: Path) -> None:
    examples = service_record(verb, "--help").out
    answer = service_record(*TRIED[verb].split(), cwd=tmp_path, SERVICE_RECORDS_DIR=str(tmp_path / "records"))

    assert f"service-record {TRIED[verb]}" in examples
    assert answer.status in {0, 1}, answer
    assert "Error: " not in answer.err


def test_follow_reads_an_example() -> None:
    command = [*PROGRAM, "follow", "--from", "example:failed-stage", "-n", "all"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), text=True) as follow:
        assert follow.stdout is not None
        assert follow.stdout.readline()
        follow.terminate()


def test_unknown_example_is_answered_with_those_there_are() -> None:
    answer = service_record("show", "example:nothing")

    assert answer.status == 3
    assert answer.err.startswith("Error: example:nothing: no such example; there are example:boot-loop, ")
    assert len(answer.err.splitlines()) == 1
