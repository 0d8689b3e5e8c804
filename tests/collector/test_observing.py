"""Metrics and logs of requests, without secrets."""

import asyncio
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message

from service_record.collector import logs
from service_record.collector.api.metrics import Metrics, Observed
from service_record.collector.process import Collector
from testing.machine import REPOSITORY
from tests.assisted_rules import BASE_PATH, AssistedRules
from tests.collector.installing import Agent, map_host
from tests.collector.serving import Client, RunningCollector, make_collector_settings, run_collector

CANARIES = ["srt_7_CANARYinHEADER0123456789", "CANARYinQUERY", "CANARYinFORM", "CANARYinJSON", "CANARYinPATH"]


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Collect the log, from the lowest level."""
    stream = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:], root.level
    logs.configure("debug", stream)
    yield stream
    structlog.reset_defaults()
    root.handlers[:] = before[0]
    root.setLevel(before[1])


def lines(log: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def metric(text: str, name: str) -> float:
    (value,) = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name + " ")]
    return float(value)


def test_metrics_count_reports_hosts_and_writes(sqlite_server: RunningCollector) -> None:
    host = sqlite_server.client("host", "web1")
    host.step("web1", "Disk setup", "init")
    host.get("/api/v1/hosts/web1/steps", name="Disk setup", status="done")
    host.step("web2", "Disk setup")

    answer = sqlite_server.client("reader").get("/metrics")

    text = answer.body.decode()
    assert answer.headers["content-type"].startswith("text/plain")
    assert metric(text, 'service_record_ingested_total{kind="step"}') == 2
    route = '{method="POST",route="/api/v1/hosts/{host}/steps",status="403"}'
    assert metric(text, f"service_record_requests_total{route}") == 1
    assert metric(text, 'service_record_request_seconds_count{route="/api/v1/hosts/{host}/steps"}') == 3
    assert "service_record_hosts{" in text
    assert metric(text, "service_record_writer_waiting") == 0
    assert metric(text, "service_record_commits_total") >= 2


def test_assisted_calls_are_counted_and_logged_by_route(
    sqlite_server: RunningCollector, log: io.StringIO
) -> None:
    host = AssistedRules().add_host()
    map_host(sqlite_server, "web1", host)
    agent = Agent(sqlite_server.client("host", "web1"), host)
    assert agent.put_stage("Joined").status == 200
    assert agent.upload(b"a bundle").status == 204
    assert agent.put_stage("Rebooting").status == 409

    text = sqlite_server.client("reader").get("/metrics").body.decode()

    for kind in ("stage", "bundle"):
        assert metric(text, f'service_record_ingested_total{{kind="{kind}"}}') == 1
    (refused,) = [line for line in lines(log) if line["event"] == "refused"]
    assert refused["route"] == f"{BASE_PATH}/v2/infra-envs/{{infra_env_id}}/hosts/{{host_id}}/progress"


def test_metrics_page_documents_every_metric(sqlite_server: RunningCollector) -> None:
    sqlite_server.client("host", "web1").step("web1", "Disk setup")
    text = sqlite_server.client("reader").get("/metrics").body.decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))
    page, _, _ = (REPOSITORY / "docs/metrics.md").read_text().partition("## Metrics of a host")
    rows = re.findall(r"^\| `(\w+)(?:{([\w,]+)})?` \|", page, re.MULTILINE)

    assert {name for name, _ in rows} == {name for name in kinds if not name.endswith("_created")}
    for name, labels in rows:
        sample = f"{name}_count" if kinds[name] == "histogram" else name
        line = re.search(rf"^{sample}(?:{{(.*?)}})? ", text, re.MULTILINE)
        nothing_there = {"service_record_clusters", "service_record_notices_waiting"}
        assert line or name in nothing_there, name
        if line:
            assert set(re.findall(r'(\w+)="', line[1] or "")) == set(filter(None, labels.split(","))), name


def test_metrics_need_a_reader_token(sqlite_server: RunningCollector) -> None:
    assert sqlite_server.stranger.get("/metrics").status == 401
    assert sqlite_server.client("host", "web1").get("/metrics").status == 403


def test_unknown_paths_and_methods_add_no_metrics(sqlite_server: RunningCollector) -> None:
    for number in range(20):
        sqlite_server.stranger.ask("GET", f"/made/up/{number}")
        sqlite_server.stranger.ask(f"MADE{number}", "/healthz")

    text = sqlite_server.client("admin").get("/metrics").body.decode()

    assert "made" not in text.lower()


def test_refused_request_is_logged_with_request_id(tmp_path: Path, log: io.StringIO) -> None:
    with run_collector(make_collector_settings(tmp_path)) as server:
        reply = server.client("host", "web1").step("web2", "Disk setup")

    (line,) = [line for line in lines(log) if line["event"] == "refused"]
    assert line["request"] == reply.headers["x-request-id"]
    assert (line["route"], line["status"]) == ("/api/v1/hosts/{host}/steps", 403)
    assert (line["address"], line["token"]) == ("127.0.0.1", 1)


def test_accepted_step_is_not_logged(sqlite_server: RunningCollector, log: io.StringIO) -> None:
    host = sqlite_server.client("host", "web1")

    replies = [host.step("web1", "Disk setup", status) for status in ("init", "done")]

    assert [reply.status for reply in replies] == [201, 201]
    assert [line for line in lines(log) if line.get("route")] == []


def test_secrets_are_never_logged(tmp_path: Path, log: io.StringIO) -> None:
    with run_collector(make_collector_settings(tmp_path)) as server:
        admin = server.client("admin")
        canary = Client(server.url, CANARIES[0])
        asked = [
            canary.step("web1", "Disk setup"),
            server.stranger.ask("GET", "/x", headers={"X-Secret-Key": CANARIES[0], "Cookie": CANARIES[0]}),
            server.stranger.get("/api/v1/hosts/web1/steps", token=CANARIES[1]),
            admin.get("/api/v1/audit", limit=CANARIES[1]),
            admin.post("/api/v1/tokens", kind=CANARIES[2]),
            admin.post("/api/v1/tokens", data={"kind": "host", "scope": CANARIES[3] + "/"}),
            admin.ask("POST", "/api/v1/enrol", data={"host": CANARIES[3]}),
            admin.get(f"/api/v1/hosts/{CANARIES[4]}!/steps", name="x"),
            server.stranger.get(f"/{CANARIES[4]}"),
            server.stranger.post("/login", token=CANARIES[2]),
            admin.ask("POST", "/api/v1/tokens", body=f'{{"kind": "{CANARIES[3]}'.encode()),
        ]
        assert all(reply.status >= 400 for reply in asked)
        secret = admin.token.split("_", 2)[2]

    output = log.getvalue()
    assert len(lines(log)) >= len(asked)
    assert [canary for canary in [*CANARIES, secret] if canary in output] == []
    assert "CANARY" not in output


def test_fault_is_logged_with_id_without_message(tmp_path: Path, log: io.StringIO) -> None:
    async def broken(request: Request) -> Response:
        raise RuntimeError(f"{CANARIES[1]} {request.url}")

    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [], "query_string": b"a=CANARY"}
    with Collector(make_collector_settings(tmp_path)) as collector:
        app = Starlette(
            routes=[Route("/x", broken)], middleware=[Middleware(Observed, metrics=Metrics(collector, {}))]
        )
        asyncio.run(app(scope, receive, send))

    (line,) = [line for line in lines(log) if line["event"] == "fault"]
    assert sent[0]["status"] == 500
    assert str(line["request"]) in sent[1]["body"].decode()
    assert line["fault"] == "RuntimeError"
    assert "CANARY" not in log.getvalue() + sent[1]["body"].decode()


def test_unreachable_database_returns_503_and_is_logged(tmp_path: Path, log: io.StringIO) -> None:
    with run_collector(make_collector_settings(tmp_path)) as server:
        admin = server.client("admin")
        with server.collector.database.changing() as connection:
            connection.exec_driver_sql("ALTER TABLE audit RENAME TO gone")

        reply = admin.get("/api/v1/audit")

    assert reply.status == 503
    assert "gone" not in reply.body.decode()
    (line,) = [line for line in lines(log) if line["event"] == "database"]
    assert line["fault"] == "OperationalError"
    assert line["database"] == "no such table: audit"
    assert any("store/administration.py" in str(frame) for frame in line["at"])  # type: ignore[attr-defined]


def test_tokens_are_masked_in_all_logs(log: io.StringIO) -> None:
    logs.log().info("a token", value="see srt_12_abcdefghijklmnop for it")
    logging.getLogger("some.library").error("got %s", "srt_12_abcdefghijklmnop")
    try:
        int("srt_12_abcdefghijklmnop")
    except ValueError:
        logging.getLogger("some.library").exception("broke")

    assert "abcdefgh" not in log.getvalue()
    assert lines(log)[0]["value"] == "see srt_12_*** for it"
    assert lines(log)[2]["fault"] == "ValueError"
