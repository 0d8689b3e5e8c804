"""The input of all rules, `RoundContext`, and their result, `RoundPlan`. Pure."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import MAX_INFO_CHARACTERS, HostView, View
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
LIFETIME: Final = "lifetime"
DENIED_ROUNDS: Final = 3
DENIED_SECONDS: Final = 1800.0
"""The reporter acts on denials after this number of rounds over at least this time. A service with local
authentication answers 401 while its database is down.
"""
STAGE_CALLS: Final = "stage"
"""The key of `ReporterState.refused` for a service that refuses stages."""
MOST_TRIES: Final = 6
"""The limit of requests for one fact, including those of killed rounds."""
MOST_VERDICTS: Final = 4
VERDICT: Final = "verdict "
"""The prefix of the names of reported verdicts in the state."""


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
        room = MAX_INFO_CHARACTERS - len(join_sentences(self.info, self.place)) - len(". ")
        return join_sentences(self.info, verdict[: max(room, 0)], self.place)

    @property
    def is_new_stage(self) -> bool:
        return self.stage == self.fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A destination of bundles."""

    kind: str
    """The name of the destination, without secrets; for the assisted-service, the log type."""
    to: str = field(default="", repr=False)
    """The destination as in `ship_to`. Empty for the assisted-service."""

    @property
    def destination(self) -> str:
        """Return the name of the destination whose budget it uses."""
        return SERVICE if self.kind in {HOST_BOOT, HOST} else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment(Target):
    """The upload of a bundle to a destination."""

    most: int
    """The size limit of the bundle, in bytes."""
    tries: int = 1
    """The limit of tries in this round."""
    fingerprint: str
    """The fingerprint of the bundle's evidence."""
    near_limit: str | None = None
    """The limit that is near, if that is why the bundle is shipped."""


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A row of a table of rules. The first rule that holds decides."""

    name: str
    holds: Callable[["RoundContext"], bool]
    reason: str

    @property
    def line(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """The next steps of this round, in this order. After reports or shipments, call `decide` again."""

    report: StageReport | None = None
    is_reported: bool = False
    """True if the service has the present fact already, from a round that was killed."""
    gather: bool = False
    """True to make a bundle. If false, the bundle to ship is in the spool already."""
    bundle_bytes: int = 0
    """The size limit of the new bundle."""
    ship: tuple[Shipment, ...] = ()
    keeps: bool = False
    """True if the bundle stays in the spool because the service has the agent's logs."""
    stop: PolicyRule | None = None
    """The rule by which the reporter stops permanently."""
    is_undelivered: bool = False
    """True if a trouble has no delivered bundle. A stop keeps the bundle then."""
    why: tuple[str, ...] = ()
    """A line for each rule that decided: `NAME: REASON`."""

    @property
    def is_last(self) -> bool:
        """Return True if the next plan would be the same, because this one has no steps."""
        return not (self.report or self.is_reported or self.gather or self.ship)


def join_sentences(*sentences: str) -> str:
    return ". ".join(filter(None, sentences))


def kind_of(target: str) -> str:
    """Return the name of a destination in `ship_to`. A digest replaces the secret parts of a URL."""
    if target.startswith("/"):
        return f"directory:{target}"
    url = target.removeprefix(COLLECTOR)
    parts = urlsplit(url)
    digest = hashlib.sha256(url.encode()).hexdigest()[:12]
    method = "put" if url == target else "collector"
    return f"{method}:{parts.scheme}://{parts.hostname}:{digest}"


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
        if Fact.CONTROL_PLANE in {*self.state.reported, *self.state.dropped}:
            return Fact.CONTROL_PLANE
        evidence = self.evidence
        if evidence.is_pending:
            return Fact.LOCAL
        if self.is_later_boot or (evidence.is_applied and (evidence.has_kubelet or evidence.kubelet_healthy)):
            return Fact.CONTROL_PLANE
        return Fact.CONTROL_PLANE if self.stage == "Joined" else Fact.LOCAL

    @cached_property
    def is_last_boot(self) -> bool:
        """Return whether no further boot is expected, so that the reporter may stop at `time_limit`."""
        return self.is_later_boot or self.state.is_careful or self.fact is Fact.CONTROL_PLANE

    @cached_property
    def is_over_limit(self) -> bool:
        return self.evidence.uptime >= self.settings.time_limit

    @cached_property
    def lived(self) -> float:
        """Return the total uptime of all boots in seconds, up to the last round of each."""
        return self.state.uptime_before(self.evidence.boot_id) + self.evidence.uptime

    @cached_property
    def near_limit(self) -> str | None:
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
    def has_present_bundle(self) -> bool:
        """Return whether the bundle in the spool is of this boot, and nothing has changed since."""
        bundle, evidence = self.state.bundle, self.evidence
        if bundle is None:
            return False
        return (bundle.boot_id, bundle.fingerprint) == (evidence.boot_id, evidence.fingerprint)

    @cached_property
    def verdict_name(self) -> str:
        """Return the prefix of the name of the present verdict. The bundle's place follows it."""
        return f"{VERDICT}{(self.evidence.trouble or self.evidence.fingerprint)[:16]}: "

    @cached_property
    def reported_verdicts(self) -> tuple[str, ...]:
        return tuple(name for name in self.state.reported if name.startswith(VERDICT))

    @cached_property
    def has_reported_this_verdict(self) -> bool:
        """Return whether the service has the present verdict, with any place of the bundle."""
        return any(name.startswith(self.verdict_name) for name in self.reported_verdicts)

    def find_rule(self, rules: Iterable[PolicyRule]) -> PolicyRule | None:
        """Return the first rule that holds, or None."""
        return next((rule for rule in rules if rule.holds(self)), None)

    def is_denied(self, rule: str | None = None) -> bool:
        """Return whether the service has denied the host in enough rounds, over a long enough time."""
        denial = self.state.denial
        if denial is None or rule not in {None, denial.rule}:
            return False
        return denial.rounds >= DENIED_ROUNDS and denial.until - denial.since >= DENIED_SECONDS

    def is_paused(self, destination: str) -> bool:
        """Return whether a pause that the destination requested (`Retry-After`) is not over yet."""
        pause = self.state.pauses.get(destination)
        if pause is None or pause.boot_id != self.evidence.boot_id:
            return False
        return self.evidence.uptime < pause.uptime
