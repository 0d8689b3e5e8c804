"""Change the state for the steps of a round. Pure.

Count before sending: each request is counted and saved before it is sent (`count_step`), and the count is
corrected when the outcome is known (`apply_results`). So a round that is killed in between has spent its
budget, and no budget is exceeded. Do not simplify this to one call after the request.
"""

from collections.abc import Container, Iterable, Mapping
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
    RoundPlan,
    Shipment,
    StageReport,
    StepResult,
    round_of,
)
from service_record.reporter.policy.shipments import PROBE_BYTES
from service_record.reporter.state import BootSeen, Denial, Pause, ReporterState, Spent, SpooledBundle


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
class Answer:
    """A row of the table of answers. The first row that matches decides."""

    name: str
    calls: frozenset[Call]
    statuses: Container[int]
    meaning: ResponseClass
    reason: str


_ALL: Final = frozenset(Call)
_PUTS: Final = frozenset({Call.STAGE, Call.INFO})

ANSWERS: Final = (
    Answer("accepted", _ALL, range(200, 300), ResponseClass.DONE, "the service has it"),
    Answer(
        "unknown-stage",
        frozenset({Call.STAGE}),
        {400},
        ResponseClass.OTHER_FORM,
        "services without the stages of the enhancement answer 400 to them, and store nothing",
    ),
    Answer(
        "moved-on",
        _PUTS,
        {409},
        ResponseClass.MOVED,
        "the host has another stage by now",
    ),
    Answer(
        "busy",
        _ALL,
        {408, 423, 425, 429, *range(500, 600)},
        ResponseClass.LATER,
        "a temporary failure of the server or a proxy; 500 is also sent if the host's status changed",
    ),
    Answer(
        "denied",
        _ALL,
        {401, 403, 404},
        ResponseClass.LATER,
        "also sent by proxies, portals, and services whose database is down",
    ),
    Answer(
        "not-the-service",
        _ALL,
        range(100, 400),
        ResponseClass.LATER,
        "redirects come from portals and proxies; not followed, because the key is for the service only",
    ),
    Answer(
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
    return next((row.meaning for row in rows), ResponseClass.LATER)


_Value = TypeVar("_Value")
_MAX_FINGERPRINTS: Final = 64
"""The number of fingerprints kept for each destination: far more than the uploads in its budget."""
_MAX_BOOTS: Final = 16
"""The number of boots that are listed in the state. Earlier ones are only summed up."""


def begin_round(state: ReporterState, evidence: HostEvidence) -> ReporterState:
    """Return the state at the beginning of a round. Save it at once, so that a killed round counts."""
    boot = state.boot(evidence.boot_id)
    others = tuple(each for each in state.boots if each is not boot)
    now = replace(
        boot or BootSeen(boot_id=evidence.boot_id),
        rounds=(boot.rounds if boot else 0) + 1,
        uptime=max(evidence.uptime, boot.uptime if boot else 0.0),
    )
    folded, recent = others[: -_MAX_BOOTS + 1], others[-_MAX_BOOTS + 1 :]
    return replace(
        state,
        boots=(*recent, now),
        deferred=(),
        earlier_boots=state.earlier_boots + len(folded),
        earlier_uptime=state.earlier_uptime + sum(each.uptime for each in folded),
    )


def count_step(
    state: ReporterState, step: StageReport | Shipment, evidence: HostEvidence, size: int = 0
) -> ReporterState:
    """Return the state to save before a step. If it cannot be saved, the step must not be made.

    `size` is the size of the bundle in bytes.
    """
    if isinstance(step, StageReport):
        return replace(state, tries=_with(state.tries, step.fact, state.tries.get(step.fact, 0) + 1))
    spent = state.spent_at(step.destination)
    counted = _spend(spent, evidence.boot_id, step.tries, step.tries * size)
    counted = replace(counted, last_word=step.last_word or spent.last_word)
    state = replace(state, spent=_with(state.spent, step.destination, counted))
    state = _with_host_uploads(state, step, step.tries)
    return (
        replace(state, has_wrong_host_logs=True) if step.kind == HOST and _is_trouble_bundle(state) else state
    )


def apply_results(
    state: ReporterState, plan: RoundPlan, results: Iterable[StepResult], evidence: HostEvidence
) -> ReporterState:
    """Return the state after these results of a plan's steps. Call `count_step` before each step."""
    state = replace(state, told=_add(state.told, *plan.told))
    for result in results:
        if isinstance(result.step, StageReport):
            state = _after_report(state, result.step, result)
        else:
            state = _after_shipment(state, result.step, result, evidence)
        destination = SERVICE if isinstance(result.step, StageReport) else result.step.destination
        state = _with_pause(state, destination, result.outcome, evidence)
    return state


def with_view(state: ReporterState, view: View | None, evidence: HostEvidence) -> ReporterState:
    """Return the state after the service returned this view."""
    return _with_pause(_with_denial(state, view, evidence), SERVICE, view, evidence)


def has_moved(state: ReporterState, results: Iterable[StepResult]) -> bool:
    """Return whether to read the view again before the next decision: the host has another stage now.

    `state` is the result of `apply_results` with these results.
    """
    return any(
        classify(Call.INFO, result.outcome) is ResponseClass.MOVED and result.step.fact not in state.dropped
        for result in results
        if isinstance(result.step, StageReport)
    )


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


def without_bundle(state: ReporterState) -> ReporterState:
    """Return the state without a bundle in the spool."""
    return replace(state, bundle=None)


def withheld(state: ReporterState, evidence: HostEvidence) -> ReporterState:
    """Return the state after the bundle of this evidence was deleted because of a secret in it."""
    return replace(state, withheld=_add(state.withheld, evidence.fingerprint)[-_MAX_FINGERPRINTS:])


def _with_denial(state: ReporterState, view: View | None, evidence: HostEvidence) -> ReporterState:
    """Return the state with one more denial, or without denials after any other answer.

    A missing answer changes nothing.
    """
    if view is None or isinstance(view, Unreachable):
        return state
    rule = NOT_OURS if isinstance(view, Refused) else NO_SUCH_HOST if isinstance(view, NoHost) else None
    if rule is None:
        return replace(state, denial=None)
    lived = state.uptime_before(evidence.boot_id) + evidence.uptime
    row = state.denial
    if row is None or row.rule != rule:
        return replace(state, denial=Denial(rule=rule, since=lived, until=lived))
    if lived <= row.until:  # the view was read before in this round
        return state
    return replace(state, denial=replace(row, rounds=row.rounds + 1, until=lived))


def _after_report(state: ReporterState, step: StageReport, result: StepResult) -> ReporterState:
    meaning = classify(Call.STAGE if step.is_new_stage else Call.INFO, result.outcome)
    if meaning is ResponseClass.DONE:
        is_known = True if step.is_new_stage else state.stages_known
        kept = (Fact.KEPT,) if Fact.KEPT in step.place else ()
        return replace(state, told=_add(state.told, step.fact, *kept), stages_known=is_known)
    if meaning is ResponseClass.OTHER_FORM:
        return replace(state, stages_known=False)
    if meaning is ResponseClass.NEVER_AGAIN:
        return replace(state, refused=_with(state.refused, STAGE_CALLS, _status(result)))
    if meaning is ResponseClass.MOVED:
        moved = state.moved.get(step.fact, 0) + 1
        dropped = _add(state.dropped, step.fact) if moved > 1 else state.dropped
        return replace(state, moved=_with(state.moved, step.fact, moved), dropped=dropped)
    # After an error answer the fact was certainly not accepted, so the try does not count. A 500 counts: the
    # text itself may cause it, and then it never succeeds.
    if isinstance(result.outcome, Answered) and result.outcome.status != HTTPStatus.INTERNAL_SERVER_ERROR:
        tries = max(0, state.tries.get(step.fact, 0) - 1)
        state = replace(state, tries=_with(state.tries, step.fact, tries))
    if state.tries.get(step.fact, 0) >= MOST_TRIES:
        return replace(state, dropped=_add(state.dropped, step.fact))
    return replace(state, deferred=_add(state.deferred, step.fact))


def _after_shipment(
    state: ReporterState, step: Shipment, result: StepResult, evidence: HostEvidence
) -> ReporterState:
    meaning = classify(Call.UPLOAD, result.outcome)
    spent = state.spent_at(step.destination)
    uploads = _count_uploads(result, is_done=meaning is ResponseClass.DONE)
    sent = result.outcome.sent or (result.size if meaning is ResponseClass.DONE else 0)
    corrected = _spend(spent, evidence.boot_id, uploads - step.tries, sent - step.tries * result.size)
    if meaning is ResponseClass.DONE:
        fingerprints = _add(corrected.fingerprints, step.fingerprint)[-_MAX_FINGERPRINTS:]
        made_in = state.bundle.boot_id if state.bundle is not None else evidence.boot_id
        corrected = replace(
            corrected, fingerprints=fingerprints, round=round_of(evidence), bundle_boot=made_in
        )
    elif step.last_word is not None and uploads == 0:
        corrected = replace(corrected, last_word=None)
    state = replace(state, spent=_with(state.spent, step.destination, corrected))
    # The service may have stored the beginning of a broken upload. Then the logs there are the reporter's.
    broken = isinstance(result.outcome, Unreachable) and result.outcome.sent > 0
    state = _with_host_uploads(state, step, max(uploads, broken) - step.tries)
    if meaning is ResponseClass.NEVER_AGAIN:
        return replace(state, refused=_with(state.refused, step.kind, _status(result)))
    if meaning is ResponseClass.DONE:
        if step.kind == HOST:
            state = replace(state, has_wrong_host_logs=_is_trouble_bundle(state))
        return replace(state, accepted=_add(state.accepted, step.kind))
    return replace(state, deferred=_add(state.deferred, step.kind))


def _is_trouble_bundle(state: ReporterState) -> bool:
    return state.bundle is not None and state.bundle.is_wrong


def _with_host_uploads(state: ReporterState, step: Shipment, uploads: int) -> ReporterState:
    if step.kind != HOST:
        return state
    return replace(state, host_uploads=max(0, state.host_uploads + uploads))


def _count_uploads(result: StepResult, *, is_done: bool) -> int:
    """Return how often the bundle was sent, completely or in part. A refused probe does not count."""
    sent = result.outcome.sent
    if sent <= PROBE_BYTES and not is_done:
        return 0
    return max(1, -(-(sent - PROBE_BYTES) // max(result.size, 1)))


def _spend(spent: Spent, boot_id: str, uploads: int, size: int) -> Spent:
    return replace(
        spent,
        uploads=max(0, spent.uploads + uploads),
        bytes=max(0, spent.bytes + size),
        boot_id=boot_id,
        boot_uploads=max(0, spent.in_boot(boot_id) + uploads),
    )


def _with_pause(
    state: ReporterState, destination: str, answer: View | None, evidence: HostEvidence
) -> ReporterState:
    if not isinstance(answer, Answered) or not answer.retry_after:
        return state
    pause = Pause(boot_id=evidence.boot_id, uptime=evidence.uptime + answer.retry_after)
    return replace(state, pauses=_with(state.pauses, destination, pause))


def _status(result: StepResult) -> int:
    return result.outcome.status if isinstance(result.outcome, Answered) else 0


def _add(values: tuple[str, ...], *more: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*values, *(str(item) for item in more))))


def _with(values: Mapping[str, _Value], name: str, value: _Value) -> dict[str, _Value]:
    return {**values, str(name): value}
