"""What every answer of a collector has to be like, and that it serves the next one."""

import contextlib
import json
import sqlite3
from typing import Final

from service_record.collector.store.database import FILE
from tests.collector.commands import collector_command
from tests.collector.serving import Reply
from tests.fuzz.asgi import Asked
from tests.fuzz.raw_requests import Request

WRONG: Final = range(500, 600)
DOCUMENTED: Final = 507
"""Records beyond what is taken of one host."""


def signed_in(asked: Asked) -> bytes:
    """The cookie of a session."""
    token = asked.token("admin").encode()
    headers = [(b"host", b"collector.example"), (b"origin", b"http://collector.example")]
    reply = asked.ask("POST", b"/login", headers, b"token=" + token)
    return reply.headers["set-cookie"].partition(";")[0].encode()


def answered(asked: Asked, request: Request, who: str, cookie: bytes) -> Reply:
    """The answer to a request with this token, unless it has one of its own, and a session."""
    headers = list(request.headers)
    names = {name for name, _ in headers}
    if who and b"authorization" not in names:
        kind, _, scope = who.partition(" ")
        headers.append((b"authorization", f"Bearer {asked.token(kind, scope)}".encode()))
    if b"cookie" not in names:
        headers.append((b"cookie", cookie))
    if b"host" not in names:
        headers.append((b"host", b"collector.example"))
    middle = len(request.body) // 2
    return asked.ask(request.method, request.target, headers, [request.body[:middle], request.body[middle:]])


def check(reply: Reply, asked: Asked) -> None:
    assert reply.status not in WRONG or reply.status == DOCUMENTED, (reply, asked.log.getvalue())
    assert '"fault"' not in asked.log.getvalue(), asked.log.getvalue()
    assert "Traceback" not in asked.log.getvalue()
    asked.log.seek(0)
    asked.log.truncate()


def check_it_serves(asked: Asked, cookie: bytes, status: int = 201) -> bytes:
    """A good report is answered so, and readers are shown all; the cookie of a session that is good."""
    headers = [(b"host", b"collector.example"), (b"content-type", b"application/json")]
    bearer = (b"authorization", f"Bearer {asked.token('admin')}".encode())
    good = asked.ask("POST", b"/api/v1/hosts/web1/steps", [*headers, bearer], b'{"name": "good"}')
    if good.status == 401:  # the token was revoked
        asked.tokens.clear()
        return check_it_serves(asked, signed_in(asked), status)
    assert good.status == status, good
    found = asked.get("/api/v1/hosts/web1")
    assert found.status == 200, found
    assert b'"good"' in found.body
    fleet = asked.get("/api/v1/hosts?all=true&limit=1000")
    assert fleet.status == 200
    assert "web1" in [host["name"] for host in json.loads(fleet.body)["hosts"]]
    for path in (b"/", b"/hosts/web1"):
        page = asked.ask("GET", path, [(b"host", b"collector.example"), (b"cookie", cookie)])
        if page.status == 401:  # signed out
            return check_it_serves(asked, signed_in(asked), status)
        check(page, asked)
        assert page.status == 200, page
    return cookie


def check_store(asked: Asked) -> None:
    with contextlib.closing(sqlite3.connect(asked.collector.settings.data / FILE)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    data = asked.collector.settings.data
    for verb in (["token", "list"], ["audit"]):
        said = collector_command(*verb, "--data", data)
        assert (said.status, said.err) == (0, ""), said
