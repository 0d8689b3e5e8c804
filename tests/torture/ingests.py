"""What hosts send to a collector, what it shows of that, and collectors to break: each on a copy of a folder
in which something is kept already.
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
from tests.collector.at_once import Running, Starter, starter
from tests.collector.installing import form
from tests.collector.serving import Client, Reply
from tests.waiting import wait_for

HOST: Final = "web1"
SERVICE: Final = "kubelet"
ID: Final = "01234567-89ab-cdef-0123-456789abcdef"
WAL: Final = f"{FILE}-wal"
ACCEPTED: Final = frozenset({200, 201, 204})
_CHECKPOINT: Final = 1000
"""Pages in the write-ahead log from which on they are moved into the database; sqlite.org/wal.html."""
PAGE: Final = 4096 + 24
"""Bytes of one there."""
_BATCH, _BATCHES = 1_200_000, 3
"""Bytes, and how often, that almost fill it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Collector's view of the host."""

    steps: tuple[str, ...] = ()
    record: bytes = b""
    bundles: tuple[str, ...] = ()
    """The SHA-256 of the bytes of each that it hands out, oldest first."""


@dataclass(frozen=True, slots=True)
class Ingest:
    """Something that a host sends."""

    name: str
    send: Callable[[Client, int], Reply]
    """Send the n-th of its kind."""
    added: Callable[[Kept, int], Kept]
    """Function that returns the view after the ingest; where it was there already, too."""
    is_at_checkpoint: bool = False
    """True when the write-ahead log is as long then as it becomes."""

    def __str__(self) -> str:
        return f"one ingest of the collector, {self.name}"


def _send_step(client: Client, number: int) -> Reply:
    return client.step(HOST, f"step {number:03}")


def _step_added(kept: Kept, number: int) -> Kept:
    """A step has nothing that tells it from another of the same name: tried again it is there again."""
    return replace(kept, steps=(*kept.steps, f"step {number:03}"))


def _line(number: int) -> bytes:
    return f"line {number:04}\n".encode()


def _send_record(client: Client, number: int) -> Reply:
    piece = _piece(SERVICE, number * len(_line(number)), _line(number))
    return client.post(f"/api/v1/hosts/{HOST}/records", {"pieces": [piece]})


def _piece(service: str, offset: int, data: bytes) -> dict[str, object]:
    return {"service": service, "file": "a", "offset": offset, "data": b64encode(data).decode()}


def _record_added(kept: Kept, number: int) -> Kept:
    return replace(kept, record=b"".join(_line(each) for each in range(number + 1)))


def bundle(number: int) -> bytes:
    noise = b"".join(hashlib.sha256(b"%d %d" % (number, each)).digest() for each in range(1000))
    return tar(member("notes", noise))


def _send_bundle(client: Client, number: int) -> Reply:
    body, headers = form(bundle(number))
    path = f"{BASE_PATH}/v2/clusters/{ID}/logs?logs_type=host_boot&host_id={ID}"
    return client.ask("POST", path, body=body, headers=headers)


def _bundle_added(kept: Kept, number: int) -> Kept:
    digest = hashlib.sha256(bundle(number)).hexdigest()
    return kept if kept.bundles[-1:] == (digest,) else replace(kept, bundles=(*kept.bundles, digest))


BUNDLE: Final = Ingest("bundle", _send_bundle, _bundle_added)
INGESTS: Final = (
    Ingest("step", _send_step, _step_added),
    Ingest("records", _send_record, _record_added),
    BUNDLE,
    Ingest("bundle again", lambda client, _: _send_bundle(client, 0), lambda kept, _: _bundle_added(kept, 0)),
    Ingest("step at a checkpoint", _send_step, _step_added, is_at_checkpoint=True),
)


class Collectors:
    """Collectors on copies of a folder in which something is kept already, as a crash has left it."""

    def __init__(self, start: Starter, place: Path) -> None:
        self._start = start
        self._place = place
        self._token = ""
        self._plain = place / "plain" / "data"
        self._kept = self._fill(self._plain)

    @cached_property
    def _at_checkpoint(self) -> tuple[Path, Kept]:
        data = self._place / "at-checkpoint" / "data"
        shutil.copytree(self._plain, data)
        return data, self._fill_up(data)

    def _before(self, of: Ingest) -> tuple[Path, Kept]:
        return self._at_checkpoint if of.is_at_checkpoint else (self._plain, self._kept)

    def kept_before(self, of: Ingest) -> Kept:
        """Return the state before it comes."""
        return self._before(of)[1]

    @contextmanager
    def copy(self, of: Ingest) -> Iterator[Path]:
        """A folder for a collector that it comes to, gone with the end of the block."""
        with tempfile.TemporaryDirectory(dir=self._place) as place:
            shutil.copytree(self._before(of)[0], Path(place) / "data")
            yield Path(place) / "data"

    @contextmanager
    def serving(self, data: Path) -> Iterator[tuple[Running, Client]]:
        """A collector on that folder, and an administrator of it."""
        with self._start.collector(data) as running:
            yield running, Client(running.url, self._token)

    def _fill(self, data: Path) -> Kept:
        kept = Kept()
        data.mkdir(parents=True)
        database = Database(sqlite_url(data))
        database.migrate()
        with database.changing() as connection:
            self._token = tokens.create(connection, tokens.TokenRequest(kind=TokenKind.ADMIN), time.time())
        database.close()
        with self.serving(data) as (_, client):
            said = {"id": ID, "cluster_id": ID, "infra_env_id": ID, "role": "master"}
            assert client.ask("PUT", f"/api/v1/hosts/{HOST}", data=said).status in ACCEPTED
            for ingest in INGESTS[:3]:
                assert ingest.send(client, 0).status in ACCEPTED
                kept = ingest.added(kept, 0)
            wait_for(lambda: is_settled(data))
            assert kept_by(client) == kept
        return kept

    def _fill_up(self, data: Path) -> Kept:
        """Something until the next step has the write-ahead log moved into the database."""
        kept, rest = self._kept, bytes(_BATCH)
        with self.serving(data) as (_, client):
            for number in range(_BATCHES):
                piece = _piece("filler", number * _BATCH, rest)
                assert client.post(f"/api/v1/hosts/{HOST}/records", {"pieces": [piece]}).status in ACCEPTED
                wait_for(lambda: is_settled(data))
            for number in range(100, 1000):
                before = (data / WAL).stat().st_size
                assert _send_step(client, number).status in ACCEPTED
                kept = _step_added(kept, number)
                wait_for(lambda: is_settled(data))
                after = (data / WAL).stat().st_size
                if after + (after - before) // 2 > _CHECKPOINT * PAGE:
                    break
            assert kept_by(client) == kept
        return kept


@contextmanager
def collectors() -> Iterator[Collectors]:
    with starter() as start, tempfile.TemporaryDirectory() as place:
        yield Collectors(start, Path(place))


def is_settled(data: Path) -> bool:
    """Return whether nobody has anything left to do with what was sent."""
    with closing(sqlite3.connect(f"file:{data / FILE}?mode=ro", uri=True)) as database:
        (hosts,) = database.execute("SELECT count(*) FROM hosts WHERE due_at <= ?", (time.time(),)).fetchone()
        (waiting,) = database.execute("SELECT count(*) FROM bundles WHERE NOT is_indexed").fetchone()
    return not hosts and not waiting


def kept_by(client: Client) -> Kept:
    """Return a collector's view. Raises AssertionError when it does not answer, OSError when it cannot."""
    told = client.get(f"/api/v1/hosts/{HOST}")
    assert told.status == 200, told
    record = client.get(f"/api/v1/hosts/{HOST}/records/{SERVICE}")
    assert record.status == 200, record
    digests = []
    for bundle in told.json["bundles"][::-1]:  # latest first
        reply = client.get(f"/api/v1/hosts/{HOST}/bundles/{bundle['id']}")
        assert reply.status == 200, reply
        digests.append(hashlib.sha256(reply.body).hexdigest())
    rounds = ([each["name"] for each in one["first"]] * one["count"] for one in told.json["steps"])
    return Kept(tuple(chain.from_iterable(rounds)), record.body.removesuffix(b"\n"), tuple(digests))
