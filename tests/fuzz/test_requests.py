"""Send any request to a collector: it replies as documented, keeps its store consistent and serves the next
request.
"""

import contextlib
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from service_record.collector.serving_settings import CollectorSettings
from tests.collector.serving import run_collector
from tests.fuzz.asgi import NO_LIMIT, run_application
from tests.fuzz.command import limit_time
from tests.fuzz.corpus import with_corpus
from tests.fuzz.raw_requests import REQUESTS, parse_request
from tests.fuzz.reply_checks import check, check_next_request, check_store, send, sign_in

TOKENS = st.sampled_from([*["admin"] * 6, "reader", "host web1", "group dc1", "enrolment", ""])


def test_collector_answers_any_request() -> None:
    with run_application() as collector:
        cookie = sign_in(collector)

        @settings(max_examples=60)
        @with_corpus("requests", "raw", token_kind="admin")
        @given(REQUESTS, TOKENS)
        def send_request(raw: bytes, token_kind: str) -> None:
            nonlocal cookie
            request = parse_request(raw)
            if request.target.startswith(b"/events"):
                return  # this answer never ends
            with limit_time("requests: to the application"):
                check(send(collector, request, token_kind, cookie), collector)
                cookie = check_next_request(collector, cookie)

        send_request()
        for path in ("/api/v1/statistics", "/api/v1/audit", "/api/v1/tokens", "/metrics"):
            reply = collector.get(path)
            assert reply.status == 200, reply
        check_store(collector)
        check(reply, collector)


def test_collector_survives_any_bytes() -> None:
    with TemporaryDirectory() as folder:
        settings_without_limits = CollectorSettings(
            data=Path(folder), port=0, rates=NO_LIMIT, guesses=NO_LIMIT, seconds=0.3
        )
        with run_collector(settings_without_limits) as running:
            client = running.client("admin")
            port = int(running.url.rpartition(":")[2])

            @settings(max_examples=30)
            @with_corpus("requests", "raw")
            @given(REQUESTS)
            def send_bytes(raw: bytes) -> None:
                head, end, body = raw.partition(b"\r\n\r\n")
                bearer = b"\r\nAuthorization: Bearer " + client.token.encode()
                with limit_time("requests: over connections"):
                    received = exchange_bytes(port, head + bearer + end + body)
                    statuses = {line.split()[1] for line in received.split(b"\r\n") if line[:7] == b"HTTP/1."}
                    assert not {status for status in statuses if status[:1] == b"5"} - {b"507"}, received
                    assert client.step("web1", "good").status in {201, 401}

            send_bytes()


def exchange_bytes(port: int, sent: bytes) -> bytes:
    """Send bytes; return all bytes that arrive before the connection is closed or silent."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.settimeout(10)
        with contextlib.suppress(OSError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while piece := connection.recv(1 << 16):
                received += piece
    return received
