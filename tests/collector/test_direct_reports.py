"""Reports of steps that are answered without the application get the application's answers."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit

import pytest
from sqlalchemy import func, select

from service_record.collector import serve
from service_record.collector.api import direct_reports
from service_record.collector.serving_settings import CollectorSettings, Rates
from service_record.collector.store.schema import steps
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector
from tests.waiting import wait_for

STEP: Final = b'{"name": "Disk setup", "status": "init"}'
_CHANGING: Final = re.compile(rb"(?im)^(?:date|x-request-id|retry-after): .*\r\n")


def post(
    token: str,
    body: bytes = STEP,
    *lines: str,
    host: str = "web1",
    start: str = "POST /api/v1/hosts/{}/steps HTTP/1.1",
) -> bytes:
    """Return the bytes of a request that reports a step."""
    head = [start.format(host), "Host: x", f"Authorization: Bearer {token}", *lines]
    if not any(line.startswith("Transfer-Encoding") for line in lines):
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


REQUESTS: Final[dict[str, Callable[[str], bytes]]] = {
    "a report": post,
    "a form": lambda token: post(token, b"name=Disk+setup&status=done&percentage=30"),
    "no field": lambda token: post(token, b""),
    "invalid JSON": lambda token: post(token, b'{"name": '),
    "JSON of another type": lambda token: post(token, b"[1]"),
    "bytes that are not UTF-8": lambda token: post(token, b'{"name": "Disk \xff\xfe"}'),
    "invalid values": lambda token: post(token, b'{"name": "Disk", "percentage": 300, "status": "odd"}'),
    "an undefined step": lambda token: post(token, b'{"name": "Make coffee"}'),
    "long logs": lambda token: post(token, json.dumps({"name": "Disk", "logs": "a" * 70_000}).encode()),
    "a long body": lambda token: post(token, b"a" * 300_000),
    "chunks": lambda token: post(
        token, b"9\r\nname=Disk\r\n0\r\n\r\n", "Transfer-Encoding: chunked"
    ),
    "another host": lambda token: post(token, host="web2"),
    "an invalid host": lambda token: post(token, host="-web1-"),
    "a host in capitals": lambda token: post(token, host="WEB1"),
    "an escaped host": lambda token: post(token, host="web%31"),
    "a trailing slash": lambda token: post(token, start="POST /api/v1/hosts/{}/steps/ HTTP/1.1"),
    "a query": lambda token: post(token, start="POST /api/v1/hosts/{}/steps?name=other HTTP/1.1"),
    "another method": lambda token: post(token, start="PUT /api/v1/hosts/{}/steps HTTP/1.1"),
    "HTTP/1.0": lambda token: post(token, STEP, start="POST /api/v1/hosts/{}/steps HTTP/1.0"),
    "the last request": lambda token: post(token, STEP, "Connection: close"),
    "an upgrade": lambda token: post(token, STEP, "Connection: upgrade", "Upgrade: h2c"),
    "100-continue": lambda token: post(token, STEP, "Expect: 100-continue"),
    "no token": lambda _: post(""),
    "an unknown token": lambda _: post("srt_7_abc"),
    "two tokens": lambda token: post(token, STEP, "Authorization: Bearer srt_7_abc"),
    "a wrong secret": lambda token: post(f"{token}x"),
    "a key": lambda token: post(token, STEP, "Idempotency-Key: one") * 2,
    "a key of another report": lambda token: (
        post(token, STEP, "Idempotency-Key: one") + post(token, b"name=Other", "Idempotency-Key: one")
    ),
    "a repeated report": lambda token: post(token) * 3,
    "more than the limit": lambda token: post(token) * 9,
}  # fmt: skip
REQUESTS_OF_ALL_KINDS: Final = {
    name: REQUESTS[name] for name in ("a report", "another host", "a key", "more than the limit")
}


@contextmanager
def connected(server: RunningCollector) -> Iterator[tuple[socket.socket, BinaryIO]]:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=20) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection.makefile("rb") as stream:
            yield connection, stream


def read_answer(stream: BinaryIO) -> bytes:
    """Read one answer, head and body. It is truncated if the server closes the connection."""
    head: list[bytes] = []
    while line := stream.readline():
        head.append(line)
        if line == b"\r\n" and not head[0].startswith(b"HTTP/1.1 100 "):
            break
        if line == b"\r\n":
            head.clear()
    length = re.search(rb"(?i)content-length: (\d+)", b"".join(head))
    return b"".join([*head, stream.read(int(length[1]) if length else 0)])


def ask(server: RunningCollector, *requests: bytes) -> list[list[bytes]]:
    """Return the lines of each answer on one connection, without headers that differ between runs."""
    answers = []
    with connected(server) as (connection, stream):
        for sent in requests:
            connection.sendall(sent)
            answers += [read_answer(stream) for _ in range(sent.count(b" HTTP/1."))]
    return [sorted(_CHANGING.sub(b"", answer).split(b"\r\n")) for answer in answers]


@pytest.fixture
def applications(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that grows with each request that reaches the application."""
    got: list[object] = []
    start = serve.Connection._start_asgi_task

    def note(self: serve.Connection, cycle: Any, app: Any) -> None:
        got.append(cycle)
        start(self, cycle, app)

    monkeypatch.setattr(serve.Connection, "_start_asgi_task", note)
    return got


@pytest.mark.slow
def test_direct_answers_are_those_of_the_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, applications: list[object]
) -> None:
    file = tmp_path / "steps.toml"
    file.write_text('[[step]]\nlabel = "disk_setup"\n[[step]]\nlabel = "disk"\nlast = true\n')
    answers: dict[bool, dict[str, list[list[bytes]]]] = {False: {}, True: {}}
    numbers = []
    match = serve.Connection._match_report
    for is_direct in (True, False):
        monkeypatch.setattr(serve.Connection, "_match_report", match if is_direct else lambda _: "")
        rates = Rates(per_second=0.01, burst=6)
        with run_collector(
            make_collector_settings(tmp_path / str(is_direct), steps=(file,), rates=rates)
        ) as server:
            for kind, scope in (("host", "web1"), ("group", "dc1"), ("admin", ""), ("reader", "")):
                for name, make in (REQUESTS if kind == "host" else REQUESTS_OF_ALL_KINDS).items():
                    token = server.client(kind, scope).token
                    warm_up = post(token, b"name=Disk&group=dc1")
                    answers[is_direct][f"{name}, {kind} token"] = ask(server, warm_up, make(token))
        numbers.append(len(applications))

    assert answers[True] == answers[False]
    assert numbers[0] < numbers[1] / 2


def test_known_token_needs_no_application(server: RunningCollector, applications: list[object]) -> None:
    token = server.client("host", "web1").token
    answers = ask(server, *[post(token, f"name=Step{number}".encode()) for number in range(5)])

    assert [b"HTTP/1.1 201 Created" in answer for answer in answers] == [True] * 5
    assert len(applications) == 1, "only the first report has a token that must be looked up"


def test_body_after_its_head_needs_no_application(
    sqlite_server: RunningCollector, applications: list[object]
) -> None:
    token = sqlite_server.client("host", "web1").token
    ask(sqlite_server, post(token))
    head, _, body = post(token, b"name=Disk").partition(b"\r\n\r\n")
    with connected(sqlite_server) as (connection, stream):
        connection.sendall(head + b"\r\n\r\n")
        time.sleep(0.05)
        connection.sendall(body)
        assert read_answer(stream).startswith(b"HTTP/1.1 201 ")

    assert len(applications) == 1


def test_late_body_is_received_by_the_application(
    sqlite_server: RunningCollector, applications: list[object]
) -> None:
    token = sqlite_server.client("host", "web1").token
    ask(sqlite_server, post(token))
    head, _, body = post(token, b"name=Disk").partition(b"\r\n\r\n")
    with connected(sqlite_server) as (connection, stream):
        connection.sendall(head + b"\r\n\r\n" + body[:4])
        wait_for(lambda: len(applications) == 2)
        connection.sendall(body[4:])
        answer = read_answer(stream)

    assert json.loads(answer.partition(b"\r\n\r\n")[2])["id"] == 2


def test_pipelined_requests_are_answered_in_order(sqlite_server: RunningCollector) -> None:
    token = sqlite_server.client("host", "web1").token
    ask(sqlite_server, post(token))
    health = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with connected(sqlite_server) as (connection, stream):
        connection.sendall((post(token, b"name=Disk") + health + post(token, b"name=Network")) * 3)
        answers = [read_answer(stream).split()[1] for _ in range(9)]

    assert answers == [b"201", b"200", b"201"] * 3


def test_clients_that_leave_do_not_disturb_others(sqlite_server: RunningCollector) -> None:
    token = sqlite_server.client("host", "web1").token
    ask(sqlite_server, post(token))
    for number in range(30):
        with connected(sqlite_server) as (connection, _):
            connection.sendall(post(token, f"name=Step{number}".encode()))

    (answer,) = ask(sqlite_server, post(token, b"name=Disk"))
    assert b"HTTP/1.1 201 Created" in answer
    wait_for(lambda: count_steps(sqlite_server) == 32)


def count_steps(server: RunningCollector) -> int:
    with server.collector.database.reading() as connection:
        return int(connection.execute(select(func.count()).select_from(steps)).scalar_one())


def test_bug_is_answered_and_logged_like_in_the_application(
    sqlite_server: RunningCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = sqlite_server.client("host", "web1").token
    ask(sqlite_server, post(token))

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(direct_reports, "accept_report", fail)

    (answer,) = ask(sqlite_server, post(token, b"name=Disk"))

    assert b"HTTP/1.1 500 Internal Server Error" in answer


def test_closing_collector_answers_accepted_reports(sqlite_settings: CollectorSettings) -> None:
    may_go_on = threading.Event()
    with ExitStack() as stack:
        with ExitStack() as serving:
            server = serving.enter_context(run_collector(sqlite_settings))
            token = server.client("host", "web1").token
            ask(server, post(token))
            connection, stream = stack.enter_context(connected(server))
            server.collector.writer.change(lambda _: may_go_on.wait())
            connection.sendall(post(token, b"name=Disk"))
            wait_for(lambda: server.collector.writer.waiting() == 1)
            closing = threading.Thread(target=serving.pop_all().close)
        closing.start()
        wait_for(lambda: server.collector.news.is_over)
        may_go_on.set()
        answer = read_answer(stream)
        closing.join()

    assert answer.startswith(b"HTTP/1.1 201 ")
    assert b"\r\nconnection: close\r\n" in answer
