"""Calls that receive service records in pieces while services write them, and that return them."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

import msgspec
from sqlalchemy import Connection
from starlette.requests import Request

from service_record.collector.api.answering import Conflict, Download, JsonAnswer, Refusal
from service_record.collector.api.operation import HOSTS, HOSTS_AND_READERS, READERS, operation
from service_record.collector.api.requests import read_body
from service_record.collector.api.serving import Serving, caller, host_name
from service_record.collector.store import bundle_rows, record_rows
from service_record.collector.store.installations import Arrival, group_of
from service_record.collector.store.record_rows import Elsewhere, HeldFile
from service_record.http.collector_answers import (
    Batch,
    OffsetsProblem,
    Piece,
    StoredBatch,
    StoredFile,
    StoredRecords,
    StoredService,
)

MAX_BODY_BYTES: Final = 2 << 20
"""Maximum size in bytes of a batch (JSON with base64)."""
_ROWS: Final = 16
"""Number of rows of a record that one query reads."""


@operation("POST /api/v1/hosts/{host}/records", who=HOSTS, body=Batch, refusals=(507,), counted="records")
async def post_records(request: Request) -> JsonAnswer[StoredBatch] | Conflict[OffsetsProblem]:
    """Send new pieces of service records."""
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])
    pieces = _parse_pieces(await read_body(request, MAX_BODY_BYTES, serving.settings.seconds))
    collector, most = serving.collector, serving.settings.most_records
    arrival = Arrival(host, grant, collector.now())
    try:
        host_id, files = await serving.change(
            lambda connection: record_rows.append(connection, arrival, pieces, most)
        )
    except Elsewhere as error:
        conflict = HTTPStatus.CONFLICT
        held = tuple(map(_stored_file, error.held))
        return Conflict(OffsetsProblem(conflict.phrase, conflict, str(error), held))
    collector.judge.tell(host_id)
    return JsonAnswer(StoredBatch(host, tuple(map(_stored_file, files))))


@operation("GET /api/v1/hosts/{host}/records", who=HOSTS_AND_READERS, refusals=(404,))
async def get_records(request: Request) -> JsonAnswer[StoredRecords]:
    """List the services with records, and the stored lengths. A host may read its own.

    A host may read its own, to continue where it stopped.
    """
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])

    def look_up(connection: Connection) -> StoredRecords | None:
        group = group_of(connection, host)
        if group is None:
            group = grant.group_of_new_host("")
        if not grant.may_read_group(group) and not grant.may_write(host, group):
            if grant.may_read:
                return None
            raise Refusal(HTTPStatus.FORBIDDEN, f"this token may not read of {host}")
        host_id = record_rows.host_id_of(connection, host)
        if host_id is None:
            return None if grant.may_read else StoredRecords(host, (), (), None)
        files = record_rows.held_of(connection, host_id)
        bundle = bundle_rows.latest_with_records(connection, host) if grant.may_read else None
        return StoredRecords(host, _sum_by_service(files), tuple(map(_stored_file, files)), bundle)

    stored = await serving.ask(look_up)
    if stored is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"no host {host}")
    return JsonAnswer(stored)


@operation("GET /api/v1/hosts/{host}/records/{service}", who=READERS, refusals=(404,))
async def get_record(request: Request) -> Download:
    """Download the record of a service, byte for byte."""
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

    return Download(data())


def _parse_pieces(body: bytes) -> list[Piece]:
    """Return the pieces of a batch. Raises Refusal."""
    try:
        return msgspec.json.decode(body, type=Batch).pieces
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not a batch of pieces: {fault}") from None


def _stored_file(file: HeldFile) -> StoredFile:
    return StoredFile(file.service, file.file, file.offset)


def _sum_by_service(files: tuple[HeldFile, ...]) -> tuple[StoredService, ...]:
    by_service: dict[str, list[HeldFile]] = {}
    for file in files:
        by_service.setdefault(file.service, []).append(file)
    return tuple(
        StoredService(name, sum(one.offset for one in some), max(one.received_at for one in some))
        for name, some in sorted(by_service.items())
    )
