"""The context of one round, which all rules read, and the plan that they make. Pure."""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from service_record.http.answers import Outcome
from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import HostView, View
from service_record.reporter.setting_table import COLLECTOR
from service_record.reporter.settings import Settings
from service_record.reporter.state import BootSeen, ReporterState

HOST_BOOT: Final = "host_boot"
"""The service's slot of logs for boots, where it has one."""
HOST: Final = "host"
"""The service's slot of logs for a host, which an upload takes from the logs before the reboot."""
SERVICE: Final = "assisted-service"
"""The destination that both slots are of, and whose budget they share."""
NOT_OURS: Final = "not-ours"
NO_SUCH_HOST: Final = "gone"
"""The endings that the service speaks for by denying the host."""
_MOST_INFO: Final = 2048


class Fact(StrEnum):
    """A fact that the service is told of a host, once. The first two are stages where it knows them."""

    LOCAL = "Booted with local ignition"
    CONTROL_PLANE = "Booted with control plane ignition"
    KEPT = "Boot logs kept on the host"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """A fact for the assisted-service: one PUT of a stage and its information."""

    fact: str
    """A `Fact`, or the name under which a verdict is remembered."""
    stage: str
    info: str
    place: str = ""
    """Where the bundle is. With it, the report also has the verdict; see `words`."""

    def words(self, verdict: str) -> str:
        """Return the words for `progress_info`: the verdict is cut so that the other parts fit."""
        if not self.place:
            return self.info
        room = _MOST_INFO - len(joined(self.info, self.place)) - len(". ")
        return info(joined(self.info, verdict[: max(room, 0)], self.place))

    @property
    def is_new_stage(self) -> bool:
        return self.stage == self.fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """A bundle for a destination."""

    kind: str
    """A name of the destination that is no secret; of the assisted-service, the type of logs."""
    to: str = field(default="", repr=False)
    """The destination, as `ship_to` names it; empty for the assisted-service."""
    most: int
    """Bytes: a larger bundle is not shipped."""
    tries: int = 1
    """The limit of tries in this round."""
    fingerprint: str
    """The fingerprint of what the bundle reports."""
    last_word: str | None = None
    """The limit that is near, when it is shipped for that."""

    @property
    def destination(self) -> str:
        """Return the name of the destination whose budget it uses."""
        return SERVICE if self.kind in {HOST_BOOT, HOST} else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The reporter's work here is over."""

    rule: str
    reason: str
    is_undelivered: bool = False
    """True while a bundle of what is wrong with the host has not arrived: it is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """The actions of this round, in this order. After stage reports or shipments, decide anew."""

    report: tuple[StageReport, ...] = ()
    told: tuple[Fact, ...] = ()
    """Facts that the service has already."""
    gather: bool = False
    """Make a bundle, into the spool. Without it, what is shipped is there already."""
    bundle_bytes: int = 0
    """The most that bundle may have."""
    ship: tuple[Shipment, ...] = ()
    keeps: bool = False
    """True when the bundle in the spool stays there because the service's slot has the agent's logs."""
    stop: Stop | None = None
    why: tuple[str, ...] = ()
    """The rules that decided, a line each: `NAME: REASON`."""

    @property
    def is_last(self) -> bool:
        """Return True if the next plan would be the same, because this one has no steps."""
        return not (self.report or self.told or self.gather or self.ship)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of a step of a plan."""

    step: StageReport | Shipment
    outcome: Outcome
    size: int = 0
    """The size of the bundle, in bytes."""


def info(words: str) -> str:
    """Words as the service can store them: 2048 characters without NUL; it answers 500 to others."""
    return words.replace("\0", "")[:_MOST_INFO]


def joined(*words: str) -> str:
    return ". ".join(filter(None, words))


def kind_of(target: str) -> str:
    """Return the name of a destination that `ship_to` has: what is secret in a URL is not in it."""
    if target.startswith("/"):
        return f"directory:{target}"
    plain = target.removeprefix(COLLECTOR)
    parts = urlsplit(plain)
    digest = hashlib.sha256(plain.encode()).hexdigest()[:12]
    beginning = "put" if plain == target else "collector"
    return f"{beginning}:{parts.scheme}://{parts.hostname}:{digest}"


LIFETIME: Final = "lifetime"
DENIED_ROUNDS: Final = 3
DENIED_SECONDS: Final = 1800.0
"""The time and the rounds over which the service must say that a host is not its own until that is
believed. With local authentication it answers 401 while its database is away.
"""
_JOINED: Final = "Joined"
STAGE_CALLS: Final = "stage"
"""The kind of call under which a refusal to take stages is remembered."""
MOST_TRIES: Final = 6
"""Requests for one fact, including those of rounds that were killed."""
MOST_VERDICTS: Final = 4
VERDICT: Final = "verdict "
"""The beginning of the names under which reported verdicts are remembered."""


@dataclass(frozen=True)
class RoundContext:
    """Settings, state, evidence, and the service's view of the host; the view is None if it was not asked."""

    settings: Settings
    state: ReporterState
    evidence: HostEvidence
    view: View | None = None

    @cached_property
    def boot(self) -> BootSeen:
        boot = self.state.boot(self.evidence.boot_id)
        return boot or BootSeen(boot_id=self.evidence.boot_id)

    @cached_property
    def is_later_boot(self) -> bool:
        """Return whether this is certainly not the first boot from disk that the reporter sees."""
        return self.state.ordinal(self.evidence.boot_id) > 1

    @cached_property
    def fact(self) -> Fact:
        """Return the fact about the host now. It never goes back.

        The machine configuration decides while it is pending. After that any later boot is one with it; the
        first is one when its kubelet has run: hosts that boot from disk only once get there without a reboot.
        """
        if Fact.CONTROL_PLANE in {*self.state.told, *self.state.dropped}:
            return Fact.CONTROL_PLANE
        traces = self.evidence.traces
        if traces.is_pending:
            return Fact.LOCAL
        has_run = traces.has_kubelet or self.evidence.kubelet_healthy
        if self.is_later_boot or (traces.is_applied and has_run):
            return Fact.CONTROL_PLANE
        isjoined = isinstance(self.view, HostView) and self.view.stage == _JOINED
        return Fact.CONTROL_PLANE if isjoined else Fact.LOCAL

    @cached_property
    def is_last_boot(self) -> bool:
        """Return whether no other boot is waited for: its limit is the end."""
        return self.is_later_boot or self.state.is_careful or self.fact is Fact.CONTROL_PLANE

    @cached_property
    def round(self) -> str:
        """Return the unique name of this round."""
        return round_of(self.evidence)

    @cached_property
    def is_over_limit(self) -> bool:
        return self.evidence.uptime >= self.settings.time_limit

    @cached_property
    def lived(self) -> float:
        """Return the host's uptime in seconds, all boots together, as far as rounds saw it."""
        return self.state.uptime_before(self.evidence.boot_id) + self.evidence.uptime

    @cached_property
    def limit_near(self) -> str | None:
        """Return the limit that comes before the next round: the id of this boot, or `lifetime`."""
        ahead = self.settings.frequency + self.settings.jitter
        if self.evidence.uptime + ahead >= self.settings.time_limit:
            return self.evidence.boot_id
        return LIFETIME if self.lived + ahead >= self.settings.lifetime else None

    @cached_property
    def is_wrong(self) -> bool:
        """Return whether a trouble is worth a bundle.

        A service that a reboot interrupted counts from the second round of a boot on: after a planned reboot,
        services take a while to start again.
        """
        if not self.evidence.is_wrong:
            return False
        return not self.evidence.is_reboots or self.boot.rounds > 1

    @cached_property
    def verdict_name(self) -> str:
        """Return the beginning of the name of a report of what is wrong now; the bundle's place follows."""
        return f"{VERDICT}{(self.evidence.trouble or self.evidence.fingerprint)[:16]}: "

    @cached_property
    def told_verdicts(self) -> tuple[str, ...]:
        return tuple(name for name in self.state.told if name.startswith(VERDICT))

    def is_denied(self, rule: str | None = None) -> bool:
        """Return whether the service has denied the host for long enough to be believed."""
        row = self.state.denial
        if row is None or rule not in {None, row.rule}:
            return False
        return row.rounds >= DENIED_ROUNDS and row.until - row.since >= DENIED_SECONDS

    def is_paused(self, destination: str) -> bool:
        """Return whether that destination has asked to be left alone for longer than until now."""
        return self.state.is_paused(destination, self.evidence.boot_id, self.evidence.uptime)


def round_of(evidence: HostEvidence) -> str:
    """Return a name of the round with this evidence that no other round of the host has."""
    return f"{evidence.boot_id} {evidence.uptime:.2f}"
