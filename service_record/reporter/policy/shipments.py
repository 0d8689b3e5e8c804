"""Choose the shipments of a round, and decide when a round sends nothing at all. Pure.

No destination gets more than its budget. Except for the baselines, none gets the same bundle twice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import floor, log2
from typing import Final

from service_record.reporter.policy.round_context import (
    HOST,
    HOST_BOOT,
    MOST_VERDICTS,
    SERVICE,
    STAGE_CALLS,
    Fact,
    RoundContext,
    Shipment,
    Target,
    kind_of,
)
from service_record.reporter.settings import HostLogsPolicy, Send
from service_record.reporter.state import Usage

PROBE_BYTES: Final = 4096
"""The bytes that a budget reserves for a probe. A probe does not count as an upload."""
_MIN_BUNDLE_BYTES: Final = 1 << 16
"""The least size of a useful bundle."""
_MAX_TRIES: Final = 2


@dataclass(frozen=True, slots=True)
class ShipRule:
    """A reason to ship a bundle to a destination. The first rule that holds decides."""

    name: str
    holds: Callable[[RoundContext, Usage], bool]
    """Called with the context and the uploads of the destination."""
    reason: str
    needs_answer: bool = False
    """True if the reason applies only while the destination is reachable."""


def _is_new(context: RoundContext, usage: Usage) -> bool:
    return context.evidence.fingerprint not in usage.fingerprints


def _is_spooled(context: RoundContext, usage: Usage) -> bool:
    bundle = context.state.bundle
    if bundle is None or bundle.fingerprint in context.state.bundles_with_secrets:
        return False
    return bundle.fingerprint not in usage.fingerprints


def _has_no_baseline(context: RoundContext, usage: Usage) -> bool:
    """Return whether the destination has no bundle of this boot, and may get one.

    It may not if the new bundle would replace that of an earlier trouble in the spool: there may be no copy.
    """
    bundle = context.state.bundle
    if usage.bundle_boot == context.evidence.boot_id:
        return False
    return bundle is None or not bundle.is_wrong or context.has_present_bundle


NEAR: Final = ShipRule(
    "limit-near",
    lambda context, usage: context.near_limit is not None and usage.near_limit != context.near_limit,
    "the last round before a limit; once for each limit",
)
WRONG: Final = ShipRule(
    "wrong",
    lambda context, usage: context.is_wrong and _is_new(context, usage),
    "the host has a trouble that the destination does not have yet",
)
EACH: Final = ShipRule(
    "each-round",
    lambda context, usage: context.settings.send is Send.ALWAYS and usage.round != context.evidence.round,
    "`send = always`",
)
CHANGED: Final = ShipRule(
    "changed",
    lambda context, usage: context.settings.send is Send.WHEN_CHANGED and _is_new(context, usage),
    "`send = when-changed`, and something changed",
)
SPOOLED: Final = ShipRule(
    "spooled", _is_spooled, "an earlier bundle is in the spool, and no newer one is needed"
)
BASELINE: Final = ShipRule(
    "baseline",
    _has_no_baseline,
    "the destination answers, and has no bundle of this boot; sent even if nothing is wrong",
    needs_answer=True,
)
SHIP_RULES: Final = (NEAR, WRONG, EACH, CHANGED, SPOOLED, BASELINE)


def targets(context: RoundContext) -> Iterator[Target]:
    """Yield the usable destinations. The service is one: `HOST_BOOT`, or `HOST` if it refused `HOST_BOOT`."""
    refused = context.state.refused
    if context.settings.service is not None:
        if HOST_BOOT not in refused:
            yield Target(kind=HOST_BOOT)
        elif HOST not in refused and context.settings.host_logs is not HostLogsPolicy.NEVER:
            yield Target(kind=HOST)
    for to in dict.fromkeys(context.settings.ship_to):
        if kind_of(to) not in refused:
            yield Target(kind=kind_of(to), to=to)


def find_reason(
    context: RoundContext, target: Target, rules: tuple[ShipRule, ...] = SHIP_RULES
) -> ShipRule | None:
    """Return the first of these reasons to ship a bundle to this destination, or None."""
    state = context.state
    if context.evidence.fingerprint in state.bundles_with_secrets or target.kind in state.deferred:
        return None
    if target.kind == HOST and not context.is_wrong and protects_agent_logs(context):
        return None
    usage, answers = state.usage_at(target.destination), is_reachable(context, target)
    possible = (rule for rule in rules if answers or not rule.needs_answer)
    return next((rule for rule in possible if rule.holds(context, usage)), None)


def protects_agent_logs(context: RoundContext) -> bool:
    """Return whether the host's logs at the service must not be replaced.

    By default only the reporter's own uploads are replaced; on a healthy host, not those of a trouble.
    """
    view, settings, state = context.host_view, context.settings, context.state
    if view is None or not view.logs_info:
        return False
    is_ours = state.host_uploads > 0
    if not context.is_wrong and settings.send is Send.WHEN_WRONG:
        return not is_ours or state.has_wrong_host_logs
    return settings.host_logs is HostLogsPolicy.WHEN_EMPTY and not is_ours


def keeps_bundle(context: RoundContext) -> bool:
    """Return whether a bundle of a trouble stays on the host so that the agent's logs are not replaced."""
    if not context.is_wrong or context.state.bundle is None or not protects_agent_logs(context):
        return False
    return any(target.kind == HOST for target in targets(context))


def make_shipment(
    context: RoundContext, target: Target, reason: ShipRule, *, is_last: bool = False
) -> Shipment | None:
    """Return the shipment, limited to the rest of the budget, or None if that is too little.

    The last upload of each budget is reserved for the round before a limit, or for the last round. Baselines
    use only the first half of each budget, so that a host that reboots repeatedly can still report a new
    trouble. After a lost state the used amounts are unknown, so only one upload is allowed.
    """
    settings, usage = context.settings, context.state.usage_at(target.destination)
    shares = 2 if reason is BASELINE else 1
    reserve = 0 if reason in {NEAR, BASELINE} or is_last else 1
    uploads = min(
        _remaining(settings.uploads // shares, usage.uploads, reserve),
        _remaining(settings.uploads_per_boot // shares, usage.in_boot(context.evidence.boot_id), reserve),
    )
    if context.state.is_careful:
        uploads = min(uploads, (1 if reason is NEAR or is_last else 0) - usage.uploads)
    room = settings.total_bytes // shares - usage.bytes - PROBE_BYTES
    most = min(settings.upload_bytes, room)
    if uploads < 1 or most < _MIN_BUNDLE_BYTES:
        return None
    bundle = context.state.bundle
    return Shipment(
        kind=target.kind,
        to=target.to,
        most=most,
        tries=_MAX_TRIES if uploads >= _MAX_TRIES and room >= _MAX_TRIES * most else 1,
        fingerprint=bundle.fingerprint if reason is SPOOLED and bundle else context.evidence.fingerprint,
        near_limit=context.near_limit if reason is NEAR else None,
    )


def _remaining(budget: int, used: int, reserve: int) -> int:
    """Return the rest of a budget of uploads, without the reserve. A budget of one has no reserve."""
    return budget - used - (reserve if budget > 1 else 0)


def is_reachable(context: RoundContext, target: Target) -> bool:
    """Return whether to try the destination now. For the service, that requires a view in this round."""
    if context.is_paused(target.destination) or (target.kind == HOST and protects_agent_logs(context)):
        return False
    return target.destination != SERVICE or context.host_view is not None


def is_fresh(context: RoundContext, reason: ShipRule) -> bool:
    """Return whether the bundle in the spool is recent enough for a reason other than `SPOOLED`."""
    bundle = context.state.bundle
    if bundle is None or not context.has_present_bundle:
        return False
    return reason not in {NEAR, EACH} or bundle.uptime == context.evidence.uptime


HOUR_SECONDS: Final = 3600.0
_TIMER_SECONDS: Final = 60.0
"""The interval of the unit's timer. A round may be late by this time."""


def has_news(context: RoundContext) -> bool:
    """Return whether this round has something to send that no earlier round has made or sent."""
    settings, state, evidence = context.settings, context.state, context.evidence
    if settings.send is Send.ALWAYS:
        return True
    is_wanted = context.is_wrong or settings.send is Send.WHEN_CHANGED
    if not is_wanted or evidence.fingerprint in state.bundles_with_secrets:
        return False
    if state.bundle is not None and state.bundle.fingerprint == evidence.fingerprint:
        # This is called again after each step: a bundle of this round is still new.
        return (state.bundle.boot_id, state.bundle.uptime) == (evidence.boot_id, evidence.uptime)
    has_it = [usage for usage in state.usage.values() if evidence.fingerprint in usage.fingerprints]
    return all(usage.round == evidence.round for usage in has_it)


def spool_is_delivered(context: RoundContext) -> bool:
    """Return whether every usable destination has the bundle in the spool.

    False if no destination has it, even if none is usable.
    """
    state = context.state
    if state.bundle is None:
        return True
    fingerprint = state.bundle.fingerprint
    has_it = (fingerprint in state.usage_at(target.destination).fingerprints for target in targets(context))
    return state.is_delivered(fingerprint) and all(has_it)


def has_undelivered(context: RoundContext) -> bool:
    """Return whether the spool has a bundle of a trouble that no destination has."""
    bundle = context.state.bundle
    return bundle is not None and bundle.is_wrong and not context.state.is_delivered(bundle.fingerprint)


def waits_for_delivery(context: RoundContext) -> bool:
    """Return whether a trouble waits for a destination or the service to become reachable.

    True if no destination has the bundle although a budget has room for it, or if the verdict is unreported.
    A bundle whose place was reported to the service does not wait.
    """
    state, evidence, service = context.state, context.evidence, context.settings.service
    is_new = context.is_wrong and evidence.fingerprint not in state.bundles_with_secrets
    is_unshipped = has_undelivered(context) or (is_new and not state.is_delivered(evidence.fingerprint))
    if is_unshipped and Fact.KEPT not in state.reported:
        for target in targets(context):
            # Waiting does not help an upload that the agent's logs prevent.
            is_prevented = target.kind == HOST and protects_agent_logs(context)
            if not is_prevented and make_shipment(context, target, SPOOLED):
                return True
    if context.host_view is not None or service is None or not service.is_usable or not context.is_wrong:
        return False
    if context.has_reported_this_verdict or STAGE_CALLS in state.refused:
        return False
    return len(context.reported_verdicts) < MOST_VERDICTS


def is_past_time(context: RoundContext) -> bool:
    """Return whether this boot is over its time limit, and there is nothing new to send."""
    if not context.is_over_limit or context.boot.rounds == 1 or has_news(context):
        return False
    return not context.is_last_boot or waits_for_delivery(context)


def is_offered_again(context: RoundContext) -> bool:
    """Return whether a waiting reporter offers its undelivered bundle in this round.

    It does in the first round of each boot, but at most once an hour. Within a boot it does after twice
    `time_limit`, four times, and so on; and directly after `time_limit` if the limit or a denial would
    otherwise stop the reporter.
    """
    evidence, last_offer = context.evidence, context.state.last_offer
    if last_offer == context.lived:
        return True  # this round has recorded it already
    if not ((is_past_time(context) or context.is_denied()) and waits_for_delivery(context)):
        return False
    if last_offer is not None and context.lived - last_offer < HOUR_SECONDS:
        return False
    if context.boot.rounds == 1:
        return True
    limit = context.settings.time_limit
    if evidence.uptime < limit:
        return False
    doubled = limit * 2 ** floor(log2(evidence.uptime / limit))
    is_turn = evidence.uptime - doubled < context.settings.frequency + _TIMER_SECONDS
    return is_turn and (doubled > limit or context.is_last_boot or context.is_denied())


def is_quiet(context: RoundContext) -> bool:
    """Return whether this round makes no requests at all."""
    return is_past_time(context) and not is_offered_again(context)


def reads_view(context: RoundContext) -> bool:
    """Return whether this round reads the service's view of the host."""
    service = context.settings.service
    if service is None or not service.is_usable or context.is_paused(SERVICE):
        return False
    if context.is_denied() and waits_for_delivery(context):
        return is_offered_again(context)
    return not is_quiet(context)
