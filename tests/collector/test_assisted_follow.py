"""`service-record assisted follow` sends the events of a simulated assisted-service to a collector."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from service_record.collector.serving_settings import CollectorSettings
from tests.assisted_installation import Event, Host
from tests.assisted_rules import AssistedRules
from tests.assisted_server import AssistedServer, CannedResponse
from tests.collector.installing import Clock, map_host
from tests.collector.serving import RunningCollector, run_collector
from tests.command_line import PROGRAM, Answer, environment, service_record

BEGIN = datetime(2026, 11, 21, 1, 0, tzinfo=UTC)


class Followed:
    """A cluster with the host w1, which exists in the collector."""

    def __init__(self, folder: Path, service: AssistedServer, collector: RunningCollector) -> None:
        self.service, self.collector = service, collector
        self.host: Host = service.rules.add_host()
        self.user, self.token = folder / "user", folder / "token"
        self.user.write_text(service.rules.user_key)
        self.token.write_text(collector.client("admin").token)
        map_host(collector, "w1", self.host)

    def happen(self, minute: int, status: str, host_id: str | None = None) -> None:
        text = f"Host w1: updated status from known to {status} (as it says)"
        when = BEGIN + timedelta(minutes=minute)
        event = Event("host_status_updated", text, time=when, host_id=host_id or self.host.id)
        self.service.rules.events.append(event)

    def follow(self) -> Answer:
        return service_record(
            *("assisted", "follow", "--once", "--url", self.service.url),
            *("--cluster-id", self.host.cluster_id or "", "--token-file", self.user),
            *("--to", self.collector.url, "--collector-token-file", self.token),
        )

    @property
    def state(self) -> str:
        found = self.collector.client("admin").get("/api/v1/hosts/w1").json
        return str(found["installation"]["status"])


@pytest.fixture
def followed(sqlite_settings: CollectorSettings, tmp_path: Path) -> Iterator[Followed]:
    rules = AssistedRules(auth_type="rhsso")
    clock = Clock(BEGIN.timestamp() - 60)
    with run_collector(sqlite_settings, clock) as collector, AssistedServer(rules) as service:
        cluster = Followed(tmp_path, service, collector)
        clock.now += 7200
        yield cluster


def test_token_of_standard_input_serves_every_round(followed: Followed) -> None:
    arguments = [
        *("assisted", "follow", "--every", "1", "--url", followed.service.url),
        *("--cluster-id", followed.host.cluster_id or "", "--token-file", "-"),
        *("--to", followed.collector.url, "--collector-token-file", str(followed.token)),
    ]
    with (
        followed.user.open() as token,
        Popen([*PROGRAM, *arguments], stdin=token, stderr=PIPE, env=environment(), text=True) as following,
    ):
        are_rounds_seen = followed.service.wait_for(len(followed.service.journal) + 3, 20)
        following.terminate()
        assert are_rounds_seen, following.communicate()


def test_events_are_forwarded_in_time_order_and_once(followed: Followed) -> None:
    followed.happen(30, "installed")
    followed.happen(10, "installing")
    followed.happen(5, "known")
    answer = followed.follow()
    assert (answer.status, answer.out) == (0, "3 events forwarded\n")
    assert followed.state == "installed"
    stored = followed.collector.client("admin").get("/api/v1/hosts/w1").json["events"]
    assert len(stored) == 3

    assert followed.follow().status == 0, "a second start sends all of them again"
    assert followed.state == "installed"
    assert followed.collector.client("admin").get("/api/v1/hosts/w1").json["events"] == stored

    followed.happen(20, "error")
    assert followed.follow().status == 0
    assert followed.state == "installed", "an event that came late replaces no newer state"


def test_refused_event_does_not_delay_others(followed: Followed) -> None:
    followed.happen(5, "known")
    when = BEGIN + timedelta(minutes=6)
    followed.service.rules.events.append(Event("odd", "x", "loud", when, followed.host.id))
    followed.happen(30, "installing")
    answer = followed.follow()
    assert (answer.status, answer.out) == (0, "2 events forwarded\n")
    assert "odd: not taken: " in answer.err
    assert followed.state == "installing"


def test_unreachable_service_exits_75_with_one_line(followed: Followed) -> None:
    followed.service.fail(CannedResponse(503, headers={"Retry-After": "0"}), times=9)
    answer = followed.follow()
    assert answer.status == 75
    assert answer.err.startswith("Error: assisted-service: 503")
