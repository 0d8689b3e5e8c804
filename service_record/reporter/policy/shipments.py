"""Choose what is shipped, and decide when a round asks nobody and ships nothing. Pure.

No destination gets more than its budget. Beside the baseline of each boot, none gets the same twice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import floor, log2
from typing import Final

from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import HostView
from service_record.reporter.policy.round_context import (
    HOST,
    HOST_BOOT,
    MOST_VERDICTS,
    SERVICE,
    STAGE_CALLS,
    Fact,
    RoundContext,
    Shipment,
    kind_of,
)
from service_record.reporter.settings import HostLogsPolicy, Send, Settings
from service_record.reporter.state import ReporterState, Spent

PROBE_BYTES: Final = 4096
"""The cost of asking for a type of logs, at most; a probe is no upload."""
_LEAST: Final = 1 << 16
"""A bundle smaller than this would explain nothing."""
_TRIES: Final = 2


@dataclass(frozen=True, slots=True)
class Target:
    """A destination that is not ruled out."""

    kind: str
    to: str = ""

    @property
    def destination(self) -> str:
        return SERVICE if self.kind in {HOST_BOOT, HOST} else self.kind


@dataclass(frozen=True, slots=True)
class Want:
    """A row of the table: why a destination wants a bundle. The first that holds counts."""

    name: str
    holds: Callable[[RoundContext, Spent], bool]
    """Given what the destination has got."""
    reason: str
    is_for_the_reachable: bool = False
    """True if no bundle is made for a destination that cannot be reached now."""


def _is_new(context: RoundContext, spent: Spent) -> bool:
    return context.evidence.fingerprint not in spent.fingerprints


def _is_near(context: RoundContext, spent: Spent) -> bool:
    return context.limit_near is not None and spent.last_word != context.limit_near


def _is_spooled(context: RoundContext, spent: Spent) -> bool:
    bundle = context.state.bundle
    return bundle is not None and bundle.fingerprint not in {*spent.fingerprints, *context.state.withheld}


def _has_no_baseline(context: RoundContext, spent: Spent) -> bool:
    """Return whether the destination has no bundle of this boot, and may get one.

    A newer bundle would take the place of an earlier trouble's in the spool, which nobody else may have.
    """
    bundle, evidence = context.state.bundle, context.evidence
    if spent.bundle_boot == evidence.boot_id:
        return False
    is_current = bundle is not None and (bundle.boot_id, bundle.fingerprint) == (
        evidence.boot_id,
        evidence.fingerprint,
    )
    return bundle is None or not bundle.is_wrong or is_current


NEAR: Final = Want(
    "limit-near", _is_near, "the last round before a limit: what is known by then, once for each limit"
)
WRONG: Final = Want(
    "wrong",
    lambda context, spent: context.is_wrong and _is_new(context, spent),
    "the host has a trouble that the destination does not have yet",
)
EACH: Final = Want(
    "each-round",
    lambda context, spent: context.settings.send is Send.ALWAYS and spent.round != context.round,
    "`send = always`",
)
CHANGED: Final = Want(
    "changed",
    lambda context, spent: context.settings.send is Send.WHEN_CHANGED and _is_new(context, spent),
    "`send = when-changed`, and something changed",
)
SPOOLED: Final = Want(
    "spooled", _is_spooled, "an earlier bundle lies in the spool, and nothing newer is wanted"
)
BASELINE: Final = Want(
    "baseline",
    _has_no_baseline,
    "the destination has no bundle of this boot, and answers: one is sent, whether something is wrong or not",
    is_for_the_reachable=True,
)
WANTS: Final = (NEAR, WRONG, EACH, CHANGED, SPOOLED, BASELINE)


def targets(context: RoundContext) -> Iterator[Target]:
    """Yield the destinations; of the service's slots only one, the host's when that for boots is refused."""
    refused = context.state.refused
    if context.settings.service is not None:
        if HOST_BOOT not in refused:
            yield Target(HOST_BOOT)
        elif HOST not in refused and context.settings.host_logs is not HostLogsPolicy.NEVER:
            yield Target(HOST)
    for to in dict.fromkeys(context.settings.ship_to):
        if kind_of(to) not in refused:
            yield Target(kind_of(to), to)


def want(context: RoundContext, target: Target, rows: tuple[Want, ...] = WANTS) -> Want | None:
    """Return why this destination wants a bundle, of these reasons; None when it wants none."""
    state = context.state
    is_withheld = context.evidence.fingerprint in state.withheld or target.kind in state.deferred
    if is_withheld or (target.kind == HOST and not context.is_wrong and has_agents_logs(context)):
        return None
    spent = state.spent_at(target.destination)
    is_reached = is_reachable(context, target)
    possible = (row for row in rows if is_reached or not row.is_for_the_reachable)
    return next((row for row in possible if row.holds(context, spent)), None)


def has_agents_logs(context: RoundContext) -> bool:
    """Return whether the service's slot for the host's logs is to be left as it is.

    By default only our own logs in it are replaced; of a healthy host, not even those of an earlier trouble.
    """
    view, settings, state = context.view, context.settings, context.state
    if not (isinstance(view, HostView) and view.logs_info):
        return False
    is_ours = state.host_uploads > 0
    if not context.is_wrong and settings.send is Send.WHEN_WRONG:
        return not is_ours or state.has_wrong_host_logs
    return settings.host_logs is HostLogsPolicy.WHEN_EMPTY and not is_ours


def keeps_bundle(context: RoundContext) -> bool:
    """Return whether a bundle of what is wrong stays on the host, for the sake of the agent's logs."""
    is_wanted = any(target.kind == HOST for target in targets(context))
    return is_wanted and context.is_wrong and context.state.bundle is not None and has_agents_logs(context)


def shipment(
    context: RoundContext, target: Target, reason: Want, *, is_last: bool = False
) -> Shipment | None:
    """Return the shipment, within what is left of the budget; None when that is too little.

    Of each budget the last upload is for the round before a limit, or for the last round of all. Baselines
    take the first half of each budget only: a host that reboots again and again must still be able to report
    a new trouble. After a lost state the spent amounts are unknown, and one upload is all there is.
    """
    settings, spent = context.settings, context.state.spent_at(target.destination)
    shares = 2 if reason is BASELINE else 1
    kept_back = 0 if reason in {NEAR, BASELINE} or is_last else 1
    uploads = min(
        _remaining(settings.uploads // shares, spent.uploads, kept_back),
        _remaining(settings.uploads_per_boot // shares, spent.in_boot(context.evidence.boot_id), kept_back),
    )
    if context.state.is_careful:
        uploads = min(uploads, (1 if reason is NEAR or is_last else 0) - spent.uploads)
    room = settings.total_bytes // shares - spent.bytes - PROBE_BYTES
    most = min(settings.upload_bytes, room)
    if uploads < 1 or most < _LEAST:
        return None
    bundle = context.state.bundle
    return Shipment(
        kind=target.kind,
        to=target.to,
        most=most,
        tries=_TRIES if uploads >= _TRIES and room >= _TRIES * most else 1,
        fingerprint=bundle.fingerprint if reason is SPOOLED and bundle else context.evidence.fingerprint,
        last_word=context.limit_near if reason is NEAR else None,
    )


def _remaining(budget: int, spent: int, kept_back: int) -> int:
    """Return the rest of a budget of uploads; a budget of one has none to keep back."""
    return budget - spent - (kept_back if budget > 1 else 0)


def is_reachable(context: RoundContext, target: Target) -> bool:
    """Return whether the destination is worth a try now: the service only when it has just answered."""
    if context.is_paused(target.destination) or (target.kind == HOST and has_agents_logs(context)):
        return False
    return target.destination != SERVICE or isinstance(context.view, HostView)


def is_fresh(context: RoundContext, reason: Want) -> bool:
    """Return whether the bundle in the spool is the one that is wanted for a reason other than `SPOOLED`."""
    bundle, evidence = context.state.bundle, context.evidence
    if bundle is None:
        return False
    tells_it = bundle.boot_id == evidence.boot_id and bundle.fingerprint == evidence.fingerprint
    return tells_it and (reason not in {NEAR, EACH} or bundle.uptime == evidence.uptime)


HOUR_SECONDS: Final = 3600.0
_TIMER_SECONDS: Final = 60.0
"""The unit's timer looks each minute whether a round is due: one may be that late."""


def has_news(context: RoundContext) -> bool:
    """Return whether this round has a bundle to send that no earlier round has made or sent."""
    settings, state, evidence = context.settings, context.state, context.evidence
    if settings.send is Send.ALWAYS:
        return True
    is_wanted = context.is_wrong or settings.send is Send.WHEN_CHANGED
    if not is_wanted or evidence.fingerprint in state.withheld:
        return False
    if state.bundle is not None and state.bundle.fingerprint == evidence.fingerprint:
        # Decided anew after each step: a bundle of this very round is still news.
        return (state.bundle.boot_id, state.bundle.uptime) == (evidence.boot_id, evidence.uptime)
    has_it = [spent for spent in state.spent.values() if evidence.fingerprint in spent.fingerprints]
    return all(spent.round == context.round for spent in has_it)


def spool_is_delivered(context: RoundContext) -> bool:
    """Return whether every destination that is not ruled out has the bundle in the spool.

    A bundle that none of them has stays, also when all of them are ruled out.
    """
    state = context.state
    if state.bundle is None:
        return True
    fingerprint = state.bundle.fingerprint
    has_it = (fingerprint in state.spent_at(target.destination).fingerprints for target in targets(context))
    return state.is_delivered(fingerprint) and all(has_it)


def has_undelivered(context: RoundContext) -> bool:
    """Return whether the spool has a bundle of something wrong with the host that no destination has."""
    bundle = context.state.bundle
    return bundle is not None and bundle.is_wrong and not context.state.is_delivered(bundle.fingerprint)


def waits_for_delivery(context: RoundContext) -> bool:
    """Return whether a trouble of this host has reached nobody because its destinations are away.

    That is a bundle that no destination has, although the budget of one has room for it, or a verdict that
    the service was not told. A bundle whose place the service knows stays on the host, and waits for nothing.
    """
    state = context.state
    is_new = context.is_wrong and context.evidence.fingerprint not in state.withheld
    is_unshipped = has_undelivered(context) or (
        is_new and not state.is_delivered(context.evidence.fingerprint)
    )
    if is_unshipped and Fact.KEPT not in state.told:
        rows = ((target, shipment(context, target, SPOOLED)) for target in targets(context))
        if any(found and not is_held_up(context, target) for target, found in rows):
            return True
    service = context.settings.service
    if isinstance(context.view, HostView) or service is None or not service.is_usable or not context.is_wrong:
        return False
    is_told = any(name.startswith(context.verdict_name) for name in context.told_verdicts)
    return not (is_told or STAGE_CALLS in state.refused or len(context.told_verdicts) >= MOST_VERDICTS)


def is_held_up(context: RoundContext, target: Target) -> bool:
    """Return whether only the agent's logs keep the bundle from this slot: waiting would change nothing."""
    return target.kind == HOST and has_agents_logs(context)


def is_past_time(context: RoundContext) -> bool:
    """Return whether this boot had its time, and there is nothing new to send."""
    if not context.is_over_limit or context.boot.rounds == 1 or has_news(context):
        return False
    return not context.is_last_boot or waits_for_delivery(context)


def is_offered_again(context: RoundContext) -> bool:
    """Return whether a waiting reporter offers in this round what nobody took.

    It does in the first round of each boot, but once an hour at most, and in a boot beyond its limit after
    twice `time_limit`, four times, and so on. Where the limit or a denial would be the end, the first round
    after the limit asks, too.
    """
    evidence, offered = context.evidence, context.state.offered
    if offered == context.lived:
        return True  # decided at the beginning of this round; the service's answer changes nothing of it
    if not ((is_past_time(context) or context.is_denied()) and waits_for_delivery(context)):
        return False
    if offered is not None and context.lived - offered < HOUR_SECONDS:
        return False
    if context.boot.rounds == 1:
        return True
    limit = max(context.settings.time_limit, 1.0)
    if evidence.uptime < limit:
        return False
    doubled = limit * 2 ** floor(log2(evidence.uptime / limit))
    is_turn = evidence.uptime - doubled < context.settings.frequency + _TIMER_SECONDS
    return is_turn and (doubled > limit or context.is_last_boot or context.is_denied())


def is_quiet(context: RoundContext) -> bool:
    """Return whether this round asks nobody and ships nothing."""
    return is_past_time(context) and not is_offered_again(context)


def asks(settings: Settings, state: ReporterState, evidence: HostEvidence) -> bool:
    """Return whether this round asks the assisted-service for its view of the host."""
    context = RoundContext(settings, state, evidence)
    if settings.service is None or not settings.service.is_usable or context.is_paused(SERVICE):
        return False
    if context.is_denied() and waits_for_delivery(context):
        return is_offered_again(context)
    return not is_quiet(context)


def with_offer(settings: Settings, state: ReporterState, evidence: HostEvidence) -> ReporterState:
    """Return the state with the time of this round, if it offers again what nobody took."""
    context = RoundContext(settings, state, evidence)
    return replace(state, offered=context.lived) if is_offered_again(context) else state
