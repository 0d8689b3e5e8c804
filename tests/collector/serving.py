"""Run a collector on loopback in a thread of the test process, and send requests to it."""

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from service_record.collector.domain.access import TokenKind
from service_record.collector.process import Collector
from service_record.collector.serve import Server, make_config
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store import judging, tokens
from tests.waiting import wait_for


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Client:
    """A client with a token, or without one."""

    url: str
    token: str = ""

    def ask(
        self,
        method: str,
        path: str,
        *,
        form: Mapping[str, object] | None = None,
        data: object = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        sent = dict(headers or {})
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if form is not None:
            body = urlencode(form).encode()
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        if data is not None:
            body = json.dumps(data).encode()
            sent.setdefault("Content-Type", "application/json")
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return Reply(response.status, dict(response.headers), response.read())

    def get(self, path: str, **query: object) -> Reply:
        return self.ask("GET", f"{path}?{urlencode(query)}" if query else path)

    def post(self, path: str, data: object = None, **form: object) -> Reply:
        return self.ask("POST", path, data=data, form=form if data is None else None)

    def step(self, host: str, name: str, status: str = "", **fields: object) -> Reply:
        """Report a step as a form, like a template."""
        return self.post(f"/api/v1/hosts/{host}/steps", name=name, status=status, **fields)


@dataclass(frozen=True, slots=True)
class RunningCollector:
    """A running collector and its URL."""

    url: str
    collector: Collector

    def client(self, kind: TokenKind | str = TokenKind.ADMIN, scope: str = "") -> Client:
        """Create a token. Return a client with it."""
        new = tokens.TokenRequest(kind=TokenKind(kind), scope=scope, created_by="test")
        made = self.collector.writer.change(lambda connection: tokens.create(connection, new, time.time()))
        return Client(self.url, made.result())

    def settle(self) -> None:
        """Wait until all hosts that reported are judged."""
        wait_for(self._is_settled)

    def _is_settled(self) -> bool:
        with self.collector.database.reading() as connection:
            due_at = judging.next_due(connection)
        return self.collector.sweeper.is_idle and (due_at is None or due_at > self.collector.now())

    @property
    def stranger(self) -> Client:
        return Client(self.url)


@contextlib.contextmanager
def run_collector(
    settings: CollectorSettings, now: Callable[[], float] = time.time
) -> Iterator[RunningCollector]:
    """Run a collector until the end of the block."""
    collector = Collector(settings, now)
    config = make_config(collector)
    config.port = settings.port
    server = Server(config, collector)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield RunningCollector(f"http://127.0.0.1:{port}", collector)
    finally:
        server.should_exit = True
        thread.join()


def make_collector_settings(folder: Path, **changes: Any) -> CollectorSettings:
    """Return settings of a collector that stores all data in a folder and uses any free port."""
    return CollectorSettings(data=folder / "data", port=0, **changes)
