"""Call every route without a token, and with a token of the wrong kind."""

from pathlib import Path

from service_record.collector.api.answering import ALWAYS
from service_record.collector.app import application
from service_record.collector.process import Collector
from tests.collector.routes import RouteMethod, list_routes
from tests.collector.serving import Client, RunningCollector, make_collector_settings

OPEN = {
    "GET /healthz",
    "GET /readyz",
    "GET /login",
    "POST /login",  # its form contains a token
    "GET /static/{file}",  # style and script of the login page; they contain no data
}
"""Requests without a token. Give a reason for each new one."""


def routes(folder: Path) -> list[RouteMethod]:
    with Collector(make_collector_settings(folder)) as collector:
        return list(list_routes(application(collector)))


def answered(client: Client, route: RouteMethod) -> tuple[int, str]:
    reply = client.ask(route.method, route.path, headers={"Accept": "application/json"})
    return reply.status, reply.headers.get("location", "")


def test_only_health_and_login_need_no_token(running: RunningCollector, tmp_path: Path) -> None:
    answers = {str(route): answered(running.stranger, route) for route in routes(tmp_path)}

    assert len(answers) > 4
    assert {route for route, (status, _) in answers.items() if status != 401} - OPEN == set()


def test_unknown_token_is_refused_everywhere(running: RunningCollector, tmp_path: Path) -> None:
    guess = Client(running.url, "srt_1_c2VjcmV0")

    answers = {str(route): answered(guess, route) for route in routes(tmp_path)}

    assert {route for route, (status, _) in answers.items() if status not in {401, 429}} - OPEN == set()


def test_host_token_reads_nothing(running: RunningCollector, tmp_path: Path) -> None:
    host = running.client("host", "web1")
    assert host.step("web1", "Disk setup").status == 201

    answers = {str(route): answered(host, route) for route in routes(tmp_path) if route.method == "GET"}

    allowed = OPEN | {
        "GET /api/v1/hosts/{host}/steps",  # a report of a wget that can only GET
        "GET /api/v1/hosts/{host}/records",  # the number of bytes that the host has sent, to continue there
    }
    assert {route for route, (status, _) in answers.items() if status < 400} - allowed == set()


def test_every_answer_has_security_headers(running: RunningCollector, tmp_path: Path) -> None:
    admin = running.client("admin")
    asked = [*routes(tmp_path), RouteMethod("GET", "/nothing/here"), RouteMethod("PUT", "/healthz")]
    for client in (running.stranger, admin):
        for route in asked:
            if str(route) == "GET /api/v1/live":  # an endless stream
                continue
            reply = client.ask(route.method, route.path)
            headers = {name.lower(): value for name, value in reply.headers.items()}
            if headers.get("content-type") in {"application/json", "application/problem+json"}:
                needed = {"X-Content-Type-Options", "Content-Security-Policy", "Cache-Control"}
                assert headers["content-security-policy"].startswith("default-src 'none'; frame-ancestors")
            else:
                needed = {*ALWAYS}
            assert {name for name in needed if name.lower() not in headers} == set(), route


def test_csp_allows_no_foreign_script_or_frame() -> None:
    policy = ALWAYS["Content-Security-Policy"]

    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
