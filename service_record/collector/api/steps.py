"""Steps as hosts report them: JSON, a form, a query, and the body of the RFC's thread."""

import re
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.access import Forbidden, Grant, Kind
from service_record.collector.api.answers import Refusal, answer
from service_record.collector.api.bodies import body_of
from service_record.collector.api.serving import Serving
from service_record.collector.reading import UnreadableReport, step_of, update_of
from service_record.collector.steps import Step
from service_record.collector.store.reports import Accepted, Report, record_steps

_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?")
_FORM: Final = "application/x-www-form-urlencoded"


class Taken(msgspec.Struct, omit_defaults=True):
    """What became of a report."""

    id: int
    host: str
    build: int
    notes: tuple[str, ...] = ()


async def post_step(request: Request) -> Response:
    """`POST /api/v1/hosts/{host}/steps`: a step as JSON or as a form."""
    grant = await _reporter(request)
    return await _take(request, grant, request.path_params["host"], _step(_fields(await _body(request))))


async def get_step(request: Request) -> Response:
    """`GET /api/v1/hosts/{host}/steps?name=...`: a step as a query, for a wget that can only GET."""
    grant = await _reporter(request)
    return await _take(request, grant, request.path_params["host"], _step(_pairs(request.url.query)))


async def post_update(request: Request) -> Response:
    """`POST /api/update`: the body that the RFC's thread has in use."""
    grant = await _reporter(request)
    fields = _fields(await _body(request))
    try:
        host, step = update_of(fields)
    except UnreadableReport as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None
    return await _take(request, grant, host, step)


async def _reporter(request: Request) -> Grant:
    """Who reports; nothing else of a request is looked at before. Raises Refusal."""
    grant = await Serving.of(request).guard.grant(request)
    if grant.kind in {Kind.READER, Kind.ENROLMENT}:
        raise Refusal(HTTPStatus.FORBIDDEN, f"a token of kind {grant.kind} reports nothing")
    return grant


async def _body(request: Request) -> bytes:
    settings = Serving.of(request).settings
    return await body_of(request, settings.most_body, settings.seconds)


async def _take(request: Request, grant: Grant, host: str, step: Step) -> Response:
    """Write a step down; it is acknowledged when it is on disk."""
    serving = Serving.of(request)
    name = host_name(host)
    report = Report(name, step, serving.collector.now(), grant)
    try:
        taken: Accepted = await serving.written(serving.collector.writer.add(record_steps, report))
    except Forbidden as error:
        raise Refusal(HTTPStatus.FORBIDDEN, str(error)) from None
    return answer(Taken(taken.id, name, taken.build, step.notes), HTTPStatus.CREATED)


def host_name(text: str) -> str:
    """A host's name as it is kept: names of hosts do not differ by case. Raises Refusal."""
    if not _HOST.fullmatch(text):
        raise Refusal(
            HTTPStatus.BAD_REQUEST, "a host's name has letters, digits and . _ : - only, at most 253"
        )
    return text.lower()


def _step(fields: dict[str, Any]) -> Step:
    try:
        return step_of(fields)
    except UnreadableReport as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None


def _fields(body: bytes) -> dict[str, Any]:
    """The members of a body, whatever a client calls it: many clients call everything a form."""
    if body.lstrip()[:1] == b"{":
        try:
            fields = msgspec.json.decode(body.decode(errors="replace"))
        except msgspec.DecodeError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from None
        return dict(fields)
    return _pairs(body.decode(errors="replace"))


def _pairs(text: str) -> dict[str, Any]:
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=64, errors="replace"))
    except ValueError:
        raise Refusal(HTTPStatus.BAD_REQUEST, "more than 64 fields") from None
