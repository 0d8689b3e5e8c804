"""Change the state for the steps of a round. Pure.

Count before sending: each request is counted and saved before it is sent (`count_report`, `count_shipment`),
and the count is corrected when the outcome is known (`apply_report`, `apply_shipment`). So a round that is
killed in between has spent its budget, and no budget is exceeded. Do not simplify this to one call after the
request.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from typing import Final, TypeVar

from service_record.http.answers import Answered, Outcome, Unreachable
from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import NoHost, Refused, View
from service_record.reporter.policy.round_context import (
    HOST,
    MOST_TRIES,
    NO_SUCH_HOST,
    NOT_OURS,
    SERVICE,
    STAGE_CALLS,
    Fact,
    RoundContext,
    Shipment,
    StageReport,
)
from service_record.reporter.policy.shipments import PROBE_BYTES, is_offered_again
from service_record.reporter.settings import Settings
from service_record.reporter.state import BootSeen, Denial, Pause, ReporterState, SpooledBundle, Usage


class Call(StrEnum):
    """A kind of request."""

    STAGE = "stage"
    """A PUT of a fact as a stage."""
    INFO = "info"
    """A PUT of the current stage with new information."""
    UPLOAD = "upload"


class ResponseClass(StrEnum):
    """The effect of an answer on later requests."""

    DONE = "done"
    LATER = "later"
    """A temporary failure. A later round may try again, within the limits."""
    OTHER_FORM = "other form"
    """The service does not know facts as stages. They are sent as information on the current stage."""
    MOVED = "moved"
    """The host has another stage now. The view is read once more; the second time the fact is dropped."""
    NEVER_AGAIN = "never again"
    """This kind of request is never made again."""


@dataclass(frozen=True, slots=True)
class AnswerRule:
    """A row of the table of answers. The first row that matches decides."""

    name: str
    calls: frozenset[Call]
    statuses: Container[int]
    response: ResponseClass
    reason: str


_ALL: Final = frozenset(Call)
_PUTS: Final = frozenset({Call.STAGE, Call.INFO})

ANSWERS: Final = (
    AnswerRule("accepted", _ALL, range(200, 300), ResponseClass.DONE, "the service has it"),
    AnswerRule(
        "unknown-stage",
        frozenset({Call.STAGE}),
        {400},
        ResponseClass.OTHER_FORM,
        "services without the stages of the enhancement answer 400 to them, and store nothing",
    ),
    AnswerRule(
        "moved-on",
        _PUTS,
        {409},
        ResponseClass.MOVED,
        "the host has another stage by now",
    ),
    AnswerRule(
        "busy",
        _ALL,
        {408, 423, 425, 429, *range(500, 600)},
        ResponseClass.LATER,
        "a temporary failure of the server or a proxy; 500 is also sent if the host's status changed",
    ),
    AnswerRule(
        "denied",
        _ALL,
        {401, 403, 404},
        ResponseClass.LATER,
        "also sent by proxies, portals, and services whose database is down",
    ),
    AnswerRule(
        "not-the-service",
        _ALL,
        range(100, 400),
        ResponseClass.LATER,
        "redirects come from portals and proxies; not followed, because the key is for the service only",
    ),
    AnswerRule(
        "refused",
        _ALL,
        range(400, 500),
        ResponseClass.NEVER_AGAIN,
        "it would be refused again, and the server may keep a refused upload on its disk forever",
    ),
)


def classify(call: Call, outcome: Outcome) -> ResponseClass:
    """Return the response class of a call's outcome. No answer and an invalid status are both `LATER`."""
    if isinstance(outcome, Unreachable):
        return ResponseClass.LATER
    rows = (row for row in ANSWERS if call in row.calls and outcome.status in row.statuses)
    return next((row.response for row in rows), ResponseClass.LATER)


_Value = TypeVar("_Value")
_MAX_FINGERPRINTS: Final = 64
"""The number of fingerprints kept for each destination: far more than the uploads in its budget."""
_MAX_BOOTS: Final = 16
"""The number of boots that are listed in the state. Earlier ones are only summed up."""


def classify_report(report: StageReport, outcome: Outcome) -> ResponseClass:
    return classify(Call.STAGE if report.is_new_stage else Call.INFO, outcome)


def begin_round(settings: Settings, state: ReporterState, evidence: HostEvidence) -> ReporterState:
    """Return the state at the beginning of a round. Save it at once, so that a killed round counts.

    It has the time if this round offers an undelivered bundle again.
    """
    boot = state.boot(evidence.boot_id)
    others = tuple(each for each in state.boots if each is not boot)
    now = replace(
        boot or BootSeen(boot_id=evidence.boot_id),
        rounds=(boot.rounds if boot else 0) + 1,
        uptime=max(evidence.uptime, boot.uptime if boot else 0.0),
    )
    folded, recent = others[: -_MAX_BOOTS + 1], others[-_MAX_BOOTS + 1 :]
    state = replace(
        state,
        boots=(*recent, now),
        deferred=(),
        earlier_boots=state.earlier_boots + len(folded),
        earlier_uptime=state.earlier_uptime + sum(each.uptime for each in folded),
    )
    context = RoundContext(settings, state, evidence)
    return replace(state, last_offer=context.lived) if is_offered_again(context) else state


def apply_view(state: ReporterState, view: View | None, evidence: HostEvidence) -> ReporterState:
    """Return the state after the service returned this view: with one more denial, or without denials.

    A missing answer changes no denials.
    """
    if view is None or isinstance(view, Unreachable):
        return state
    if isinstance(view, Answered):
        state = _with_pause(state, SERVICE, view, evidence)
    rule = NOT_OURS if isinstance(view, Refused) else NO_SUCH_HOST if isinstance(view, NoHost) else None
    if rule is None:
        return replace(state, denial=None)
    lived, denial = state.uptime_before(evidence.boot_id) + evidence.uptime, state.denial
    if denial is None or denial.rule != rule:
        return replace(state, denial=Denial(rule=rule, since=lived, until=lived))
    if lived <= denial.until:  # the view was read before in this round
        return state
    return replace(state, denial=replace(denial, rounds=denial.rounds + 1, until=lived))


def with_reported(state: ReporterState, fact: str) -> ReporterState:
    """Return the state with a fact that the service has."""
    return replace(state, reported=_add(state.reported, fact))


def count_report(state: ReporterState, report: StageReport) -> ReporterState:
    """Return the state to save before a report. If it cannot be saved, send nothing."""
    return replace(state, tries=_with(state.tries, report.fact, state.tries.get(report.fact, 0) + 1))


def apply_report(
    state: ReporterState, report: StageReport, outcome: Outcome, evidence: HostEvidence
) -> ReporterState:
    """Return the state after the outcome of a report. Call `count_report` before it."""
    state, fact = _with_pause(state, SERVICE, outcome, evidence), report.fact
    match classify_report(report, outcome):
        case ResponseClass.DONE:
            is_known = True if report.is_new_stage else state.stages_known
            kept = (Fact.KEPT,) if Fact.KEPT in report.place else ()
            return replace(state, reported=_add(state.reported, fact, *kept), stages_known=is_known)
        case ResponseClass.OTHER_FORM:
            return replace(state, stages_known=False)
        case ResponseClass.NEVER_AGAIN:
            return replace(state, refused=_with(state.refused, STAGE_CALLS, _read_status(outcome)))
        case ResponseClass.MOVED:
            conflicts = state.conflicts.get(fact, 0) + 1
            dropped = _add(state.dropped, fact) if conflicts > 1 else state.dropped
            return replace(state, conflicts=_with(state.conflicts, fact, conflicts), dropped=dropped)
        case ResponseClass.LATER:
            pass
    # After an error answer the fact was certainly not accepted, so the try does not count. A 500 counts: the
    # text itself may cause it, and then it never succeeds.
    if _read_status(outcome) not in {0, HTTPStatus.INTERNAL_SERVER_ERROR}:
        tries = max(0, state.tries.get(fact, 0) - 1)
        state = replace(state, tries=_with(state.tries, fact, tries))
    if state.tries.get(fact, 0) >= MOST_TRIES:
        return replace(state, dropped=_add(state.dropped, fact))
    return replace(state, deferred=_add(state.deferred, fact))


def has_moved(state: ReporterState, report: StageReport, outcome: Outcome) -> bool:
    """Return whether to read the view again before the next decision: the host has another stage now.

    `state` is the result of `apply_report`.
    """
    return classify_report(report, outcome) is ResponseClass.MOVED and report.fact not in state.dropped


def with_bundle(state: ReporterState, evidence: HostEvidence, *, is_volatile: bool = False) -> ReporterState:
    """Return the state with a bundle of this evidence in the spool."""
    bundle = SpooledBundle(
        fingerprint=evidence.fingerprint,
        boot_id=evidence.boot_id,
        uptime=evidence.uptime,
        is_wrong=evidence.is_wrong,
        is_volatile=is_volatile,
    )
    return replace(state, bundle=bundle)


def mark_secret_in_bundle(state: ReporterState, evidence: HostEvidence) -> ReporterState:
    """Return the state after the bundle of this evidence was deleted because of a secret in it."""
    fingerprints = _add(state.bundles_with_secrets, evidence.fingerprint)
    return replace(state, bundles_with_secrets=fingerprints[-_MAX_FINGERPRINTS:])


def count_shipment(
    state: ReporterState, shipment: Shipment, evidence: HostEvidence, size: int
) -> ReporterState:
    """Return the state to save before a shipment of `size` bytes. If it cannot be saved, send nothing."""
    usage = state.usage_at(shipment.destination)
    counted = _add_usage(usage, evidence.boot_id, shipment.tries, shipment.tries * size)
    counted = replace(counted, near_limit=shipment.near_limit or usage.near_limit)
    state = replace(state, usage=_with(state.usage, shipment.destination, counted))
    if shipment.kind != HOST:
        return state
    is_wrong = state.has_wrong_host_logs or _is_trouble_bundle(state)
    return replace(state, host_uploads=state.host_uploads + shipment.tries, has_wrong_host_logs=is_wrong)


def apply_shipment(
    state: ReporterState, shipment: Shipment, outcome: Outcome, evidence: HostEvidence, size: int
) -> ReporterState:
    """Return the state after the outcome of a shipment of `size` bytes. Call `count_shipment` before it."""
    response = classify(Call.UPLOAD, outcome)
    is_done = response is ResponseClass.DONE
    state = _with_pause(state, shipment.destination, outcome, evidence)
    usage = state.usage_at(shipment.destination)
    uploads = _count_uploads(outcome, size, is_done=is_done)
    sent = outcome.sent or (size if is_done else 0)
    corrected = _add_usage(usage, evidence.boot_id, uploads - shipment.tries, sent - shipment.tries * size)
    if is_done:
        corrected = replace(
            corrected,
            fingerprints=_add(corrected.fingerprints, shipment.fingerprint)[-_MAX_FINGERPRINTS:],
            round=evidence.round,
            bundle_boot=state.bundle.boot_id if state.bundle is not None else evidence.boot_id,
        )
    elif shipment.near_limit is not None and uploads == 0:
        corrected = replace(corrected, near_limit=None)
    state = replace(state, usage=_with(state.usage, shipment.destination, corrected))
    if shipment.kind == HOST:
        # The service may have stored the beginning of a broken upload. Then the logs there are ours.
        is_broken = isinstance(outcome, Unreachable) and outcome.sent > 0
        correction = max(uploads, is_broken) - shipment.tries
        state = replace(state, host_uploads=max(0, state.host_uploads + correction))
        if is_done:
            state = replace(state, has_wrong_host_logs=_is_trouble_bundle(state))
    if is_done:
        return replace(state, accepted=_add(state.accepted, shipment.kind))
    if response is ResponseClass.NEVER_AGAIN:
        return replace(state, refused=_with(state.refused, shipment.kind, _read_status(outcome)))
    return replace(state, deferred=_add(state.deferred, shipment.kind))


def _is_trouble_bundle(state: ReporterState) -> bool:
    return state.bundle is not None and state.bundle.is_wrong


def _count_uploads(outcome: Outcome, size: int, *, is_done: bool) -> int:
    """Return how often the bundle was sent, completely or in part. A refused probe does not count."""
    if outcome.sent <= PROBE_BYTES and not is_done:
        return 0
    return max(1, -(-(outcome.sent - PROBE_BYTES) // max(size, 1)))


def _add_usage(usage: Usage, boot_id: str, uploads: int, size: int) -> Usage:
    return replace(
        usage,
        uploads=max(0, usage.uploads + uploads),
        bytes=max(0, usage.bytes + size),
        boot_id=boot_id,
        boot_uploads=max(0, usage.in_boot(boot_id) + uploads),
    )


def _with_pause(
    state: ReporterState, destination: str, outcome: Outcome, evidence: HostEvidence
) -> ReporterState:
    if not isinstance(outcome, Answered) or not outcome.retry_after:
        return state
    pause = Pause(boot_id=evidence.boot_id, uptime=evidence.uptime + outcome.retry_after)
    return replace(state, pauses=_with(state.pauses, destination, pause))


def _read_status(outcome: Outcome) -> int:
    """Return the HTTP status, or 0 without an answer."""
    return outcome.status if isinstance(outcome, Answered) else 0


def _add(values: tuple[str, ...], *more: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*values, *(str(item) for item in more))))


def _with(values: Mapping[str, _Value], name: str, value: _Value) -> dict[str, _Value]:
    return {**values, str(name): value}
