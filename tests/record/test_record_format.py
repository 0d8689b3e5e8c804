"""docs/record-format.md and its schema say what our writers write, all of it and nothing else."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from service_record.record.appending import record_name
from service_record.record.entry import Entry, Phase
from service_record.record.line import FORMAT_VERSION
from service_record.version import __version__
from tests.builders import entry, failed_run

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "record-format.md").read_text()
SCHEMA = json.loads((ROOT / "docs" / "record-format.schema.json").read_text())
SHIM = ROOT / "shell" / "bootstrap-service-record.sh"
VALIDATOR = Draft202012Validator(SCHEMA)

PYTHON_SERVICE = """
import service_record

with service_record.service("job"):
    with service_record.stage("first"):
        pass
    with service_record.pre_command("pull"):
        pass
    with service_record.stage("second"):
        raise SystemExit(3)
"""
BASH_SERVICE = f"""
set -euo pipefail
. {SHIM}
record_service_stage_start first
record_service_stage_success
record_service_stage_start second
record_service_stage_failure
record_service_stage_start third
cat /does/not/exist
"""
RUN_SERVICE = """
from service_record.cli import main

main(["run", "--service", "job", "--", "sh", "-c", "kill -TERM $$"])
"""


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading of the document."""
    section = DOCUMENT.split(f"## {heading}\n", 1)[1]
    table = section.split("\n|---", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return [[cell.strip().strip("`") for cell in row.strip("|").split(" | ")] for row in table]


def recorded(directory: Path, command: list[str]) -> list[dict[str, Any]]:
    """The lines that a program leaves, each read as plain JSON."""
    environment = {
        key: value for key, value in os.environ.items() if key not in {"PRE_COMMAND", "POST_COMMAND"}
    }
    environment |= {"SERVICE_RECORDS_DIR": str(directory), "SERVICE_NAME": "job", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, env=environment, check=False, stderr=subprocess.DEVNULL)
    return [json.loads(line) for line in (directory / "job.json").read_text().splitlines()]


@pytest.mark.parametrize(
    ("command", "phases"),
    [
        pytest.param([sys.executable, "-c", PYTHON_SERVICE], 8, id="python"),
        pytest.param(["bash", "-c", BASH_SERVICE], 8, id="bash"),
        pytest.param(["env", "PRE_COMMAND=pull", "bash", "-c", f". {SHIM}; false"], 2, id="bash-pre-command"),
        pytest.param([sys.executable, "-c", RUN_SERVICE], 2, id="run"),
    ],
)
def test_recorded_lines_match_the_schema(tmp_path: Path, command: list[str], phases: int) -> None:
    lines = recorded(tmp_path, command)
    assert len(lines) == phases
    for line in lines:
        VALIDATOR.validate(line)
        assert set(line) <= set(SCHEMA["properties"])
        assert list(Entry.from_json(line).to_json()) == list(line)


def test_cut_entry_matches_the_schema() -> None:
    frames = tuple(f"{line} run /usr/local/bin/job.sh" for line in range(1, 500))
    for written in failed_run(stage="é" * 300, error_message="m" * 9000, stack=frames, command="false " * 99):
        VALIDATOR.validate(json.loads(written.to_line()))


@pytest.mark.parametrize(
    "change",
    [
        {"timestamp": "2026-11-21 01:05:10"},
        {"phase": "service paused"},
        {"phase": "service start"},
        {"result": "ok"},
        {"errorLine": "main /usr/local/bin/job.sh"},
        {"exitCode": 256},
        {"exitCode": "1"},
        {"signal": "SIGTERM "},
        {"stage": ""},
        {"stack": []},
        {"bootId": "3f0c8d2e-5b7a-4c1d-9e6f-8a0b1c2d3e4f"},
        {"dropped": 0},
        {"truncated": False},
        {"recorder": "bash/0.1.0"},
        {"errorLineApproximate": True},
    ],
    ids=str,
)
def test_the_schema_refuses_what_no_writer_may_write(change: dict[str, Any]) -> None:
    end = entry("service end").to_json()
    assert VALIDATOR.is_valid(end)
    assert not VALIDATOR.is_valid(end | change)


def test_page_schema_and_reader_have_the_same_fields() -> None:
    documented = [row[0] for row in rows("An entry")]
    everything = {name: SCHEMA["properties"][name] for name in documented}
    assert list(SCHEMA["properties"]) == documented
    assert f"record format, version {FORMAT_VERSION}" in DOCUMENT
    assert f"/{FORMAT_VERSION}/" in SCHEMA["$id"]
    sample = Entry.from_json(
        {name: value_of(rule) for name, rule in everything.items()} | {"phase": "stage end"}
    )
    assert list(sample.to_json()) == documented
    assert sample.extra == {}


def value_of(rule: dict[str, Any]) -> object:
    """Some value of the type that a rule of the schema wants."""
    samples = {"integer": 1, "number": 1.5, "array": ["1 main /x"], "object": {"reason": "size"}}
    samples["string"] = "2026-11-21T01:05:10Z"
    if "const" in rule:
        return rule["const"]
    return rule["enum"][0] if "enum" in rule else samples[rule.get("type", "string")]


def test_document_and_schema_name_every_phase() -> None:
    assert set(SCHEMA["properties"]["phase"]["enum"]) == set(Phase)
    assert {name for start, end, _ in rows("Phases") for name in (start, end)} == set(Phase)


def test_the_examples_of_the_document_are_true() -> None:
    examples = re.findall(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)
    assert examples
    for example in examples:
        VALIDATOR.validate(json.loads(example))
        assert Entry.from_json(json.loads(example)).extra == {}
    for name, file in rows("Names, modes"):
        assert f"{record_name(name)}.json" == file


def test_recorder_is_named_only_at_starts(tmp_path: Path) -> None:
    lines = recorded(tmp_path, [sys.executable, "-c", PYTHON_SERVICE])
    starts = ["service start", "pre-command start"]
    assert [line["phase"] for line in lines if "recorder" in line] == starts
    assert not VALIDATOR.is_valid(entry("stage start", stage="a", recorder="bash/0.1.0").to_json())


def test_every_recorder_has_the_version_of_the_package() -> None:
    shell = Path(__file__).parents[2] / "shell"
    named = {
        name: (shell / name).read_text()
        for name in ("bootstrap-service-record.sh", "service-record-exit.sh", "service-record-close.sh")
    }
    pattern = r'(?:"recorder":"\w+|exit)/(\d[^" ]*)'
    assert [re.findall(pattern, text) for text in named.values()] == [[__version__]] * 3
    finder = (shell / "service-record-failure.sh").read_text().split("\n")
    assert finder[0].endswith(f": service-record {__version__}")
    assert f"!= *': service-record {__version__}'" in named["bootstrap-service-record.sh"]


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
