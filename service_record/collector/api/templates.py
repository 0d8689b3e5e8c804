"""Rendered templates of installers: taken for the build of a host, and shown as text."""

from http import HTTPStatus

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.access import Forbidden
from service_record.collector.api.answers import Refusal, answer
from service_record.collector.api.bodies import body_of
from service_record.collector.api.bundles import Sent, keep, not_now
from service_record.collector.api.serving import Serving, host_name
from service_record.collector.incoming import TooMany
from service_record.collector.steps import LONGEST_NAME, readable
from service_record.collector.store import bundles
from service_record.collector.store.arrivals import Arrival
from service_record.collector.store.objects import NoSuchObject, ObjectError
from service_record.redaction.outgoing import LeakError
from service_record.redaction.templates import refuse_template_leaks


class TemplateKept(msgspec.Struct):
    """A template that is kept."""

    id: int
    host: str


async def post_template(request: Request) -> Response:
    """`POST /api/v1/hosts/{host}/templates?name=...`: the text, kept with the present build of the host.

    The sender has masked its secrets. What has the shape of one all the same is refused with 422.
    """
    serving = Serving.of(request)
    grant = await serving.guard.grant(request)
    if not grant.may_report:
        raise Refusal(HTTPStatus.FORBIDDEN, f"a token of kind {grant.kind} reports nothing")
    host = host_name(request.path_params["host"])
    name = readable(request.query_params.get("name", "")).strip()
    if not name or len(name) > LONGEST_NAME:
        raise Refusal(HTTPStatus.BAD_REQUEST, "name in query should be a text of at most 255 characters")
    text = await body_of(request, serving.settings.most_body, serving.settings.seconds)
    try:
        await run_in_threadpool(refuse_template_leaks, text)
    except LeakError:
        reason = "the template has a secret that is not masked; send it with service-record ship --template"
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, reason) from None
    sent = Sent(Arrival(host, grant, serving.collector.now()), bundles.TEMPLATE)
    try:
        with serving.collector.incoming.file(serving.settings.most_body) as file:
            await run_in_threadpool(file.write, text)
            kept = await keep(serving, sent, name, file)
    except Forbidden as error:
        raise Refusal(HTTPStatus.FORBIDDEN, str(error)) from None
    except TooMany as fault:
        raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(fault), {"Retry-After": "10"}) from None
    except OSError as fault:
        reason = f"the template cannot be written: {fault.strerror}"
        raise Refusal(HTTPStatus.INSUFFICIENT_STORAGE, reason, {"Retry-After": "60"}) from None
    return answer(TemplateKept(kept.id, host), HTTPStatus.CREATED)


async def show_template(request: Request) -> Response:
    """`GET /hosts/{host}/templates/{template}`: the text of one, for a page's reader."""
    collector = Serving.of(request).collector
    host, number = host_name(request.path_params["host"]), str(request.path_params["template"])

    def found() -> bytes | None:
        with collector.database.reading() as connection:
            kept = bundles.find(connection, host, int(number[:18])) if number.isdecimal() else None
        is_template = kept is not None and kept.kind == bundles.TEMPLATE
        return b"".join(collector.objects.read(kept.key)) if kept is not None and is_template else None

    try:
        text = await run_in_threadpool(found)
    except NoSuchObject:
        text = None
    except ObjectError as fault:
        raise not_now(fault) from None
    if text is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"{host} has no template {number}")
    return Response(text, media_type="text/plain", headers={"Cache-Control": "no-store"})
