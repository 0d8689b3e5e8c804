"""The look each minute whether a round is due: what it goes by, and how little it loads for that."""

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
    *("httpx2", "re2", "subprocess", "wcwidth", "service_record.diagnosis", "service_record.history"),
    *("service_record.reporter.policy", "service_record.reporter.round"),
}
"""Modules that only a round needs."""
MOST_OF_A_ROUND = 105
PROGRAM = """
import sys
from service_record.cli import main
main(["report", "--due", "--root", sys.argv[1]], standalone_mode=False)
print(*sys.modules)
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A host that had a round just now."""
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


def test_when_nothing_is_due_nothing_is_loaded_that_only_a_round_needs(places: Places) -> None:
    modules = loaded(places)

    assert "service_record.reporter.due" in modules
    assert modules & ROUND == set()


def test_what_only_a_round_needs_is_loaded_for_a_round(places: Places) -> None:
    places.state_file.unlink()

    assert loaded(places) >= ROUND


def test_a_round_of_a_host_that_is_well_loads_few_modules(places: Places) -> None:
    places.state_file.unlink()
    places.records.mkdir(parents=True)
    write_lines(places.records / "job.json", entry(), entry("service end", 1, result="success"))

    ours = {module for module in loaded(places) if module.startswith("service_record")}

    assert "service_record.history.results" in ours
    assert len(ours) <= MOST_OF_A_ROUND


def test_after_a_round_nothing_is_due(places: Places) -> None:
    assert not is_anything_due(places, {})


def test_in_another_boot_a_round_is_due(places: Places) -> None:
    save(places.state_file, ReporterState(boots=(BootSeen(boot_id="a1" * 16, rounds=2, uptime=20.0),)))
    assert is_anything_due(places, {})


def test_where_the_reporter_has_stopped_there_may_be_something_left_to_remove(places: Places) -> None:
    places.tombstone.write_text("{}")
    assert is_anything_due(places, {})


def test_where_records_are_sent_as_they_come_there_may_be_new_ones(places: Places) -> None:
    places.settings_file.write_text('records_to = ["collector+https://collector.example"]\n')
    assert is_anything_due(places, {})


@pytest.mark.parametrize("state", [b"{", b'{"version": 2}', b'{"boots": 3}'], ids=["torn", "newer", "odd"])
def test_a_damaged_state_is_for_a_round_to_set_aside(places: Places, state: bytes) -> None:
    places.state_file.write_bytes(state)

    assert is_anything_due(places, {})
    assert places.state_file.read_bytes() == state


def test_a_state_that_cannot_be_read_is_for_a_round_to_tell_of(places: Places) -> None:
    places.state_file.unlink()
    places.state_file.symlink_to(places.state_file.name)
    assert is_anything_due(places, {})
