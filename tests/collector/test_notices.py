"""Notices of verdicts are delivered through apprise and to Alertmanager, on loopback."""

import io
import json
import logging
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import structlog
from sqlalchemy import insert, select

from service_record.collector import logs
from service_record.collector.domain.destinations import (
    DestinationError,
    DestinationFilter,
    Notice,
    make_message,
    parse_destinations,
)
from service_record.collector.domain.verdicts import FleetVerdict, make_cause_id
from service_record.collector.ingest.notifying import SEND_SECONDS, Notifier
from service_record.collector.ingest.senders import make_senders
from service_record.collector.process import Collector, NoticesError, read_destinations
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store import administration
from service_record.collector.store.schema import deliveries, hosts, notices
from service_record.record.config_file import ConfigError
from testing.collector import process
from tests.collector.commands import collector_command
from tests.collector.processes import create_admin_tokens
from tests.collector.receiving import ReceivedNotice, Receiver, receive_notices
from tests.collector.serving import Client, make_collector_settings
from tests.waiting import wait_for

NOW = 1_800_000_000.0
SECRET = "s3cretPassw0rd"


def notice(verdict: str = "failed", before: str = "progressing", **values: Any) -> Notice:
    given = {"id": 1, "host": "web1", "group": "dc1/rack2", "build": 1, "reason": "no disk", "at": NOW}
    return Notice(verdict=verdict, before=before, **{**given, **values})


@pytest.mark.parametrize(
    ("settings", "admitted"),
    [
        ("", True),
        ('groups = ["dc1"]', True),
        ('groups = ["dc1/rack"]', False),
        ('verdicts = ["stuck", "silent"]', False),
        ('verdicts = ["failed"]', True),
        ('causes = ["*No Disk*"]', True),
        ('causes = ["*network*", "*memory*"]', False),
        (f'causes = ["{make_cause_id(FleetVerdict.FAILED, "no disk", "web1")}"]', True),
        ('groups = ["dc1"]\ncauses = ["*network*"]', False),
    ],
)
def test_destination_gets_only_matching_notices(settings: str, *, admitted: bool) -> None:
    (one,) = parse_destinations(f'[[destination]]\nname = "ops"\nurl = "json://h"\n{settings}').all
    assert one.admits(notice()) is admitted


def test_end_goes_only_to_notified_destinations() -> None:
    end = notice("done", "failed", reason="It is complete.", reason_before="no disk")
    only_begins = notice("done", "progressing")
    of_disks = DestinationFilter(verdicts=(FleetVerdict.FAILED,), causes=("*disk*",))
    of_networks = DestinationFilter(verdicts=(FleetVerdict.FAILED,), causes=("*network*",))
    without_ends = DestinationFilter(verdicts=(FleetVerdict.FAILED,), ends=False)

    assert [one.admits(end) for one in (of_disks, of_networks, without_ends)] == [True, False, False]
    assert not of_disks.admits(only_begins)


def test_message_has_reason_once_and_count() -> None:
    together = [notice(id=number, host=f"web{number}") for number in range(1, 37)]

    one = make_message(together[:1], "no disk", "https://c.example.com")
    many = make_message(together, "no disk", "https://c.example.com")

    assert one.title == "web1 failed: no disk"
    assert one.body.splitlines() == [
        "Group: dc1/rack2",
        "Before: progressing",
        "Since: 2027-01-15 08:00:00 UTC",
        "https://c.example.com/hosts/web1",
    ]
    assert many.title == "36 hosts failed: no disk"
    assert many.body.splitlines()[0].startswith("Hosts: web1, web2, web3,")
    assert many.body.splitlines()[0].endswith("web20 and 16 more")
    cause = make_cause_id(FleetVerdict.FAILED, "no disk", "web1")
    assert many.body.splitlines()[-1] == f"https://c.example.com/?cause={cause}"
    assert "no disk" not in one.body + many.body


def test_long_reason_is_shortened_in_title() -> None:
    reason = "x" * 5000
    message = make_message([notice(reason=reason)], reason)
    assert len(message.title) == 200
    assert message.body.splitlines()[0] == "x" * 1999 + "…"


def test_reason_has_no_mention_or_markup() -> None:
    reason = "<!channel> @everyone <b>disk</b> of root@web1\u202e"
    message = make_message([notice(reason=reason)], reason)
    assert message.title == (
        "web1 failed: \u2039!channel\u203a @ everyone \u2039b\u203adisk\u2039/b\u203a of root@web1\\u202e"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[destination]", "n.toml:1: not TOML: "),
        ("", "n.toml:1: it has no [[destination]] with a name and a url"),
        (
            '[[step]]\nlabel = "a"',
            "n.toml:1: step: no such field; a file of destinations has page, destination",
        ),
        (
            '[[destination]]\nname = "ops"',
            "n.toml:1: destination: a destination needs `url`: a URL as apprise has it",
        ),
        ('[[destination]]\nname = "Ops"\nurl = "json://h"', "n.toml:2: destination.name: lower case letters"),
        (
            '[[destination]]\nname = "webhook"\nurl = "json://h"',
            "n.toml:2: destination.name: webhook is taken",
        ),
        (
            '[[destination]]\nname = "a"\nurl = "json://h"\nverdicts = ["bad"]',
            "n.toml:4: destination.verdicts: some of",
        ),
        (
            '[[destination]]\nname = "a"\nurl = "json://h"\nmore = 1',
            "n.toml:4: destination.more: no such field; a destination has name, ",
        ),
        (
            'page = "c"\n[[destination]]\nname = "a"\nurl = "json://h"',
            "n.toml:1: page: not the address of the collector's page",
        ),
    ],
)
def test_invalid_file_error_is_one_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_destinations(text, "n.toml")
    assert str(caught.value).startswith(message)


class Desk:
    """A collector whose notices are delivered when the test calls `deliver`, at a time of its clock."""

    def __init__(self, collector: Collector) -> None:
        self.collector, self.now = collector, NOW

    def deliver(self, text: str, send_seconds: float = SEND_SECONDS) -> None:
        """Run one round of each destination."""
        destinations = parse_destinations(text)
        filters = {one.name: one for one in destinations.all}
        for name, sender in make_senders(destinations).items():
            database, writer = self.collector.database, self.collector.writer
            one = Notifier(
                database,
                writer,
                name,
                sender,
                filters=filters,
                now=lambda: self.now,
                send_seconds=send_seconds,
            )
            with closing(one):
                one.deliver_due()

    def news(self, host: str, verdict: str = "failed", reason: str = "no disk", **values: Any) -> None:
        """Store notices, like the sweeper when a verdict changes."""
        with self.collector.database.changing() as connection:
            administration.put_host(connection, host, {"group": "dc1"}, NOW)
            host_id = connection.execute(select(hosts.c.id).where(hosts.c.name == host)).scalar_one()
            row = {"host_id": host_id, "build": 1, "verdict": verdict, "before": "progressing"}
            row |= {"reason": reason, "at": NOW, **values}
            connection.execute(insert(notices).values(row))

    def waiting(self) -> dict[str, int]:
        with self.collector.database.reading() as connection:
            rows = connection.execute(select(deliveries)).all()
        return dict(Counter(row.destination for row in rows if row.next_at is not None))


@pytest.fixture
def desk(settings: CollectorSettings) -> Iterator[Desk]:
    with Collector(settings, lambda: NOW) as collector:
        yield Desk(collector)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Collect the log of all libraries, from the lowest level."""
    stream, root = io.StringIO(), logging.getLogger()
    before = root.handlers[:], root.level
    logs.configure("debug", stream)
    root.setLevel(logging.DEBUG)
    yield stream
    structlog.reset_defaults()
    root.handlers[:] = before[0]
    root.setLevel(before[1])


def json_url(receiver: Receiver) -> str:
    """Return apprise's URL of a receiver, with a password."""
    return receiver.url.replace("http://", f"json://ops:{SECRET}@")


def destination(name: str, url: str, more: str = "") -> str:
    return f'[[destination]]\nname = "{name}"\nurl = "{url}"\n{more}\n'


def title_and_type(received: ReceivedNotice) -> tuple[str, str]:
    body = json.loads(received.body)
    return body["title"], body["type"]


def test_destinations_are_notified_and_retried_independently(desk: Desk) -> None:
    with receive_notices() as everything, receive_notices() as disks:
        text = destination("all", json_url(everything)) + destination(
            "disks", json_url(disks), 'causes = ["*disk*"]'
        )
        for number in range(36):
            desk.news(f"web{number}")
        desk.news("db1", "stuck", "no network")
        disks.statuses = [503]

        desk.deliver(text)
        desk.deliver(text)
        assert sorted(map(title_and_type, everything.notices)) == [
            ("36 hosts failed: no disk", "failure"),
            ("db1 stuck: no network", "failure"),
        ]
        assert desk.waiting() == {"disks": 36}
        desk.news("web0", "done", "It is complete.", before="failed", reason_before="no disk", at=NOW + 1)
        desk.now += 5
        desk.deliver(text)
        desk.deliver(text)

    assert list(map(title_and_type, disks.notices)) == [
        ("36 hosts failed: no disk", "failure"),
        ("36 hosts failed: no disk", "failure"),
        ("web0 done: It is complete.", "success"),
    ]
    assert disks.notices[0].body == disks.notices[1].body
    assert len(everything.notices) == 3
    assert desk.waiting() == {}


def test_redirect_counts_as_refusal(desk: Desk) -> None:
    with receive_notices() as receiver:
        receiver.statuses = [307]
        desk.news("web1")
        desk.deliver(destination("ops", json_url(receiver)))
    assert desk.waiting() == {"ops": 1}


def test_unresponsive_destination_is_retried(desk: Desk) -> None:
    with receive_notices() as receiver:
        receiver.is_held.set()
        desk.news("web1")
        begun = time.monotonic()
        desk.deliver(destination("ops", json_url(receiver)), send_seconds=0.5)
        assert time.monotonic() - begun < 15  # the receiver never answers; the machine may be busy
        assert desk.waiting() == {"ops": 1}


def test_url_secrets_are_not_logged_or_shown(
    desk: Desk, tmp_path: Path, log: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    with receive_notices() as receiver:
        receiver.statuses = [500]
        text = destination("ops", json_url(receiver)) + destination(
            "gone", f"json://ops:{SECRET}@127.0.0.1:1/{SECRET}"
        )
        desk.news("web1")
        desk.deliver(text)
    file = tmp_path / "notices.toml"
    file.write_text(destination("ops", f"slack://{SECRET}"))
    with pytest.raises(DestinationError) as caught:
        make_senders(read_destinations(file))

    shown = capfd.readouterr()
    assert '"destination": "gone"' in log.getvalue()
    assert SECRET not in log.getvalue() + shown.out + shown.err + repr(parse_destinations(text))
    assert str(caught.value) == "ops: apprise does not understand a URL of slack://; see appriseit.com"


def test_alertmanager_gets_begin_and_end(desk: Desk) -> None:
    with receive_notices() as receiver:
        url = receiver.url.replace("http://", f"alertmanager://me:{SECRET}@").removesuffix("/news")
        text = 'page = "https://c.example.com"\n' + destination("am", url)
        desk.news("web1")
        desk.deliver(text)
        desk.news("web1", "done", "It is complete.", before="failed", reason_before="no disk", at=NOW + 60)
        desk.deliver(text)

    begins, ends = (json.loads(one.body) for one in receiver.notices)
    labels = {"alertname": "HostInTrouble", "host": "web1", "group": "dc1", "verdict": "failed"}
    assert begins == [
        {
            "labels": labels,
            "startsAt": "2027-01-15T08:00:00.000Z",
            "endsAt": "2027-01-22T08:00:00.000Z",
            "annotations": {"summary": "web1 failed", "description": "no disk"},
            "generatorURL": "https://c.example.com/hosts/web1",
        }
    ]
    assert ends == [{"labels": labels, "endsAt": "2027-01-15T08:01:00.000Z"}]
    assert receiver.notices[0].headers["authorization"].startswith("Basic ")


@pytest.mark.parametrize("processes", [1, 3])
def test_several_processes_send_each_notice_once(
    postgresql_settings: CollectorSettings, tmp_path: Path, processes: int
) -> None:
    """The destinations have different filters, one of them refuses at first, and one is slow."""
    with receive_notices() as refuses, receive_notices() as slow, ExitStack() as stack:
        refuses.statuses = [503, 503]
        slow.is_held.set()
        file = tmp_path / "notices.toml"
        file.write_text(
            destination("refuses", json_url(refuses)) + destination("slow", f"{json_url(slow)}?rto=30")
        )
        running = [
            stack.enter_context(process(postgresql_settings, "--notices", str(file)))
            for _ in range(processes)
        ]
        database = stack.enter_context(closing(Collector(postgresql_settings))).database
        (token,) = create_admin_tokens(database, 1)
        for number in range(8):
            Client(running[number % processes].url, token).step(
                f"web{number}", "Disk", "failed", logs="no disk"
            )
        slow.wait_for(1)
        wait_for(lambda: len(hosts_told(refuses)) >= 8)
        slow.is_held.clear()
        slow.release.set()
        wait_for(lambda: len(hosts_told(slow)) >= 8)

    assert sorted(hosts_told(slow)) == [f"web{number}" for number in range(8)]
    assert sorted(set(hosts_told(refuses))) == [f"web{number}" for number in range(8)]
    refused = sum(len(named(one)) for one in refuses.notices[:2])
    assert len(hosts_told(refuses)) - refused <= 8


def hosts_told(receiver: Receiver) -> list[str]:
    return [host for one in list(receiver.notices) for host in named(one)]


def named(received: ReceivedNotice) -> list[str]:
    body = json.loads(received.body)
    first: str = body["message"].splitlines()[0]
    if first.startswith("Hosts: "):
        return first.removeprefix("Hosts: ").split(", ")
    return [str(body["title"]).split()[0]]


def test_invalid_file_prevents_start(tmp_path: Path) -> None:
    file = tmp_path / "notices.toml"
    file.write_text(destination("ops", "nothing"))
    with pytest.raises(NoticesError, match=r"notices.toml: ops: apprise does not understand its URL"):
        Collector(make_collector_settings(tmp_path, notices=file))


def test_notices_command_tests_destinations(tmp_path: Path) -> None:
    file = tmp_path / "notices.toml"
    with receive_notices() as good, receive_notices() as bad, receive_notices() as alerts:
        bad.statuses = [500]
        file.write_text(
            destination("good", json_url(good))
            + destination("bad", json_url(bad))
            + destination("alerts", alerts.url.replace("http", "alertmanager").removesuffix("/news"))
        )
        done = collector_command("notices", file)

    assert (done.status, done.out) == (1, "good: taken\nbad: not taken\nalerts: taken\n")
    assert title_and_type(good.notices[0]) == (
        "test progressing: This is a test of service-record. Nothing is wrong.",
        "info",
    )
    assert len(alerts.notices) == 2


def test_apprise_is_imported_only_if_needed() -> None:
    program = "import sys, service_record.collector.process as p; sys.exit('apprise' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
