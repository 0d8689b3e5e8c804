"""Calls that receive records and printed lines of running services, and that return records."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from service_record.collector.api.answering import Conflict, Download, JsonAnswer, NoContent, Refusal
from service_record.collector.api.operation import HOSTS, HOSTS_AND_READERS, READERS, TEXT, Short, operation
from service_record.collector.api.requests import read_body
from service_record.collector.api.serving import Serving, caller, host_name, plain_body
from service_record.collector.assisted.installations import Arrival, read_group
from service_record.collector.domain.steps import readable
from service_record.collector.store import bundle_rows, record_rows
from service_record.collector.store.record_rows import StoredRecordFile, WrongOffset, write_last_words
from service_record.http.collector_answers import (
    LONGEST_LINE,
    LONGEST_NAME,
    MOST_LINES,
    Batch,
    LastWords,
    OffsetsProblem,
    Piece,
    StoredBatch,
    StoredFile,
    StoredRecords,
    StoredService,
)
from service_record.redaction import LeakError, outgoing_text
from service_record.redaction.rules import Rules

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
    except WrongOffset as error:
        conflict = HTTPStatus.CONFLICT
        held = tuple(map(_stored_file, error.held))
        return Conflict(OffsetsProblem(conflict.phrase, conflict, str(error), held))
    collector.judge.add(host_id)
    return JsonAnswer(StoredBatch(host, tuple(map(_stored_file, files))))


@operation("GET /api/v1/hosts/{host}/records", who=HOSTS_AND_READERS, refusals=(404,))
async def get_records(request: Request) -> JsonAnswer[StoredRecords]:
    """List the services with records, and the stored lengths. A host may read its own.

    A host may read its own, to continue where it stopped.
    """
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])

    def look_up(connection: Connection) -> StoredRecords | None:
        group = read_group(connection, host)
        if group is None:
            group = grant.group_of_new_host("")
        if not grant.may_read_group(group) and not grant.may_write(host, group):
            if grant.may_read:
                return None
            raise Refusal(HTTPStatus.FORBIDDEN, f"this token may not read of {host}")
        host_id = record_rows.read_host_id(connection, host)
        if host_id is None:
            return None if grant.may_read else StoredRecords(host, (), (), None)
        files = record_rows.read_stored_files(connection, host_id)
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
        host_id = record_rows.read_host_id(connection, host)
        places = [] if host_id is None else record_rows.list_chunk_ids(connection, host_id, service)
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
                piece = record_rows.read_chunks(connection, places[begin : begin + _ROWS])
            yield piece

    return Download(data())


def _parse_pieces(body: bytes) -> list[Piece]:
    """Return the pieces of a batch. Raises Refusal."""
    try:
        return msgspec.json.decode(body, type=Batch).pieces
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not a batch of pieces: {fault}") from None


def _stored_file(file: StoredRecordFile) -> StoredFile:
    return StoredFile(file.service, file.file, file.offset)


def _sum_by_service(files: tuple[StoredRecordFile, ...]) -> tuple[StoredService, ...]:
    by_service: dict[str, list[StoredRecordFile]] = {}
    for file in files:
        by_service.setdefault(file.service, []).append(file)
    return tuple(
        StoredService(name, sum(one.offset for one in some), max(one.received_at for one in some))
        for name, some in sorted(by_service.items())
    )


@operation("PUT /api/v1/hosts/{host}/last-words", who=HOSTS, body=LastWords, counted="last words")
async def put_last_words(request: Request) -> NoContent:
    """Send the last lines that a service printed. They replace its earlier ones.

    They replace the earlier ones of the same service. The sender masks secrets. Secrets with a known form
    are masked here too, because other programs may send lines.
    """
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])
    try:
        words = msgspec.json.decode(await plain_body(request), type=LastWords)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the body does not hold last lines: {fault}") from None
    return await _store_words(serving, Arrival(host, grant, serving.collector.now()), words)


class LastWordsQuery(msgspec.Struct, kw_only=True):
    """The parameters of last lines that are sent as text."""

    service: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    stage: Short = ""


@operation("POST /api/v1/hosts/{host}/last-words", who=HOSTS, body=TEXT, counted="last words")
async def post_last_words(request: Request, query: LastWordsQuery) -> NoContent:
    """Send the last lines that a service printed, as text.

    Shells send it, which can make neither JSON nor a PUT request. The Content-Type may be any. Only the last
    lines are kept.
    """
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])
    body = (await plain_body(request)).decode(errors="replace")
    lines = [line[:LONGEST_LINE] for line in body.splitlines() if line.strip()][-MOST_LINES:]
    words = LastWords(query.service, lines, query.stage)
    return await _store_words(serving, Arrival(host, grant, serving.collector.now()), words)


async def _store_words(serving: Serving, arrival: Arrival, words: LastWords) -> NoContent:
    words = msgspec.structs.replace(words, service=readable(words.service), stage=readable(words.stage))
    text = await run_in_threadpool(_mask_secrets, words.lines)
    await serving.change(lambda connection: write_last_words(connection, arrival, words, text))
    return NoContent()


def _mask_secrets(lines: list[str]) -> str:
    """Return the lines as one text without secrets, or a remark in their place if one cannot be masked."""
    try:
        return outgoing_text("\n".join(map(readable, lines)), Rules(())).strip("\n")
    except LeakError:
        return "(not stored: a secret in these lines could not be masked)"
