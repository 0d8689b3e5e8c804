"""Calls that receive service records in pieces while services write them, and that return them."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from service_record.collector.api.answering import Refusal, answer
from service_record.collector.api.requests import read_body
from service_record.collector.api.serving import Serving, caller, host_name
from service_record.collector.store import bundle_rows, record_rows
from service_record.collector.store.installations import Arrival, group_of
from service_record.collector.store.record_rows import Elsewhere, HeldFile, Piece

MAX_BODY_BYTES: Final = 2 << 20
"""Maximum size in bytes of a batch (JSON with base64)."""
MOST_PIECES: Final = 256
_ROWS: Final = 16
"""Number of rows of a record that one query reads."""


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    """Records sent at once: all are kept, or none."""

    pieces: Annotated[list[Piece], Meta(max_length=MOST_PIECES)]


class FileHeld(msgspec.Struct):
    """A file, and the offset from which to send it."""

    service: str
    file: str
    offset: int


class StoredBatch(msgspec.Struct):
    """The result of storing a batch."""

    host: str
    files: tuple[FileHeld, ...]


class ElsewhereProblem(msgspec.Struct):
    """A batch that does not begin at the end of the stored data; RFC 9457."""

    title: str
    status: int
    detail: str
    files: tuple[FileHeld, ...]


class ServiceHeld(msgspec.Struct):
    """A service with a record."""

    service: str
    bytes: int
    received_at: float


class SentRecords(msgspec.Struct):
    """The records that a host has sent."""

    host: str
    services: tuple[ServiceHeld, ...]
    files: tuple[FileHeld, ...]
    bundle: int | None
    """The latest bundle with records in it."""


async def post_records(request: Request) -> Response:
    """`POST /api/v1/hosts/{host}/records`: store a batch of pieces. Answers once all of it is on disk."""
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])
    pieces = _pieces(await read_body(request, MAX_BODY_BYTES, serving.settings.seconds))
    collector, most = serving.collector, serving.settings.most_records
    arrival = Arrival(host, grant, collector.now())
    try:
        host_id, files = await serving.change(
            lambda connection: record_rows.append(connection, arrival, pieces, most)
        )
    except Elsewhere as error:
        conflict = HTTPStatus.CONFLICT
        problem = answer(
            ElsewhereProblem(conflict.phrase, conflict, str(error), tuple(map(_file_held, error.held))),
            conflict,
        )
        problem.headers["Content-Type"] = "application/problem+json"
        return problem
    collector.judge.tell(host_id)
    return answer(StoredBatch(host, tuple(map(_file_held, files))))


async def get_records(request: Request) -> Response:
    """`GET /api/v1/hosts/{host}/records`: the services with records, and the stored length of each file.

    A host may read its own, to continue where it stopped.
    """
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])

    def look_up(connection: Connection) -> SentRecords | None:
        group = group_of(connection, host)
        if group is None:
            group = grant.group_of_new_host("")
        if not grant.may_read_group(group) and not grant.may_write(host, group):
            if grant.may_read:
                return None
            raise Refusal(HTTPStatus.FORBIDDEN, f"this token may not read of {host}")
        host_id = record_rows.host_id_of(connection, host)
        if host_id is None:
            return None if grant.may_read else SentRecords(host, (), (), None)
        files = record_rows.held_of(connection, host_id)
        bundle = bundle_rows.latest_with_records(connection, host) if grant.may_read else None
        return SentRecords(host, _services(files), tuple(map(_file_held, files)), bundle)

    stored = await serving.ask(look_up)
    if stored is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"no host {host}")
    return answer(stored)


async def get_record(request: Request) -> Response:
    """`GET /api/v1/hosts/{host}/records/{service}`: the stored part of a record, byte for byte."""
    serving, host = Serving.of(request), host_name(request.path_params["host"])
    database = serving.collector.database
    service = str(request.path_params["service"])

    def begin(connection: Connection) -> tuple[list[int | None], int | None]:
        host_id = record_rows.host_id_of(connection, host)
        places = [] if host_id is None else record_rows.places_of(connection, host_id, service)
        return places, bundle_rows.latest_with_records(connection, host)

    places, bundle = await serving.ask(begin)
    if not places:
        elsewhere = f"; its latest bundle with records is /api/v1/hosts/{host}/bundles/{bundle}"
        raise Refusal(
            HTTPStatus.NOT_FOUND,
            f"{host} has sent no record of {service[:255]!r}{elsewhere if bundle else ''}",
        )

    def data() -> Iterator[bytes]:
        # A connection for each part: a slow client must not occupy one for the whole download.
        for begin in range(0, len(places), _ROWS):
            with database.reading() as connection:
                piece = record_rows.data_at(connection, places[begin : begin + _ROWS])
            yield piece

    return StreamingResponse(
        data(), media_type="application/octet-stream", headers={"X-Content-Type-Options": "nosniff"}
    )


def _pieces(body: bytes) -> list[Piece]:
    """Return the pieces of a batch. Raises Refusal."""
    try:
        return msgspec.json.decode(body, type=Batch).pieces
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not a batch of pieces: {fault}") from None


def _file_held(file: HeldFile) -> FileHeld:
    return FileHeld(file.service, file.file, file.offset)


def _services(files: tuple[HeldFile, ...]) -> tuple[ServiceHeld, ...]:
    services: dict[str, ServiceHeld] = {}
    for one in files:
        service = services.setdefault(one.service, ServiceHeld(one.service, 0, 0.0))
        service.bytes += one.offset
        service.received_at = max(service.received_at, one.received_at)
    return tuple(services[name] for name in sorted(services))
