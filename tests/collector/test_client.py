"""The client of a collector, with a running collector."""

import time
from pathlib import Path

import pytest

from service_record.collector.api.step_calls import StepsAccepted
from service_record.http.address import (
    TOKEN_VARIABLE,
    Address,
    CollectorError,
    is_collector,
    parse_address,
    read_token,
)
from service_record.http.collector_answers import Hosts
from service_record.http.collector_client import CollectorClient, connect, host_path
from tests.assisted_server import AssistedServer, SlowResponse
from tests.collector.serving import RunningCollector
from tests.running_server import QuietHandler, serve


@pytest.mark.parametrize(
    ("place", "url", "host"),
    [
        ("collector://c.example/web1", "https://c.example:8474", "web1"),
        ("collector://c.example:443/web1", "https://c.example:443", "web1"),
        ("collector://c.example", "https://c.example:8474", ""),
        ("collector://127.0.0.1:9000/web1", "http://127.0.0.1:9000", "web1"),
        ("collector://localhost/web1", "http://localhost:8474", "web1"),
        ("collector://[::1]:9000/web1", "http://[::1]:9000", "web1"),
        ("collector+http://c.example:9000/web1", "http://c.example:9000", "web1"),
        ("collector+https://127.0.0.1:9000/web1", "https://127.0.0.1:9000", "web1"),
        ("collector://c.example/below/it/web1", "https://c.example:8474/below/it", "web1"),
        ("https://c.example/below/", "https://c.example/below", ""),
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000", ""),
    ],
)
def test_url_names_collector_and_host(place: str, url: str, host: str) -> None:
    assert parse_address(place) == Address(url, host)


@pytest.mark.parametrize(
    "place",
    ["", "collector://", "web1", "ftp://c/x", "collector://c:x/y", "https://me:pw@c/", "https://c/?x=1"],
)
def test_invalid_collector_url_is_refused(place: str) -> None:
    with pytest.raises(CollectorError):
        parse_address(place)


def test_only_collector_urls_are_recognized() -> None:
    assert is_collector("collector://c/web1")
    assert not is_collector("https://c/web1")
    assert not is_collector("collector")


@pytest.mark.parametrize("drips", [SlowResponse(), SlowResponse(in_head=True)], ids=["body", "head"])
def test_slow_answer_times_out(drips: SlowResponse) -> None:
    with AssistedServer() as slow, CollectorClient(slow.url, "token", seconds=0.3) as client:
        slow.fail(drips)
        with pytest.raises(CollectorError, match=r": no whole answer within 0\.3 s$"):
            client.get("/api/v1/hosts", Hosts)


def test_only_the_answer_has_a_timeout() -> None:
    with AssistedServer() as slow, CollectorClient(slow.url, "token", seconds=0.3) as client:
        slow.fail(SlowResponse())
        began = time.monotonic()
        with pytest.raises(CollectorError, match=r": no whole answer within 0\.3 s$"):
            client.send("POST", "/api/v1/hosts/web1/records", body=b"{}")
    assert time.monotonic() - began < 10


def test_request_uses_token_from_file(
    server: RunningCollector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(server.client("host", "web1").token + "\n")
    monkeypatch.setenv(TOKEN_VARIABLE, str(file))

    with connect(server.url) as client:
        answer = client.get(host_path("web1", "steps"), StepsAccepted, name="Disk setup")

    assert answer.host == "web1"


def test_requests_share_a_connection() -> None:
    ports = set()

    class Answers(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            ports.add(self.client_address[1])
            self.respond(200, b"{}")

    with serve(Answers) as port, CollectorClient(f"http://127.0.0.1:{port}", "token") as client:
        assert [client.get("/", dict) for _ in range(3)] == [{}, {}, {}]
    assert len(ports) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>a portal</html>",
        b"[]",
        b'{"hosts": [], "counts": {}, "total": "none", "now": 1}',
        b'{"hosts": [], "counts": {}, "total": 0, "now": 1e300}',
        b"[" * 100_000,
    ],
)
def test_answer_of_another_server_is_refused(answer: bytes) -> None:
    class Answers(QuietHandler):
        def do_GET(self) -> None:
            self.respond(200, answer)

    with (
        serve(Answers) as port,
        CollectorClient(f"http://127.0.0.1:{port}", "token") as client,
        pytest.raises(CollectorError, match="the answer is not that of a collector") as fault,
    ):
        client.get("/api/v1/hosts", Hosts)
    assert "\n" not in str(fault.value)


def test_refusal_contains_reason_of_the_collector(server: RunningCollector) -> None:
    with (
        CollectorClient(server.url, server.client("host", "web1").token) as client,
        pytest.raises(CollectorError, match="403: this token may not write for web2") as refused,
    ):
        client.get(host_path("web2", "steps"), StepsAccepted, name="Disk setup")

    assert refused.value.status == 403


def test_unreachable_collector_is_reported_in_one_line() -> None:
    with CollectorClient("http://127.0.0.1:1", "srt_1_x") as client, pytest.raises(CollectorError) as fault:
        client.get("/healthz", dict)

    assert fault.value.status is None
    assert str(fault.value).startswith("http://127.0.0.1:1: ")
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("text", [b"", b"two words", b"\xff", b"line\nline"])
def test_invalid_token_file_is_named(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(text)

    with pytest.raises(CollectorError, match=str(file)):
        read_token(file)


def test_missing_token_error_lists_possible_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    with pytest.raises(CollectorError, match="collector-token"):
        read_token()
