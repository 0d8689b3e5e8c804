"""Steps as hosts report them: JSON, a form, a query, and the body of the RFC's thread."""

from collections import Counter
from dataclasses import replace
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from service_record.collector.api.answering import Refusal, answer
from service_record.collector.api.metrics import OVERLOADED, Results
from service_record.collector.api.requests import parse_fields, parse_form, read_body
from service_record.collector.api.serving import (
    REFUSED,
    Serving,
    caller,
    host_name,
    plain_body,
    refusal_of,
)
from service_record.collector.domain.access import Grant, TokenKind, presented
from service_record.collector.domain.reports import event_of, step_of, update_of
from service_record.collector.domain.steps import ReportedStep, StepStatus
from service_record.collector.store.host_rows import progress_of
from service_record.collector.store.purge import STEP_BYTES
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
    step = step_of(parse_fields(await plain_body(request)))
    return await _take(request, caller(request)[1], request.path_params["host"], step)


async def get_step(request: Request) -> Response:
    """`GET /api/v1/hosts/{host}/steps?name=...`: a step as a query, for a wget that can only GET."""
    step = step_of(parse_form(request.url.query))
    return await _take(request, caller(request)[1], request.path_params["host"], step)


async def post_update(request: Request) -> Response:
    """`POST /api/update`: the request body in use in the RFC's thread."""
    fields = parse_fields(await plain_body(request))
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
    serving, fields = Serving.of(request), parse_fields(await plain_body(request))

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
    report = _report(serving, grant, host_name(host), step, request.headers.get("idempotency-key", ""))
    (result,) = await serving.collector.writer.add(record_steps, [report])
    return answer(_accepted(serving, report, result), HTTPStatus.CREATED)


def _report(serving: Serving, grant: Grant, host: str, step: ReportedStep, key: str) -> Report:
    defined = serving.collector.definitions
    step = defined.applied(step)
    now = serving.collector.now()
    due_at = serving.collector.sweeper.due_at(now)
    return Report(host, step, now, grant, defined.is_last(step), due_at, key)


def _accepted(serving: Serving, report: Report, result: Accepted | Exception) -> StepsAccepted:
    """Return the answer to a stored report. Raises its refusal."""
    if isinstance(result, Exception):
        raise result
    serving.collector.sweeper.tell(result.host_id)
    serving.collector.housekeeper.note_bytes(len(report.step.logs) + STEP_BYTES)
    if not report.step.is_known:
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"{report.step.label} is not one of the steps that are defined here; "
            f"it was kept as step {result.id}",
        )
    return StepsAccepted(result.id, report.host, result.build, report.step.notes)


MOST_REPORTS: Final = 1000
"""Reports in one request."""
_MOST_BATCH: Final = 32
"""The longest body of a batch, in bodies of one report."""


class ReportAnswer(msgspec.Struct, omit_defaults=True):
    """The answer to one report of a batch: the fields of an accepted report, or why it was refused."""

    status: int
    id: int = 0
    host: str = ""
    build: int = 0
    notes: tuple[str, ...] = ()
    detail: str = ""
    retry_after: int = 0
    """Seconds after which a report that was refused as one too many should be sent again."""


class ReportAnswers(msgspec.Struct):
    """The answers to a batch, in the order of its reports."""

    answers: tuple[ReportAnswer, ...]


async def post_reports(request: Request) -> Response:
    """`POST /api/v1/steps`: reports of one or more hosts, in the order in which they happened.

    For spools and gateways: one request and one transaction for up to a thousand reports. Each has its own
    answer; a report that is refused does not affect the others.
    """
    serving, grant = caller(request)
    body = await read_body(request, serving.settings.most_body * _MOST_BATCH, serving.settings.seconds)
    sent = parse_fields(body).get("reports")
    if not isinstance(sent, list) or not 1 <= len(sent) <= MOST_REPORTS:
        reason = f'the body needs "reports": a list of 1 to {MOST_REPORTS} reports'
        raise Refusal(HTTPStatus.BAD_REQUEST, reason)
    key = request.headers.get("idempotency-key", "")
    answers: dict[int, ReportAnswer] = {}
    reports: dict[int, Report] = {}
    for number, fields in enumerate(sent):
        try:
            if not isinstance(fields, dict):
                raise Refusal(HTTPStatus.BAD_REQUEST, "a report is an object")
            host = host_name(str(fields.get("host") or ""))
            own_key = str(fields.get("key") or "") or (key and f"{key}/{number}")
            reports[number] = _report(serving, grant, host, step_of(fields), own_key)
        except REFUSED as fault:
            answers[number] = _refused_report(fault)
    refusals = await serving.guard.admit_reports(grant, [report.host for report in reports.values()])
    for number, refusal in zip(tuple(reports), refusals, strict=True):
        if refusal is not None:
            answers[number] = _refused_report(refusal)
            del reports[number]
    results = await serving.collector.writer.add(record_steps, list(reports.values())) if reports else ()
    for (number, report), result in zip(reports.items(), results, strict=True):
        try:
            accepted = _accepted(serving, report, result)
        except REFUSED as fault:
            answers[number] = _refused_report(fault)
        else:
            answers[number] = ReportAnswer(HTTPStatus.CREATED, **msgspec.structs.asdict(accepted))
    in_order = tuple(answers[number] for number in range(len(sent)))
    overload = Counter(one.status for one in in_order if one.status in OVERLOADED)
    request.state.results = Results(sum(one.status == HTTPStatus.CREATED for one in in_order), overload)
    return answer(ReportAnswers(in_order))


def _refused_report(error: Exception) -> ReportAnswer:
    refusal = refusal_of(error)
    wait = int(refusal.headers.get("Retry-After", "0"))
    return ReportAnswer(int(refusal.status), detail=str(refusal), retry_after=wait)
