"""Ends that need no bash: a recorded success, and the success or stop of a service that does not record.

A wrapper around the part of the exit helper that needs bash notes which services it closes.
"""

import pytest

from service_record.history.outcome import Outcome
from testing.machine import CLOSE_HELPER, Machine

SPY = """\
#!/bin/bash
while IFS= read -r group; do [[ $group != *.service ]] || unit=${group##*/}; done </proc/self/cgroup
echo "$unit" >>/observed/closed
exec /usr/local/bin/close/service-record-close.sh "$@"
"""
WORK = "record_service_stage_start work; record_service_stage_success"
ONESHOT = "Type=oneshot"
SLEEP = "ExecStart=/bin/sleep 0.5"
SLOW = '#!/bin/sh\nsleep 2\nexec "/usr/bin/${0##*/}" "$@"\n'
HUNG = "#!/bin/bash\ntrap '' TERM INT\nwhile :; do sleep 60; done\n"
OWN = '#!/bin/sh\ntouch /observed/own/ran\nexec "/usr/bin/${0##*/}" "$@"\n'
ORDINARY = (
    "unaware",
    "dotted.name",
    r"with\x2ddash",
    "restarted",
    "aware",
    "aware.service",
    "aware-python",
    "daemon-of-a-user",
)
OTHERS = (
    "failing",
    "daemon",
    "bound",
    "oneshot-of-a-user",
    "aware-stopped",
    "synced",
    "renamed",
    "killed",
    "large",
    "in-an-array",
)
DURATIONS = ("unaware", "slow-helper")


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    for name in ("unaware", "dotted.name", r"with\x2ddash"):
        shared_machine.unit(name, ONESHOT, SLEEP)
    for name in ("daemon", "restarted", "killed"):
        shared_machine.unit(name, "ExecStart=/bin/sleep infinity")
    shared_machine.unit("daemon-of-a-user", "ExecStart=/bin/sleep infinity", "User=nobody")
    shared_machine.write_unit(
        "bound.service",
        "[Unit]\nBindsTo=partner.service\nAfter=partner.service\n[Service]\nExecStart=/bin/sleep infinity\n",
    )
    shared_machine.unit("partner", "ExecStart=/bin/sh -c 'sleep 1; exit 3'")
    shared_machine.unit("oneshot-of-a-user", ONESHOT, SLEEP, "DynamicUser=yes")
    for name in ("aware", "aware.service"):
        shared_machine.bash_service(name, WORK)
    shared_machine.python_service("aware-python", "with service_record.service():\n    pass")
    shared_machine.unit("failing", ONESHOT, "ExecStart=/bin/false")
    shared_machine.bash_service("aware-stopped", "record_service_stage_start work; sleep infinity")
    shared_machine.unit("synced", ONESHOT, SLEEP, "Environment=SERVICE_RECORDS_SYNC=ends")
    shared_machine.unit("renamed", ONESHOT, SLEEP, "Environment=SERVICE_NAME=another")
    shared_machine.bash_service("large", WORK, "Environment=SERVICE_RECORDS_MAX_BYTES=10")
    shared_machine.bash_service("in-an-array", WORK, "Environment=SERVICE_RECORDS_LAYOUT=array")
    shared_machine.unit("slow-helper", ONESHOT, SLEEP)
    shared_machine.unit("hung-stat", ONESHOT, "ExecStart=/bin/true")
    shared_machine.unit("hung-systemctl", "ExecStart=/bin/false")
    shared_machine.unit("short-of-time", "ExecStart=/bin/false", "TimeoutStopSec=1900ms")
    for unit, folder in (
        ("slow-helper", "slow"),
        ("hung-stat", "hung"),
        ("hung-systemctl", "out"),
        ("short-of-time", "late"),
    ):
        shared_machine.replace_path(unit, f"/observed/{folder}:/usr/bin:/bin")
    shared_machine.unit(
        "with-own-programs",
        ONESHOT,
        "ExecStart=/bin/false",
        "Environment=PATH=/observed/own:/usr/bin BASH_ENV=/observed/own/stat",
    )
    shared_machine.program("service-record-close.sh", SPY)
    shared_machine.tmpfiles()
    shared_machine.drop_in()
    closer = shared_machine.observed.parent / "programs" / "close"
    closer.mkdir()
    for name in ("service-record-close.sh", "bootstrap-service-record.sh"):
        (closer / name).write_bytes(CLOSE_HELPER.with_name(name).read_bytes())
        (closer / name).chmod(0o755)
    for name, program, text in (
        ("slow", "stat", SLOW),
        ("late", "systemctl", SLOW),
        ("hung", "stat", HUNG),
        ("out", "systemctl", HUNG),
        ("own", "stat", OWN),
        ("own", "env", OWN),
    ):
        directory = shared_machine.observed / name
        directory.mkdir(exist_ok=True)
        (directory / program).write_text(text)
        (directory / program).chmod(0o755)
    # A service that starts before systemd-tmpfiles has copied the uptime is closed by bash.
    shared_machine.boot(r"""
        until [[ -e /dev/shm/service-record.uptime ]]; do sleep 0.05; done
        systemctl start --no-block hung-stat hung-systemctl short-of-time with-own-programs
        systemctl start daemon daemon-of-a-user bound restarted killed aware-stopped
        until grep -q '"stage start"' /var/log/openshift/aware-stopped.json; do sleep 0.05; done
        for name in unaware dotted.name 'with\x2ddash' aware aware.service.service aware-python failing \
          synced renamed large in-an-array; do systemctl start "$name" & done
        wait
        systemctl start slow-helper oneshot-of-a-user
        rest aware aware.service.service aware-python large in-an-array
        systemctl restart restarted
        systemctl kill --signal=KILL killed
        systemctl stop daemon aware-stopped
        rest bound killed hung-stat hung-systemctl short-of-time with-own-programs
        systemctl show --property=Result,ExecMainStatus hung-stat >/observed/hung-stat
    """)
    (shared_machine.observed / "closed").rename(shared_machine.observed / "closed-in-first-boot")
    shared_machine.boot("""
        echo '3.00 1.00' >/dev/shm/service-record.uptime
        systemctl start unaware
        systemctl start dotted.name
        rm /dev/shm/service-record.uptime
        systemctl start 'with\\x2ddash'
        rm /dev/shm/service-record.uptime
        setpriv --reuid=nobody --regid=nogroup --clear-groups mkfifo /dev/shm/service-record.uptime
        systemctl start slow-helper
    """)
    return shared_machine


@pytest.fixture(scope="module")
def closed(machine: Machine) -> set[str]:
    text = (machine.observed / "closed-in-first-boot").read_text()
    return {line.removesuffix(".service") for line in text.splitlines()}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_end_needs_no_bash(closed: set[str], name: str) -> None:
    assert name not in closed


@pytest.mark.parametrize("name", OTHERS)
def test_other_end_is_closed_by_bash(closed: set[str], name: str) -> None:
    assert name in closed


@pytest.mark.parametrize(
    ("name", "outcome", "request_"),
    [
        ("unaware", Outcome.SUCCESS, None),
        ("dotted_name", Outcome.SUCCESS, None),
        (r"with\x2ddash", Outcome.SUCCESS, None),
        ("daemon", Outcome.STOPPED, "stop"),
        ("restarted", Outcome.STOPPED, "restart"),
        ("aware", Outcome.SUCCESS, None),
        ("aware-python", Outcome.SUCCESS, None),
        ("killed", Outcome.FAILURE, None),
        ("daemon-of-a-user", Outcome.STOPPED, "shutdown"),
        ("another", Outcome.SUCCESS, None),
    ],
)
def test_end_is_recorded_once(machine: Machine, name: str, outcome: Outcome, request_: str | None) -> None:
    run = machine.runs(name)[0]
    ends = [
        e for e in machine.entries(name) if e.phase == "service end" and e.invocation_id == run.invocation_id
    ]

    assert (run.outcome, run.facts.stop_request) == (outcome, request_)
    assert len(ends) == 1
    assert run.duration is not None
    assert machine.records.path(name).stat().st_mode & 0o777 == 0o640


def test_doubled_service_suffix_has_one_record(machine: Machine) -> None:
    assert [e.stage for e in machine.entries("aware_service") if e.phase == "stage end"] == ["work"]


def test_shutdown_of_host_is_the_request(machine: Machine) -> None:
    run = machine.runs("restarted")[1]

    assert (run.outcome, run.facts.stop_request) == (Outcome.STOPPED, "shutdown")


def test_partner_of_an_unrecorded_service_is_named(machine: Machine) -> None:
    (run,) = machine.runs("bound")

    assert run.facts.stopped_with == "partner.service"


def test_failure_is_recorded_despite_a_slow_helper(machine: Machine) -> None:
    (run,) = machine.runs("short-of-time")

    assert (run.outcome, run.facts.exit_code) == (Outcome.FAILURE, 1)


@pytest.mark.parametrize("name", DURATIONS)
def test_duration_does_not_include_the_helper(machine: Machine, name: str) -> None:
    run = machine.runs(name)[0]

    assert run.duration == pytest.approx(0.6, abs=0.3)


def test_duration_is_right_where_the_clock_was_set(machine: Machine) -> None:
    runs = machine.runs("unaware")

    closed = (machine.observed / "closed").read_text()
    assert "unaware.service" in closed
    assert "dotted.name" not in closed  # it started after the clock was set
    assert [run.outcome for run in runs] == [Outcome.SUCCESS] * 2
    assert runs[1].duration == pytest.approx(0.6, abs=0.3)


@pytest.mark.parametrize("name", [r"with\x2ddash", "slow-helper"])
def test_end_is_recorded_without_uptime_copy(machine: Machine, name: str) -> None:
    runs = machine.runs(name)

    assert [run.outcome for run in runs] == [Outcome.SUCCESS] * 2
    assert runs[1].duration == pytest.approx(0.6, abs=0.3)


def test_helper_runs_no_program_of_the_unit(machine: Machine) -> None:
    (run,) = machine.runs("with-own-programs")

    assert run.facts.exit_code == 1
    assert not (machine.observed / "own" / "ran").exists()


def test_helper_that_hangs_fails_no_service(machine: Machine) -> None:
    assert (machine.observed / "hung-stat").read_text().split() == ["Result=success", "ExecMainStatus=0"]


def test_end_is_recorded_where_systemctl_hangs(machine: Machine) -> None:
    (run,) = machine.runs("hung-systemctl")

    assert (run.outcome, run.facts.exit_code) == (Outcome.FAILURE, 1)
