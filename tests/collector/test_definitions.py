"""Steps that an operator defines. Other steps are stored, but refused."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from service_record.collector.domain.definitions import Definitions, parse
from service_record.collector.domain.steps import ReportedStep, StepStatus, make_label
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.schema import hosts, steps
from service_record.record.config_file import ConfigError
from tests.collector.installing import Clock
from tests.collector.serving import RunningCollector, run_collector
from tests.command_line import PROGRAM
from tests.waiting import wait_for

FILE = """\
[[step]]
label = "disk_setup"
name = "Disk setup"
priority = 1
budget = 600

[[step]]
label = "packages"
percentage = 60

[[step]]
label = "callback"
last = true
"""


@pytest.fixture
def strict(settings: CollectorSettings, tmp_path: Path) -> Iterator[RunningCollector]:
    """A collector with the steps of FILE. The test runs once with each database."""
    file = tmp_path / "steps.toml"
    file.write_text(FILE)
    with run_collector(replace(settings, steps=(file,))) as running:
        yield running


def kept(server: RunningCollector) -> list[Any]:
    with server.collector.database.reading() as connection:
        return list(connection.execute(select(steps).order_by(steps.c.id)))


def reported(name: str, status: str = "done", **fields: Any) -> ReportedStep:
    return ReportedStep(label=make_label(name), name=name, status=StepStatus(status), **fields)


def refusal_of(text: str) -> ConfigError | None:
    try:
        parse(text)
    except ConfigError as error:
        return error
    return None


def test_defined_step_is_acknowledged(strict: RunningCollector) -> None:
    assert strict.client("host", "web1").step("web1", "Disk setup", "init").status == 201


def test_undefined_step_is_refused_and_kept(strict: RunningCollector) -> None:
    host = strict.client("host", "web1")

    reply = host.step("web1", "Make coffee", "done", logs="no milk")

    assert reply.status == 422
    assert reply.json["detail"] == (
        "make_coffee is not one of the steps that are defined here; it was kept as step 1"
    )
    assert [(row.label, row.logs, row.is_known) for row in kept(strict)] == [
        ("make_coffee", "no milk", False)
    ]


def test_host_continues_after_a_refusal(strict: RunningCollector) -> None:
    host = strict.client("host", "web1")
    host.step("web1", "Make coffee")

    assert host.step("web1", "Callback", "done").json == {"id": 2, "host": "web1", "build": 1}


def test_last_step_completes_the_build(strict: RunningCollector) -> None:
    host = strict.client("host", "web1")

    host.step("web1", "Packages", "done")
    host.step("web1", "Callback", "done")
    host.step("web1", "First login", "done", percentage=20)

    with strict.collector.database.reading() as connection:
        (row,) = connection.execute(select(hosts))
    assert row.ended_at is not None
    assert row.percentage == 100


def test_every_step_is_accepted_without_definitions() -> None:
    step = reported("Make coffee")

    assert Definitions().applied(step) == step
    assert Definitions().budgets == {}


def test_definition_overrides_name_and_priority() -> None:
    defined = parse(FILE)

    applied = defined.applied(reported("disk setup", "init", priority=7))

    assert (applied.name, applied.priority, applied.is_known) == ("Disk setup", 1, True)
    assert defined.budgets == {"disk_setup": 600}


def test_definitions_give_budgets_and_last_step() -> None:
    defined = parse('[[step]]\nlabel = "a"\nbudget = 5\n[[step]]\nlabel = "b"\nlast = true\n')
    assert defined.budgets == {"a": 5.0}
    assert [defined.is_last(reported(name)) for name in "abc"] == [False, True, False]
    assert [defined.applied(reported(name)).is_known for name in "abc"] == [True, True, False]
    assert defined.applied(reported("c", priority=3)).priority == 3


@pytest.mark.parametrize(
    ("status", "percentage", "kept_as"),
    [
        ("done", None, 60),
        ("reported", None, 60),
        ("init", None, None),
        ("failed", None, None),
        ("done", 55, 55),
    ],
)
def test_reported_percentage_overrides_definition(
    status: str, percentage: float | None, kept_as: float | None
) -> None:
    assert parse(FILE).applied(reported("packages", status, percentage=percentage)).percentage == kept_as


NEARBY = (
    "step.budgett: no such field; did you mean budget? "
    "a step has label, name, priority, budget, percentage, last"
)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "it defines no steps: [[step]] and label = ... for each"),
        ("step = 1", 1, "it defines no steps: [[step]] and label = ... for each"),
        (
            "[[step]]\nlabel = 'a'\n\n[[stop]]\n",
            4,
            "stop: no such field; did you mean step? a file of steps has step",
        ),
        (
            "[[step]]\nlabel = 'a'\n[[step]]\nname = 'B'\n",
            3,
            "step: a step needs `label`: lower case letters, digits and _, at most 255",
        ),
        (
            "[[step]]\nlabel = 'a'\n# c\nbudgett = 1\n",
            4,
            NEARBY,
        ),
        ("[[step]]\nlabel = 'a'\nbudget = 'long'\n", 3, "step.budget: seconds, more than 0 and at most 1e9"),
        ("[[step]]\nlabel = 'a'\nbudget = 0\n", 3, "step.budget: seconds, more than 0 and at most 1e9"),
        ("[[step]]\nlabel = 'a'\npercentage = 101\n", 3, "step.percentage: a number from 0 to 100"),
        ("[[step]]\nlabel = 'A b'\n", 2, "step.label: lower case letters, digits and _, at most 255"),
        ("[[step]]\nlabel = 'a'\n[[step]]\n\nlabel = 'a'\n", 5, "step.label: a is defined twice; remove one"),
        ("[[step]]\nlabel = \n", 2, "not TOML: Invalid value"),
        ("[[step]]\nlabel = 'a'\nname = [\n", 3, "not TOML: Invalid value"),
        ("step = [\n 1\n]\n", 1, "step: a step has fields: names with values"),
        ('[[step]]\nlabel = "a"\nname = """\n[[step]]\n"""\nlast = 3\n', 6, "step.last: true or false"),
    ],
)
def test_error_names_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "steps.toml")

    assert str(caught.value) == f"steps.toml:{line}: {reason}"


@given(st.text(st.sampled_from("[]step\n=abel'\"_1.#{}, \\"), max_size=60))
def test_any_text_is_parsed_or_refused_with_line(text: str) -> None:
    error = refusal_of(text)

    if error is not None:
        assert 1 <= error.line <= text.count("\n") + 1
        assert "\n" not in str(error)


def test_invalid_file_is_one_line_and_no_start(tmp_path: Path) -> None:
    file = tmp_path / "steps.toml"
    file.write_text("[[step]]\nlabel = 'a'\nbudget = -1\n")

    done = subprocess.run(
        [*PROGRAM, "collector", "serve", "--data", tmp_path, "--steps", file],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"Error: {file}:3: step.budget: seconds, more than 0 and at most 1e9\n"


def test_steps_of_several_files_are_accepted(sqlite_settings: CollectorSettings, tmp_path: Path) -> None:
    files = (tmp_path / "foreman.toml", tmp_path / "plugin.toml")
    files[0].write_text(FILE)
    files[1].write_text('[[step]]\nlabel = "puppet_run"\n')
    with run_collector(replace(sqlite_settings, steps=files)) as server:
        host = server.client("host", "web1")

        answers = [host.step("web1", name, "init").status for name in ("Disk setup", "Puppet run", "Coffee")]

    assert answers == [201, 201, 422]


def test_step_defined_twice_names_both_files(tmp_path: Path) -> None:
    files = [tmp_path / "foreman.toml", tmp_path / "plugin.toml"]
    for file in files:
        file.write_text('[[step]]\nlabel = "disk"\n')

    done = subprocess.run(
        [*PROGRAM, "collector", "serve", "--data", tmp_path, "--steps", files[0], "--steps", files[1]],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (
        3,
        f"Error: {files[1]}: disk is defined in {files[0]} already; remove one of them\n",
    )


def test_undefined_step_decides_no_verdict(settings: CollectorSettings, tmp_path: Path) -> None:
    file, clock = tmp_path / "steps.toml", Clock()
    file.write_text(FILE)
    with run_collector(replace(settings, steps=(file,)), clock) as server:
        host = server.client("host", "web1")
        host.step("web1", "Disk setup", "init")
        clock.now += 550
        assert host.step("web1", "Make coffee", "failed", logs="no milk").status == 422
        assert shown(server)["verdict"] == "progressing"

        clock.now += 100
        server.collector.sweeper.wake()
        wait_for(lambda: shown(server)["verdict"] == "stuck")


def test_host_with_only_undefined_steps_shows_them(strict: RunningCollector) -> None:
    strict.client("host", "web1").step("web1", "Make coffee", "done", percentage=100)

    strict.settle()
    detail = strict.client("reader").get("/api/v1/hosts/web1").json
    assert detail["summary"]["verdict"] == "progressing"
    assert [step["is_known"] for group in detail["steps"] for step in group["latest"]] == [False]


def shown(server: RunningCollector) -> dict[str, object]:
    server.settle()
    summary: dict[str, object] = server.client("reader").get("/api/v1/hosts/web1").json["summary"]
    return summary
