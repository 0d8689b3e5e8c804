"""Choose what is shipped, and decide when a round asks nobody and ships nothing. Pure.

No destination gets more than its budget. Beside the baseline of each boot, none gets the same twice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import floor, log2
from typing import Final

from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import HostView
from service_record.reporter.policy.moment import (
    HOST,
    HOST_BOOT,
    MOST_VERDICTS,
    SERVICE,
    STAGE_CALLS,
    Fact,
    Moment,
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
    holds: Callable[[Moment, Spent], bool]
    """Given what the destination has got."""
    reason: str
    is_for_the_reachable: bool = False
    """True if no bundle is made for a destination that cannot be reached now."""


def _is_new(moment: Moment, spent: Spent) -> bool:
    return moment.evidence.fingerprint not in spent.fingerprints


def _is_near(moment: Moment, spent: Spent) -> bool:
    return moment.limit_near is not None and spent.last_word != moment.limit_near


def _is_spooled(moment: Moment, spent: Spent) -> bool:
    bundle = moment.state.bundle
    return bundle is not None and bundle.fingerprint not in {*spent.fingerprints, *moment.state.withheld}


def _has_no_baseline(moment: Moment, spent: Spent) -> bool:
    """Return whether the destination has no bundle of this boot. One of a trouble stays in the spool."""
    bundle = moment.state.bundle
    return spent.bundle_boot != moment.evidence.boot_id and not (bundle is not None and bundle.is_wrong)


NEAR: Final = Want(
    "limit-near", _is_near, "the last round before a limit: what is known by then, once for each limit"
)
WRONG: Final = Want(
    "wrong",
    lambda moment, spent: moment.is_wrong and _is_new(moment, spent),
    "the host has a trouble that the destination does not have yet",
)
EACH: Final = Want(
    "each-round",
    lambda moment, spent: moment.settings.send is Send.ALWAYS and spent.round != moment.round,
    "`send = always`",
)
CHANGED: Final = Want(
    "changed",
    lambda moment, spent: moment.settings.send is Send.WHEN_CHANGED and _is_new(moment, spent),
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


def targets(moment: Moment) -> Iterator[Target]:
    """Yield the destinations; of the service's slots only one, the host's when that for boots is refused."""
    refused = moment.state.refused
    if moment.settings.service is not None:
        if HOST_BOOT not in refused:
            yield Target(HOST_BOOT)
        elif HOST not in refused and moment.settings.host_logs is not HostLogsPolicy.NEVER:
            yield Target(HOST)
    for to in dict.fromkeys(moment.settings.ship_to):
        if kind_of(to) not in refused:
            yield Target(kind_of(to), to)


def want(moment: Moment, target: Target, rows: tuple[Want, ...] = WANTS) -> Want | None:
    """Return why this destination wants a bundle, of these reasons; None when it wants none."""
    state = moment.state
    is_withheld = moment.evidence.fingerprint in state.withheld or target.kind in state.deferred
    if is_withheld or (target.kind == HOST and not moment.is_wrong and has_agents_logs(moment)):
        return None
    spent = state.spent_at(target.destination)
    is_reached = is_reachable(moment, target)
    possible = (row for row in rows if is_reached or not row.is_for_the_reachable)
    return next((row for row in possible if row.holds(moment, spent)), None)


def has_agents_logs(moment: Moment) -> bool:
    """Return whether the service's slot for the host's logs is to be left as it is.

    By default only our own logs in it are replaced; of a healthy host, not even those of an earlier trouble.
    """
    view, settings, state = moment.view, moment.settings, moment.state
    if not (isinstance(view, HostView) and view.logs_info):
        return False
    is_ours = state.host_uploads > 0
    if not moment.is_wrong and settings.send is Send.WHEN_WRONG:
        return not is_ours or state.has_wrong_host_logs
    return settings.host_logs is HostLogsPolicy.WHEN_EMPTY and not is_ours


def keeps_bundle(moment: Moment) -> bool:
    """Return whether a bundle of what is wrong stays on the host, for the sake of the agent's logs."""
    is_wanted = any(target.kind == HOST for target in targets(moment))
    return is_wanted and moment.is_wrong and moment.state.bundle is not None and has_agents_logs(moment)


def shipment(moment: Moment, target: Target, reason: Want, *, is_last: bool = False) -> Shipment | None:
    """Return the shipment, within what is left of the budget; None when that is too little.

    Of each budget the last upload is for the round before a limit, or for the last round of all. Baselines
    take the first half of each budget only: a host that reboots again and again must still be able to report
    a new trouble. After a lost state the spent amounts are unknown, and one upload is all there is.
    """
    settings, spent = moment.settings, moment.state.spent_at(target.destination)
    shares = 2 if reason is BASELINE else 1
    kept_back = 0 if reason in {NEAR, BASELINE} or is_last else 1
    uploads = min(
        _remaining(settings.uploads // shares, spent.uploads, kept_back),
        _remaining(settings.uploads_per_boot // shares, spent.in_boot(moment.evidence.boot_id), kept_back),
    )
    if moment.state.is_careful:
        uploads = min(uploads, (1 if reason is NEAR or is_last else 0) - spent.uploads)
    room = settings.total_bytes // shares - spent.bytes - PROBE_BYTES
    most = min(settings.upload_bytes, room)
    if uploads < 1 or most < _LEAST:
        return None
    bundle = moment.state.bundle
    return Shipment(
        kind=target.kind,
        to=target.to,
        most=most,
        tries=_TRIES if uploads >= _TRIES and room >= _TRIES * most else 1,
        fingerprint=bundle.fingerprint if reason is SPOOLED and bundle else moment.evidence.fingerprint,
        last_word=moment.limit_near if reason is NEAR else None,
    )


def _remaining(budget: int, spent: int, kept_back: int) -> int:
    """Return the rest of a budget of uploads; a budget of one has none to keep back."""
    return budget - spent - (kept_back if budget > 1 else 0)


def is_reachable(moment: Moment, target: Target) -> bool:
    """Return whether the destination is worth a try now: the service only when it has just answered."""
    if moment.is_paused(target.destination) or (target.kind == HOST and has_agents_logs(moment)):
        return False
    return target.destination != SERVICE or isinstance(moment.view, HostView)


def is_fresh(moment: Moment, reason: Want) -> bool:
    """Return whether the bundle in the spool is the one that is wanted for a reason other than `SPOOLED`."""
    bundle, evidence = moment.state.bundle, moment.evidence
    if bundle is None:
        return False
    tells_it = bundle.boot_id == evidence.boot_id and bundle.fingerprint == evidence.fingerprint
    return tells_it and (reason not in {NEAR, EACH} or bundle.uptime == evidence.uptime)


HOUR_SECONDS: Final = 3600.0
_TIMER_SECONDS: Final = 60.0
"""The unit's timer looks each minute whether a round is due: one may be that late."""


def has_news(moment: Moment) -> bool:
    """Return whether this round has a bundle to send that no earlier round has made or sent."""
    settings, state, evidence = moment.settings, moment.state, moment.evidence
    if settings.send is Send.ALWAYS:
        return True
    is_wanted = moment.is_wrong or settings.send is Send.WHEN_CHANGED
    if not is_wanted or evidence.fingerprint in state.withheld:
        return False
    if state.bundle is not None and state.bundle.fingerprint == evidence.fingerprint:
        # Decided anew after each step: a bundle of this very round is still news.
        return (state.bundle.boot_id, state.bundle.uptime) == (evidence.boot_id, evidence.uptime)
    has_it = [spent for spent in state.spent.values() if evidence.fingerprint in spent.fingerprints]
    return all(spent.round == moment.round for spent in has_it)


def spool_is_delivered(moment: Moment) -> bool:
    """Return whether every destination that is not ruled out has the bundle in the spool.

    A bundle that none of them has stays, also when all of them are ruled out.
    """
    state = moment.state
    if state.bundle is None:
        return True
    fingerprint = state.bundle.fingerprint
    has_it = (fingerprint in state.spent_at(target.destination).fingerprints for target in targets(moment))
    return state.is_delivered(fingerprint) and all(has_it)


def has_undelivered(moment: Moment) -> bool:
    """Return whether the spool has a bundle of something wrong with the host that no destination has."""
    bundle = moment.state.bundle
    return bundle is not None and bundle.is_wrong and not moment.state.is_delivered(bundle.fingerprint)


def waits_for_delivery(moment: Moment) -> bool:
    """Return whether a trouble of this host has reached nobody because its destinations are away.

    That is a bundle that no destination has, although the budget of one has room for it, or a verdict that
    the service was not told. A bundle whose place the service knows stays on the host, and waits for nothing.
    """
    state = moment.state
    is_new = moment.is_wrong and moment.evidence.fingerprint not in state.withheld
    is_unshipped = has_undelivered(moment) or (is_new and not state.is_delivered(moment.evidence.fingerprint))
    if is_unshipped and Fact.KEPT not in state.told:
        rows = ((target, shipment(moment, target, SPOOLED)) for target in targets(moment))
        if any(found and not is_held_up(moment, target) for target, found in rows):
            return True
    service = moment.settings.service
    if isinstance(moment.view, HostView) or service is None or not service.is_usable or not moment.is_wrong:
        return False
    is_told = any(name.startswith(moment.verdict_name) for name in moment.told_verdicts)
    return not (is_told or STAGE_CALLS in state.refused or len(moment.told_verdicts) >= MOST_VERDICTS)


def is_held_up(moment: Moment, target: Target) -> bool:
    """Return whether only the agent's logs keep the bundle from this slot: waiting would change nothing."""
    return target.kind == HOST and has_agents_logs(moment)


def is_past_time(moment: Moment) -> bool:
    """Return whether this boot had its time, and there is nothing new to send."""
    if not moment.is_over_limit or moment.boot.rounds == 1 or has_news(moment):
        return False
    return not moment.is_last_boot or waits_for_delivery(moment)


def is_offered_again(moment: Moment) -> bool:
    """Return whether a waiting reporter offers in this round what nobody took.

    It does in the first round of each boot, but once an hour at most, and in a boot beyond its limit after
    twice `time_limit`, four times, and so on. Where the limit or a denial would be the end, the first round
    after the limit asks, too.
    """
    evidence, offered = moment.evidence, moment.state.offered
    if offered == moment.lived:
        return True  # decided at the beginning of this round; the service's answer changes nothing of it
    if not ((is_past_time(moment) or moment.is_denied()) and waits_for_delivery(moment)):
        return False
    if offered is not None and moment.lived - offered < HOUR_SECONDS:
        return False
    if moment.boot.rounds == 1:
        return True
    limit = max(moment.settings.time_limit, 1.0)
    if evidence.uptime < limit:
        return False
    doubled = limit * 2 ** floor(log2(evidence.uptime / limit))
    is_turn = evidence.uptime - doubled < moment.settings.frequency + _TIMER_SECONDS
    return is_turn and (doubled > limit or moment.is_last_boot or moment.is_denied())


def is_quiet(moment: Moment) -> bool:
    """Return whether this round asks nobody and ships nothing."""
    return is_past_time(moment) and not is_offered_again(moment)


def asks(settings: Settings, state: ReporterState, evidence: HostEvidence) -> bool:
    """Return whether this round asks the assisted-service for its view of the host."""
    moment = Moment(settings, state, evidence)
    if settings.service is None or not settings.service.is_usable or moment.is_paused(SERVICE):
        return False
    if moment.is_denied() and waits_for_delivery(moment):
        return is_offered_again(moment)
    return not is_quiet(moment)


def with_offer(settings: Settings, state: ReporterState, evidence: HostEvidence) -> ReporterState:
    """Return the state with the time of this round, if it offers again what nobody took."""
    moment = Moment(settings, state, evidence)
    return replace(state, offered=moment.lived) if is_offered_again(moment) else state
