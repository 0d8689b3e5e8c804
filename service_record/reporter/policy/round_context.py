"""The input of all rules, `RoundContext`, and their result, `RoundPlan`. Pure."""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from service_record.http.answers import Outcome
from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import HostView, View
from service_record.reporter.settings import COLLECTOR, Settings
from service_record.reporter.state import BootSeen, ReporterState

HOST_BOOT: Final = "host_boot"
"""The log type for logs of a boot. Only some services have it."""
HOST: Final = "host"
"""The log type for logs of a host. An upload replaces the logs from before the reboot."""
SERVICE: Final = "assisted-service"
"""The destination of both log types, which share its budget."""
NOT_OURS: Final = "not-ours"
NO_SUCH_HOST: Final = "gone"
"""`NOT_OURS` and `NO_SUCH_HOST` are the stop rules for denials by the service."""
LONGEST_INFO: Final = 2048
"""The longest `progress_info`, in characters. The service answers 500 to a longer one."""


class Fact(StrEnum):
    """A fact that is reported to the service once. The first two are stages, if the service knows them."""

    LOCAL = "Booted with local ignition"
    CONTROL_PLANE = "Booted with control plane ignition"
    KEPT = "Boot logs kept on the host"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """A report for the assisted-service: one PUT of a stage and its information."""

    fact: str
    """A `Fact`, or the name of a verdict in the state."""
    stage: str
    info: str
    place: str = ""
    """The place of the bundle, as text. If it is set, the report includes the verdict; see `words()`."""

    def words(self, verdict: str) -> str:
        """Return the text for `progress_info`. The verdict is cut so that the other parts fit."""
        if not self.place:
            return self.info
        room = LONGEST_INFO - len(joined(self.info, self.place)) - len(". ")
        return joined(self.info, verdict[: max(room, 0)], self.place)

    @property
    def is_new_stage(self) -> bool:
        return self.stage == self.fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """The upload of a bundle to a destination."""

    kind: str
    """The name of the destination, without secrets; for the assisted-service, the log type."""
    to: str = field(default="", repr=False)
    """The destination as in `ship_to`. Empty for the assisted-service."""
    most: int
    """The size limit of the bundle, in bytes."""
    tries: int = 1
    """The limit of tries in this round."""
    fingerprint: str
    """The fingerprint of the bundle's evidence."""
    last_word: str | None = None
    """The limit that is near, if that is why the bundle is shipped."""

    @property
    def destination(self) -> str:
        """Return the name of the destination whose budget it uses."""
        return SERVICE if self.kind in {HOST_BOOT, HOST} else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The decision to stop permanently."""

    rule: str
    reason: str
    is_undelivered: bool = False
    """True if a trouble has no delivered bundle. The bundle is kept then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """The next steps of this round, in this order. After reports or shipments, call `decide` again."""

    report: tuple[StageReport, ...] = ()
    told: tuple[Fact, ...] = ()
    """Facts that the service has already."""
    gather: bool = False
    """True to make a bundle. If false, the bundle to ship is in the spool already."""
    bundle_bytes: int = 0
    """The size limit of the new bundle."""
    ship: tuple[Shipment, ...] = ()
    keeps: bool = False
    """True if the bundle stays in the spool because the service has the agent's logs."""
    stop: Stop | None = None
    why: tuple[str, ...] = ()
    """A line for each rule that decided: `NAME: REASON`."""

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


def joined(*words: str) -> str:
    return ". ".join(filter(None, words))


def kind_of(target: str) -> str:
    """Return the name of a destination in `ship_to`. A digest replaces the secret parts of a URL."""
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
"""The reporter acts on denials after this number of rounds over at least this time. A service with local
authentication answers 401 while its database is down.
"""
_JOINED: Final = "Joined"
STAGE_CALLS: Final = "stage"
"""The key of `ReporterState.refused` for a service that refuses stages."""
MOST_TRIES: Final = 6
"""The limit of requests for one fact, including those of killed rounds."""
MOST_VERDICTS: Final = 4
VERDICT: Final = "verdict "
"""The prefix of the names of reported verdicts in the state."""


@dataclass(frozen=True)
class RoundContext:
    """Settings, state, evidence, and the service's view of the host. The view is None if it was not read."""

    settings: Settings
    state: ReporterState
    evidence: HostEvidence
    view: View | None = None

    @property
    def host_view(self) -> HostView | None:
        """Return the view if it has this host, else None."""
        return self.view if isinstance(self.view, HostView) else None

    @property
    def stage(self) -> str:
        """Return the current stage at the service; empty if it is unknown."""
        return self.host_view.stage if self.host_view else ""

    @cached_property
    def boot(self) -> BootSeen:
        boot = self.state.boot(self.evidence.boot_id)
        return boot or BootSeen(boot_id=self.evidence.boot_id)

    @cached_property
    def is_later_boot(self) -> bool:
        """Return whether the reporter has run in an earlier boot."""
        return self.state.ordinal(self.evidence.boot_id) > 1

    @cached_property
    def fact(self) -> Fact:
        """Return the present fact of the host. `CONTROL_PLANE` is never followed by `LOCAL`.

        While the machine configuration is pending, the fact is `LOCAL`. After that, any later boot is
        `CONTROL_PLANE`. So is a first boot whose kubelet has run: some hosts boot from disk only once.
        """
        if Fact.CONTROL_PLANE in {*self.state.told, *self.state.dropped}:
            return Fact.CONTROL_PLANE
        traces = self.evidence.traces
        if traces.is_pending:
            return Fact.LOCAL
        has_run = traces.has_kubelet or self.evidence.kubelet_healthy
        if self.is_later_boot or (traces.is_applied and has_run):
            return Fact.CONTROL_PLANE
        return Fact.CONTROL_PLANE if self.stage == _JOINED else Fact.LOCAL

    @cached_property
    def is_last_boot(self) -> bool:
        """Return whether no further boot is expected, so that the reporter may stop at `time_limit`."""
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
        """Return the total uptime of all boots in seconds, up to the last round of each."""
        return self.state.uptime_before(self.evidence.boot_id) + self.evidence.uptime

    @cached_property
    def limit_near(self) -> str | None:
        """Return the limit that expires before the next round: the id of this boot, or `lifetime`."""
        ahead = self.settings.frequency + self.settings.jitter
        if self.evidence.uptime + ahead >= self.settings.time_limit:
            return self.evidence.boot_id
        return LIFETIME if self.lived + ahead >= self.settings.lifetime else None

    @cached_property
    def is_wrong(self) -> bool:
        """Return whether the host has a trouble.

        A service that a reboot interrupted counts from the second round of a boot on, because services take a
        while to start again after a planned reboot.
        """
        if not self.evidence.is_wrong:
            return False
        return not self.evidence.is_only_reboot or self.boot.rounds > 1

    @cached_property
    def verdict_name(self) -> str:
        """Return the prefix of the name of the present verdict. The bundle's place follows it."""
        return f"{VERDICT}{(self.evidence.trouble or self.evidence.fingerprint)[:16]}: "

    @cached_property
    def told_verdicts(self) -> tuple[str, ...]:
        return tuple(name for name in self.state.told if name.startswith(VERDICT))

    def is_denied(self, rule: str | None = None) -> bool:
        """Return whether the service has denied the host in enough rounds, over a long enough time."""
        row = self.state.denial
        if row is None or rule not in {None, row.rule}:
            return False
        return row.rounds >= DENIED_ROUNDS and row.until - row.since >= DENIED_SECONDS

    def is_paused(self, destination: str) -> bool:
        """Return whether a pause that the destination requested (`Retry-After`) is not over yet."""
        return self.state.is_paused(destination, self.evidence.boot_id, self.evidence.uptime)


def round_of(evidence: HostEvidence) -> str:
    """Return a unique name for the round with this evidence."""
    return f"{evidence.boot_id} {evidence.uptime:.2f}"
