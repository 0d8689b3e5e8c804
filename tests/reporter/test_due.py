"""The check each minute whether a round is due: its conditions, and the modules that it loads."""

import subprocess
import sys
from pathlib import Path

import pytest

from service_record.record import systemd
from service_record.reporter.due import is_anything_due
from service_record.reporter.paths import Places
from service_record.reporter.state import BootSeen, ReporterState, save
from tests.builders import entry, write_lines
from tests.programs import REPOSITORY

ROUND = {
    *("httpx2", "re2", "subprocess", "service_record.diagnosis", "service_record.history"),
    *("service_record.reporter.policy", "service_record.reporter.round"),
}
"""Modules that only a round needs."""
ROOMS_OF_A_BUNDLE = ("service_record.bundle", "service_record.export", "service_record.reporter.gather")
PROGRAM = """
import sys
from service_record.cli import main
main(["report", "--due", "--root", sys.argv[1]], standalone_mode=False)
print(*sys.modules)
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A host whose last round was just now."""
    places = Places(tmp_path)
    places.settings_file.parent.mkdir(parents=True)
    places.settings_file.write_text('frequency = "10m"\n')
    places.state_directory.mkdir(parents=True)
    save(places.state_file, ReporterState(boots=(seen(),)))
    return places


def seen() -> BootSeen:
    boot_id, uptime = systemd.boot_id(), systemd.uptime()
    assert boot_id is not None
    assert uptime is not None
    return BootSeen(boot_id=boot_id, rounds=2, uptime=uptime)


def loaded(places: Places) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, places.root],
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_check_loads_no_modules_of_a_round(places: Places) -> None:
    modules = loaded(places)

    assert "service_record.reporter.due" in modules
    assert modules & ROUND == set()


def test_round_loads_its_modules(places: Places) -> None:
    places.state_file.unlink()

    assert loaded(places) >= ROUND


def test_round_of_a_healthy_host_loads_nothing_for_bundles(places: Places) -> None:
    places.state_file.unlink()
    places.records.mkdir(parents=True)
    write_lines(places.records / "job.json", entry(), entry("service end", 1, result="success"))

    modules = loaded(places)

    assert "service_record.history.results" in modules
    assert [module for module in modules if module.startswith(ROOMS_OF_A_BUNDLE)] == []


def test_no_round_is_due_after_a_round(places: Places) -> None:
    assert not is_anything_due(places, {})


def test_round_is_due_in_another_boot(places: Places) -> None:
    save(places.state_file, ReporterState(boots=(BootSeen(boot_id="a1" * 16, rounds=2, uptime=20.0),)))
    assert is_anything_due(places, {})


def test_round_is_due_after_a_stop(places: Places) -> None:
    places.tombstone.write_text("{}")
    assert is_anything_due(places, {})


def test_round_is_due_if_records_are_streamed(places: Places) -> None:
    places.settings_file.write_text('records_to = ["collector+https://collector.example"]\n')
    assert is_anything_due(places, {})


@pytest.mark.parametrize("state", [b"{", b'{"version": 2}', b'{"boots": 3}'], ids=["torn", "newer", "odd"])
def test_round_is_due_for_a_damaged_state(places: Places, state: bytes) -> None:
    places.state_file.write_bytes(state)

    assert is_anything_due(places, {})
    assert places.state_file.read_bytes() == state


def test_round_is_due_for_an_unreadable_state(places: Places) -> None:
    places.state_file.unlink()
    places.state_file.symlink_to(places.state_file.name)
    assert is_anything_due(places, {})
