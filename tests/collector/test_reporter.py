"""The real boot reporter with a collector and no assisted-service: two boots, one with a failure."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select

from service_record.collector.store.schema import hosts
from tests.assisted_installation import CONTROL_PLANE_IGNITION, LOCAL_IGNITION, Host, new_id
from tests.assisted_server import create_server_with_tokens
from tests.builders import BOOT_ID, entry, failed_run, write_lines
from tests.collector.installing import Agent
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector
from tests.collector.test_bundles import indexed, rows
from tests.command_line import Answer, service_record
from tests.forward_proxy import ForwardProxy
from tests.reporting_host import POINTER, TOKEN, ReportingHost
from tests.waiting import wait_for

NEXT_BOOT = "b1" * 16
_BOOTED = 'mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """One collector for all tests of the module. Each test uses its own host."""
    with run_collector(make_collector_settings(tmp_path_factory.mktemp("collector"))) as running:
        yield running


class Reported:
    """A host with the boot reporter and a token of the collector."""

    def __init__(self, root: Path, server: RunningCollector, *settings: str, url: str = "") -> None:
        self.installed = Host(new_id(), new_id(), new_id())
        self.agent = Agent(server.client("host", self.installed.id), self.installed)
        self.host = ReportingHost(root / "host", self.installed, url or server.url, *settings)
        self.host.write("/etc/service-record/token", self.agent.client.token).chmod(0o600)
        self._root = root

    @property
    def name(self) -> str:
        return self.installed.id

    def report(self, boot_id: str) -> Answer:
        """Run a round of the reporter in a boot with that id, which a private mount simulates."""
        place = self._root / "boot_id"
        place.write_text(f"{uuid.UUID(boot_id)}\n")
        booted = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _BOOTED, "sh", str(place))
        answer = self.host.report(before=booted)
        assert self.agent.client.token not in answer.out + answer.err
        return answer

    def reboot_into_the_control_plane(self) -> None:
        """Create the files that the machine-config daemon creates."""
        pointer = self.host.places.at(POINTER)
        pointer.rename(pointer.with_name(pointer.name + ".bak"))
        self.host.write("/var/lib/kubelet/pki/kubelet-client-current.pem")


def row_of(server: RunningCollector, name: str) -> Any:
    with server.collector.database.reading() as connection:
        return connection.execute(select(hosts).where(hosts.c.name == name)).one()


def test_two_boots_are_reported_and_diagnosed(tmp_path: Path, server: RunningCollector) -> None:
    reported = Reported(tmp_path, server)
    reported.host.fail()

    first = reported.report(BOOT_ID)

    assert (first.status, first.err.count("refused")) == (0, 0), first.err
    (seen,) = reported.agent.listed()
    assert (seen["progress"]["current_stage"], seen["status"]) == (LOCAL_IGNITION, "installing-in-progress")
    bundle = indexed(server, reported.name)
    assert (bundle.kind, bundle.verdict, bundle.boots) == ("host_boot", "failed", BOOT_ID)
    assert row_of(server, reported.name).percentage == 60
    failed = wait_for(lambda: row if (row := row_of(server, reported.name)).verdict == "failed" else None)
    assert "bootkube" in failed.reason
    assert "pull-image" in failed.reason

    analyzed = analyze(tmp_path, server, reported.name)
    assert analyzed.status == 1
    assert analyzed.out.startswith("✗ failed: bootkube in stage pull-image")

    write_lines(
        reported.host.places.records / "bootkube.json",
        *failed_run("pull-image"),
        entry(boot_id=NEXT_BOOT, invocation_id="2f" * 16, at=600, uptime=30),
        entry("service end", boot_id=NEXT_BOOT, invocation_id="2f" * 16, at=610, uptime=40),
    )
    reported.reboot_into_the_control_plane()
    second = reported.report(NEXT_BOOT)

    assert second.status == 0, second.err
    (seen,) = reported.agent.listed()
    assert seen["progress"]["current_stage"] == CONTROL_PLANE_IGNITION
    assert row_of(server, reported.name).message == CONTROL_PLANE_IGNITION


def analyze(directory: Path, server: RunningCollector, host: str) -> Answer:
    token = directory / "reader"
    token.write_text(server.client("reader").token)
    place = f"collector://{urlsplit(server.url).netloc}/{host}"
    return service_record("analyze", "--from", place, SERVICE_RECORD_TOKEN_FILE=str(token))


@pytest.mark.slow
def test_additional_collector_gets_bundle_with_own_token(tmp_path: Path, server: RunningCollector) -> None:
    with create_server_with_tokens() as assisted:
        installed = assisted.rules.add_rebooting_host(TOKEN)
        destination = f'ship_to = ["collector+{server.url}"]'
        host = ReportingHost(tmp_path / "host", installed, assisted.url, destination)
        own = server.client("host", installed.id).token
        host.write("/etc/service-record/collector-token", own).chmod(0o600)
        host.fail()

        answer = host.report()

        assert answer.status == 0, answer.err
        assert own not in answer.out + answer.err
        assert [own in str(one) for one in assisted.journal].count(True) == 0
    assert (indexed(server, installed.id).verdict, len(rows(server, installed.id))) == ("failed", 1)


@pytest.mark.slow
def test_records_are_streamed_in_every_round(tmp_path: Path, server: RunningCollector) -> None:
    reported = Reported(tmp_path, server, f'records_to = ["collector+{server.url}"]')
    own = reported.agent.client.token
    reported.host.write("/etc/service-record/collector-token", own).chmod(0o600)
    record = reported.host.places.records / "bootkube.json"
    write_lines(record, entry(), entry("stage start", 1, stage="pull-image"))
    assert reported.report(BOOT_ID).status == 0
    assert at_the_collector(server, reported.name) == record.read_text().splitlines()

    with record.open("a") as file:
        file.write(json.dumps(entry("stage end", 2, stage="pull-image").to_json()) + "\n")
    answer = reported.host.report("--due")

    assert (answer.status, own in answer.out + answer.err) == (0, False)
    assert at_the_collector(server, reported.name) == record.read_text().splitlines()


@pytest.mark.slow
def test_sent_entries_contain_no_secret(tmp_path: Path, server: RunningCollector) -> None:
    reported = Reported(tmp_path, server, f'records_to = ["collector+{server.url}"]')
    own = reported.agent.client.token
    reported.host.write("/etc/service-record/collector-token", own).chmod(0o600)
    message = f"401 with X-Secret-Key: aB3dE9fG5iJkLmNoP and {own}"
    write_lines(reported.host.places.records / "bootkube.json", *failed_run("pull", error_message=message))

    assert reported.report(BOOT_ID).status == 0

    sent = "".join(at_the_collector(server, reported.name))
    assert "401 with X-Secret-Key: " in sent
    assert "aB3dE9fG5iJkLmNoP" not in sent
    assert own not in sent


@pytest.mark.slow
@pytest.mark.parametrize("login", [None, "Basic bWU6c2VjcmV0"], ids=["open", "with a login"])
def test_entries_use_the_configured_proxy(
    tmp_path: Path, server: RunningCollector, login: str | None
) -> None:
    with ForwardProxy(urlsplit(server.url).port or 0, login=login) as proxy:
        reported = Reported(
            tmp_path,
            server,
            'records_to = ["collector+http://collector.example:8474"]',
            f'proxies.http = "http://{"me:secret@" if login else ""}{proxy.address}"',
        )
        token = reported.agent.client.token
        reported.host.write("/etc/service-record/collector-token", token).chmod(0o600)
        record = reported.host.places.records / "bootkube.json"
        write_lines(record, entry(), entry("stage start", 1, stage="pull-image"))

        answer = reported.report(BOOT_ID)

    assert (answer.status, "records were not sent" in answer.err) == (0, False), answer.err
    path = f"http://collector.example:8474/api/v1/hosts/{reported.name}/records"
    assert proxy.seen == [f"GET {path}", f"POST {path}"]
    assert at_the_collector(server, reported.name) == record.read_text().splitlines()


@pytest.mark.slow
def test_entries_bypass_proxy_for_other_addresses(tmp_path: Path, server: RunningCollector) -> None:
    with ForwardProxy(urlsplit(server.url).port or 0) as proxy:
        to, past = f'records_to = ["collector+{server.url}"]', f'proxies.http = "{proxy.url}"'
        reported = Reported(tmp_path, server, to, past)
        token = reported.agent.client.token
        reported.host.write("/etc/service-record/collector-token", token).chmod(0o600)
        record = reported.host.places.records / "bootkube.json"
        write_lines(record, entry())

        assert reported.report(BOOT_ID).status == 0

    assert proxy.seen == []
    assert at_the_collector(server, reported.name) == record.read_text().splitlines()


@pytest.mark.slow
def test_refused_entries_do_not_end_the_round(tmp_path: Path, server: RunningCollector) -> None:
    reported = Reported(tmp_path, server, f'records_to = ["collector+{server.url}/web1"]')
    token = server.client("host", "web2").token
    reported.host.write("/etc/service-record/collector-token", token).chmod(0o600)
    reported.host.fail()

    answer = reported.report(BOOT_ID)

    assert answer.status == 0
    assert "records were not sent: " in answer.err
    assert indexed(server, reported.name).verdict == "failed"


def at_the_collector(server: RunningCollector, host: str) -> list[str]:
    """Return the lines of bootkube's record in the collector."""
    reply = server.client("reader").get(f"/api/v1/hosts/{host}/records/bootkube")
    return [line for line in reply.body.decode().splitlines() if line]


@pytest.mark.slow
def test_unknown_host_stops_reporting_with_reason(tmp_path: Path, server: RunningCollector) -> None:
    reported = Reported(tmp_path, server)
    other = server.client("host", "web1").token
    reported.host.write("/etc/service-record/token", other).chmod(0o600)

    for uptime in (60, 660, 1260, 1900):
        assert not reported.host.places.tombstone.exists()
        assert reported.host.report(uptime=uptime).status == 0
    assert reported.host.places.tombstone.exists()
    assert rows(server, reported.name) == []
