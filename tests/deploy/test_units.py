"""The units of the boot reporter and the collector: what they wait for, what waits for them, what they do."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from configparser import RawConfigParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from service_record.cli import VERBS, main
from service_record.record.journal_sending import MessageKind
from tests.programs import skip_without

UNITS = Path(__file__).resolve().parents[2] / "units"
SERVICE = UNITS / "boot-reporter.service"
TIMER = UNITS / "boot-reporter.timer"
COLLECTOR = UNITS / "collector.service"
METRICS = UNITS / "service-record-metrics.service"
MOST_EXPOSURE = {SERVICE: 3.0, COLLECTOR: 2.0}
ORDERINGS = {"after", "before", "requires", "requisite", "bindsto", "partof", "upholds", "wants", "conflicts"}
DEMANDS = {"requiredby", "upheldby", "alias", "also", "wantedby"}

services = pytest.mark.parametrize("unit", MOST_EXPOSURE, ids=lambda unit: unit.name)
both = pytest.mark.parametrize("unit", [SERVICE, TIMER], ids=["service", "timer"])


def settings(unit: Path) -> Iterator[tuple[str, str]]:
    """Name in lower case and value of every setting; of those that are repeated the last."""
    parser = RawConfigParser(strict=False)
    parser.read_string(unit.read_text())
    for section in parser.sections():
        yield from parser.items(section)


@services
def test_service_exposure_is_within_limit(unit: Path) -> None:
    skip_without("systemd-analyze")
    threshold = f"--threshold={MOST_EXPOSURE[unit] * 10:.0f}"
    analyze = ["systemd-analyze", "security", "--offline=true", "--no-pager", threshold, str(unit)]
    done = subprocess.run(analyze, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Overall exposure level for {unit.name}: " in done.stdout


@services
def test_missing_sandbox_options_are_explained(unit: Path) -> None:
    skip_without("systemd-analyze")
    analyze = ["systemd-analyze", "security", "--offline=true", "--json=short", str(unit)]
    rows = json.loads(subprocess.run(analyze, capture_output=True, text=True, check=True).stdout)
    missing = {re.split("[=/]", row["name"])[0] for row in rows if float(row["exposure"] or 0) > 0}
    assert missing, "it can always be had safer"
    assert [name for name in sorted(missing) if f"{name}=" not in unit.read_text()] == []


def test_metrics_are_replaced_whole(tmp_path: Path) -> None:
    program = tmp_path / "service-record"
    program.write_text("#!/bin/sh\necho metric 1\n")
    program.chmod(0o755)
    command = dict(settings(METRICS))["execstart"].replace("/usr/local/bin/service-record", str(program))

    def run() -> int:
        return subprocess.run(
            ["/bin/sh", "-c", command], env={"TEXTFILE_DIRECTORY": str(tmp_path)}, check=False
        ).returncode

    assert run() == 0
    assert (tmp_path / "service_record.prom").read_text() == "metric 1\n"
    program.write_text("#!/bin/sh\necho half\nexit 3\n")
    assert run() == 3
    assert (tmp_path / "service_record.prom").read_text() == "metric 1\n"


@both
def test_host_does_not_depend_on_units(unit: Path) -> None:
    found = {name: value for name, value in settings(unit) if name in ORDERINGS | DEMANDS}
    assert found.pop("conflicts") == found.pop("before") == "shutdown.target"
    assert set(found.pop("after", "").split()) <= {"local-fs.target", "systemd-journald.socket"}
    assert found.pop("wantedby", "timers.target") == "timers.target"
    assert found == {}
    assert ("defaultdependencies", "no") in settings(unit)


@both
def test_units_have_no_secrets(unit: Path) -> None:
    found = settings(unit)
    assert not {"environment", "environmentfile", "passenvironment"} & {name for name, _ in found}
    stand_ins = {value for name, value in found if name == "setcredential"}
    assert stand_ins <= {r"token:\x20", r"collector-token:\x20"}


def test_catalog_explains_each_message(tmp_path: Path) -> None:
    skip_without("journalctl")
    catalog = tmp_path / "usr/lib/systemd/catalog"
    catalog.mkdir(parents=True)
    shutil.copy(UNITS / "service-record.catalog", catalog)
    ask = ["journalctl", f"--root={tmp_path}"]
    subprocess.run([*ask, "--update-catalog"], check=True, capture_output=True)
    listed = subprocess.run([*ask, "--list-catalog"], check=True, capture_output=True, text=True).stdout

    assert {line.split()[0] for line in listed.splitlines()} == {kind.message_id for kind in MessageKind}


def test_shell_programs_send_known_messages() -> None:
    programs = "".join(path.read_text() for path in (UNITS.parent / "shell").rglob("*.sh"))
    sent = set(re.findall(r"(?:\bMESSAGE_ID=|\blog \d )([0-9a-f]{32})", programs))
    by_shell = {"ENTRIES_LOST", "BOOTSTRAP_FAILED", "INITRAMFS_FAILED", "INITRAMFS_REPORT"}
    assert sent == {MessageKind[name].message_id for name in by_shell}


def test_commands_of_the_catalog_exist() -> None:
    catalog = (UNITS / "service-record.catalog").read_text()
    entries = re.split(r"(?m)^-- [0-9a-f]{32}$", catalog)[1:]
    for entry in entries:
        commands = re.findall(r"(?m)^    ((?:service-record|journalctl) .*)$", entry)
        assert commands, entry
        for command in commands:
            program, *words = re.sub(r"@\w+@", "name", command).split()
            if program == "service-record":
                assert CliRunner().invoke(main, [*words, "--help"]).exit_code == 0, command
            elif words[0].startswith("MESSAGE_ID="):
                assert words[0].removeprefix("MESSAGE_ID=") in catalog
        fields = set(re.findall(r"@(\w+)@", entry))
        assert fields <= {"MESSAGE", *(f"SERVICE_RECORD_{name}" for name in ("SERVICE", "STAGE", "RESULT"))}
        (page,) = re.findall(r"(?m)^Documentation: man:(\S+)\(1\)$", entry)
        verb = page.removeprefix("service-record").lstrip("-")
        assert page == "bootstrap-service-record.sh" or not verb or verb in VERBS
