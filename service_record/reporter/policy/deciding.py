"""Decides the next step of a round: all rules together, which stage is told, when the work is over. Pure.

Each accepted PUT of a stage restarts the clock by which the service finds a stage stuck. So a fact is told
once, and nothing is told periodically.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import HostView, NoHost, Refused, View
from service_record.reporter.paths import Places
from service_record.reporter.policy import shipments
from service_record.reporter.policy.moment import (
    NO_SUCH_HOST,
    NOT_OURS,
    Fact,
    Moment,
    RoundPlan,
    Shipment,
    StageReport,
    Stop,
    info,
)
from service_record.reporter.policy.shipments import Target, Want, keeps_bundle
from service_record.reporter.settings import Settings, Stages
from service_record.reporter.state import ReporterState


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A row of a table of rules, of which the first that holds decides."""

    name: str
    holds: Callable[[Moment], bool]
    reason: str

    @property
    def line(self) -> str:
        return f"{self.name}: {self.reason}"


def first(rules: Iterable[PolicyRule], moment: Moment) -> PolicyRule | None:
    """Return the first rule that holds; None when none does."""
    return next((rule for rule in rules if rule.holds(moment)), None)


KIND: Final = "stage"
"""The kind of call, where refusals are remembered."""
MOST_TRIES: Final = 6
"""Requests for one fact, those included that the round did not survive."""
PLACE: Final = f"{Fact.KEPT}: {Places().spool_directory}"
"""The place of the bundle on the host: the directory, for its name changes with each newer one."""
_INSTALLING: Final = frozenset({"installing", "installing-in-progress", "installing-pending-user-action"})
_BOOTED: Final = (Fact.LOCAL, Fact.CONTROL_PLANE)
_OVER: Final = frozenset({"Failed", "Done"})


def _view(moment: Moment) -> HostView | None:
    return moment.view if isinstance(moment.view, HostView) else None


def _has_it(moment: Moment) -> bool:
    """Return whether the service has the fact already: from a round that was killed before it could note
    that.
    """
    view = _view(moment)
    return view is not None and (view.stage == moment.fact or view.info.startswith(moment.fact))


def _is_installing(moment: Moment) -> bool:
    view = _view(moment)
    return view is not None and view.status in _INSTALLING


def _stage(moment: Moment) -> str:
    view = _view(moment)
    return view.stage if view else ""


def _knows_no_stages(moment: Moment) -> bool:
    return moment.settings.stages is Stages.NEW and moment.state.stages_known is False


SILENCES: Final = (
    PolicyRule("told-before", lambda moment: moment.fact in moment.state.told, "each fact is reported once"),
    PolicyRule(
        "dropped",
        lambda moment: moment.fact in moment.state.dropped,
        "the service did not take this fact, and is not asked again",
    ),
    PolicyRule(
        "telling-refused", lambda moment: KIND in moment.state.refused, "the service does not take stages"
    ),
    PolicyRule(
        "no-view", lambda moment: _view(moment) is None, "the stage that the service knows is not known"
    ),
    PolicyRule(
        "has-it", _has_it, "the service has this fact already; a round that was killed had reported it"
    ),
    PolicyRule(
        "not-installing",
        lambda moment: not _is_installing(moment),
        "stages change only while a host is being installed",
    ),
    PolicyRule(
        "no-stage",
        lambda moment: not _stage(moment),
        "a progress without a stage is answered 409; the installation has not begun for the service",
    ),
    PolicyRule(
        "over",
        lambda moment: _stage(moment) in _OVER,
        "`Failed` is never sent: it ends the installation; after `Done` nothing is",
    ),
    PolicyRule("no-such-stages", _knows_no_stages, "`stages = new`, and the service does not have them"),
    PolicyRule(
        "deferred",
        lambda moment: moment.fact in moment.state.deferred,
        "the service had a bad moment: the next round tries again",
    ),
    PolicyRule(
        "tries-spent",
        lambda moment: moment.state.tries.get(moment.fact, 0) >= MOST_TRIES,
        "the service was asked as often as it may be for one fact",
    ),
)
"""Reasons not to report a fact; when none of these holds, it is reported."""

WAITING: Final = frozenset({"no-view", "deferred"})
"""The reasons that may not hold any more in the next round."""


def stage_report(moment: Moment) -> StageReport:
    """Return the fact as the service can take it: as its own stage, or as information on the current one.

    The current stage is sent as it was read, whatever it is: another would change the installation. So
    `Rebooting` is sent of a host added on day two only when that is its stage; it would be `Done` by it.
    """
    fact, stages = moment.fact, moment.settings.stages
    as_stage = stages is Stages.NEW or (stages is Stages.AUTO and moment.state.stages_known is not False)
    place = PLACE if Fact.KEPT in moment.state.told and moment.state.bundle else ""
    if as_stage:
        return StageReport(fact=fact, stage=fact.value, info=place)
    return StageReport(fact=fact, stage=_stage(moment), info=info(_joined(fact, place)))


def place_report(moment: Moment) -> StageReport | None:
    """Return the report of where the bundle lies that leaves the agent's logs alone; None when there is none.

    It goes with the current stage, behind the fact that the service has; a fact that is still to be told
    goes first. The service takes it in any status of the host.
    """
    view, state = _view(moment), moment.state
    if view is None or not view.stage or view.stage in _OVER or not keeps_bundle(moment) or has_place(moment):
        return None
    waits = is_outstanding(moment) and _is_installing(moment)
    is_over = KIND in state.refused or state.tries.get(Fact.KEPT, 0) >= MOST_TRIES
    if waits or is_over or Fact.KEPT in {*state.told, *state.dropped, *state.deferred}:
        return None
    fact = next((fact for fact in _BOOTED if view.info.startswith(fact)), "")
    return StageReport(fact=Fact.KEPT, stage=view.stage, info=info(_joined(fact, PLACE)))


def has_place(moment: Moment) -> bool:
    """Return whether the service was told where the bundle lies, as its own view has it."""
    view = _view(moment)
    return view is not None and PLACE in view.info


def _joined(*words: str) -> str:
    return ". ".join(filter(None, words))


def is_outstanding(moment: Moment) -> bool:
    """Return whether the fact of now may still be told in a later round."""
    if moment.settings.service is None or KIND in moment.state.refused:
        return False
    return moment.fact not in {*moment.state.told, *moment.state.dropped}


def facts_with_service(moment: Moment) -> tuple[Fact, ...]:
    """Return the facts that the service has although this state does not know it."""
    has = {moment.fact: _has_it(moment), Fact.KEPT: has_place(moment)}
    return tuple(fact for fact in has if has[fact] and fact not in moment.state.told)


_ADDED: Final = "added-to-existing-cluster"
_DAY_TWO: Final = "AddToExistingClusterHost"
_IN_CLUSTER: Final = frozenset({"Joined", "Done"})


def _is_installed(moment: Moment) -> bool:
    """Return whether the service says that the host is installed, and can know it.

    A host that is added on day two is `Done` for the service before it boots from its disk: what fails
    after that, the service does not see.
    """
    view = _view(moment)
    if view is None or view.kind == _DAY_TWO or view.status == _ADDED:
        return False
    return view.status == "installed" or view.stage == "Done"


def _is_up(moment: Moment) -> bool:
    return moment.evidence.kubelet_healthy and moment.fact is Fact.CONTROL_PLANE


def _is_up_and_well(moment: Moment) -> bool:
    return _is_up(moment) and not moment.is_wrong


def _is_up_and_told(moment: Moment) -> bool:
    """Return whether the kubelet is proof that the work is over: not while something is wrong with a host
    that has not joined its cluster.
    """
    has_joined = _stage(moment) in _IN_CLUSTER
    if not _is_up(moment) or (moment.is_wrong and not has_joined):
        return False
    silence = first(SILENCES, moment)
    waits = silence is None or silence.name in WAITING
    return not (waits and is_outstanding(moment))


ENDINGS: Final = (
    PolicyRule(
        NOT_OURS,
        lambda moment: isinstance(moment.view, Refused) and moment.is_denied(NOT_OURS),
        "the service does not take our token, in three rounds over 30 minutes",
    ),
    PolicyRule(
        NO_SUCH_HOST,
        lambda moment: isinstance(moment.view, NoHost) and moment.is_denied(NO_SUCH_HOST),
        "the service knows no such host any more, in three rounds over 30 minutes",
    ),
    PolicyRule(
        "installed",
        _is_installed,
        "the service says that the host is installed, and it was not added on day two",
    ),
    PolicyRule(
        "kubelet-up",
        _is_up_and_told,
        "the kubelet is up on the control plane's configuration, and nothing is wrong or the host has joined",
    ),
    PolicyRule(
        "time-limit",
        lambda moment: moment.is_over_limit and moment.is_last_boot,
        "this boot has taken longer than `time_limit`",
    ),
    PolicyRule(
        "lifetime",
        lambda moment: moment.lived >= moment.settings.lifetime,
        "the host was up for longer than `lifetime`, all boots together",
    ),
)
"""Reasons to stop for good, and clean up."""

QUIET: Final = PolicyRule(
    "quiet",
    lambda moment: moment.is_quiet,
    "this boot has taken longer than `time_limit`, and another is expected: it is waited for without a word, "
    "but a bundle that nobody took is offered after twice that time, four times, and so on",
)


def is_undelivered(moment: Moment) -> bool:
    """Return whether something is, or was, wrong with the host that no destination has a bundle of.

    A bundle whose place on the host the service was told of, or that stays there for the sake of the agent's
    logs, has not arrived, either.
    """
    if not moment.is_wrong:
        return moment.has_undelivered
    is_delivered = moment.state.is_delivered(moment.evidence.fingerprint)
    return not is_delivered or Fact.KEPT in moment.state.told or shipments.keeps_bundle(moment)


def decide(settings: Settings, state: ReporterState, view: View | None, evidence: HostEvidence) -> RoundPlan:
    """Return what to do now. `view` is None when the service was not asked; see `asks`.

    Decide anew, with the state of `after`, until a plan `is_last`: an answer may ask for another form, or
    another slot. A stop is carried out after everything else.
    """
    moment = Moment(settings, state, evidence, view)
    end = first(ENDINGS, moment)
    undelivered = is_undelivered(moment)
    stop = Stop(rule=end.name, reason=end.reason, is_undelivered=undelivered) if end else None
    if end is None and QUIET.holds(moment):
        quiet = RoundPlan(why=(QUIET.line,))
        return _with_shipments(quiet, moment, (shipments.SPOOLED,)) if moment.is_offered_again else quiet
    plan = _with_stages(RoundPlan(stop=stop, why=(end.line,) if end else ()), moment)
    is_well = _is_up_and_well(moment)
    if stop is not None and (is_well or not (moment.is_wrong or stop.rule in _LIMITS)):
        return _with_shipments(plan, moment, (shipments.SPOOLED,)) if undelivered else plan
    return plan if is_well else _with_shipments(plan, moment)


_LIMITS = frozenset({"time-limit", "lifetime"})
"""Endings that a bundle goes before even when nothing is wrong."""


def _with_stages(plan: RoundPlan, moment: Moment) -> RoundPlan:
    if moment.settings.service is None:
        return plan
    facts, place = facts_with_service(moment), place_report(moment)
    silence = first(SILENCES, moment)
    if silence is not None and place is not None:
        return replace(plan, told=facts, report=(place,), why=(*plan.why, f"reported: {place.fact}"))
    if silence is not None:
        return replace(plan, told=facts, why=(*plan.why, f"not reported: {silence.line}"))
    report = stage_report(moment)
    return replace(plan, report=(report,), why=(*plan.why, f"reported: {report.fact}"))


@dataclass(frozen=True, slots=True)
class _Wish:
    target: Target
    reason: Want
    shipment: Shipment | None


def _wishes(moment: Moment, rows: tuple[Want, ...], *, is_end: bool) -> Iterator[_Wish]:
    for target in shipments.targets(moment):
        reason = shipments.want(moment, target, rows)
        if reason is not None:
            yield _Wish(target, reason, shipments.shipment(moment, target, reason, is_last=is_end))


def _with_shipments(plan: RoundPlan, moment: Moment, rows: tuple[Want, ...] = shipments.WANTS) -> RoundPlan:
    wishes = list(_wishes(moment, rows, is_end=plan.stop is not None))
    affordable = [(want, want.shipment) for want in wishes if want.shipment is not None]
    newer = [want for want, _ in affordable if want.reason is not shipments.SPOOLED]
    if newer:  # the spool holds one bundle: a newer one takes its place
        affordable = [(want, shipment) for want, shipment in affordable if want in newer]
    gather = any(not shipments.is_fresh(moment, want.reason) for want in newer)
    why = [
        f"{want.target.kind}: {want.reason.name}: {want.reason.reason}"
        + ("" if want.shipment else ", but its budget is spent")
        for want in wishes
    ]
    keeps = shipments.keeps_bundle(moment)
    if keeps:
        why.append("host: left: the agent's own logs are there; the bundle stays on the host")
    return replace(
        plan,
        gather=gather,
        keeps=keeps,
        bundle_bytes=min((shipment.most for _, shipment in affordable), default=0),
        ship=tuple(shipment for want, shipment in affordable if shipments.is_reachable(moment, want.target)),
        why=(*plan.why, *why),
    )
