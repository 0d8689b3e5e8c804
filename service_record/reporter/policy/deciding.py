"""Decide the next steps of a round: reports, shipments, and when to stop. Pure.

Each accepted PUT of a stage restarts the timer by which the service finds the stage stuck. So a fact is
reported once, and nothing is reported periodically.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import HostView, NoHost, Refused, View
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
    RoundContext,
    RoundPlan,
    Shipment,
    StageReport,
    Stop,
    joined,
)
from service_record.reporter.policy.shipments import Target, Want, keeps_bundle
from service_record.reporter.settings import Settings, Stages
from service_record.reporter.state import ReporterState


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A row of a table of rules. The first rule that holds decides."""

    name: str
    holds: Callable[[RoundContext], bool]
    reason: str

    @property
    def line(self) -> str:
        return f"{self.name}: {self.reason}"


def first(rules: Iterable[PolicyRule], context: RoundContext) -> PolicyRule | None:
    """Return the first rule that holds, or None."""
    return next((rule for rule in rules if rule.holds(context)), None)


PLACE: Final = f"{Fact.KEPT}: {Places().spool_directory}"
"""The text for a bundle on the host. It names the directory, because each bundle has another file name."""
VOLATILE_PLACE: Final = f"{Fact.KEPT} until it reboots: {Places().volatile.spool_directory}"
_INSTALLING: Final = frozenset({"installing", "installing-in-progress", "installing-pending-user-action"})
_BOOTED: Final = (Fact.LOCAL, Fact.CONTROL_PLANE)
_OVER: Final = frozenset({"Failed", "Done"})


def _has_it(context: RoundContext) -> bool:
    """Return whether the service has the fact already, from a round that was killed before it saved that."""
    view = context.host_view
    return view is not None and (view.stage == context.fact or view.info.startswith(context.fact))


def _is_installing(context: RoundContext) -> bool:
    view = context.host_view
    return view is not None and view.status in _INSTALLING


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
        "reported-before", lambda context: context.fact in context.state.told, "each fact is reported once"
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
        lambda context: context.stage in _OVER,
        "`Failed` is never sent, because it ends the installation; after `Done` nothing is sent",
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

WAITING: Final = frozenset({"no-view", "deferred", "stage-limit-near"})
"""The reasons that may no longer hold in the next round."""


def stage_report(context: RoundContext) -> StageReport:
    """Return the report of the fact: as a stage of its own, or as information on the current stage.

    The current stage is sent exactly as it was read, because any other would change the installation. For
    instance, the service sets a host that is added on day two to `Done` when it gets `Rebooting`.
    """
    fact, stages = context.fact, context.settings.stages
    as_stage = stages is Stages.NEW or (stages is Stages.AUTO and context.state.stages_known is not False)
    place = bundle_place(context) if context.told_verdicts and context.is_wrong else ""
    if as_stage:
        return StageReport(fact=fact, stage=fact.value, info="", place=place)
    return StageReport(fact=fact, stage=context.stage, info=fact, place=place)


def verdict_report(context: RoundContext) -> StageReport | None:
    """Return the report of the verdict and the place of its bundle, or None.

    It is sent with the current stage, after the fact that the service has; an unreported fact is sent first.
    The service accepts it in any status of the host. A verdict that differs only in numbers or times is the
    same verdict. There are at most `MOST_VERDICTS` reports, because each one restarts the service's timer.
    """
    view, state = context.host_view, context.state
    if view is None or not view.stage or not context.is_wrong or limit_is_near(context):
        return None
    # On day two a host is `Done` before it boots from its disk. Information on that stage changes nothing.
    is_final = view.stage in _OVER and not (view.stage == "Done" and _is_day_two(view))
    is_due = is_outstanding(context) and _is_installing(context)
    if is_final or STAGE_CALLS in state.refused or is_due:
        return None
    place, told = bundle_place(context), context.told_verdicts
    name = f"{context.verdict_name}{place}"
    if place == NO_BUNDLE and any(fact.startswith(context.verdict_name) for fact in told):
        return None
    is_spent = len(told) >= MOST_VERDICTS or state.tries.get(name, 0) >= MOST_TRIES
    if is_spent or name in {*told, *state.dropped, *state.deferred}:
        return None
    fact = next((fact for fact in _BOOTED if view.info.startswith(fact)), "")
    return StageReport(fact=name, stage=view.stage, info=fact, place=place)


NO_BUNDLE: Final = "No boot logs"


def bundle_place(context: RoundContext) -> str:
    """Return the place of the bundle, as text for people who may be unable to log in to the host."""
    state, fingerprint = context.state, context.evidence.fingerprint
    has_it = [name for name, spent in state.spent.items() if fingerprint in spent.fingerprints]
    # The digest of a URL is left out.
    elsewhere = [
        name if name.startswith("directory:") else name.rpartition(":")[0]
        for name in has_it
        if name != SERVICE
    ]
    places = []
    if state.bundle is not None and (not has_it or keeps_bundle(context)):
        places.append(VOLATILE_PLACE if state.bundle.is_volatile else PLACE)
    if SERVICE in has_it:
        places.append("Boot logs are among the logs of this host")
    if elsewhere:
        places.append(f"Boot logs were shipped to {', '.join(elsewhere)}")
    return joined(*places) or NO_BUNDLE


def is_outstanding(context: RoundContext) -> bool:
    """Return whether the present fact may still be reported, in this round or in a later one."""
    obstacle = first(NO_REPORT_RULES, context)
    return context.settings.service is not None and (obstacle is None or obstacle.name in WAITING)


_ADDED: Final = "added-to-existing-cluster"
_DAY_TWO: Final = "AddToExistingClusterHost"
_IN_CLUSTER: Final = frozenset({"Joined", "Done"})


def _is_day_two(view: HostView) -> bool:
    return view.kind == _DAY_TWO or view.status == _ADDED


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
    has_joined = context.stage in _IN_CLUSTER
    if not _is_up(context) or (context.is_wrong and not has_joined):
        return False
    return not is_outstanding(context)


def _is_final_denial(context: RoundContext, rule: str, answer: type[Refused | NoHost]) -> bool:
    """Return whether the service's denials end the reporter.

    A service whose database is down denies every host. So an undelivered trouble is offered again instead.
    """
    if not context.is_denied(rule) or shipments.waits_for_delivery(context):
        return False
    return context.view is None or isinstance(context.view, answer)


ENDINGS: Final = (
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
    is_delivered = context.state.is_delivered(context.evidence.fingerprint)
    return not is_delivered or Fact.KEPT in context.state.told or shipments.keeps_bundle(context)


def decide(
    settings: Settings,
    state: ReporterState,
    view: View | None,
    evidence: HostEvidence,
    *,
    is_settled: bool = False,
) -> RoundPlan:
    """Return the next steps of a round. `view` is None if it was not read; see `asks`.

    Call this again with the state of `apply_results` until a plan `is_last`: an answer may require another
    form or another log type. Carry out a stop after all other steps. The verdict is reported last, because it
    contains the place of the bundle: after all other steps, or if `is_settled` (the round ships no more).
    """
    context = RoundContext(settings, state, evidence, view)
    end = first(ENDINGS, context)
    undelivered = is_undelivered(context)
    stop = Stop(rule=end.name, reason=end.reason, is_undelivered=undelivered) if end else None
    if end is None and QUIET.holds(context):
        return RoundPlan(why=(QUIET.line,))
    plan = _with_stages(RoundPlan(stop=stop, why=(end.line,) if end else ()), context)
    is_well = _is_up(context) and not context.is_wrong
    if stop is not None and (is_well or not (context.is_wrong or stop.rule in _LIMITS)):
        return _with_shipments(plan, context, (shipments.SPOOLED,)) if undelivered else plan
    plan = plan if is_well else _with_shipments(plan, context)
    report = verdict_report(context) if settings.service is not None else None
    if report is None or plan.report or plan.told or ((plan.gather or plan.ship) and not is_settled):
        return plan
    return replace(plan, report=(report,), why=(*plan.why, "reported: the verdict"))


_LIMITS = frozenset({"time-limit", "lifetime"})
"""The rules before which even a healthy host ships a bundle."""


def _with_stages(plan: RoundPlan, context: RoundContext) -> RoundPlan:
    if context.settings.service is None:
        return plan
    obstacle = first(NO_REPORT_RULES, context)
    if obstacle is not None:
        # The service may have the fact from a round that was killed before it saved that.
        has_it = _has_it(context) and context.fact not in context.state.told
        told = (context.fact,) if has_it else ()
        return replace(plan, told=told, why=(*plan.why, f"not reported: {obstacle.line}"))
    report = stage_report(context)
    return replace(plan, report=(report,), why=(*plan.why, f"reported: {report.fact}"))


def _with_shipments(
    plan: RoundPlan, context: RoundContext, rows: tuple[Want, ...] = shipments.WANTS
) -> RoundPlan:
    why: list[str] = []
    affordable: list[tuple[Target, Want, Shipment]] = []
    for target in shipments.targets(context):
        reason = shipments.want(context, target, rows)
        if reason is None:
            continue
        found = shipments.shipment(context, target, reason, is_last=plan.stop is not None)
        spent = "" if found else ", but its budget is spent"
        why.append(f"{target.kind}: {reason.name}: {reason.reason}{spent}")
        if found is not None:
            affordable.append((target, reason, found))
    newer = [row for row in affordable if row[1] is not shipments.SPOOLED]
    # The spool holds one bundle, and a newer one replaces it.
    affordable = newer or affordable
    keeps = shipments.keeps_bundle(context)
    if keeps:
        why.append("host: left: the agent's own logs are there; the bundle stays on the host")
    return replace(
        plan,
        gather=any(not shipments.is_fresh(context, reason) for _, reason, _ in newer),
        keeps=keeps,
        bundle_bytes=min((found.most for *_, found in affordable), default=0),
        ship=tuple(found for target, _, found in affordable if shipments.is_reachable(context, target)),
        why=(*plan.why, *why),
    )
