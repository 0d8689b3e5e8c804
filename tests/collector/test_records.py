"""Live service records: pieces are stored without gaps, judged soon, and can be downloaded."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store import record_rows
from service_record.collector.store.schema import chunks, hosts
from tests.builders import failed_run
from tests.collector.installing import Clock
from tests.collector.serving import Client, Reply, RunningCollector, make_collector_settings, run_collector
from tests.waiting import wait_for

MOST = 1 << 20


@pytest.fixture(scope="module")
def server(shared_settings: CollectorSettings, clock: Clock) -> Iterator[RunningCollector]:
    """One collector for all tests of the module. Each test uses its own host."""
    with run_collector(replace(shared_settings, most_records=MOST), clock) as running:
        yield running


def piece(service: str, offset: int, data: bytes, file: str = "a") -> dict[str, object]:
    return {"service": service, "file": file, "offset": offset, "data": base64.b64encode(data).decode()}


def send(client: Client, host: str, *pieces: dict[str, object]) -> Reply:
    return client.post(f"/api/v1/hosts/{host}/records", {"pieces": list(pieces)})


def offsets(reply: Reply) -> dict[str, int]:
    return {f"{one['service']}/{one['file']}": one["offset"] for one in reply.json["files"]}


def record(server: RunningCollector, host: str, service: str) -> bytes:
    reply = server.client("reader").get(f"/api/v1/hosts/{host}/records/{quote(service)}")
    assert reply.status == 200, reply.body
    return reply.body


def verdict_of(server: RunningCollector, host: str) -> dict[str, Any] | None:
    with server.collector.database.reading() as connection:
        kept = connection.execute(select(hosts.c.records_verdict).where(hosts.c.name == host)).scalar_one()
    found: dict[str, Any] | None = json.loads(kept) if kept else None
    return found


def test_pieces_are_joined_in_order(server: RunningCollector, host: str) -> None:
    client = server.client("host", host)

    first = send(client, host, piece("crio", 0, b"one\n"), piece("kubelet", 0, b"first\n"))
    second = send(client, host, piece("crio", 4, b"two\n"))

    assert (first.status, offsets(first)) == (200, {"crio/a": 4, "kubelet/a": 6})
    assert offsets(second) == {"crio/a": 8}
    assert record(server, host, "crio") == b"one\ntwo\n\n"
    listed = server.client("reader").get(f"/api/v1/hosts/{host}/records").json
    assert [(one["service"], one["bytes"]) for one in listed["services"]] == [("crio", 8), ("kubelet", 6)]


def test_repeated_piece_is_answered_with_held_offset(server: RunningCollector, host: str) -> None:
    client = server.client("host", host)
    send(client, host, piece("crio", 0, b"one\ntwo\n"))

    again = [
        send(client, host, piece("crio", 0, b"one\ntwo\n")),
        send(client, host, piece("crio", 4, b"two\n")),
    ]

    assert [(reply.status, offsets(reply)) for reply in again] == [(200, {"crio/a": 8})] * 2
    assert record(server, host, "crio") == b"one\ntwo\n\n"


@pytest.mark.parametrize(("offset", "data"), [(9, b"x"), (2, b"e\ntwo\nthree\n"), (1000, b"")])
def test_gap_or_overlap_is_answered_with_offset(
    server: RunningCollector, host: str, offset: int, data: bytes
) -> None:
    client = server.client("host", host)
    send(client, host, piece("crio", 0, b"one\ntwo\n"))

    reply = send(client, host, piece("kubelet", 0, b"new\n"), piece("crio", offset, data or b"far"))

    assert (reply.status, offsets(reply)) == (409, {"kubelet/a": 0, "crio/a": 8})
    assert reply.headers["content-type"] == "application/problem+json"
    listed = client.get(f"/api/v1/hosts/{host}/records")
    assert offsets(listed) == {"crio/a": 8}


def test_replacement_file_follows_the_replaced_one(server: RunningCollector, host: str) -> None:
    client = server.client("host", host)
    send(client, host, piece("crio", 0, b"old"))
    send(client, host, piece("crio", 0, b"new\n", file="b"))
    send(client, host, piece("crio", 3, b"er\n"))

    assert record(server, host, "crio") == b"older\n\nnew\n\n"


def test_small_pieces_are_merged_into_rows(server: RunningCollector, host: str) -> None:
    client = server.client("host", host)
    for number in range(30):
        send(client, host, piece("crio", 4 * number, b"abc\n"))

    with server.collector.database.reading() as connection:
        wanted = select(func.count()).select_from(chunks.join(hosts)).where(hosts.c.name == host)
        assert connection.execute(wanted).scalar_one() == 1
    assert record(server, host, "crio") == b"abc\n" * 30 + b"\n"


def test_host_continues_at_held_offset(server: RunningCollector, host: str) -> None:
    client = server.client("host", host)
    assert client.get(f"/api/v1/hosts/{host}/records").json["files"] == []

    send(client, host, piece("crio", 0, b"one\n"))

    assert offsets(client.get(f"/api/v1/hosts/{host}/records")) == {"crio/a": 4}
    assert client.get(f"/api/v1/hosts/{host}/records/crio").status == 403


def test_token_of_another_host_has_no_access(server: RunningCollector, host: str) -> None:
    send(server.client("host", host), host, piece("crio", 0, b"one\n"))
    other = server.client("host", "other")

    assert send(other, host, piece("crio", 4, b"two\n")).status == 403
    assert other.get(f"/api/v1/hosts/{host}/records").status == 403
    assert send(server.client("reader"), host, piece("crio", 4, b"two\n")).status == 403
    assert send(server.stranger, host).status == 401
    assert server.client("reader").get("/api/v1/hosts/nobody/records").status == 404


BAD: dict[str, object] = {
    "no object": [],
    "no pieces": {},
    "a piece without data": {"pieces": [{"service": "crio", "file": "a", "offset": 0}]},
    "a member of its own": {"pieces": [], "more": 1},
    "a service that is a path": {"pieces": [piece("../etc/passwd", 0, b"x")]},
    "a service that is hidden": {"pieces": [piece(".crio", 0, b"x")]},
    "a service without a name": {"pieces": [piece("", 0, b"x")]},
    "a file with a blank": {"pieces": [piece("crio", 0, b"x", file="a b")]},
    "before the beginning": {"pieces": [piece("crio", -1, b"x")]},
    "no base64": {"pieces": [{**piece("crio", 0, b""), "data": "%%%"}]},
    "too many": {"pieces": [piece("crio", 0, b"")] * 257},
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_invalid_batch_is_refused(server: RunningCollector, host: str, body: object) -> None:
    assert server.client("host", host).post(f"/api/v1/hosts/{host}/records", body).status == 400


def test_records_of_a_host_are_limited(server: RunningCollector, host: str) -> None:
    client = server.client("host", host)
    size = MOST // 4
    for number in range(4):
        assert send(client, host, piece("crio", size * number, bytes(size))).status == 200

    assert send(client, host, piece("crio", MOST, b"x")).status == 507
    assert send(client, host, piece("crio", 0, b"x")).status == 200


def test_every_service_gets_a_share_of_the_limit(server: RunningCollector, host: str) -> None:
    client, row = server.client("host", host), b"x" * 40_000
    for service in ("a", "b"):
        send(client, host, piece(service, 0, row))
        send(client, host, piece(service, len(row), row))
    send(client, host, piece("c", 0, b"short"))

    with server.collector.database.reading() as connection:
        host_id = record_rows.read_host_id(connection, host)
        assert host_id is not None
        ends = record_rows.read_ends(connection, host_id, 60_000, 40_000)

    assert [(service, text.strip()) for service, text in ends] == [("a", row), ("b", row), ("c", b"short")]


def test_records_change_the_verdict_within_seconds(server: RunningCollector, host: str) -> None:
    client = server.client("host", host)
    lines = b"".join(one.to_line() for one in failed_run("pull"))
    cut = len(lines) // 3

    send(client, host, piece("bootkube", 0, lines[:cut]))
    running = wait_for(lambda: verdict_of(server, host))
    send(client, host, piece("bootkube", cut, lines[cut:]))
    failed = wait_for(lambda: found if (found := verdict_of(server, host)) != running else None)

    assert running["verdict"] == "running"
    assert (failed["verdict"], failed["service"], failed["stage"]) == ("failed", "bootkube", "pull")


def test_long_running_service_is_stuck_without_entries(tmp_path: Path) -> None:
    clock = Clock()
    begun = b"".join(one.to_line() for one in failed_run("pull")[:2])
    with run_collector(make_collector_settings(tmp_path), clock) as first:
        send(first.client("host", "web1"), "web1", piece("bootkube", 0, begun))
        assert wait_for(lambda: verdict_of(first, "web1"))["verdict"] == "running"
    clock.now += 3600

    with run_collector(make_collector_settings(tmp_path), clock) as second:
        second.settle()
        clock.now += 3600  # the time limits of hosts begin again after the collector was down
        second.collector.judge.add(1)  # it is the only host; otherwise the next round would be in a minute
        stuck = wait_for(
            lambda: found if (found := verdict_of(second, "web1")) and found["verdict"] != "running" else None
        )

    assert stuck["verdict"] == "stuck"


def test_records_during_a_judgement_are_judged_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    with Collector(make_collector_settings(tmp_path)) as collector:
        judge = collector.judge

        def look(host_id: int) -> str:
            looks.append(host_id)
            if len(looks) == 1:
                judge.add(host_id)
            return "failed"

        monkeypatch.setattr(judge, "_judge_records", look)
        judge.start()
        judge.add(7)
        wait_for(lambda: len(looks) == 2)


@pytest.mark.slow
@given(
    cuts=st.lists(st.integers(1, 60), max_size=6),
    noise=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)), max_size=6),
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_held_data_is_always_a_prefix(
    server: RunningCollector, cuts: list[int], noise: list[tuple[int, int]]
) -> None:
    name = f"any-{abs(hash((tuple(cuts), tuple(noise))))}"
    client = server.client("host", name)
    text = bytes(range(32, 127)) * 4
    at = 0
    for cut, (far, size) in zip([*cuts, *[7] * len(noise)], [*noise, *[(0, 3)] * len(cuts)], strict=False):
        assert send(client, name, piece("crio", far, text[far : far + size])).status in {200, 409}
        reply = send(client, name, piece("crio", at, text[at : at + cut]))
        at = offsets(reply).get("crio/a", 0)
        assert at <= len(text)
    if at:
        assert record(server, name, "crio") == text[:at] + b"\n"
