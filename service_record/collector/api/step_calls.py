"""Calls that report steps: as JSON, a form or a query, in batches, from iPXE, and from cloud-init."""

from collections import Counter
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.requests import Request

from service_record.collector.api.answering import Created, JsonAnswer, PlainText, Refusal
from service_record.collector.api.metrics import OVERLOADED, Results
from service_record.collector.api.operation import BOOTING, CLOUD_INIT, HOSTS, HostName, operation
from service_record.collector.api.requests import parse_fields, parse_form, read_body
from service_record.collector.api.serving import (
    REFUSED,
    Serving,
    caller,
    host_name,
    make_refusal,
    plain_body,
)
from service_record.collector.domain.access import Grant, TokenKind, parse_token
from service_record.collector.domain.reports import parse_event, parse_step, parse_update
from service_record.collector.domain.steps import ReportedStep, StepStatus
from service_record.collector.store.host_rows import read_progress
from service_record.collector.store.purge import STEP_BYTES
from service_record.collector.store.reporting import Accepted, Report, record_steps

_DOWNLOADED: Final = ReportedStep(label="image_downloaded", name="Image downloaded", status=StepStatus.DONE)


Some = Annotated[str, Meta(pattern="[!-~\u00a1-\u167f\u3040-\ud7ff]", examples=["Disk setup"])]
"""A text with at least one visible character."""


# Only the OpenAPI document uses these types. Reports are parsed field by field, and invalid fields are left
# out or corrected.


class StepReport(msgspec.Struct, omit_defaults=True):
    """A step, as a template reports it. Only `name` or `label` is required. Unknown fields are ignored."""

    name: Some
    label: str = ""
    priority: int = 0
    status: str = ""
    """`init`, `done` or `failed`. Any other value means that the step happened."""
    logs: str = ""
    percentage: float | None = None
    action: str = ""
    time: str = ""
    """RFC 3339, or seconds since 1970."""
    boot: str = ""
    sequence: int | None = None
    """The number of this report in its boot. With `boot` it identifies a report that is sent again."""
    build: str = ""
    group: str = ""
    release: str = ""
    hardware: str = ""
    """Vendor and model of the machine."""


class HostReport(StepReport, kw_only=True, omit_defaults=True):
    """A step in a batch of reports."""

    host: HostName
    key: str = ""
    """The sender's id of this report, like the header `Idempotency-Key` of a single report."""


class Reports(msgspec.Struct):
    """Reports of one or more hosts, in the order in which they happened."""

    reports: Annotated[list[HostReport], Meta(min_length=1, max_length=1000)]


class CloudInitEvent(msgspec.Struct, omit_defaults=True):
    """An event as cloud-init's webhook sends it."""

    name: Some
    event_type: Annotated[str, Meta(extra_json_schema={"enum": ["start", "finish"]})]
    description: str = ""
    origin: str = ""
    timestamp: float = 0.0
    result: str = ""
    """The result that a `finish` reports: `SUCCESS`, `WARN` or `FAIL`."""


class Update(msgspec.Struct, omit_defaults=True):
    """The request body that is used in the RFC's thread. `name` is the name of the host."""

    name: HostName
    status: str = ""
    percentage: str = ""
    action: str = ""
    datacenter_name: str = ""


class StepsAccepted(msgspec.Struct, omit_defaults=True):
    """The result of a report."""

    id: int
    host: str
    build: int
    notes: tuple[str, ...] = ()


@operation(
    "POST /api/v1/hosts/{host}/steps",
    who=HOSTS,
    body=StepReport,
    is_form=True,
    refusals=(422,),
    counted="step",
)
async def post_step(request: Request) -> Created[StepsAccepted]:
    """Report a step. It is acknowledged once it is on disk."""
    step = parse_step(parse_fields(await plain_body(request)))
    return await _store_step(request, caller(request)[1], request.path_params["host"], step)


@operation(
    "GET /api/v1/hosts/{host}/steps",
    parameters={name: {"type": "string"} for name in StepReport.__struct_fields__},
    who=HOSTS,
    refusals=(422,),
    counted="step",
)
async def get_step(request: Request) -> Created[StepsAccepted]:
    """Report a step in the query, for a wget that can only GET."""
    _refuse_head(request)
    step = parse_step(parse_form(request.url.query))
    return await _store_step(request, caller(request)[1], request.path_params["host"], step)


def _refuse_head(request: Request) -> None:
    """Raise Refusal for HEAD, which Starlette also routes to a GET: a HEAD must not report anything."""
    if request.method != "GET":
        raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET reports", {"Allow": "GET"})


@operation(
    "POST /api/update",
    who=HOSTS,
    has_host_in_body=True,
    body=Update,
    is_form=True,
    refusals=(422,),
    counted="step",
)
async def post_update(request: Request) -> Created[StepsAccepted]:
    """Report a step in the form of the thread of Foreman's RFC."""
    fields = parse_fields(await plain_body(request))
    host, step = parse_update(fields)
    serving, grant = caller(request)
    await serving.guard.admit_report(grant, host)
    return await _store_step(request, grant, host, step)


@operation("GET /api/v1/boot/{secret}", who=BOOTING, refusals=(422,))
async def get_boot(request: Request) -> PlainText:
    """Report from an iPXE script that the image was downloaded.

    The token is in the path, because iPXE cannot send headers. Only tokens of kind `boot` are accepted, and
    they are accepted nowhere else. The answer is an empty script, so that iPXE can fetch it or chain to it.
    """
    _refuse_head(request)
    grant = await _check_token_in_path(request, TokenKind.BOOT)
    await _store_step(request, replace(grant, kind=TokenKind.HOST), grant.scope, _DOWNLOADED)
    return PlainText("#!ipxe\n")  # 200, because older versions of iPXE treat 201 as an error


@operation(
    "POST /api/v1/cloud-init/{secret}", who=CLOUD_INIT, body=CloudInitEvent, refusals=(422,), counted="step"
)
async def post_event(request: Request) -> Created[StepsAccepted]:
    """Report an event of cloud-init's reporting webhook.

    Only tokens of kind `cloud-init` are accepted, and they are accepted nowhere else.
    """
    grant = await _check_token_in_path(request, TokenKind.CLOUD_INIT)
    serving, fields = Serving.of(request), parse_fields(await plain_body(request))

    progress = await serving.ask(lambda connection: read_progress(connection, grant.scope))
    has_failed = progress is not None and progress.failure is not None and progress.ended_at is None
    step = parse_event(fields, has_failed=has_failed)
    return await _store_step(request, replace(grant, kind=TokenKind.HOST), grant.scope, step)


async def _check_token_in_path(request: Request, kind: TokenKind) -> Grant:
    """Return the rights of the token in the path. Raises Refusal if it is invalid or of another kind."""
    token = parse_token(request.path_params["secret"])
    if token is None:
        raise Refusal(HTTPStatus.UNAUTHORIZED, f"the address has no token: /api/v1/{kind}/srt_...")
    grant = await Serving.of(request).guard.check_token(token, request)
    if grant.kind is not kind:
        raise Refusal(HTTPStatus.FORBIDDEN, f"a token of kind {grant.kind} must not stand in this address")
    return grant


async def _store_step(
    request: Request, grant: Grant, host: str, step: ReportedStep
) -> Created[StepsAccepted]:
    """Store a step. Return the answer once it is on disk."""
    serving = Serving.of(request)
    report = make_report(serving, grant, host_name(host), step, request.headers.get("idempotency-key", ""))
    (result,) = await serving.collector.writer.add(record_steps, [report])
    return Created(accept_report(serving, report, result))


def make_report(serving: Serving, grant: Grant, host: str, step: ReportedStep, key: str) -> Report:
    """Return a report of a step that is received now."""
    defined = serving.collector.definitions
    step = defined.applied(step)
    now = serving.collector.now()
    due_at = serving.collector.sweeper.due_at(now)
    return Report(host, step, now, grant, defined.is_last(step), due_at, key)


def accept_report(serving: Serving, report: Report, result: Accepted | Exception) -> StepsAccepted:
    """Return the answer to a stored report. Raises the result if it is an exception, and Refusal."""
    if isinstance(result, Exception):
        raise result
    serving.collector.sweeper.add(result.host_id)
    serving.collector.housekeeper.note_bytes(len(report.step.logs) + STEP_BYTES)
    if not report.step.is_known:
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"{report.step.label} is not one of the steps that are defined here; "
            f"it was kept as step {result.id}",
        )
    return StepsAccepted(result.id, report.host, result.build, report.step.notes)


MOST_REPORTS: Final = 1000
"""Maximum number of reports in one request."""
_MAX_BATCH_FACTOR: Final = 32
"""Maximum body size of a batch, as a multiple of the limit for one report."""


class ReportAnswer(msgspec.Struct, omit_defaults=True):
    """The answer to one report of a batch: the fields of an accepted report, or why it was refused."""

    status: int
    id: int = 0
    host: str = ""
    build: int = 0
    notes: tuple[str, ...] = ()
    detail: str = ""
    retry_after: int = 0
    """Seconds after which a report that exceeded the rate limit should be sent again."""


class ReportAnswers(msgspec.Struct):
    """The answers to a batch, in the order of its reports."""

    answers: tuple[ReportAnswer, ...]


@operation("POST /api/v1/steps", who=HOSTS, has_host_in_body=True, body=Reports, counted="step")
async def post_reports(request: Request) -> JsonAnswer[ReportAnswers]:
    """Report up to 1,000 steps of one or more hosts. Each has its own answer.

    For gateways, and for hosts that were offline. All reports are stored in one transaction. Each gets its
    own answer: a refused report does not affect the others.
    """
    serving, grant = caller(request)
    body = await read_body(request, serving.settings.most_body * _MAX_BATCH_FACTOR, serving.settings.seconds)
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
            reports[number] = make_report(serving, grant, host, parse_step(fields), own_key)
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
            accepted = accept_report(serving, report, result)
        except REFUSED as fault:
            answers[number] = _refused_report(fault)
        else:
            answers[number] = ReportAnswer(HTTPStatus.CREATED, **msgspec.structs.asdict(accepted))
    in_order = tuple(answers[number] for number in range(len(sent)))
    overload = Counter(one.status for one in in_order if one.status in OVERLOADED)
    request.state.results = Results(sum(one.status == HTTPStatus.CREATED for one in in_order), overload)
    return JsonAnswer(ReportAnswers(in_order))


def _refused_report(error: Exception) -> ReportAnswer:
    refusal = make_refusal(error)
    wait = int(refusal.headers.get("Retry-After", "0"))
    return ReportAnswer(int(refusal.status), detail=str(refusal), retry_after=wait)
