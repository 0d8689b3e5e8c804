"""Slow, faulty and hostile clients are disconnected, and do not affect others."""

import contextlib
import http.client
import os
import socket
import statistics
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

import pytest

from service_record.collector import serve
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.database import Database, sqlite_url
from testing.collector import process
from tests.collector.processes import create_admin_tokens, load
from tests.collector.serving import RunningCollector, run_collector

POST: Final = b"POST /api/v1/hosts/web1/steps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer srt_1_x\r\n"
GET: Final = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
HOSTILE: Final = {
    "noise": os.urandom(2000),
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "endless header": GET + b"X: " + b"a" * 1_000_000,
    "endless headers": GET + b"".join(b"X-%d: a\r\n" % number for number in range(20_000)),
    "endless request line": b"GET /" + b"a" * 1_000_000,
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "negative length": POST + b"Content-Length: -5\r\n\r\nhello",
    "huge length": POST + b"Content-Length: 99999999999999999999\r\n\r\n",
    "invalid chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
    "garbage after a request": GET + b"\r\n" + os.urandom(500),
    "thousands of pipelined requests": (GET + b"\r\n") * 5_000,
    "invalid path": b"GET /\xff\xfe%00%zz/../.. HTTP/1.1\r\nHost: x\r\n\r\n",
    "NUL in a header name": GET + b"X: a\r\nY\x00: b\r\n\r\n",
    "only line breaks": b"\r\n" * 100_000,
}
SLOW: Final = {
    "nothing": (b"", b""),
    "head byte by byte": (GET, b"a"),
    "line breaks": (b"", b"\r\n"),
    "body byte by byte": (POST + b"Content-Length: 1000\r\n\r\n", b"a"),
    "incomplete second head": (GET + b"\r\nGET /", b"a"),
}


@contextlib.contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    address = urlsplit(url)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=60) as connection:
        yield connection


def exchange(url: str, sent: bytes) -> bytes:
    """Send bytes, and return everything that the server answers before it closes the connection."""
    received = b""
    with connected(url) as connection, contextlib.suppress(ConnectionError):
        sending = threading.Thread(target=send, args=(connection, sent))
        sending.start()
        while piece := connection.recv(65_536):
            received += piece
        sending.join()
    return received


def assert_it_serves(server: RunningCollector) -> None:
    """Send a request. If the server closes the connection before it arrives, send it again."""
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            assert server.stranger.get("/healthz").status == 200
            return


def send(connection: socket.socket, sent: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(sent)


@pytest.fixture
def impatient(sqlite_settings: CollectorSettings) -> Iterator[RunningCollector]:
    """A collector with a timeout of 0.3 s."""
    with run_collector(replace(sqlite_settings, seconds=0.3)) as running:
        yield running


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
def test_invalid_request_closes_the_connection(impatient: RunningCollector, sent: bytes) -> None:
    statuses = {
        line.split()[1] for line in exchange(impatient.url, sent).split(b"\r\n") if line[:5] == b"HTTP/"
    }

    assert statuses <= {b"200", b"400", b"401", b"404", b"413"}
    assert_it_serves(impatient)


@pytest.mark.parametrize(("begun", "again"), SLOW.values(), ids=SLOW)
def test_too_slow_client_is_disconnected(impatient: RunningCollector, begun: bytes, again: bytes) -> None:
    with connected(impatient.url) as connection:
        connection.sendall(begun)
        connection.settimeout(0.02)
        while not is_closed(connection):
            with contextlib.suppress(OSError):
                connection.sendall(again)


def is_closed(connection: socket.socket) -> bool:
    try:
        while connection.recv(65_536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def test_slow_client_within_timeout_is_answered(sqlite_server: RunningCollector) -> None:
    with connected(sqlite_server.url) as connection:
        for byte in GET + b"Connection: close\r\n\r\n":
            connection.sendall(bytes([byte]))
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_hostile_clients_do_not_affect_good_ones(sqlite_settings: CollectorSettings) -> None:
    with process(sqlite_settings) as collector:
        tokens = create_tokens(sqlite_settings)
        undisturbed = latencies(collector.url, tokens)
        with disturbed(collector.url) as attempts:
            disturbed_latencies = latencies(collector.url, tokens)
            assert attempts() > len(HOSTILE)
    assert percentile(disturbed_latencies) < 10 * percentile(undisturbed) + 3.0


def create_tokens(settings: CollectorSettings) -> list[str]:
    database = Database(sqlite_url(settings.data))
    try:
        return create_admin_tokens(database, 8)
    finally:
        database.close()


def latencies(url: str, tokens: list[str]) -> list[float]:
    """Return the durations of reports in seconds. None may be refused or lost."""
    with load([url], tokens) as going:
        going.wait_for_more(400)
    assert (set(going.statuses), going.broken) == ({201}, 0)
    return going.seconds


def percentile(seconds: list[float]) -> float:
    """Return the 99th percentile."""
    return statistics.quantiles(seconds, n=100)[98]


@contextlib.contextmanager
def disturbed(url: str) -> Iterator[Callable[[], int]]:
    """Attack a collector with HOSTILE and SLOW. Yields a function that returns the number of attacks."""
    is_over = threading.Event()
    count = 0

    def attack() -> None:
        nonlocal count
        while not is_over.is_set():
            for sent in HOSTILE.values():
                with contextlib.suppress(OSError), connected(url) as connection:
                    send(connection, sent)
                count += 1
                if is_over.wait(0.02):
                    return

    with contextlib.ExitStack() as stack:
        for begun, _ in list(SLOW.values()) * 40:
            send(stack.enter_context(connected(url)), begun)
        thread = threading.Thread(target=attack)
        thread.start()
        try:
            yield lambda: count
        finally:
            is_over.set()
            thread.join()


def test_half_open_connections_of_an_address_are_limited(
    sqlite_server: RunningCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_MOST_HALF_OPEN", 5)
    url = sqlite_server.url
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(connected(url)) for _ in range(5)]
        for connection in waiting[1:]:
            connection.sendall(b"GET /healthz HT")

        assert exchange(url, GET + b"\r\n") == b""

        waiting[0].sendall(GET + b"\r\n")  # its first request: it is not half-open any more
        assert waiting[0].recv(100).startswith(b"HTTP/1.1 200 ")
        with connected(url) as another:
            another.sendall(GET + b"\r\n")
            assert another.recv(100).startswith(b"HTTP/1.1 200 ")
