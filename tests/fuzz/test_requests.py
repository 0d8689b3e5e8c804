"""Requests of any kind to a collector: a documented answer, a store that holds, and the next is served."""

import contextlib
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from service_record.collector.serving_settings import CollectorSettings
from tests.collector.serving import served
from tests.fuzz.asgi import ANY, at_work
from tests.fuzz.asking import answered, check, check_it_serves, check_store, signed_in
from tests.fuzz.command import bounded
from tests.fuzz.corpus import with_seeds
from tests.fuzz.raw_requests import REQUESTS, understood

TOKENS = st.sampled_from([*["admin"] * 6, "reader", "host web1", "group dc1", "enrolment", ""])


def test_collector_answers_any_request() -> None:
    with at_work() as asked:
        cookie = signed_in(asked)

        @settings(max_examples=60)
        @with_seeds("requests", "raw", who="admin")
        @given(REQUESTS, TOKENS)
        def ask(raw: bytes, who: str) -> None:
            nonlocal cookie
            request = understood(raw)
            if request.target.startswith(b"/events"):
                return  # an answer without an end
            with bounded("requests: to the application"):
                check(answered(asked, request, who, cookie), asked)
                cookie = check_it_serves(asked, cookie)

        ask()
        for path in ("/api/v1/statistics", "/api/v1/audit", "/api/v1/tokens", "/metrics"):
            reply = asked.get(path)
            assert reply.status == 200, reply
        check_store(asked)
        check(reply, asked)


def test_collector_survives_any_bytes() -> None:
    with TemporaryDirectory() as folder:
        chosen = CollectorSettings(data=Path(folder), port=0, rates=ANY, guesses=ANY, seconds=0.3)
        with served(chosen) as running:
            client = running.client("admin")
            port = int(running.url.rpartition(":")[2])

            @settings(max_examples=30)
            @with_seeds("requests", "raw")
            @given(REQUESTS)
            def say(raw: bytes) -> None:
                head, end, body = raw.partition(b"\r\n\r\n")
                bearer = b"\r\nAuthorization: Bearer " + client.token.encode()
                with bounded("requests: over connections"):
                    said = answer_to(port, head + bearer + end + body)
                    statuses = {line.split()[1] for line in said.split(b"\r\n") if line[:7] == b"HTTP/1."}
                    assert not {one for one in statuses if one[:1] == b"5"} - {b"507"}, said
                    assert client.step("web1", "good").status in {201, 401}

            say()


def answer_to(port: int, sent: bytes) -> bytes:
    """Return the bytes that come back before the connection is closed, or silent."""
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
