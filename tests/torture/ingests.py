"""The ingests of the torture, the data that a collector stores for them, and collectors on copies of a data
folder.
"""

import hashlib
import shutil
import sqlite3
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final

from service_record.collector.domain.access import TokenKind
from service_record.collector.store import tokens
from service_record.collector.store.database import FILE, Database, sqlite_url
from tests.archives import member, tar
from tests.assisted_rules import BASE_PATH
from tests.collector.fork_collectors import ForkedCollector, Starter, run_starter
from tests.collector.installing import form
from tests.collector.serving import Client, Reply
from tests.waiting import wait_for

HOST: Final = "web1"
SERVICE: Final = "kubelet"
ID: Final = "01234567-89ab-cdef-0123-456789abcdef"
WAL: Final = f"{FILE}-wal"
ACCEPTED: Final = frozenset({200, 201, 204})
_CHECKPOINT_PAGES: Final = 1000
"""Pages in the write-ahead log at which SQLite moves them into the database; see sqlite.org/wal.html."""
PAGE_BYTES: Final = 4096 + 24
"""Bytes of a page in the write-ahead log."""
_PIECE_BYTES, _PIECE_COUNT = 1_200_000, 3
"""Size and number of the pieces that almost fill the write-ahead log."""


@dataclass(frozen=True, slots=True)
class StoredData:
    """The data of the host that a collector returns."""

    steps: tuple[str, ...] = ()
    record: bytes = b""
    bundles: tuple[str, ...] = ()
    """SHA-256 of each bundle's content, oldest first."""


@dataclass(frozen=True, slots=True)
class Ingest:
    """A request that a host sends."""

    name: str
    send: Callable[[Client, int], Reply]
    """Function that sends the n-th request of its kind."""
    update: Callable[[StoredData, int], StoredData]
    """Function that returns the stored data after the n-th request, including a repeated one."""
    is_at_checkpoint: bool = False
    """True when the request makes SQLite move the write-ahead log into the database."""

    def __str__(self) -> str:
        return f"one ingest of the collector, {self.name}"


def _send_step(client: Client, number: int) -> Reply:
    return client.step(HOST, f"step {number:03}")


def _add_step(data: StoredData, number: int) -> StoredData:
    """Return the data with the step. A step that is repeated at once counts once."""
    step = f"step {number:03}"
    return data if data.steps[-1:] == (step,) else replace(data, steps=(*data.steps, step))


def _make_line(number: int) -> bytes:
    return f"line {number:04}\n".encode()


def _send_record(client: Client, number: int) -> Reply:
    piece = _make_piece(SERVICE, number * len(_make_line(number)), _make_line(number))
    return client.post(f"/api/v1/hosts/{HOST}/records", {"pieces": [piece]})


def _make_piece(service: str, offset: int, data: bytes) -> dict[str, object]:
    return {"service": service, "file": "a", "offset": offset, "data": b64encode(data).decode()}


def _add_record(data: StoredData, number: int) -> StoredData:
    return replace(data, record=b"".join(_make_line(each) for each in range(number + 1)))


def make_bundle(number: int) -> bytes:
    noise = b"".join(hashlib.sha256(b"%d %d" % (number, each)).digest() for each in range(1000))
    return tar(member("notes", noise))


def _send_bundle(client: Client, number: int) -> Reply:
    body, headers = form(make_bundle(number))
    path = f"{BASE_PATH}/v2/clusters/{ID}/logs?logs_type=host_boot&host_id={ID}"
    return client.ask("POST", path, body=body, headers=headers)


def _add_bundle(data: StoredData, number: int) -> StoredData:
    digest = hashlib.sha256(make_bundle(number)).hexdigest()
    return data if data.bundles[-1:] == (digest,) else replace(data, bundles=(*data.bundles, digest))


BUNDLE: Final = Ingest("bundle", _send_bundle, _add_bundle)
INGESTS: Final = (
    Ingest("step", _send_step, _add_step),
    Ingest("records", _send_record, _add_record),
    BUNDLE,
    Ingest("bundle again", lambda client, _: _send_bundle(client, 0), lambda data, _: _add_bundle(data, 0)),
    Ingest("step at a checkpoint", _send_step, _add_step, is_at_checkpoint=True),
)


class Collectors:
    """Starts collectors on copies of a data folder that has some data and was left by a killed collector."""

    def __init__(self, start: Starter, place: Path) -> None:
        self._start = start
        self._place = place
        self._token = ""
        self._plain_folder = place / "plain" / "data"
        self._initial_data = self._store_data(self._plain_folder)

    @cached_property
    def _full_log_folder(self) -> tuple[Path, StoredData]:
        folder = self._place / "at-checkpoint" / "data"
        shutil.copytree(self._plain_folder, folder)
        return folder, self._fill_log(folder)

    def _select_folder(self, ingest: Ingest) -> tuple[Path, StoredData]:
        return self._full_log_folder if ingest.is_at_checkpoint else (self._plain_folder, self._initial_data)

    def get_initial_data(self, ingest: Ingest) -> StoredData:
        """Return the stored data before the ingest."""
        return self._select_folder(ingest)[1]

    @contextmanager
    def copy(self, ingest: Ingest) -> Iterator[Path]:
        """Copy the data folder for an ingest; the copy is removed at the end of the block."""
        with tempfile.TemporaryDirectory(dir=self._place) as place:
            shutil.copytree(self._select_folder(ingest)[0], Path(place) / "data")
            yield Path(place) / "data"

    @contextmanager
    def serve(self, folder: Path) -> Iterator[tuple[ForkedCollector, Client]]:
        """Start a collector on that folder; return it with an administrator's client."""
        with self._start.collector(folder) as running:
            yield running, Client(running.url, self._token)

    def _store_data(self, folder: Path) -> StoredData:
        data = StoredData()
        folder.mkdir(parents=True)
        database = Database(sqlite_url(folder))
        database.migrate()
        with database.changing() as connection:
            self._token = tokens.create(connection, tokens.TokenRequest(kind=TokenKind.ADMIN), time.time())
        database.close()
        with self.serve(folder) as (_, client):
            host = {"id": ID, "cluster_id": ID, "infra_env_id": ID, "role": "master"}
            assert client.ask("PUT", f"/api/v1/hosts/{HOST}", data=host).status in ACCEPTED
            for ingest in INGESTS[:3]:
                assert ingest.send(client, 0).status in ACCEPTED
                data = ingest.update(data, 0)
            wait_for(lambda: is_settled(folder))
            assert read_data(client) == data
        return data

    def _fill_log(self, folder: Path) -> StoredData:
        """Store data until the next step makes SQLite move the write-ahead log into the database."""
        data, rest = self._initial_data, bytes(_PIECE_BYTES)
        with self.serve(folder) as (_, client):
            for number in range(_PIECE_COUNT):
                piece = _make_piece("filler", number * _PIECE_BYTES, rest)
                assert client.post(f"/api/v1/hosts/{HOST}/records", {"pieces": [piece]}).status in ACCEPTED
                wait_for(lambda: is_settled(folder))
            for number in range(100, 1000):
                before = (folder / WAL).stat().st_size
                assert _send_step(client, number).status in ACCEPTED
                data = _add_step(data, number)
                wait_for(lambda: is_settled(folder))
                after = (folder / WAL).stat().st_size
                if after + (after - before) // 2 > _CHECKPOINT_PAGES * PAGE_BYTES:
                    break
            assert read_data(client) == data
        return data


@contextmanager
def open_collectors() -> Iterator[Collectors]:
    with run_starter() as start, tempfile.TemporaryDirectory() as place:
        yield Collectors(start, Path(place))


def is_settled(data: Path) -> bool:
    """Return whether the collector has no work left."""
    with closing(sqlite3.connect(f"file:{data / FILE}?mode=ro", uri=True)) as database:
        (hosts,) = database.execute("SELECT count(*) FROM hosts WHERE due_at <= ?", (time.time(),)).fetchone()
        (waiting,) = database.execute("SELECT count(*) FROM bundles WHERE NOT is_indexed").fetchone()
    return not hosts and not waiting


def read_data(client: Client) -> StoredData:
    """Read the stored data. Raises AssertionError when the collector answers with an error, OSError when it
    is unreachable.
    """
    host = client.get(f"/api/v1/hosts/{HOST}")
    assert host.status == 200, host
    record = client.get(f"/api/v1/hosts/{HOST}/records/{SERVICE}")
    assert record.status == 200, record
    digests = []
    for bundle in host.json["bundles"][::-1]:  # latest first
        reply = client.get(f"/api/v1/hosts/{HOST}/bundles/{bundle['id']}")
        assert reply.status == 200, reply
        digests.append(hashlib.sha256(reply.body).hexdigest())
    rounds = ([each["name"] for each in one["first"]] * one["count"] for one in host.json["steps"])
    return StoredData(tuple(chain.from_iterable(rounds)), record.body.removesuffix(b"\n"), tuple(digests))
