"""Calls that list, create and end mutes (acknowledgements, mutes, maintenance)."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.admin_calls import named_fields
from service_record.collector.api.answering import Refusal, answer
from service_record.collector.api.serving import Serving, caller
from service_record.collector.domain.access import Grant
from service_record.collector.domain.mutes import (
    Mute,
    MuteKind,
    MuteScope,
    parse_mute_duration,
    parse_subject,
)
from service_record.collector.store.administration import note
from service_record.collector.store.mute_rows import active_mutes, add_mute, end_mute


class Mutes(msgspec.Struct):
    """The mutes in force, latest first."""

    mutes: tuple[Mute, ...]


class MuteMade(msgspec.Struct):
    """The id of a new mute, and its end in seconds since the epoch."""

    id: int
    until: float


async def list_mutes(request: Request) -> Response:
    """`GET /api/v1/mutes`: list the mutes in force."""
    serving, _ = caller(request)
    return answer(Mutes(await read_mutes(serving)))


async def create_mute(request: Request) -> Response:
    """`POST /api/v1/mutes`: create a mute from `kind`, `scope`, `subject`, `duration` (`4h`), `note`."""
    serving, grant = caller(request)
    mute = await make_mute(serving, grant, await named_fields(request))
    return answer(mute, HTTPStatus.CREATED)


async def delete_mute(request: Request) -> Response:
    """`DELETE /api/v1/mutes/{mute}`: end a mute."""
    serving, grant = caller(request)
    await finish_mute(serving, grant, request.path_params["mute"])
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def read_mutes(serving: Serving) -> tuple[Mute, ...]:
    """Return the mutes in force."""
    now = serving.collector.now()
    return await serving.ask(lambda connection: active_mutes(connection, now))


async def make_mute(serving: Serving, grant: Grant, fields: Mapping[str, str]) -> MuteMade:
    """Create a mute on behalf of a token's owner. Raises Refusal."""
    now = serving.collector.now()
    try:
        kind, scope = MuteKind(fields.get("kind", "")), MuteScope(fields.get("scope", ""))
        subject = parse_subject(scope, fields.get("subject", ""))
        until = now + parse_mute_duration(fields.get("duration", ""))
    except ValueError as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None
    new = Mute(
        id=0,
        kind=kind,
        scope=scope,
        subject=subject,
        until=until,
        by=grant.holder,
        note=fields.get("note", ""),
        made_at=now,
    )

    def add(connection: Connection) -> int:
        number = add_mute(connection, new)
        summary = f"{number}: {kind} {scope} {subject} until {until:.0f} {new.note}".rstrip()
        note(connection, grant.holder, "mute create", summary, now)
        return number

    return MuteMade(await serving.change(add), until)


async def finish_mute(serving: Serving, grant: Grant, number: int) -> None:
    """End a mute on behalf of a token's owner. Raises Refusal 404 if it does not exist."""
    now = serving.collector.now()

    def end(connection: Connection) -> bool:
        ended = end_mute(connection, number)
        if ended is not None:
            note(connection, grant.holder, "mute end", f"{number}: {' '.join(ended)}", now)
        return ended is not None

    if not await serving.change(end):
        raise Refusal(HTTPStatus.NOT_FOUND, f"no mute {number} that holds")
