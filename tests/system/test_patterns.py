"""The patterns under a real systemd, which names, notifies and ends them, and as upstream reads them."""

import shutil

import pytest

from service_record.record.entry import Entry
from testing.machine import REPOSITORY, Machine
from tests.bootstrap_host import LAYOUTS, install_scripts, read_as_upstream
from tests.upstream_reader import UpstreamReader

ARRAY_DROP_IN = REPOSITORY / "units" / "20-service-record-array.conf"
PROGRAMS = "/usr/local/bin"
UNITS = {
    "release-image": (
        *("Type=oneshot", "RemainAfterExit=yes", f"ExecStart={PROGRAMS}/release-image-download.sh"),
        "Environment=FAIL_AT=pull FAIL_TIMES=2",
    ),
    "crio-configure": ("Type=oneshot", f"ExecStart={PROGRAMS}/crio-configure.sh"),
    "chown-gatewayd-key": ("Type=oneshot", f"ExecStart={PROGRAMS}/chown-gatewayd-key.sh"),
    "kubelet": (
        *("Type=notify", "NotifyAccess=all", "Restart=always", "Environment=HANG_AT=run-kubelet"),
        *(f"ExecStartPre={PROGRAMS}/kubelet-pause-image.sh", f"ExecStart={PROGRAMS}/kubelet.sh"),
    ),
    "approve-csr": (
        f"ExecStart={PROGRAMS}/approve-csr.sh",
        "Environment=FAIL_AT=clusterversion FAIL_TIMES=2",
    ),
    "progress": (f"ExecStart={PROGRAMS}/report-progress.sh",),
    "install-to-disk": (f"ExecStart={PROGRAMS}/install-to-disk.sh",),
    "bootkube": (
        *(f"ExecStart={PROGRAMS}/bootkube.sh", "Restart=on-failure", "RestartSec=20ms"),
        "Environment=FAIL_AT=render-api FAIL_TIMES=1",
    ),
    "stopped": (f"ExecStart={PROGRAMS}/bootkube.sh", "Environment=HANG_AT=render-api"),
    "agent": ("Type=oneshot", f"ExecStartPre={PROGRAMS}/extract-agent.sh", "ExecStart=true"),
}
STARTED_ONCE = sorted(UNITS.keys() - {"bootkube"})
ENDED_WELL = sorted(UNITS.keys() - {"kubelet", "stopped"})
STOP_IN_STAGE = """
start stopped
until grep --quiet api-bootstrap /var/log/openshift/stopped.json; do sleep 0.02; done
systemctl stop stopped
"""


@pytest.fixture(scope="module", params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def machine(layout: str, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    directory = tmp_path_factory.mktemp("machine")
    machine = Machine(directory)
    install_scripts(directory / "programs")
    (directory / "programs" / "systemd-notify").unlink()  # systemd has its own
    surroundings = [f"Environment=BIN={PROGRAMS}", "WorkingDirectory=%S/%N", "StateDirectory=%N"]
    for unit, settings in UNITS.items():
        machine.unit(unit, *settings, *surroundings)
        machine.drop_in(unit)
    if layout == "array":
        service_d = directory / "units" / "service.d"
        service_d.mkdir()
        shutil.copy(ARRAY_DROP_IN, service_d)
    others = " ".join(UNITS.keys() - {"kubelet", "stopped", "release-image"})
    machine.boot(
        f"start kubelet; systemctl stop kubelet; {STOP_IN_STAGE} start release-image {others}; rest {others}"
    )
    return machine


@pytest.fixture(scope="module")
def upstream(machine: Machine, layout: str) -> UpstreamReader:
    return read_as_upstream(machine.records.directory, layout)


def test_each_unit_has_only_its_record(machine: Machine) -> None:
    assert sorted(machine.records.services()) == sorted(UNITS)


@pytest.mark.parametrize("unit", STARTED_ONCE)
def test_unit_started_once_is_one_attempt(upstream: UpstreamReader, unit: str) -> None:
    assert upstream.judge(unit).starts == 1
    assert upstream.count_attempts(unit) == 1


@pytest.mark.parametrize("unit", ENDED_WELL)
def test_successful_unit_is_a_success(upstream: UpstreamReader, unit: str) -> None:
    assert upstream.judge(unit).successful


def test_restarted_bootkube_has_two_attempts(upstream: UpstreamReader) -> None:
    judgement = upstream.judge("bootkube")

    assert (judgement.starts, judgement.failing_stage) == (2, "api-bootstrap")
    assert judgement.last_error.splitlines()[-1] == "podman: error: render-api failed"
    assert upstream.count_attempts("bootkube") == 2
    assert upstream.find_failure() is None


def test_stop_in_a_stage_is_a_failure_to_upstream(upstream: UpstreamReader, machine: Machine) -> None:
    judgement = upstream.judge("stopped")

    assert (judgement.successful, judgement.failing_stage) == (False, "api-bootstrap")
    assert [entry.signal for entry in service_ends(machine, "stopped")][-1] == "TERM"
    assert machine.runs("stopped")[0].in_stage == "api-bootstrap"


def test_stopped_unit_is_no_success(upstream: UpstreamReader, machine: Machine) -> None:
    assert not upstream.judge("kubelet").successful
    assert [entry.signal for entry in service_ends(machine, "kubelet")][-1] == "TERM"


def service_ends(machine: Machine, service: str) -> list[Entry]:
    return [entry for entry in machine.entries(service) if entry.phase == "service end"]


def test_script_of_a_pre_command_records_as_its_unit(machine: Machine) -> None:
    phases = machine.phases("agent")

    assert (phases[0], phases[-1]) == ("service start", "service end")
    assert "stage start pull-release-image" in phases
    assert phases.count("service end") == 1


def test_entries_of_an_attempt_share_the_invocation(machine: Machine) -> None:
    for unit in UNITS:
        invocations = {entry.invocation_id for entry in machine.entries(unit)}
        assert len(invocations) == (2 if unit == "bootkube" else 1), unit
