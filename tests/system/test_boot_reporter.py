"""The boot reporter on a host that boots from its disk: over two boots, without a network, and killed."""

import shutil
import statistics
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import msgspec
import pytest

from service_record.history.outcome import Run
from service_record.record.journal_sending import MessageKind
from service_record.reporter.paths import Places
from service_record.reporter.stopping import Tombstone
from tests.assisted_installation import CONTROL_PLANE_IGNITION, LOCAL_IGNITION, Host
from tests.assisted_server import AssistedServer, NoResponse, create_server_with_tokens
from tests.system.reporter_host import TOKEN, UNITS, ReporterHost
from tests.system.unix_relay import relay

FAILING = "record_service_stage_start pull-image; ls /no/such/image"
POINTER = "ignition-machine-config-encapsulated.json"
EARLY = """\
[Unit]
DefaultDependencies=no
After=local-fs.target
Before=sysinit.target
[Service]
Type=oneshot
TimeoutStartSec=60
ExecStart=/bin/sh -c 'until test -e /etc/issue.d/80-service-record.issue; do sleep 0.1; done'
"""
TOMBSTONE = {"lib/service-record", "lib/service-record/reporter.stopped"}


@pytest.fixture
def server() -> Iterator[AssistedServer]:
    with create_server_with_tokens() as server:
        yield server


@pytest.fixture
def installed(server: AssistedServer) -> Host:
    return server.rules.add_rebooting_host(TOKEN)


@contextmanager
def relay_server(host: ReporterHost, server: AssistedServer) -> Iterator[None]:
    with relay(host.observed / "assisted.socket", server.port):
        yield


def write_pointer_ignition(host: ReporterHost) -> None:
    """Write the config of the machine config server, which is applied at the next boot."""
    host.write_file(POINTER, "{}")


def write_control_plane_ignition(host: ReporterHost) -> None:
    (host.etc / POINTER).rename(host.etc / f"{POINTER}.bak")
    host.write_file("machine-config-daemon/currentconfig", "{}")


def test_reporter_reports_two_boots_and_removes_itself(
    tmp_path: Path, server: AssistedServer, installed: Host
) -> None:
    host = ReporterHost(tmp_path, installed)
    host.machine.bash_service("bootkube", FAILING)
    write_pointer_ignition(host)
    with relay_server(host, server):
        host.boot("round")
        assert (installed.stage, installed.info) == ("Rebooting", LOCAL_IGNITION)

        write_control_plane_ignition(host)
        host.boot("start bootkube; rest bootkube; round")
        assert installed.stage == "Rebooting"
        assert installed.info.startswith(f"{CONTROL_PLANE_IGNITION}. failed: bootkube")
        (bundle,) = server.rules.objects.values()
        with tarfile.open(fileobj=BytesIO(bundle)) as archive:
            assert "verdict.txt" in {Path(name).name for name in archive.getnames()}
        assert TOKEN.encode() not in bundle

        installed.stage = "Joined"  # the cluster's controller reports that
        output = host.boot("""
            start kubelet
            until [[ ! -e /etc/systemd/system/boot-reporter.service ]]; do sleep 0.1; done
            rest boot-reporter
            leaks
            systemctl list-units --all --no-legend 'boot-reporter*'
            systemctl list-unit-files --no-legend 'boot-reporter*'
        """)
        assert output == ""
        calls = server.calls()
        host.boot("")
        assert server.calls() == calls
    assert host.list_reporter_files() == TOMBSTONE
    assert not host.contains_token()
    assert host.machine.records.services() == ["bootkube"]


def test_failure_is_explained_by_journalctl(tmp_path: Path, installed: Host) -> None:
    host = ReporterHost(tmp_path, installed, eager=False)
    host.machine.bash_service("bootkube", FAILING)
    catalog = host.observed / "tree/usr/lib/systemd/catalog"
    catalog.mkdir(parents=True)
    shutil.copy(UNITS / "service-record.catalog", catalog)
    output = host.boot("""
        journalctl --root=/observed/tree --update-catalog
        mkdir -p /var/lib/systemd/catalog
        cp /observed/tree/var/lib/systemd/catalog/database /var/lib/systemd/catalog
        start bootkube; rest bootkube; round
        journalctl --sync
        journalctl --unit bootkube --catalog --no-pager --lines=1 SYSLOG_IDENTIFIER=service-record
        journalctl --output=json --lines=1 SERVICE_RECORD_STAGE=pull-image
        journalctl --output=json --unit boot-reporter SYSLOG_IDENTIFIER=service-record >/observed/messages
    """)
    messages = [
        msgspec.json.decode(line, type=dict[str, object])
        for line in (host.observed / "messages").read_bytes().splitlines()
    ]

    known = {kind.message_id for kind in MessageKind}
    assert messages
    assert [each["MESSAGE"] for each in messages if each.get("MESSAGE_ID") not in known] == []
    explanation, _, entry = output.rpartition("\n{")
    assert "The boot reporter found a failure: bootkube failed" in explanation
    assert "    service-record analyze bootkube\n" in explanation
    fields = msgspec.json.decode("{" + entry, type=dict[str, object])
    assert fields["SERVICE_RECORD_RESULT"] == "failed"
    assert fields["_SYSTEMD_UNIT"] == "boot-reporter.service"
    assert "bootkube in stage pull-image" in str(fields["MESSAGE"])


def test_first_round_waits_only_for_the_disks(tmp_path: Path, installed: Host) -> None:
    """early.service delays the boot until a round has ended, so a round that waits for more never runs."""
    host = ReporterHost(tmp_path, installed, eager=False, wants=("early.service",))
    host.machine.write_unit("early.service", EARLY)
    assert host.boot("systemctl show --property=Result early.service") == "Result=success\n"


def test_long_round_does_not_delay_the_boot(tmp_path: Path, server: AssistedServer, installed: Host) -> None:
    host = ReporterHost(tmp_path, installed, eager=False)
    server.fail(NoResponse(), path="/hosts")
    with relay_server(host, server):
        jobs = host.boot("""
            until [[ $(systemctl is-active boot-reporter) == active ]]; do sleep 0.05; done
            systemctl list-jobs --no-legend
            [[ $(systemctl is-active boot-reporter) == active ]]
        """)
    assert "finish.service" in jobs
    assert "boot-reporter" not in jobs


def test_interrupted_removal_is_finished_in_the_next_boot(
    tmp_path: Path, server: AssistedServer, installed: Host
) -> None:
    host = ReporterHost(tmp_path, installed)
    (host.lib / "service-record").mkdir()
    tombstone = Tombstone("the kubelet is up", remove=("/etc/opt/reporter",))
    (host.lib / "service-record/reporter.stopped").write_bytes(msgspec.json.encode(tombstone))
    host.write_file("opt/reporter/ca.pem", TOKEN)
    with relay_server(host, server):
        host.boot(
            "while [[ -e /etc/systemd/system/boot-reporter.timer ]]; do sleep 0.1; done; rest boot-reporter"
        )
    assert host.list_reporter_files() == TOMBSTONE
    assert not host.contains_token()
    assert server.calls() == []


def test_systemd_removes_the_rest_without_a_reporter(tmp_path: Path, installed: Host) -> None:
    """Removal was interrupted by a power loss after it had removed the links that start the units."""
    host = ReporterHost(tmp_path, installed)
    units = Places(host.etc.parent).unit_directory
    paths = ["service-record", "systemd/system/boot-reporter.service", "systemd/system/boot-reporter.timer"]
    paths += ["systemd/system/boot-reporter.service.d", "systemd/system/boot-reporter.timer.d"]
    (units / "timers.target.wants/boot-reporter.timer").unlink()
    rule = "tmpfiles.d/boot-reporter.conf"
    host.write_file(rule, "".join(f"R! /etc/{path}\n" for path in [*paths, rule]))
    host.boot("")
    assert host.list_reporter_files() == set()


@pytest.mark.slow
def test_host_without_network_keeps_its_last_bundle(tmp_path: Path, installed: Host) -> None:
    host = ReporterHost(tmp_path, installed, url="http://192.0.2.1")
    host.machine.bash_service("bootkube", FAILING)
    write_pointer_ignition(host)
    output = host.boot("""
        start bootkube; rest bootkube
        round
        ls /var/lib/service-record/spool
        cat /etc/issue.d/80-service-record.issue
        systemctl list-units --failed --no-legend 'boot-reporter*'
    """)
    bundle, verdict, *more = output.splitlines()
    assert bundle.startswith("log-bundle-")
    assert verdict.startswith("service-record: failed: bootkube in stage pull-image: ")
    assert " ".join(more).rstrip().endswith("Log in: service-record analyze"), "and no unit has failed"
    assert not (host.lib / "service-record/reporter.stopped").exists()

    write_control_plane_ignition(host)
    host.boot("round; rest boot-reporter", uptime=3601)
    assert not (host.lib / "service-record/reporter.stopped").exists(), "a trouble waits for the service"
    host.boot("round; rest boot-reporter", uptime=86401)
    assert host.list_reporter_files() == {*TOMBSTONE, "etc/issue.d/80-service-record.issue"}
    (kept,) = (host.lib / "service-record/spool").iterdir()
    assert kept.name.startswith("log-bundle-")
    assert not host.contains_token()


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
journalctl --sync
journalctl --unit=boot-reporter | grep --count status=9/KILL
"""


@pytest.mark.slow
def test_killed_reporter_does_not_delay_the_installation(
    tmp_path: Path, server: AssistedServer, installed: Host
) -> None:
    host = ReporterHost(tmp_path, installed)
    host.machine.bash_service("bootkube", FAILING)
    for name in ("alone", "together"):
        host.machine.bash_service(name, INSTALL)
    write_pointer_ignition(host)
    with relay_server(host, server):
        kills = host.boot(f"start bootkube; rest bootkube\n{KILLING}")
    assert int(kills) >= 3
    alone, together = (
        [get_duration(run) for run in host.machine.runs(name)] for name in ("alone", "together")
    )
    assert len(alone) == len(together) == 3
    assert statistics.median(together) < 1.5 * statistics.median(alone) + 1
    # The verdict is reported with the fact, in a second message.
    reports = [event.message for event in server.rules.events if event.message.endswith(LOCAL_IGNITION)]
    assert len(reports) == 1, "the fact is reported once, however often the reporter was killed"
    assert len(server.rules.objects) <= 1
    uploads = [call for call in server.calls() if call.startswith("POST")]
    assert len(uploads) <= 4
    assert {path.name for path in (host.lib / "service-record").iterdir()} <= {
        "reporter.json",
        "spool",
        "work",
    }
    assert not any((host.lib / "service-record/work").glob("*"))


def get_duration(run: Run) -> float:
    assert run.duration is not None
    return run.duration


PROGRAM_WITHOUT_EXTRA = """\
#!/bin/sh
exec /venv/bin/python -B -c '
import sys
sys.modules["httpx2"] = None
from service_record.cli import main
main(prog_name="service-record")' "$@"
"""
BROKEN_PYTHON = """\
#!/venv/bin/python
import no_such_library
"""


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (PROGRAM_WITHOUT_EXTRA, "Error: the extra 'reporter' is needed"),
        (BROKEN_PYTHON, "ModuleNotFoundError: "),
    ],
    ids=["missing extra", "broken Python"],
)
def test_reporter_that_cannot_start_logs_why(
    tmp_path: Path, installed: Host, program: str, line: str
) -> None:
    host = ReporterHost(tmp_path, installed, eager=False)
    host.machine.program("service-record", program)
    output = host.boot(
        "rest boot-reporter; start boot-reporter; rest boot-reporter\n"
        "systemctl show --property=Result,ActiveState boot-reporter\n"
        "journalctl --unit boot-reporter --output=cat --no-pager"
    )
    assert {"Result=success", "ActiveState=inactive"} <= set(output.splitlines())
    assert line in output
    assert output.count("the extra 'reporter'") <= 1
