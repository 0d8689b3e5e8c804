"""Enrolment: a host that has a one-time token in its template gets a token of its own."""

from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from service_record.collector import names
from service_record.collector.access import Forbidden, Kind
from service_record.collector.api.answers import Refusal, answer
from service_record.collector.api.bodies import body_of, fields_of
from service_record.collector.api.serving import Serving, host_name
from service_record.collector.store import administration


class Enrolled(msgspec.Struct):
    """A host's token; it is never shown again."""

    host: str
    token: str


async def enrol(request: Request) -> Response:
    """`POST /api/v1/enrol` with `host` and, for one that is not known yet, `group`.

    The token and a line feed, for a shell; JSON for those that accept it.
    """
    serving = Serving.of(request)
    grant = await serving.guard.grant(request)
    if grant.kind is not Kind.ENROLMENT:
        raise Refusal(HTTPStatus.FORBIDDEN, f"this needs a token of kind enrolment, and not {grant.kind}")
    fields = fields_of(await body_of(request, serving.settings.most_body, serving.settings.seconds))
    host, group = host_name(str(fields.get("host") or "")), str(fields.get("group") or "")
    if group and not names.is_group(group):
        raise Refusal(HTTPStatus.BAD_REQUEST, names.GROUP_RULE)
    now = serving.collector.now()
    try:
        token = await serving.written(
            serving.collector.writer.change(
                lambda connection: administration.enrol(connection, grant, host, group, now)
            )
        )
    except Forbidden as error:
        raise Refusal(HTTPStatus.FORBIDDEN, str(error)) from None
    except administration.Used as error:
        raise Refusal(HTTPStatus.UNAUTHORIZED, str(error), {"WWW-Authenticate": "Bearer"}) from None
    finally:
        serving.guard.forget(grant.token_id)
    if "application/json" in request.headers.get("accept", ""):
        return answer(Enrolled(host, token), HTTPStatus.CREATED)
    return PlainTextResponse(f"{token}\n", HTTPStatus.CREATED)
