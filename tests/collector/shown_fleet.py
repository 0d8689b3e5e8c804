"""Fill a collector with a fleet of thirty hosts that have all verdicts, for tests of pages."""

import base64
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, update

from service_record.collector.domain.verdicts import FleetVerdict, make_cause_id
from service_record.collector.store.schema import bundles, events, hosts
from service_record.record.entry import Entry
from tests.builders import START, entry, failed_run
from tests.collector.serving import Client, RunningCollector

STEPS = ("PXE boot", "Kickstart download", "Disk setup", "Packages", "Bootloader", "First boot", "Call home")
_JOURNAL = """\
level=info msg="rendering manifests"
level=error msg="failed to render: open /opt/openshift/manifests: no such file or directory"
"""
_TROUBLES = (
    ("failed", "step Disk setup failed: /dev/sd{} has no space left for the root file system"),
    ("failed", "step Packages failed: no mirror could be reached: 192.0.2.{} answered with 503"),
    ("looping", "Rebooted {} times during Network boot"),
    ("stuck", "Packages has taken 4{}m, 99 of 100 take less than 12m (learnt)"),
    ("silent", "nothing heard for 3h {}m"),
)
_HARDWARE = ("Dell Inc. PowerEdge R640", "Supermicro SYS-1029P")
_FAILED = """\
+ sgdisk --zap-all /dev/sda
Problem opening /dev/sda for reading! Error is 2.
The specified file does not exist!
/tmp/ks-script-x1: line 41: no disk for the hardware RAID, giving up"""


def fill(server: RunningCollector) -> None:
    """Create thirty hosts: some done, some progressing, and at least one with each other verdict."""
    for number in range(1, 31):
        name, group = (
            f"web{number:02}.dc{number % 2 + 1}.example.com",
            f"dc{number % 2 + 1}/rack{number % 3 + 1}",
        )
        _provision(server.client("host", name), name, group, number)
    judge(server, "web03.dc2.example.com", "failed", "step Disk setup failed: no disk for the hardware RAID")
    judge(server, "web14.dc1.example.com", "failed", "step Packages failed: no mirror could be reached")
    judge(
        server,
        "web07.dc2.example.com",
        "looping",
        "Kickstart download came 14 times without progress, over 14 boots",
    )
    judge(
        server,
        "web08.dc1.example.com",
        "stuck",
        "Packages has taken 42m, 99 of 100 take less than 12m (learnt)",
    )
    judge(server, "web21.dc2.example.com", "silent", "nothing heard for 3h 5m")


def judge(server: RunningCollector, name: str, verdict: str, reason: str = "") -> None:
    """Store a verdict of a host, like the collector's own judgement."""

    def change(connection: Connection) -> None:
        wanted = update(hosts).where(hosts.c.name == name)
        since = hosts.c.updated_at
        cause = make_cause_id(FleetVerdict(verdict), reason, name)
        changed = {"verdict": verdict, "reason": reason, "cause": cause, "due_at": None}
        connection.execute(wanted.values(**changed, verdict_since=since, revision=hosts.c.revision + 1))

    server.collector.writer.change(change).result()


def fill_quickly(server: RunningCollector, numbers: range) -> None:
    """Insert rows of hosts without reports. One in ten is in trouble, with one of a few causes."""
    now = server.collector.now()

    def change(connection: Connection) -> None:
        connection.execute(insert(hosts), [_row(number, now) for number in numbers])

    server.collector.writer.change(change).result()


def _row(number: int, now: float) -> dict[str, Any]:
    name = f"node{number:05}.dc{number % 4}.example.com"
    verdict, reason = _TROUBLES[number // 10 % len(_TROUBLES)] if number % 10 == 0 else ("progressing", "")
    at = now - number % 3000
    return {
        "name": name,
        "group": f"dc{number % 4}/rack{number % 40}",
        "release": f"4.{18 + number % 3}",
        "hardware": _HARDWARE[number % 2],
        "first_seen": at - 600,
        "last_seen": at,
        "build": 1,
        "action": "install",
        "percentage": number % 100,
        "message": f"Packages: {number % 977} of 977",
        "started_at": at - 600,
        "updated_at": at,
        "verdict": verdict,
        "reason": reason.format(number % 8),
        "cause": make_cause_id(FleetVerdict(verdict), reason.format(number % 8), name),
        "verdict_since": at,
    }


def add(server: RunningCollector, table: Any, host: str, /, **values: object) -> None:
    """Insert a row that belongs to a host into a table."""

    def change(connection: Connection) -> None:
        host_id = connection.execute(select(hosts.c.id).where(hosts.c.name == host)).scalar_one()
        connection.execute(insert(table).values(host_id=host_id, **values))

    server.collector.writer.change(change).result()


def _provision(client: Client, name: str, group: str, number: int) -> None:
    if number == 7:
        for boot in range(14):
            for step in STEPS[:2]:
                _report(
                    client, name, step, "init", boot=f"b{boot}", group=group, action="install", percentage=15
                )
        return
    is_done = number % 5 < 2 or number == 21
    steps = STEPS if is_done and number != 21 else STEPS[: number % 4 + 2]
    for at, step in enumerate(steps):
        fields = {
            "group": group,
            "action": "rebuild" if number == 12 else "install",
            "release": "4.19" if number % 3 else "4.18",
            "hardware": _HARDWARE[number % 2] if at == 0 else "",
            "boot": f"boot-{at // 5}",
        }
        _report(client, name, step, "init", **fields, percentage=round(at * 100 / len(STEPS)))
        if number == 3 and step == "Disk setup":
            _report(client, name, step, "failed", logs=_FAILED, **fields)
            return
        if at + 1 < len(steps) or is_done:
            share = 100 if is_done and at + 1 == len(STEPS) else round((at + 1) * 100 / len(STEPS))
            _report(client, name, step, "done", **fields, percentage=share)


def _report(client: Client, name: str, step: str, status: str, **fields: object) -> None:
    assert client.step(name, step, status, **fields).status == 201


def more_of_a_host(server: RunningCollector, name: str) -> None:
    """Insert a bundle and an event of a host."""
    bundle = {
        "build": 1,
        "kind": "host",
        "name": f"{name}.tar.gz",
        "key": name,
        "size": 48_211,
        "sha256": "0" * 64,
        "is_indexed": True,
        "verdict": "failed",
        "reason": "crio-configure.service failed at line 41",
    }
    add(server, bundles, name, received_at=server.collector.now(), **bundle)
    event = {"severity": "warning", "name": "upload", "message": "1 of 3 logs is missing"}
    add(server, events, name, received_at=server.collector.now(), **event)


def send_records(server: RunningCollector, host: str, **records: Sequence[Entry]) -> None:
    """Send entries of services, like a host that sends its records live."""
    pieces = [
        {
            "service": service,
            "file": "a",
            "offset": 0,
            "data": base64.b64encode(b"".join(entry.to_line() for entry in entries)).decode(),
        }
        for service, entries in records.items()
    ]
    reply = server.client("host", host).post(f"/api/v1/hosts/{host}/records", {"pieces": pieces})
    assert reply.status == 200, reply.body


def failed_services(began: float) -> dict[str, Sequence[Entry]]:
    """Return the records of a host on which one service failed.

    `began`: the start of the first service, in seconds since 1970.
    """
    at = began - START.timestamp()
    return {
        "crio-configure": [entry("service start", at), entry("service end", at + 2)],
        "release-image": [
            entry("service start", at + 3),
            entry("stage start", at + 3, stage="pull"),
            entry("stage end", at + 9, stage="pull"),
            entry("service end", at + 9),
        ],
        "bootkube": failed_run("cvo-bootstrap", at + 9, error_message=_JOURNAL),
        "kubelet": [entry("service start", at + 4)],
    }
