"""Log in to the pages, and log out."""

import sqlite3
import time
from pathlib import Path

import pytest

from service_record.collector.domain.access import parse_token
from service_record.collector.serving_settings import Rates
from service_record.collector.store import tokens
from service_record.collector.store.database import FILE
from service_record.collector.web.login import is_local
from testing.collector import process
from tests.builders import require
from tests.collector.browsing import Visitor, sign_in_visitor
from tests.collector.serving import Client, RunningCollector, make_collector_settings, run_collector


def test_login_returns_to_the_requested_page(running: RunningCollector) -> None:
    visitor = Visitor(running)

    reply = visitor.get("/hosts/web1?build=2")
    assert (reply.status, reply.headers["location"]) == (303, "/login?next=%2Fhosts%2Fweb1%3Fbuild%3D2")
    back = visitor.page(reply.headers["location"]).all("input")
    assert [node.attributes["value"] for node in back if node.attributes["name"] == "next"] == [
        "/hosts/web1?build=2"
    ]

    reply = visitor.sign_in(running.client("reader").token, "/hosts/web1?build=2")
    assert (reply.status, reply.headers["location"]) == (303, "/hosts/web1?build=2")


def test_session_cookie_is_httponly_and_samesite(running: RunningCollector) -> None:
    reply = Visitor(running).sign_in(running.client("admin").token)

    _, *attributes = reply.headers["set-cookie"].lower().split("; ")
    assert {"httponly", "samesite=strict", "path=/", "max-age=43200"} <= set(attributes)


@pytest.mark.slow
def test_tls_cookie_is_secure_with_host_prefix(tmp_path: Path) -> None:
    settings = make_collector_settings(tmp_path)
    with run_collector(settings) as server:
        token = server.client("reader").token
    with process(settings, "--proxy", "127.0.0.1") as running:
        headers = {"X-Forwarded-Proto": "https", "Sec-Fetch-Site": "same-origin"}
        reply = Client(running.url).ask("POST", "/login", form={"token": token}, headers=headers)

    name, *attributes = reply.headers["set-cookie"].split("; ")
    assert name.startswith("__Host-service-record=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= set(attributes)
    assert not any(attribute.startswith("Domain") for attribute in attributes)


def test_database_stores_no_session_secret(tmp_path: Path) -> None:
    settings = make_collector_settings(tmp_path)
    with run_collector(settings) as server:
        visitor = sign_in_visitor(server)

    (session,) = visitor.cookies.values()
    kept = sqlite3.connect(settings.data / FILE).execute("SELECT hash FROM sessions").fetchall()
    assert len(session) > 40
    assert len(kept) == 1
    assert session not in str(kept)


@pytest.mark.parametrize("kind", ["host", "group", "enrolment"])
def test_token_without_read_right_cannot_log_in(running: RunningCollector, kind: str) -> None:
    visitor = Visitor(running)

    reply = visitor.sign_in(running.client(kind, "web1").token)

    assert reply.status == 403
    assert not visitor.cookies
    assert f"a token of kind {kind} reads nothing" in reply.body.decode()


@pytest.mark.parametrize("token", ["", "open sesame", "srt_1_nobodysecret", "srt_99999999999999999999_x"])
def test_invalid_token_cannot_log_in(running: RunningCollector, token: str) -> None:
    visitor = Visitor(running)

    assert visitor.sign_in(token).status == 401
    assert not visitor.cookies


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "http://["])
def test_cross_site_form_is_refused(running: RunningCollector, origin: str) -> None:
    visitor = sign_in_visitor(running)

    for path in ("/login", "/logout"):
        token = running.client("reader").token
        assert visitor.send(path, {"Origin": origin}, token=token).status == 403
    assert visitor.get("/").status == 200


def test_session_ends_at_logout(server: RunningCollector) -> None:
    visitor = sign_in_visitor(server)
    before = dict(visitor.cookies)

    assert visitor.send("/logout").headers["location"] == "/login"
    assert Visitor(server, before).get("/").status == 303


def test_session_ends_when_token_is_revoked(server: RunningCollector) -> None:
    token = server.client("reader").token
    visitor = Visitor(server)
    visitor.sign_in(token)
    assert visitor.get("/").status == 200

    known = require(parse_token(token))
    server.collector.writer.change(
        lambda connection: tokens.revoke(connection, known.id, time.time())
    ).result()

    assert visitor.get("/").status == 303


def test_session_ends_after_twelve_hours(tmp_path: Path) -> None:
    clock = [1_800_000_000.0]
    with run_collector(make_collector_settings(tmp_path), now=lambda: clock[0]) as server:
        visitor = sign_in_visitor(server)
        clock[0] += 12 * 3600 - 1
        assert visitor.get("/").status == 200
        clock[0] += 1
        assert visitor.get("/").status == 303


def test_session_shares_the_limit_of_its_token(tmp_path: Path) -> None:
    with run_collector(make_collector_settings(tmp_path, rates=Rates(per_second=0.001, burst=3))) as server:
        visitor = sign_in_visitor(server)
        replies = [visitor.get("/statistics") for _ in range(4)]

    assert [reply.status for reply in replies] == [200, 200, 200, 429]
    assert int(replies[-1].headers["retry-after"]) > 100


@pytest.mark.parametrize("place", ["/", "/hosts/web1?build=2", "/?group=dc1%2Frack2&all=1"])
def test_login_redirects_within_the_collector(place: str) -> None:
    assert is_local(place)


@pytest.mark.parametrize(
    "place",
    [
        *("//evil.example", "/\\evil.example", "https://evil.example", "evil", "", "javascript:x"),
        *("/\t/e", "/a\\b"),
    ],
)
def test_login_redirects_to_no_other_site(running: RunningCollector, place: str) -> None:
    assert not is_local(place)
    assert Visitor(running).sign_in(running.client("reader").token, place).headers["location"] == "/"
