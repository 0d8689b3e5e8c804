"""The values of a diagnosis: findings with evidence, the verdict, and the commands to run next. Pure."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from service_record.diagnosis.budget import Budget
from service_record.diagnosis.evidence.host_evidence import Looked
from service_record.diagnosis.evidence.unit_logs import FAULTS, Hindrance
from service_record.diagnosis.units import Unit, unit_name
from service_record.history.outcome import Facts, Outcome, Run
from service_record.history.results import ClockStep, Handled
from service_record.record.appending import DEFAULT_DIRECTORY

POINTS_TO: Final = "points to"
"""The rank of a likely cause that the evidence does not prove."""


OWN_ERROR: Final = "own-error"
"""The cause name for an error line of the service that no rule knows."""
OTHER_ERROR: Final = "error-elsewhere"
"""The cause name for an error line of another program that no rule knows."""


class KnownCause(msgspec.Struct, frozen=True, kw_only=True):
    """The cause of one trouble: a rule with its texts filled in, or an error line that no rule knows."""

    name: str
    says: str
    """The cause in a few words. They end a sentence that names the service."""
    explains: str | None = None
    """What this means, and how it usually happens."""
    commands: tuple[str, ...] = ()
    """Commands to run next, filled in and safe to paste."""
    rank: str = "cause"
    """`cause`, `points to`, `contributing`, `symptom` or `form of death`."""
    doubt: str | None = None
    """Why the evidence only points to the cause."""
    is_last: bool = False
    """True for a symptom that can follow from other symptoms. It is considered last as the root cause."""
    line: str | None = None
    """The line or fact that matched; None if the rule tests neither."""
    found: str | None = None
    """The part of the line that the rule's pattern matched. It stays visible when the line is cut."""
    place: str | None = None
    """FILE:LINE in the source; None if the line is in the service's record."""
    of: str | None = None
    """The program or container that wrote the line; None if unknown."""

    @property
    def is_cause(self) -> bool:
        """Return True for a certain cause, which the headline may name."""
        return self.rank == "cause"

    @property
    def is_of_rule(self) -> bool:
        """Return False for a line that no rule knows. Two such causes may have nothing in common."""
        return self.name not in {OWN_ERROR, OTHER_ERROR}

    @property
    def is_pointer(self) -> bool:
        """Return True for a likely cause, which is not proven."""
        return self.rank == POINTS_TO

    @property
    def is_symptom(self) -> bool:
        """Return True for every rank but `cause`: the real cause is something else, or not certain."""
        return not self.is_cause


class Weighed(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that matched or nearly did, and why it was or was not chosen."""

    rule: str
    rank: str
    line: str | None = None
    place: str | None = None
    lost: str | None = None
    """Why the rule is not shown as the cause; None for the chosen rule."""

    @property
    def is_named(self) -> bool:
        return self.lost is None


class Verdict(StrEnum):
    """The state of a host as a whole. The first four are bad.

    `UNKNOWN`: nothing is wrong, but some record is unreadable, or there are only files and no known cause.
    """

    FAILED = "failed"
    LOOPING = "looping"
    STUCK = "stuck"
    INTERRUPTED = "interrupted"
    RUNNING = "running"
    STOPPED = "stopped"
    UNKNOWN = "unknown"
    SUCCEEDED = "succeeded"

    @property
    def is_bad(self) -> bool:
        return self not in {Verdict.RUNNING, Verdict.STOPPED, Verdict.UNKNOWN, Verdict.SUCCEEDED}


class LoopOf(StrEnum):
    """What a loop repeats."""

    RESTARTS = "restart"
    STAGE = "stage"
    BOOTS = "boot"


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """The same failure again and again."""

    of: LoopOf
    count: int
    messages: int
    """The number of different messages: 1 if the message is the same each time, 0 without any message."""
    boots: tuple[str, ...] = ()
    """In a boot loop: the boots that ended at the same point, oldest first."""


class Overrun(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that exceeds its budget."""

    what: str
    """`stage`, `pre-command`, `post-command` or `run`."""
    name: str
    seconds: float
    budget: Budget
    is_least: bool
    """True if `seconds` is counted to the last entry, so that the real time may be much longer."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong with a service that decides the verdict: failed, looping, stuck or interrupted."""

    kind: Verdict
    service: str
    run: Run
    """The run to look at: in a loop, the last one that ended."""
    facts: Facts
    """How it failed: the facts of the run, or of the stage that loops."""
    stage: str | None
    since: datetime | None
    """The time of the first of the equal failures, or the start of the stuck execution."""
    ahead: timedelta = timedelta()
    """How far the clock of its record is ahead of true time."""
    since_uptime: float | None = None
    """`since` in seconds since the boot of `run`, if known."""
    count: int = 1
    """The number of consecutive runs that ended like this one."""
    loop: Loop | None = None
    overrun: Overrun | None = None
    is_rebooted: bool = False
    """True if a reboot of the host interrupted it."""
    is_running: bool = False
    """True if the service is running, again or still."""
    cause: KnownCause | None = None
    telling: "QuotedLine | None" = None
    """A line from its run that says more than its last lines."""
    suppressed: int = 0
    """Messages of the service that the journal's rate limit dropped."""

    @property
    def recorded_since(self) -> datetime | None:
        """Return `since` by the clock of the record, which the times of `run` use."""
        return None if self.since is None else self.since + self.ahead


class TroubleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one trouble that rules are tested against."""

    kinds: frozenset[str]
    """Kinds from `KINDS`."""
    service: str
    stage: str | None = None
    invocation_id: str | None = None
    facts: Facts
    booted: datetime | None = None
    """The start of the boot; None if unknown."""
    started: datetime | None = None
    """The start of the trouble: of the first of several equal failures."""
    run_started: datetime | None = None
    """The start of the latest of these runs."""
    ended: datetime | None = None
    """The end of the run; None while it runs, or if unknown."""


KINDS: Final = frozenset(
    {"failed", "stuck", "restart-loop", "stage-loop", "boot-loop", "interrupted", "rebooted", "ended-well"}
)
"""The kinds of trouble in rules. `rebooted`: interrupted by a boot of the host. `ended-well`: a unit failed
although its latest recorded run succeeded.
"""


class QuotedLine(msgspec.Struct, frozen=True):
    """A line of a log, and its place."""

    line: str
    place: str
    by: str = ""
    """The program or container that logged it."""
    count: int = 1
    """How often lines like this one were logged."""


class HostCause(msgspec.Struct, frozen=True, kw_only=True):
    """A cause found in files other than records, while no recorded service has failed."""

    service: str
    """The unit, program or container that logged it; `host` without one."""
    cause: KnownCause


class FailedUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A failed unit whose failure is not already shown as a trouble of its service."""

    unit: Unit
    recorded: Outcome | None
    """The outcome of its latest recorded run; None without a recorded run."""
    cause: KnownCause | None = None
    telling: QuotedLine | None = None
    """The line of its log that says most, if no rule knows the cause."""


class NotStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A unit that has not started, and the reason."""

    service: str
    """The service; of another kind of unit its name with the suffix: `mnt-data.mount`."""
    hindrance: Hindrance
    by: str | None = None
    """The unit or service that keeps it from starting."""
    chain: tuple[Unit, ...] = ()
    """The required units that did not start, from `by` to the root."""
    detail: str = ""
    """The setting or the reason that systemd names."""
    is_expected: bool = True
    """True if it must start: `--expect`."""
    is_pending: bool = False
    """True if it may still start."""

    @property
    def is_fault(self) -> bool:
        """Return True if the host counts as failed because of it."""
        return not self.is_pending and (self.is_expected or self.hindrance in FAULTS)

    @property
    def unit(self) -> str:
        """Return the name of its unit."""
        return unit_name(self.service)


class Unrecorded(msgspec.Struct, frozen=True, kw_only=True):
    """A unit that was named by the user: it has no record, and systemd reports no failure."""

    unit: Unit
    chain: tuple[Unit, ...] = ()
    """Units that it requires and that did not start, if it is not active."""


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A running service that is neither stuck nor in a loop."""

    run: Run
    stage: str | None
    seconds: float | None
    """The time in that stage; outside a stage, the time of the run."""
    is_least: bool
    budget: Budget | None
    before: Run | None
    """The run before it, when that failed or was interrupted."""


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """A service that was stopped in order before it ended by itself: neither a trouble nor a success."""

    run: Run
    before: Run | None
    """The run before it, when that failed or was interrupted."""
    partner: Unit | None = None
    """The unit it is bound to (BindsTo=), if that unit ended first, so that systemd stopped this one."""


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """Earlier failures of a service whose latest run did not fail."""

    service: str
    count: int
    last: Run
    """The last run that failed or was interrupted."""
    is_open: bool = False
    """True if no later run succeeded: it failed in an earlier boot, and services of the latest boot run."""


class Slow(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that took much longer than in the good run."""

    service: str
    stage: str | None
    """None for the whole run."""
    seconds: float
    usual: float
    is_running: bool
    """True if it is still running."""


class Damaged(msgspec.Struct, frozen=True, kw_only=True):
    """Damage in a record, or an unfinished write of it."""

    service: str
    pieces: int
    """The number of pieces that are not entries."""
    line: int | None
    """The line at which the first of them begins."""
    lost: int
    """The number of entries that could not be written."""
    is_empty: bool
    """True if it has no entry at all."""
    has_no_run: bool = False
    """True if no run can be read."""
    is_unfinished: bool = False
    """True if an unfinished write by upstream's shim left its temporary file next to the record."""


class UnsetClock(msgspec.Struct, frozen=True, kw_only=True):
    """Times before this format existed, so the clock had not been set."""

    service: str
    time: datetime


class BackwardBoot(msgspec.Struct, frozen=True, kw_only=True):
    """A boot whose times are before those of the boot before it."""

    boot_id: str
    time: datetime
    earlier: datetime
    """The time of the boot before."""


class LocalTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times labelled UTC that seem to be local times."""

    services: tuple[str, ...]
    utc_offset: timedelta


ClockFinding = ClockStep | UnsetClock | BackwardBoot | LocalTimes


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The diagnosis of a host: its verdict, its troubles and other findings."""

    verdict: Verdict
    root: Trouble | None = None
    """The earliest trouble that explains the others."""
    followers: tuple[Trouble, ...] = ()
    """Possible consequences, earliest first."""
    others: tuple[Trouble, ...] = ()
    """Troubles with causes of their own."""
    running: tuple[Running, ...] = ()
    stopped: tuple[Stopped, ...] = ()
    minor: tuple[str, ...] = ()
    """Services that failed without a known cause, as they do on many healthy hosts: not a trouble."""
    unclear: tuple[str, ...] = ()
    """Services whose log was copied before the end, so that their result is unknown."""
    handled: tuple[Handled, ...] = ()
    """Failed stages after which the latest run of a service continued."""
    recovered: tuple[Recovered, ...] = ()
    slow: tuple[Slow, ...] = ()
    damaged: tuple[Damaged, ...] = ()
    clock: tuple[ClockFinding, ...] = ()
    failed_units: tuple[FailedUnit, ...] = ()
    """The earliest first."""
    not_started: tuple[NotStarted, ...] = ()
    """Expected services in their order, then units that did not start because of a fault."""
    unrecorded: tuple[Unrecorded, ...] = ()
    are_units_unknown: bool = False
    """True if systemd did not answer a query about units."""
    host: HostCause | None = None
    """The cause found in the host's files, if no trouble is the root."""
    stands_out: tuple[QuotedLine, ...] = ()
    """The log lines to read first. With a certain cause: the error lines that it does not explain."""
    has_no_records: bool = False
    """True if only the files of the host were judged."""
    looked: Looked = msgspec.field(default_factory=Looked)
    """How much was read besides the records."""
    host_name: str | None = None
    """The host's own name, if its files give it."""
    weighed: Mapping[str, tuple[Weighed, ...]] = msgspec.field(default_factory=dict)
    """Service, or "" for the host -> the rules that matched, and why all but one were not shown."""

    @property
    def urgency(self) -> int:
        """Return the order in which the hosts of one source are shown: failed ones first."""
        return 0 if self.verdict.is_bad else 1 if self.host is not None else 2

    @property
    def unreadable(self) -> tuple[Damaged, ...]:
        """Return the records without a readable run."""
        return tuple(damaged for damaged in self.damaged if damaged.has_no_run)


def next_commands(trouble: Trouble) -> tuple[str, ...]:
    """Return the commands to run next, those of the known cause first. All names in them are quoted."""
    commands = trouble.cause.commands if trouble.cause else ()
    return drop_repeated((*commands, *_list_usual_commands(trouble)))


ELSEWHERE: Final = "  # on another host"
"""The end of a command that this host cannot answer. A shell ignores it."""


def drop_repeated(commands: Iterable[str]) -> tuple[str, ...]:
    """Drop commands that differ from an earlier one only in their form or the length of their output."""
    first: dict[str, str] = {}
    for command in commands:
        text = re.sub(r"--(unit|boot|grep|identifier)=", r"--\1 ", command.removesuffix(ELSEWHERE))
        text = re.sub(r" --lines[ =]\d+", "", text)
        first.setdefault(re.sub(r"\.service(?=\s|$)", "", text), command)
    return tuple(first.values())


def _list_usual_commands(trouble: Trouble) -> Iterator[str]:
    run = trouble.run
    if re.search(r"[^\w:.\\@-]", trouble.service) is not None:
        yield "systemctl --failed"  # a journal of an old systemd has only the description of the unit
        return
    if trouble.service == "initramfs" and trouble.stage:
        # The stages of this service are the units of the initramfs (see docs/initramfs.md).
        unit = shlex.quote(trouble.stage)
    else:
        unit = shlex.quote(f"{trouble.service}.service")
    if trouble.kind is Verdict.STUCK or (trouble.loop and trouble.loop.of is LoopOf.STAGE):
        yield f"systemctl status {unit}"
    if run.invocation_id is not None:
        yield f"journalctl _SYSTEMD_INVOCATION_ID={shlex.quote(run.invocation_id)}"
    elif run.boot_id is not None and re.fullmatch("[0-9a-f-]{32,36}", run.boot_id):
        boot = f"journalctl --boot={shlex.quote(run.boot_id)}"
        # A script that a shell started has no unit, and systemd before 232 tells a service no invocation.
        yield f"{boot} --unit={unit}" if run.pid is None else f"{boot} _PID={run.pid} + _SYSTEMD_UNIT={unit}"
    else:
        yield f"journalctl --unit={unit}"


def host_commands(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Return the commands to run without a root trouble: for the host, its failed and its missing units."""
    commands = list(diagnosis.host.cause.commands) if diagnosis.host is not None else []
    for one in diagnosis.not_started:
        commands += commands_for_missing(one)
    for failed in diagnosis.failed_units:
        commands += commands_for_unit(failed)
    for unrecorded in diagnosis.unrecorded:
        commands.append(f"systemctl status {shlex.quote(unrecorded.unit.name)}")
    return drop_repeated(commands)


def commands_for_unit(failed: FailedUnit) -> tuple[str, ...]:
    unit = shlex.quote(failed.unit.name)
    causes = failed.cause.commands if failed.cause else ()
    return (*causes, f"systemctl status {unit}", f"journalctl --boot --unit={unit}")


def commands_for_missing(one: NotStarted) -> tuple[str, ...]:
    unit = shlex.quote(one.unit)
    match one.hindrance:
        case Hindrance.ABSENT:
            return (f"systemctl list-unit-files {shlex.quote(f'{one.service}*')}",)
        case Hindrance.DAMAGE:
            return (f"service-record validate {shlex.quote(f'{DEFAULT_DIRECTORY}/{one.service}.json')}",)
        case Hindrance.QUEUED | Hindrance.UNREACHED:
            return ("systemctl list-jobs",)
        case Hindrance.UNLOADABLE | Hindrance.MASKED:
            return (f"systemctl cat {unit}", f"systemd-analyze verify {unit}")
        case Hindrance.DEPENDENCY if one.chain:
            root = shlex.quote(one.chain[-1].name)
            return (f"systemctl status {root}", f"journalctl --boot --unit={root}")
        case _:
            return (f"systemctl status {unit}", f"journalctl --boot --unit={unit}")
