"""The boot reporter on a host that boots from its disk: twice, without anybody who answers, and killed."""

import statistics
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest

from service_record.history.outcome import Run
from tests.assisted_installation import CONTROL_PLANE_IGNITION, LOCAL_IGNITION, Claim, Host
from tests.assisted_rules import AssistedRules
from tests.assisted_server import AssistedServer
from tests.system.reporter_host import TOKEN, ReporterHost
from tests.system.unix_relay import relay

FAILING = "record_service_stage_start pull-image; ls /no/such/image"
POINTER = "ignition-machine-config-encapsulated.json"
TOMBSTONE = {"lib/service-record", "lib/service-record/reporter.stopped"}


@pytest.fixture
def server() -> Iterator[AssistedServer]:
    with AssistedServer(AssistedRules(auth_type="local")) as server:
        yield server


@pytest.fixture
def installed(server: AssistedServer) -> Host:
    """A host that the service waits for, and which has a token."""
    host = server.rules.add_host(stage="Rebooting")
    server.rules.tokens[TOKEN] = Claim(host.infra_env_id)
    return host


@contextmanager
def reachable(host: ReporterHost, server: AssistedServer) -> Iterator[None]:
    with relay(host.observed / "assisted.socket", server.port):
        yield


def with_pointer_ignition(host: ReporterHost) -> None:
    """The machine config server's config is there, and to be applied at the next boot."""
    host.leave(POINTER, "{}")


def with_control_plane_ignition(host: ReporterHost) -> None:
    (host.etc / POINTER).rename(host.etc / f"{POINTER}.bak")
    host.leave("machine-config-daemon/currentconfig", "{}")


def test_a_host_that_boots_twice_reports_both_and_has_no_reporter_when_its_kubelet_is_up(
    tmp_path: Path, server: AssistedServer, installed: Host
) -> None:
    host = ReporterHost(tmp_path, installed)
    host.machine.bash_service("bootkube", FAILING)
    with_pointer_ignition(host)
    with reachable(host, server):
        host.boot("round")
        assert (installed.stage, installed.info) == ("Rebooting", LOCAL_IGNITION)

        with_control_plane_ignition(host)
        host.boot("start bootkube; rest bootkube; round")
        assert (installed.stage, installed.info) == ("Rebooting", CONTROL_PLANE_IGNITION)
        (bundle,) = server.rules.objects.values()
        with tarfile.open(fileobj=BytesIO(bundle)) as archive:
            assert "verdict.txt" in {Path(name).name for name in archive.getnames()}
        assert TOKEN.encode() not in bundle

        said = host.boot("""
            start kubelet
            until [[ ! -e /etc/systemd/system/boot-reporter.service ]]; do sleep 0.1; done
            rest boot-reporter
            leaks
            systemctl list-units --all --no-legend 'boot-reporter*'
            systemctl list-unit-files --no-legend 'boot-reporter*'
        """)
        assert said == ""
        calls = server.calls()
        host.boot("")
        assert server.calls() == calls
    assert host.of_the_reporter() == TOMBSTONE
    assert not host.holds_the_token()
    assert host.machine.records.services() == ["bootkube"]


def test_it_begins_before_the_boot_and_holds_nothing_up(
    tmp_path: Path, server: AssistedServer, installed: Host
) -> None:
    host = ReporterHost(tmp_path, installed, eager=False)
    moments = host.boot("""
        moment() { systemctl show --value --property="$2" "$1"; }
        moment boot-reporter.service ExecMainStartTimestampMonotonic
        moment local-fs.target ActiveEnterTimestampMonotonic
        moment sysinit.target ActiveEnterTimestampMonotonic
        systemctl list-jobs --no-legend | grep boot-reporter || :
    """).split()
    started, mounted, initialised = map(int, moments)
    assert mounted <= started < initialised


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://192.0.2.1"], ids=["refused", "no network"])
def test_a_host_that_nobody_answers_keeps_its_last_bundle_until_its_time_is_over(
    tmp_path: Path, installed: Host, url: str
) -> None:
    host = ReporterHost(tmp_path, installed, url=url)
    host.machine.bash_service("bootkube", FAILING)
    with_pointer_ignition(host)
    said = host.boot("""
        start bootkube; rest bootkube
        round; round
        ls /var/lib/service-record/spool
        cat /etc/issue.d/80-service-record.issue
        systemctl --failed --no-legend
    """)
    (bundle, verdict, *_) = said.splitlines()
    assert bundle.startswith("log-bundle-")
    assert verdict.startswith("service-record: failed: bootkube in stage pull-image: ")
    assert "no such" not in said.lower().replace("no such file or directory", "")
    assert not (host.lib / "service-record/reporter.stopped").exists()

    with_control_plane_ignition(host)
    host.boot("round; rest boot-reporter", uptime=3601)
    assert host.of_the_reporter() == TOMBSTONE
    assert not host.holds_the_token()


INSTALL = """
for ((step = 0; step < 25; step++)); do
  head --bytes=8M /dev/zero | sha256sum >/dev/null
  sleep 0.05
done
"""
KILLING = """
killing() { while sleep 0.$((RANDOM % 9 + 1)); do systemctl kill --signal=KILL boot-reporter.service; done; }
for turn in 1 2 3; do
  systemctl stop boot-reporter.timer boot-reporter.service
  start alone; rest alone
  systemctl start boot-reporter.timer
  killing 2>/dev/null & killer=$!
  start together; rest together
  kill $killer
done
systemctl stop boot-reporter.timer
systemctl reset-failed boot-reporter.service
round
"""


@pytest.mark.slow
def test_a_reporter_that_is_killed_again_and_again_holds_up_no_installation(
    tmp_path: Path, server: AssistedServer, installed: Host
) -> None:
    host = ReporterHost(tmp_path, installed)
    host.machine.bash_service("bootkube", FAILING)
    for name in ("alone", "together"):
        host.machine.bash_service(name, INSTALL)
    with_pointer_ignition(host)
    with reachable(host, server):
        host.boot(f"start bootkube; rest bootkube\n{KILLING}")
    alone, together = ([seconds(run) for run in host.machine.runs(name)] for name in ("alone", "together"))
    assert len(alone) == len(together) == 3
    assert statistics.median(together) < 1.5 * statistics.median(alone) + 1
    told = [event.message for event in server.rules.events if LOCAL_IGNITION in event.message]
    assert len(told) == 1, "once, however often it was killed"
    assert len(server.rules.objects) <= 1
    uploads = [call for call in server.calls() if call.startswith("POST")]
    assert len(uploads) <= 4
    assert {path.name for path in (host.lib / "service-record").iterdir()} <= {
        "reporter.json",
        "spool",
        "work",
    }
    assert not any((host.lib / "service-record/work").glob("*"))


def seconds(run: Run) -> float:
    assert run.duration is not None
    return run.duration
