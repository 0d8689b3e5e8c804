"""The commands that `analyze` prints can be pasted: a shell reads them, and our own verbs take them."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import click

from service_record.cli import main
from service_record.diagnosis.cause_rules import fill_commands, find_placeholders
from service_record.diagnosis.causes import built_in_rules
from service_record.diagnosis.evidence.unit_logs import Hindrance
from service_record.diagnosis.findings import NotStarted, commands_for_missing
from tests.command_line import service_record


def next_commands() -> list[str]:
    """Return the commands of all rules with a value for each placeholder, and those for missing units."""
    rules = [
        command
        for rule in built_in_rules()
        for text in rule.next
        for command in fill_commands([text], dict.fromkeys(find_placeholders(text), "a b"))
    ]
    missing = [
        command
        for hindrance in Hindrance
        for command in commands_for_missing(NotStarted(service="a b", hindrance=hindrance))
    ]
    return [*rules, *missing]


def test_shell_can_read_each_next_command() -> None:
    commands = next_commands()
    assert len(commands) > 100
    script = "".join(f"{command}\n" for command in commands)
    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_next_commands_of_ours_have_all_they_need() -> None:
    context = click.Context(main)
    ours = [command for command in next_commands() if re.match(r"service-record\b", command)]
    assert ours
    for command in ours:
        _, verb, *words = shlex.split(command, comments=True)
        found = main.get_command(context, verb)
        assert found is not None
        found.make_context(verb, words)  # raises UsageError


def test_description_is_not_a_unit_in_next_commands(tmp_path: Path) -> None:
    """A journal of an old systemd has only the descriptions of units."""
    path = tmp_path / "boot.log"
    path.write_text(
        "[  OK  ] Started Docker Application Container Engine.\n"
        "         Starting The PHP FastCGI Process Manager...\n"
        "[FAILED] Failed to start The PHP FastCGI Process Manager.\n"
    )
    answer = service_record("analyze", "--from", path, "--output", "json")
    root = json.loads(answer.out)["root"]
    assert root["service"] == "The PHP FastCGI Process Manager"
    assert not any("--unit" in command for command in root["next"])
