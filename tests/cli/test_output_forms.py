"""`--output`: the same forms for each verb, and documents as docs/schemas describes them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml

from service_record.cli import main
from service_record.cli.options import FORMS
from service_record.display.fleet_document import hosts_document
from service_record.display.fleet_table import FleetListing
from service_record.display.machine import format_json
from service_record.http.collector_answers import BuildSummary, ClusterSummary, Hosts, HostSummary
from tests.command_line import service_record
from tests.faults import Faults
from tests.schemas import SCHEMAS, check, document_schemas, host_schema

GOLDEN = Path(__file__).parents[1] / "golden"
VERBS = ("show", "analyze", "timeline", "diff")


def commands(command: click.Command = main, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield each command with its name, those of groups as `collector token list`."""
    if path:
        yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            assert each is not None
            yield from commands(each, f"{path} {name}".strip())


def test_each_verb_has_the_same_forms() -> None:
    more = {"triage": ["csv"]}
    with Faults() as faults:
        for name, command in commands():
            for option in command.params:
                if "--output" in option.opts and isinstance(option.type, click.Choice):
                    with faults.case(name):
                        assert "-o" in option.opts
                        if name == "follow":  # its answer has no end
                            assert set(option.type.choices) == {"table", "wide", "jsonl"}
                        else:
                            assert list(option.type.choices) == [*FORMS, *more.get(name, [])]


@pytest.mark.parametrize("verb", VERBS)
def test_documents_fit_their_schema(verb: str) -> None:
    with Faults() as faults:
        for path in sorted(GOLDEN.glob(f"*/{verb}.json")):
            with faults.case(str(path)):
                document = json.loads(path.read_text())
                check(document, verb)
                text = path.with_suffix(".yaml")
                assert not text.exists() or set(yaml.safe_load(text.read_text())) == set(document)


ENTRY_FIELDS = {"service", "phase", "malformed"}


@pytest.mark.parametrize("verb", VERBS)
def test_lines_fit_their_schema(verb: str) -> None:
    with Faults() as faults:
        for path in sorted(GOLDEN.glob(f"*/{verb}.jsonl")):
            for line in path.read_text().splitlines():
                document = json.loads(line)
                if verb == "show":  # the other fields of an entry are those of the record format
                    document = {name: value for name, value in document.items() if name in ENTRY_FIELDS}
                with faults.case(f"{path}: {line}"):
                    check(document, verb, "line")


HOST = HostSummary(
    name="web1",
    group="dc1",
    release="9",
    hardware="",
    build=2,
    action="Packages",
    percentage=50.0,
    message="text",
    started_at=1.0,
    updated_at=2.0,
    ended_at=3.0,
    verdict="stuck",
    reason="why",
    verdict_since=2.0,
    cause="0123456789abcdef",
    revision=1,
)
BUILD = BuildSummary(
    number=1,
    key="c",
    action="a",
    release="9",
    started_at=1.0,
    updated_at=2.0,
    ended_at=3.0,
    verdict="failed",
    reason="b",
)
CLUSTER = ClusterSummary(
    id="id",
    name="prod",
    status="installing",
    reason="why",
    since=1.0,
    updated_at=1.0,
    revision=1,
    hosts=3,
    needed_control_planes=3,
    installed_control_planes=1,
    defined_workers=2,
    installed_workers=1,
    joined=1,
    csrs_approved=4,
    finalizing_stage="stage",
    completion="",
    completion_info="",
    logs_state="",
)


def test_hosts_fit_their_schema() -> None:
    new = msgspec.structs.replace(
        HOST, name="web2", verdict="done", group="", percentage=None, started_at=None, verdict_since=None
    )
    hosts = Hosts(hosts=(HOST, new), counts={"stuck": 1}, total=2, now=9.0, earlier={"web1": (BUILD,)})
    document = hosts_document(FleetListing(hosts, "https://collector.example", (CLUSTER,)))
    check(json.loads(format_json(document)), "hosts")


def test_host_schema_is_that_of_the_answer() -> None:
    assert json.loads((SCHEMAS / "host.schema.json").read_text()) == host_schema()


def test_schemas_are_those_of_the_documents() -> None:
    for verb, schema in document_schemas().items():
        assert json.loads((SCHEMAS / f"{verb}.schema.json").read_text()) == schema, f"{verb}: make golden"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("collector") / "data"
    assert service_record("collector", "token", "create", "host", "web1", "--data", data).status == 0
    return data


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("checks", ["doctor"]),
        ("checks", ["preflight", "--disk", "/proc"]),
        ("collector", ["collector", "token", "list", "--data"]),
        ("collector", ["collector", "audit", "--data"]),
        ("validate", ["validate"]),
    ],
)
def test_each_form_of_an_answer_can_be_read(
    name: str, arguments: list[str], tokens: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "job.json"
    damaged.write_text('{"timestamp": "2026\n{"phase"')
    words = [*arguments, *{"collector": [tokens], "validate": [damaged]}.get(name, [])]
    answers: dict[str, Any] = {form: service_record(*words, "-o", form).out for form in FORMS}
    document = json.loads(answers["json"])
    check(document, name)
    lines = [json.loads(line) for line in answers["jsonl"].splitlines()]
    for line in lines:
        check(line, name, "line")
    assert lines
    check(yaml.safe_load(answers["yaml"]), name)
    assert answers["html"].startswith("<!DOCTYPE html>")
    heads = 0 if name == "validate" else 1  # or a line with the number of checks
    assert len(answers["table"].splitlines()) >= len(answers["wide"].splitlines()) == len(lines) + heads
