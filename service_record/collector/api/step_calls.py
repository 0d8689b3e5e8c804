"""Steps as hosts report them: JSON, a form, a query, and the body of the RFC's thread."""

import asyncio
from dataclasses import replace
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from service_record.collector.api.answering import Refusal, answer
from service_record.collector.api.requests import fields_of, pairs_of
from service_record.collector.api.serving import Serving, caller, host_name, plain_body
from service_record.collector.domain.access import Grant, TokenKind, presented
from service_record.collector.domain.reports import event_of, step_of, update_of
from service_record.collector.domain.steps import ReportedStep, StepStatus
from service_record.collector.store.host_rows import progress_of
from service_record.collector.store.reporting import Accepted, Report, record_steps

_DOWNLOADED: Final = ReportedStep(label="image_downloaded", name="Image downloaded", status=StepStatus.DONE)


class StepsAccepted(msgspec.Struct, omit_defaults=True):
    """The result of a report."""

    id: int
    host: str
    build: int
    notes: tuple[str, ...] = ()


async def post_step(request: Request) -> Response:
    """`POST /api/v1/hosts/{host}/steps`: a step as JSON or as a form."""
    step = step_of(fields_of(await plain_body(request)))
    return await _take(request, caller(request)[1], request.path_params["host"], step)


async def get_step(request: Request) -> Response:
    """`GET /api/v1/hosts/{host}/steps?name=...`: a step as a query, for a wget that can only GET."""
    step = step_of(pairs_of(request.url.query))
    return await _take(request, caller(request)[1], request.path_params["host"], step)


async def post_update(request: Request) -> Response:
    """`POST /api/update`: the request body in use in the RFC's thread."""
    fields = fields_of(await plain_body(request))
    host, step = update_of(fields)
    serving, grant = caller(request)
    await serving.guard.admit_report(grant, host)
    return await _take(request, grant, host, step)


async def get_boot(request: Request) -> Response:
    """`GET /api/v1/boot/{secret}`: an iPXE script reports that the host has downloaded its image.

    The address has the token, because iPXE sends no headers. Such a token does nothing else, and no other
    token does this. The answer is an empty script, so that iPXE can fetch it or chain to it.
    """
    if request.method != "GET":  # a HEAD must not report
        raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET reports a download", {"Allow": "GET"})
    grant = await _grant_in_path(request, TokenKind.BOOT)
    await _take(request, replace(grant, kind=TokenKind.HOST), grant.scope, _DOWNLOADED)
    return PlainTextResponse("#!ipxe\n")  # 200: older versions of iPXE take 201 for an error


async def post_event(request: Request) -> Response:
    """`POST /api/v1/cloud-init/{secret}`: an event of cloud-init's webhook, which can send no headers.

    Its token does nothing else, and no other token does this.
    """
    grant = await _grant_in_path(request, TokenKind.CLOUD_INIT)
    serving, fields = Serving.of(request), fields_of(await plain_body(request))

    progress = await serving.ask(lambda connection: progress_of(connection, grant.scope))
    has_failed = progress is not None and progress.failure is not None and progress.ended_at is None
    step = event_of(fields, has_failed=has_failed)
    return await _take(request, replace(grant, kind=TokenKind.HOST), grant.scope, step)


async def _grant_in_path(request: Request, kind: TokenKind) -> Grant:
    """Return the rights of the token in an address. Raises Refusal unless it is of that kind."""
    token = presented(request.path_params["secret"])
    if token is None:
        raise Refusal(HTTPStatus.UNAUTHORIZED, f"the address has no token: /api/v1/{kind}/srt_...")
    grant = await Serving.of(request).guard.grant_of(token, request)
    if grant.kind is not kind:
        raise Refusal(HTTPStatus.FORBIDDEN, f"a token of kind {grant.kind} must not stand in this address")
    return grant


async def _take(request: Request, grant: Grant, host: str, step: ReportedStep) -> Response:
    """Store a step; acknowledge it when it is on disk."""
    serving = Serving.of(request)
    name = host_name(host)
    defined = serving.collector.definitions
    step = defined.applied(step)
    now = serving.collector.now()
    key = request.headers.get("idempotency-key", "")
    report = Report(name, step, now, grant, defined.is_last(step), serving.collector.sweeper.due_at(now), key)
    accepted: Accepted = await asyncio.wrap_future(serving.collector.writer.add(record_steps, report))
    serving.collector.sweeper.tell(accepted.host_id)
    if not step.is_known:
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"{step.label} is not one of the steps that are defined here; it was kept as step {accepted.id}",
        )
    return answer(StepsAccepted(accepted.id, name, accepted.build, step.notes), HTTPStatus.CREATED)
