"""Calls that list, create and end mutes (acknowledgements, mutes, maintenance)."""

from http import HTTPStatus
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta
from sqlalchemy import Connection
from starlette.requests import Request

from service_record.collector.api.answering import Created, JsonAnswer, NoContent, Refusal
from service_record.collector.api.operation import ADMINISTRATORS, Duration, Schema, Short, operation
from service_record.collector.api.serving import Serving, caller
from service_record.collector.domain.access import GROUP_PATTERN, Grant
from service_record.collector.domain.mutes import (
    CAUSE_PATTERN,
    Mute,
    MuteKind,
    MuteScope,
    parse_mute_duration,
    parse_subject,
)
from service_record.collector.domain.steps import LONGEST_NAME
from service_record.collector.store.administration import note
from service_record.collector.store.notices import active_mutes, add_mute, end_mute
from service_record.http.address import HOST_PATTERN


class Mutes(msgspec.Struct):
    """The mutes in force, latest first."""

    mutes: tuple[Mute, ...]


class NewMute(msgspec.Struct, omit_defaults=True):
    """A mute to create. `acknowledged` still announces the end of the trouble, other kinds nothing."""

    json_rules: ClassVar[Schema] = {
        "anyOf": [
            {
                "properties": {
                    "scope": {"const": scope},
                    "subject": {"type": "string", "pattern": f"^(?:{pattern})$"},
                }
            }
            for scope, pattern in (("host", HOST_PATTERN), ("group", GROUP_PATTERN), ("cause", CAUSE_PATTERN))
        ]
    }

    kind: MuteKind
    scope: MuteScope
    subject: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    """The name of the host or group, or the 16 digits of the cause."""
    duration: Duration
    """At most 366 days."""
    note: Short = ""


class MuteMade(msgspec.Struct):
    """The id of a new mute, and its end in seconds since the epoch."""

    id: int
    until: float


@operation("GET /api/v1/mutes", who=ADMINISTRATORS)
async def list_mutes(request: Request) -> JsonAnswer[Mutes]:
    """List acknowledgements, mutes and maintenance."""
    serving, _ = caller(request)
    return JsonAnswer(Mutes(await read_mutes(serving)))


@operation("POST /api/v1/mutes", who=ADMINISTRATORS)
async def create_mute(request: Request, body: NewMute) -> Created[MuteMade]:
    """Acknowledge or mute a host, a group or a cause, or put it into maintenance."""
    serving, grant = caller(request)
    return Created(await make_mute(serving, grant, body))


@operation("DELETE /api/v1/mutes/{mute:number}", who=ADMINISTRATORS, refusals=(404,))
async def delete_mute(request: Request) -> NoContent:
    """End a mute before its time."""
    serving, grant = caller(request)
    await finish_mute(serving, grant, request.path_params["mute"])
    return NoContent()


async def read_mutes(serving: Serving) -> tuple[Mute, ...]:
    """Return the mutes in force."""
    now = serving.collector.now()
    return await serving.ask(lambda connection: active_mutes(connection, now))


async def make_mute(serving: Serving, grant: Grant, asked: NewMute) -> MuteMade:
    """Create a mute on behalf of a token's owner. Raises Refusal."""
    now = serving.collector.now()
    try:
        subject = parse_subject(asked.scope, asked.subject)
        until = now + parse_mute_duration(asked.duration)
    except ValueError as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None
    new = Mute(
        id=0,
        kind=asked.kind,
        scope=asked.scope,
        subject=subject,
        until=until,
        by=grant.holder,
        note=asked.note,
        made_at=now,
    )

    def add(connection: Connection) -> int:
        number = add_mute(connection, new)
        summary = f"{number}: {new.kind} {new.scope} {subject} until {until:.0f} {new.note}".rstrip()
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
