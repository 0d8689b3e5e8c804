"""Check a collector's replies, and that it still serves after each of them."""

import contextlib
import json
import sqlite3
from typing import Final

from service_record.collector.store.database import FILE
from tests.collector.commands import collector_command
from tests.collector.serving import Reply
from tests.fuzz.asgi import FuzzedCollector
from tests.fuzz.raw_requests import Request

SERVER_ERRORS: Final = range(500, 600)
STORAGE_FULL: Final = 507
"""Documented status for records beyond the limit of a host."""


def sign_in(collector: FuzzedCollector) -> bytes:
    """Sign in and return the session's cookie."""
    token = collector.token("admin").encode()
    headers = [(b"host", b"collector.example"), (b"origin", b"http://collector.example")]
    reply = collector.ask("POST", b"/login", headers, b"token=" + token)
    return reply.headers["set-cookie"].partition(";")[0].encode()


def send(collector: FuzzedCollector, request: Request, token_kind: str, cookie: bytes) -> Reply:
    """Send a request, with this token and session unless it has its own, and return the reply."""
    headers = list(request.headers)
    names = {name for name, _ in headers}
    if token_kind and b"authorization" not in names:
        kind, _, scope = token_kind.partition(" ")
        headers.append((b"authorization", f"Bearer {collector.token(kind, scope)}".encode()))
    if b"cookie" not in names:
        headers.append((b"cookie", cookie))
    if b"host" not in names:
        headers.append((b"host", b"collector.example"))
    middle = len(request.body) // 2
    return collector.ask(
        request.method, request.target, headers, [request.body[:middle], request.body[middle:]]
    )


def check(reply: Reply, collector: FuzzedCollector) -> None:
    assert reply.status not in SERVER_ERRORS or reply.status == STORAGE_FULL, (
        reply,
        collector.log.getvalue(),
    )
    assert '"fault"' not in collector.log.getvalue(), collector.log.getvalue()
    assert "Traceback" not in collector.log.getvalue()
    collector.log.seek(0)
    collector.log.truncate()


def check_next_request(collector: FuzzedCollector, cookie: bytes, status: int = 201) -> bytes:
    """Check that a valid report gets this status, and that API and pages work. Return the cookie of a valid
    session.
    """
    headers = [(b"host", b"collector.example"), (b"content-type", b"application/json")]
    bearer = (b"authorization", f"Bearer {collector.token('admin')}".encode())
    report = collector.ask("POST", b"/api/v1/hosts/web1/steps", [*headers, bearer], b'{"name": "good"}')
    if report.status == 401:  # the token was revoked
        collector.tokens.clear()
        return check_next_request(collector, sign_in(collector), status)
    assert report.status == status, report
    host = collector.get("/api/v1/hosts/web1")
    assert host.status == 200, host
    assert b'"good"' in host.body
    fleet = collector.get("/api/v1/hosts?all=true&limit=1000")
    assert fleet.status == 200
    assert "web1" in [host["name"] for host in json.loads(fleet.body)["hosts"]]
    for path in (b"/", b"/hosts/web1"):
        page = collector.ask("GET", path, [(b"host", b"collector.example"), (b"cookie", cookie)])
        if page.status == 401:  # signed out
            return check_next_request(collector, sign_in(collector), status)
        check(page, collector)
        assert page.status == 200, page
    return cookie


def check_store(collector: FuzzedCollector) -> None:
    with contextlib.closing(sqlite3.connect(collector.process.settings.data / FILE)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    data = collector.process.settings.data
    for verb in (["token", "list"], ["audit"]):
        result = collector_command(*verb, "--data", data)
        assert (result.status, result.err) == (0, ""), result
