"""What a round does: the rules put together. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service_record.reporter.answers import View
from service_record.reporter.evidence import Evidence
from service_record.reporter.policy import endings, shipments, stages
from service_record.reporter.policy.moment import Moment
from service_record.reporter.policy.plan import Plan, Shipment, Stop
from service_record.reporter.policy.rules import first
from service_record.reporter.policy.shipments import Target, Want
from service_record.reporter.settings import Settings
from service_record.reporter.state import State


def decide(settings: Settings, state: State, view: View | None, evidence: Evidence) -> Plan:
    """What to do now. `view` is None when the service was not asked; see `asks`.

    Decide anew, with the state of `after`, until a plan `is_last`: an answer may ask for another form, or
    another slot. A stop is carried out after everything else.
    """
    moment = Moment(settings, state, evidence, view)
    end = first(endings.ENDINGS, moment)
    undelivered = endings.is_undelivered(moment)
    stop = Stop(rule=end.name, reason=end.reason, is_undelivered=undelivered) if end else None
    if end is None and endings.QUIET.holds(moment):
        return Plan(quiet=True, why=(endings.QUIET.line,))
    plan = _with_stages(Plan(stop=stop, why=(end.line,) if end else ()), moment)
    if stop is not None and not (moment.is_wrong or stop.rule in _LIMITS):
        return plan
    return plan if endings.is_up(moment) else _with_shipments(plan, moment)


_LIMITS = frozenset({"time-limit", "lifetime"})
"""Endings that a bundle goes before even when nothing is wrong."""


def _with_stages(plan: Plan, moment: Moment) -> Plan:
    if moment.settings.service is None:
        return plan
    told, place = stages.known(moment), stages.place_report(moment)
    silence = first(stages.SILENCES, moment)
    if silence is not None and place is not None:
        return replace(plan, told=told, report=(place,), why=(*plan.why, f"told: {place.fact}"))
    if silence is not None:
        return replace(plan, told=told, why=(*plan.why, f"not told: {silence.line}"))
    report = stages.report(moment)
    return replace(plan, report=(report,), why=(*plan.why, f"told: {report.fact}"))


@dataclass(frozen=True, slots=True)
class _Wanted:
    target: Target
    reason: Want
    shipment: Shipment | None


def _wanted(moment: Moment, *, is_end: bool) -> Iterator[_Wanted]:
    for target in shipments.targets(moment):
        reason = shipments.want(moment, target)
        if reason is not None:
            yield _Wanted(target, reason, shipments.shipment(moment, target, reason, is_last=is_end))


def _with_shipments(plan: Plan, moment: Moment) -> Plan:
    wanted = list(_wanted(moment, is_end=plan.stop is not None))
    affordable = [(want, want.shipment) for want in wanted if want.shipment is not None]
    newer = [want for want, _ in affordable if want.reason is not shipments.SPOOLED]
    if newer:  # the spool holds one bundle: a newer one takes its place
        affordable = [(want, found) for want, found in affordable if want in newer]
    gather = any(not shipments.is_fresh(moment, want.reason) for want in newer)
    why = [
        f"{want.target.kind}: {want.reason.name}: {want.reason.reason}"
        + ("" if want.shipment else ", but its budget is spent")
        for want in wanted
    ]
    keeps = shipments.keeps_bundle(moment)
    if keeps:
        why.append("host: left: the agent's own logs are there; the bundle stays on the host")
    return replace(
        plan,
        gather=gather,
        keeps=keeps,
        bundle_bytes=min((found.most for _, found in affordable), default=0),
        ship=tuple(found for want, found in affordable if shipments.is_reachable(moment, want.target)),
        why=(*plan.why, *why),
    )
