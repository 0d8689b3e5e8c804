"""Decide the next steps of a round: reports, shipments, and when to stop. Pure.

Each accepted PUT of a stage restarts the timer by which the service finds the stage stuck. So a fact is
reported once, and nothing is reported periodically.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service_record.reporter.host_view import HostView, NoHost, Refused
from service_record.reporter.paths import Places
from service_record.reporter.policy import shipments
from service_record.reporter.policy.round_context import (
    MOST_TRIES,
    MOST_VERDICTS,
    NO_SUCH_HOST,
    NOT_OURS,
    SERVICE,
    STAGE_CALLS,
    Fact,
    PolicyRule,
    RoundContext,
    RoundPlan,
    Shipment,
    StageReport,
    join_sentences,
)
from service_record.reporter.policy.shipments import SHIP_RULES, SPOOLED, ShipRule
from service_record.reporter.settings import Stages
from service_record.reporter.state import ReporterState

_INSTALLING: Final = frozenset({"installing", "installing-in-progress", "installing-pending-user-action"})
_STAGE_MINUTES: Final[Mapping[str, tuple[int, ...]]] = {
    "Starting installation": (30,),
    "Writing image to disk": (30,),
    "Copying registry data to disk": (90,),
    "Rebooting": (40, 80),  # 80 on a single node
    "Waiting for ignition": (1440,),
}
_OTHER_STAGE_MINUTES: Final = (60,)
_BEFORE_LIMIT_SECONDS: Final = 600.0
_AFTER_LIMIT_SECONDS: Final = 60.0
"""The service checks its hosts every 8 seconds, and clocks differ a little."""


def _has_it(context: RoundContext) -> bool:
    """Return whether the service has the fact already, from a round that was killed before it saved that."""
    view = context.host_view
    return view is not None and (view.stage == context.fact or view.info.startswith(context.fact))


def _is_installing(context: RoundContext) -> bool:
    return context.host_view is not None and context.host_view.status in _INSTALLING


def limit_is_near(context: RoundContext) -> bool:
    """Return whether the service's time limit for the stage is about to expire.

    The service counts from the latest report of the stage, and only in the status `installing-in-progress`.
    """
    view = context.host_view
    if view is None or view.stage_age is None or view.status != "installing-in-progress":
        return False
    limits = [60.0 * minutes for minutes in _STAGE_MINUTES.get(view.stage, _OTHER_STAGE_MINUTES)]
    return any(
        limit - _BEFORE_LIMIT_SECONDS <= view.stage_age <= limit + _AFTER_LIMIT_SECONDS for limit in limits
    )


NO_REPORT_RULES: Final = (
    PolicyRule(
        "reported-before",
        lambda context: context.fact in context.state.reported,
        "each fact is reported once",
    ),
    PolicyRule(
        "dropped",
        lambda context: context.fact in context.state.dropped,
        "the service refused this fact, and it is not sent again",
    ),
    PolicyRule(
        "reports-refused",
        lambda context: STAGE_CALLS in context.state.refused,
        "the service refuses reports of stages",
    ),
    PolicyRule(
        "no-view",
        lambda context: context.host_view is None,
        "the host's stage at the service is not known",
    ),
    PolicyRule("has-it", _has_it, "the service has this fact already, from a round that was killed"),
    PolicyRule(
        "not-installing",
        lambda context: not _is_installing(context),
        "stages change only while a host is being installed",
    ),
    PolicyRule(
        "no-stage",
        lambda context: not context.stage,
        "the installation has not begun; the service answers 409 to a report without a stage",
    ),
    PolicyRule(
        "over",
        lambda context: context.stage in {"Failed", "Done"},
        "`Failed` is never sent, because it ends the installation; after `Done` no fact is sent",
    ),
    PolicyRule(
        "stage-limit-near",
        limit_is_near,
        "the service's limit for the stage expires soon, and each report would restart it",
    ),
    PolicyRule(
        "no-such-stages",
        lambda context: context.settings.stages is Stages.NEW and context.state.stages_known is False,
        "`stages = new`, and the service does not have them",
    ),
    PolicyRule(
        "deferred",
        lambda context: context.fact in context.state.deferred,
        "a temporary failure of the service; the next round tries again",
    ),
    PolicyRule(
        "tries-spent",
        lambda context: context.state.tries.get(context.fact, 0) >= MOST_TRIES,
        "the limit of requests for one fact is reached",
    ),
)
"""Reasons not to report a fact. If none of these holds, it is reported."""

_TEMPORARY: Final = frozenset({"no-view", "deferred", "stage-limit-near"})
"""The reasons that may no longer hold in the next round."""


def may_be_reported(context: RoundContext) -> bool:
    """Return whether the present fact may still be reported, in this round or in a later one."""
    obstacle = context.find_rule(NO_REPORT_RULES)
    return context.settings.service is not None and (obstacle is None or obstacle.name in _TEMPORARY)


def fact_report(context: RoundContext) -> StageReport:
    """Return the report of the fact: as a stage of its own, or as information on the current stage.

    The current stage is sent exactly as it was read, because any other would change the installation. For
    instance, the service sets a host that is added on day two to `Done` when it gets `Rebooting`.
    """
    fact, stages = context.fact, context.settings.stages
    as_stage = stages is Stages.NEW or (stages is Stages.AUTO and context.state.stages_known is not False)
    place = describe_bundle_places(context) if context.reported_verdicts and context.is_wrong else ""
    if as_stage:
        return StageReport(fact=fact, stage=fact.value, info="", place=place)
    return StageReport(fact=fact, stage=context.stage, info=fact, place=place)


def verdict_report(context: RoundContext) -> StageReport | None:
    """Return the report of the verdict and the place of its bundle, or None.

    It is sent with the current stage, after the fact that the service has; an unreported fact is sent first.
    The service accepts information on the current stage in any status of the host. A verdict that differs
    only in numbers or times is the same verdict. There are at most `MOST_VERDICTS` reports, because each one
    restarts the service's timer.
    """
    view, state, reported = context.host_view, context.state, context.reported_verdicts
    if view is None or not context.is_wrong or not _accepts_verdict(view) or limit_is_near(context):
        return None
    is_fact_first = may_be_reported(context) and _is_installing(context)
    if is_fact_first or STAGE_CALLS in state.refused or len(reported) >= MOST_VERDICTS:
        return None
    place = describe_bundle_places(context)
    name = f"{context.verdict_name}{place}"
    if place == NO_BUNDLE and context.has_reported_this_verdict:
        return None
    if name in {*reported, *state.dropped, *state.deferred} or state.tries.get(name, 0) >= MOST_TRIES:
        return None
    booted = (Fact.LOCAL, Fact.CONTROL_PLANE)
    fact = next((fact for fact in booted if view.info.startswith(fact)), "")
    return StageReport(fact=name, stage=view.stage, info=fact, place=place)


def _accepts_verdict(view: HostView) -> bool:
    """Return whether information on the current stage changes nothing but that information.

    Without a stage the service answers 409. The stage `Failed` would fail the installation. `Done` is sent
    only if it has taken effect: the host is installed, or was added on day two.
    """
    if view.stage == "Done":
        return view.status == "installed" or _is_day_two(view)
    return view.stage not in {"", "Failed"}


PLACE: Final = f"{Fact.KEPT}: {Places().spool_directory}"
"""The text for a bundle on the host. It names the directory, because each bundle has another file name."""
VOLATILE_PLACE: Final = f"{Fact.KEPT} until it reboots: {Places().volatile.spool_directory}"
NO_BUNDLE: Final = "No boot logs"


def spool_place(state: ReporterState) -> str:
    """Return the place of the bundle on the host, as text."""
    return VOLATILE_PLACE if state.bundle is not None and state.bundle.is_volatile else PLACE


def describe_bundle_places(context: RoundContext) -> str:
    """Return the places of the bundle, as text for people who may be unable to log in to the host."""
    state, fingerprint = context.state, context.evidence.fingerprint
    has_it = [name for name, usage in state.usage.items() if fingerprint in usage.fingerprints]
    # The digest of a URL is left out.
    elsewhere = [
        name if name.startswith("directory:") else name.rpartition(":")[0]
        for name in has_it
        if name != SERVICE
    ]
    places = []
    if state.bundle is not None and (not has_it or shipments.keeps_bundle(context)):
        places.append(spool_place(state))
    if SERVICE in has_it:
        places.append("Boot logs are among the logs of this host")
    if elsewhere:
        places.append(f"Boot logs were shipped to {', '.join(elsewhere)}")
    return join_sentences(*places) or NO_BUNDLE


def _is_day_two(view: HostView) -> bool:
    return view.kind == "AddToExistingClusterHost" or view.status == "added-to-existing-cluster"


def _is_installed(context: RoundContext) -> bool:
    """Return whether the service reliably shows the host as installed.

    A host that is added on day two is `Done` before it boots from its disk, and may still fail after that.
    """
    view = context.host_view
    if view is None or _is_day_two(view):
        return False
    return view.status == "installed" or view.stage == "Done"


def _is_up(context: RoundContext) -> bool:
    return context.evidence.kubelet_healthy and context.fact is Fact.CONTROL_PLANE


def _can_stop_for_kubelet(context: RoundContext) -> bool:
    """Return whether the running kubelet means that the reporter can stop.

    It does not while the fact may still be reported, or while a host that has not joined has a trouble.
    """
    has_joined = context.stage in {"Joined", "Done"}
    if not _is_up(context) or (context.is_wrong and not has_joined):
        return False
    return not may_be_reported(context)


def _is_final_denial(context: RoundContext, rule: str, answer: type[Refused | NoHost]) -> bool:
    """Return whether the service's denials end the reporter.

    A service whose database is down denies every host. So an undelivered trouble is offered again instead.
    """
    if not context.is_denied(rule) or shipments.waits_for_delivery(context):
        return False
    return context.view is None or isinstance(context.view, answer)


STOP_RULES: Final = (
    PolicyRule(
        NOT_OURS,
        lambda context: _is_final_denial(context, NOT_OURS, Refused),
        "the service refused the token in three rounds over 30 minutes, and no trouble waits for it",
    ),
    PolicyRule(
        NO_SUCH_HOST,
        lambda context: _is_final_denial(context, NO_SUCH_HOST, NoHost),
        "the service has no such host in three rounds over 30 minutes, and no trouble waits for it",
    ),
    PolicyRule(
        "installed",
        _is_installed,
        "the host is installed according to the service, and was not added on day two",
    ),
    PolicyRule(
        "kubelet-up",
        _can_stop_for_kubelet,
        "the kubelet is up on the control plane's configuration, and nothing is wrong or the host has joined",
    ),
    PolicyRule(
        "time-limit",
        lambda context: (
            context.is_over_limit and context.is_last_boot and not shipments.waits_for_delivery(context)
        ),
        "this boot has taken longer than `time_limit`, and no trouble waits for a destination",
    ),
    PolicyRule(
        "lifetime",
        lambda context: context.lived >= context.settings.lifetime,
        "the host was up for longer than `lifetime`, all boots together",
    ),
)
"""Reasons to stop permanently."""

_SHIP_BEFORE: Final = frozenset({"time-limit", "lifetime"})
"""The rules before which even a healthy host ships a bundle."""

QUIET: Final = PolicyRule(
    "quiet",
    shipments.is_quiet,
    "this boot has taken longer than `time_limit`, and there is nothing new to send; "
    "an undelivered bundle is offered again after twice that time, four times, and so on",
)


def is_undelivered(context: RoundContext) -> bool:
    """Return whether a present or earlier trouble of the host has no delivered bundle.

    A bundle counts as undelivered if its path was reported to the service, or if it is kept on the host
    because of the agent's logs.
    """
    if not context.is_wrong:
        return shipments.has_undelivered(context)
    if not context.state.is_delivered(context.evidence.fingerprint):
        return True
    return Fact.KEPT in context.state.reported or shipments.keeps_bundle(context)


def decide(context: RoundContext, *, is_settled: bool = False) -> RoundPlan:
    """Return the next steps of a round. The view is None if it was not read; see `reads_view`.

    Call this again with the resulting state until a plan `is_last`: an answer may require another form or
    another log type. Carry out a stop after all other steps. The verdict is reported last, because it
    contains the place of the bundle: after all other steps, or if `is_settled` (the round ships no more).
    """
    stop = context.find_rule(STOP_RULES)
    if stop is None and QUIET.holds(context):
        return RoundPlan(why=(QUIET.line,))
    plan = RoundPlan(
        stop=stop, is_undelivered=is_undelivered(context), why=(stop.line,) if stop is not None else ()
    )
    if context.settings.service is not None:
        plan = _with_fact(plan, context)
    is_well = _is_up(context) and not context.is_wrong
    if stop is not None and (is_well or not (context.is_wrong or stop.name in _SHIP_BEFORE)):
        rules: tuple[ShipRule, ...] = (SPOOLED,) if plan.is_undelivered else ()
    else:
        rules = () if is_well else SHIP_RULES
    plan = _with_shipments(plan, context, rules)
    is_busy = plan.report or plan.is_reported or ((plan.gather or plan.ship) and not is_settled)
    report = verdict_report(context) if context.settings.service is not None and not is_busy else None
    if report is None:
        return plan
    return replace(plan, report=report, why=(*plan.why, "reported: the verdict"))


def _with_fact(plan: RoundPlan, context: RoundContext) -> RoundPlan:
    obstacle = context.find_rule(NO_REPORT_RULES)
    if obstacle is not None:
        is_reported = _has_it(context) and context.fact not in context.state.reported
        return replace(plan, is_reported=is_reported, why=(*plan.why, f"not reported: {obstacle.line}"))
    report = fact_report(context)
    return replace(plan, report=report, why=(*plan.why, f"reported: {report.fact}"))


def _with_shipments(plan: RoundPlan, context: RoundContext, rules: tuple[ShipRule, ...]) -> RoundPlan:
    why: list[str] = []
    found: list[tuple[ShipRule, Shipment]] = []
    for target in shipments.targets(context):
        reason = shipments.find_reason(context, target, rules)
        if reason is None:
            continue
        shipment = shipments.make_shipment(context, target, reason, is_last=plan.stop is not None)
        spent = "" if shipment else ", but its budget is spent"
        why.append(f"{target.kind}: {reason.name}: {reason.reason}{spent}")
        if shipment is not None:
            found.append((reason, shipment))
    # The spool holds one bundle, and a newer one replaces it.
    newer = [row for row in found if row[0] is not SPOOLED]
    found = newer or found
    keeps = shipments.keeps_bundle(context)
    if keeps:
        why.append("host: left: the agent's own logs are there; the bundle stays on the host")
    return replace(
        plan,
        gather=any(not shipments.is_fresh(context, reason) for reason, _ in newer),
        keeps=keeps,
        bundle_bytes=min((shipment.most for _, shipment in found), default=0),
        ship=tuple(shipment for _, shipment in found if shipments.is_reachable(context, shipment)),
        why=(*plan.why, *why),
    )
