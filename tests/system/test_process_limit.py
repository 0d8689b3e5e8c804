"""Services at their limit of processes (TasksMax=): bash retries fork for half a minute, then ends the
script.

Where version 1 of the control groups limits processes, the service enters a group of the test with such a
limit. Programs that systemd runs after the service are outside it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service_record.history.outcome import Outcome, Run
from service_record.record.directory import Records
from testing import cgroup
from testing.machine import BASH_HEAD, Machine

LIMIT = 24
ENTER = """\
[[ ! -e /limits ]] || echo $$ >"/sys/fs/cgroup/pids/$(</limits/name)/cgroup.procs"
"""
FILL = f"""\
for ((n = 1; n < {LIMIT}; n++)); do sleep infinity & done
"""
FAIL = """\
work() {
  record_service_stage_start work
  echo "${unset:?}"
}
work
"""
DIRECTORY = "/var/log/openshift/below"
LOSE = f"""\
record_service_stage_start lost
kill $!
wait $! || :
mkdir {DIRECTORY}
record_service_stage_failure
exit 7
"""
CALL = (BASH_HEAD + ENTER + FILL + FAIL).count("\n")


@pytest.fixture
def settings(machine: Machine, tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the unit settings that set the limit."""
    hierarchies = cgroup.limiting("pids")
    if not hierarchies and not cgroup.is_delegated("pids"):
        pytest.skip("limits of processes cannot be had here")
    with cgroup.groups(hierarchies) as groups:
        for group in groups:
            (group / "pids.max").write_text(str(LIMIT))
            (tmp_path / "limits").mkdir()
            (tmp_path / "limits" / "name").write_text(group.name)
            machine.bind(tmp_path / "limits", "/limits")
            machine.bind(group.parent, "/hierarchy")
        seen = ("TemporaryFileSystem=/sys/fs/cgroup", "BindPaths=/hierarchy:/sys/fs/cgroup/pids")
        yield (f"TasksMax={LIMIT}", *(seen if groups else ()))


def run_service(machine: Machine, name: str, body: str, *settings: str) -> Run:
    machine.bash_service(name, ENTER + body, *settings)
    machine.drop_in(name)
    machine.boot(f"start {name}; rest {name}", seconds=60)
    (run,) = machine.runs(name)
    return run


def get_duration(machine: Machine, name: str) -> float:
    first, *_, last = (entry.uptime for entry in machine.entries(name))
    assert first is not None
    assert last is not None
    return last - first


@pytest.mark.parametrize("layout", ["lines", "array"])
def test_failure_at_process_limit_is_recorded(
    machine: Machine, settings: tuple[str, ...], layout: str
) -> None:
    run = run_service(machine, "full", FILL + FAIL, *settings, f"Environment=SERVICE_RECORDS_LAYOUT={layout}")

    assert (run.outcome, run.facts.exit_code, run.in_stage) == (Outcome.FAILURE, 1, "work")
    assert machine.phases("full") == ["service start", "stage start work", "stage end work", "service end"]
    assert machine.entries("full")[-1].error_line == f"{CALL - 2} work /usr/local/bin/full.sh"
    assert get_duration(machine, "full") < 10


def test_entries_lost_at_process_limit_are_counted(machine: Machine, settings: tuple[str, ...]) -> None:
    """A writer without its directory runs mkdir, for which no process is left."""
    directory = f"Environment=SERVICE_RECORDS_DIR={DIRECTORY}"
    machine.bash_service("losing", f"{ENTER}rm -r {DIRECTORY}\n{FILL}{LOSE}", *settings, directory)
    machine.drop_in("losing")
    machine.boot("start losing; rest losing", seconds=60)

    machine.records = Records(machine.records.directory / "below")
    (run,) = machine.runs("losing")
    assert (run.outcome, run.facts.exit_code) == (Outcome.FAILURE, 7)
    assert machine.entries("losing")[0].dropped == 1
    assert get_duration(machine, "losing") < 10
