"""The last lines that `ship --follow` sends."""

from pathlib import Path

import msgspec
import pytest

from service_record.cli import last_lines
from service_record.cli.last_lines import CollectorPlace, RecordsFollower
from service_record.http.address import CollectorError
from service_record.http.collector_answers import LastWords
from service_record.http.last_words_sending import LastWordsSender
from service_record.record import systemd
from service_record.record.directory import Records
from tests.builders import entry, write_lines

OWN = {"invocation_id": "1f" * 16, "boot_id": systemd.boot_id()}


class FakeClient:
    """Keeps the requests, or fails."""

    def __init__(self) -> None:
        self.is_down = False
        self.received: list[list[str]] = []

    def send(self, _method: str, _path: str, *, body: bytes) -> None:
        if self.is_down:
            raise CollectorError("connection refused")
        self.received.append(list(msgspec.json.decode(body, type=LastWords).lines))


def test_service_end_is_sent_after_failed_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector must not keep the lines of a service that has succeeded."""
    printed = ["pulling"]
    monkeypatch.setattr(last_lines, "invocation_lines", lambda *_: lambda: list(printed))
    record = write_lines(tmp_path / "image.json", entry("service start", 0, **OWN))
    client = FakeClient()
    sender = LastWordsSender(client, "host", str, print)  # type: ignore[arg-type]
    follower = RecordsFollower(CollectorPlace("http://c"), "host", Records(tmp_path), frozenset())

    follower._send_round(sender)
    client.is_down = True
    printed.append("layer 7")
    follower._send_round(sender)
    client.is_down = False
    with record.open("ab") as stream:
        stream.write(entry("service end", 9, result="success", **OWN).to_line())
    follower._send_round(sender)

    assert client.received == [["pulling"], []]
