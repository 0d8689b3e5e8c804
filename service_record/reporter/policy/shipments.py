"""Choice of shipments: no destination gets more than its budget, or the same twice. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from service_record.reporter.host_view import HostView
from service_record.reporter.policy.moment import HOST, HOST_BOOT, SERVICE, Moment, Shipment, kind_of
from service_record.reporter.settings import HostLogsPolicy, Send
from service_record.reporter.state import Spent

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


def _is_new(moment: Moment, spent: Spent) -> bool:
    return moment.evidence.fingerprint not in spent.fingerprints


def _is_near(moment: Moment, spent: Spent) -> bool:
    return moment.limit_near is not None and spent.last_word != moment.limit_near


def _is_spooled(moment: Moment, spent: Spent) -> bool:
    bundle = moment.state.bundle
    return bundle is not None and bundle.fingerprint not in {*spent.fingerprints, *moment.state.withheld}


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
WANTS: Final = (NEAR, WRONG, EACH, CHANGED, SPOOLED)


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
    return next((row for row in rows if row.holds(moment, spent)), None)


def has_agents_logs(moment: Moment) -> bool:
    """Return whether the service's slot for the host's logs is to be left as it is.

    It is, by default, with any logs in it but our own; with our own, too, where all is well with the host.
    """
    view, settings = moment.view, moment.settings
    if not (isinstance(view, HostView) and view.logs_info):
        return False
    if not moment.is_wrong and settings.send is Send.WHEN_WRONG:
        return True
    return settings.host_logs is HostLogsPolicy.WHEN_EMPTY and moment.state.host_uploads == 0


def keeps_bundle(moment: Moment) -> bool:
    """Return whether a bundle of what is wrong stays on the host, for the sake of the agent's logs."""
    is_wanted = any(target.kind == HOST for target in targets(moment))
    return is_wanted and moment.is_wrong and moment.state.bundle is not None and has_agents_logs(moment)


def shipment(moment: Moment, target: Target, reason: Want, *, is_last: bool = False) -> Shipment | None:
    """Return the shipment, within what is left of the budget; None when that is too little.

    Of each budget the last upload is for the round before a limit, or for the last round of all. After a
    state that was lost nobody knows what was spent: that one upload is all there is.
    """
    settings, spent = moment.settings, moment.state.spent_at(target.destination)
    kept_back = 0 if reason is NEAR or is_last else 1
    uploads = min(
        _remaining(settings.uploads, spent.uploads, kept_back),
        _remaining(settings.uploads_per_boot, spent.in_boot(moment.evidence.boot_id), kept_back),
    )
    if moment.state.is_careful:
        uploads = min(uploads, 1 - kept_back - spent.uploads)
    room = settings.total_bytes - spent.bytes - PROBE_BYTES
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
