"""Build the history of a host from entries: its services, their runs, and the commands and stages in runs.

Pure. `pairing` finds the entries that belong together, and `results` determines their outcome. This module
also marks times that contradict the files. `Now` is the time at which running services are judged.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import attrgetter, ne
from typing import Final, overload

import msgspec
from msgspec.structs import replace

from service_record.history.outcome import Outcome, Run, Span, Stage, order
from service_record.history.pairing import Pairing, pair
from service_record.history.results import ClockStep, Liveness, Presence, boots_in_order, clock_steps, run_of
from service_record.record.entry import Malformed, Piece, Result


class ServiceHistory(msgspec.Struct, frozen=True):
    """The runs of one service, and the unreadable parts of its record."""

    name: str
    runs: tuple[Run, ...] = ()
    malformed: tuple[Malformed, ...] = ()
    """The first damaged pieces of its record, abridged."""
    utc_offset: timedelta | None = None
    """The offset of its times from UTC, although they are labelled UTC; None if they seem to be correct."""
    has_no_run: bool = False
    """True if its record has no entry of a run: it is empty, or completely damaged."""
    is_unfinished: bool = False
    """True if an unfinished write has left a new file that did not yet replace the record."""
    has_damaged_copy: bool = False
    """True if a writer has moved damaged bytes of the record to a separate file."""
    unlisted: int = 0
    """The number of damaged pieces that are not in `malformed`."""

    @property
    def damaged_pieces(self) -> int:
        """Return the number of pieces of its record that are not entries."""
        return len(self.malformed) + self.unlisted

    @property
    def attempts(self) -> tuple[Run, ...]:
        """Return one run for each attempt, also if several programs were recorded in one invocation."""
        numbers = [run.attempt for run in self.runs]
        if all(map(ne, numbers, numbers[1:])):
            return self.runs
        together = groupby(self.runs, key=attrgetter("attempt", "boot_id"))
        return tuple(_deciding(list(runs)) for _, runs in together)

    @property
    def outcome(self) -> Outcome | None:
        """Return the outcome of the latest attempt; None without an attempt."""
        return self.attempts[-1].outcome if self.runs else None


def _deciding(together: Sequence[Run]) -> Run:
    """Return the run of the program that is still running or, if there is none, of the one that ended last.

    `together` are the programs of one invocation. A service ends after other recorded programs that it runs,
    and a program after its pre-commands.
    """
    if len(together) == 1:
        return together[0]
    running = next((run for run in together if run.outcome is Outcome.RUNNING), None)
    deciding = running or max(reversed(together), key=lambda run: order(run.last_entry))
    left_out = next((run.left_out for run in together if run.left_out is not None), None)
    return replace(deciding, left_out=left_out) if left_out else deciding


class History(msgspec.Struct, frozen=True):
    """The runs of all services of a host."""

    services: tuple[ServiceHistory, ...]
    boots: tuple[str, ...] = ()
    """Boot ids, oldest first."""
    clock_steps: tuple[ClockStep, ...] = ()
    """The changes of the clock while the host was running."""
    latest_boot: str | None = None
    """The boot that is running now, if that is certain; otherwise the latest boot in the records."""


def build_history(
    records: Iterable[tuple[str, Iterable[Piece]]], liveness: Liveness | None = None
) -> History:
    """Build the history from each service's name and the pieces of its record, in file order."""
    liveness = liveness or Liveness()
    pairings = [(name, pair(record)) for name, record in records]
    boots = boots_in_order(pairing.boots for _, pairing in pairings)
    latest = boots[-1] if boots else None
    if liveness.boot_id is not None and (liveness.is_at_home or liveness.boot_id in boots):
        latest = liveness.boot_id
    presence = Presence(liveness, latest)
    steps = clock_steps(pairing.runs for _, pairing in pairings)
    return History(
        tuple(_service(name, pairing, presence) for name, pairing in pairings), boots, steps, latest
    )


def with_running(history: History, running: Iterable[Run]) -> History:
    """Add running runs that have not recorded their start yet. Services are sorted by name.

    A run that has recorded its start is left out, because the record has more details. If only its
    pre-commands are recorded, these become part of the added run.
    """
    services = {service.name: service for service in history.services}
    recorded = {run.invocation_id for service in history.services for run in service.runs}
    for run in running:
        service = services.get(run.service) or ServiceHistory(run.service)
        runs = _with_run(service.runs, run)
        if runs is None and run.invocation_id in recorded:
            continue
        before = (each.attempt for each in service.runs if each.boot_id == run.boot_id)
        runs = runs or (*service.runs, replace(run, attempt=max(before, default=0) + 1))
        services[run.service] = replace(service, runs=runs)
        if run.boot_id is not None and run.boot_id not in history.boots:
            history = replace(history, boots=(*history.boots, run.boot_id))
    return replace(history, services=tuple(services[name] for name in sorted(services)))


def _with_run(runs: tuple[Run, ...], running: Run) -> tuple[Run, ...] | None:
    """Return the runs with the last one marked as running; None unless it recorded only pre-commands."""
    last = runs[-1] if runs else None
    if last is None or last.invocation_id != running.invocation_id:
        return None
    if last.started is not None or last.stages or running.pid is None:
        return None
    current = replace(
        last, outcome=Outcome.RUNNING, started=running.started, uptime=running.uptime, pid=running.pid
    )
    return (*runs[:-1], current)


def _service(name: str, pairing: Pairing, presence: Presence) -> ServiceHistory:
    runs = tuple(run_of(name, span, presence) for span in pairing.drain())
    unlisted = pairing.damaged_pieces - len(pairing.malformed)
    return ServiceHistory(name, runs, tuple(pairing.malformed), has_no_run=not runs, unlisted=unlisted)


_QUARTER_SECONDS: Final = 15 * 60
_LEAST_OFFSET_SECONDS: Final = 2 * _QUARTER_SECONDS
_TOLERANCE_SECONDS: Final = 2 * 60
_WEST_SECONDS: Final = -12 * 3600
_EAST_SECONDS: Final = 14 * 3600


def host_history(
    records: Iterable[tuple[str, Iterable[Piece]]],
    liveness: Liveness | None = None,
    *,
    running: Iterable[Run] = (),
    written: Mapping[str, float] | None = None,
    unfinished: Collection[str] = (),
    damaged: Collection[str] = (),
) -> History:
    """Return the history of a host: its records, its running services, and the anomalies of its files.

    All code that judges a host calls this function, so that all results are based on the same history.
    `running` are runs that have no record yet. `with_anomalies` describes the other arguments.
    """
    history = with_running(build_history(records, liveness), running)
    return with_anomalies(history, written or {}, unfinished, damaged)


def with_anomalies(
    history: History, written: Mapping[str, float], unfinished: Collection[str], damaged: Collection[str] = ()
) -> History:
    """Annotate services with clock offsets, unfinished writes and damaged copies.

    `written` maps a service to the time of the last write to its file, in seconds since 1970. `unfinished`
    contains services with an unfinished new file, and `damaged` services with a copy of damaged bytes. An
    offset is used only if all of upstream's records have the same one: a host has a single time zone, while
    copied files may have any time.
    """
    offsets: dict[str, timedelta | None] = {}
    for service in history.services:
        if service.name in written and service.runs:
            run = service.runs[-1]
            # Only upstream's shim writes local times. It records neither boot ids nor process ids.
            is_upstreams = run.boot_id is None and run.pid is None
            if is_upstreams and run.last_entry is not None:
                offsets[service.name] = utc_offset(run.last_entry, written[service.name])
    offset = next(iter(offsets.values())) if len(set(offsets.values())) == 1 else None
    services = (
        replace(
            service,
            utc_offset=offset if service.name in offsets else None,
            is_unfinished=service.name in unfinished,
            has_damaged_copy=service.name in damaged,
        )
        for service in history.services
    )
    return replace(history, services=tuple(services))


def utc_offset(recorded: datetime, written: float) -> timedelta | None:
    """Return the offset from UTC of a local time that was recorded as UTC; None if it is no time zone.

    `written` is the correct time, in seconds since 1970. Time zones are whole quarter hours from -12 to +14
    hours; offsets below 30 minutes are ignored. The times may differ from the offset by up to two minutes.
    """
    ahead = recorded.timestamp() - written
    offset = round(ahead / _QUARTER_SECONDS) * _QUARTER_SECONDS
    is_zone = _WEST_SECONDS <= offset <= _EAST_SECONDS and abs(offset) >= _LEAST_OFFSET_SECONDS
    return timedelta(seconds=offset) if is_zone and abs(ahead - offset) <= _TOLERANCE_SECONDS else None


ALL_BOOTS: Final = "all"


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on runs and entries. By default, all are selected."""

    services: Collection[str] = ()
    """Names of services; empty means all."""
    boot_id: str | None = None
    stage: str | None = None
    failed: bool = False
    """Select only failures and interruptions."""
    since: datetime | None = None
    until: datetime | None = None

    def of(self, history: History) -> History:
        """Return the history with the selected runs. Services without one are dropped, unless their record is
        damaged.
        """
        named = tuple(s for s in history.services if self.has_service(s.name))
        if self._has_all:
            return replace(history, services=named)
        selected = (self._service(service) for service in named)
        return replace(history, services=tuple(s for s in selected if s.runs or s.malformed or s.has_no_run))

    def has_service(self, name: str) -> bool:
        return not self.services or name in self.services

    def within(self, record: Iterable[Piece]) -> Iterable[Piece]:
        """Return the selected pieces of a record."""
        return record if self._has_all else filter(self.has, record)

    def has(self, piece: Piece) -> bool:
        """Return whether a piece is selected. Damaged pieces always are."""
        if isinstance(piece, Malformed):
            return True
        return (
            self.boot_id in {None, piece.boot_id}
            and self.stage in {None, piece.stage}
            and not (self.failed and piece.result != Result.FAILURE)
            and (self.since is None or piece.time is None or piece.time >= self.since)
            and (self.until is None or piece.time is None or piece.time <= self.until)
        )

    @property
    def _has_all(self) -> bool:
        return replace(self, services=()) == Selection()

    def _service(self, service: ServiceHistory) -> ServiceHistory:
        runs = tuple(self._run(run) for run in service.runs if self._has_run(run))
        return replace(service, runs=runs)

    def _has_run(self, run: Run) -> bool:
        return (
            self.boot_id in {None, run.boot_id}
            and not (self.failed and not run.outcome.is_bad)
            and (self.since is None or run.last_entry is None or run.last_entry >= self.since)
            and (self.until is None or run.first_entry is None or run.first_entry <= self.until)
            and (
                self.stage is None
                or any(map(self._stages, (run.stages, *(command.stages for command in run.commands))))
            )
        )

    def _run(self, run: Run) -> Run:
        if self.stage is None:
            return run
        commands = (replace(command, stages=self._stages(command.stages)) for command in run.commands)
        return replace(run, stages=self._stages(run.stages), commands=tuple(commands))

    def _stages(self, stages: Sequence[Stage]) -> tuple[Stage, ...]:
        return tuple(stage for stage in stages if stage.name == self.stage)


def find_boot(boots: Sequence[str], prefix: str) -> str:
    """Return the id of a boot, given its number or the beginning of its id.

    Numbers are those of journalctl: 0 is the latest boot, -1 the one before, 1 the first. Raises LookupError
    with a message of one line if no boot or several boots match.
    """
    if re.fullmatch(r"[+-]?\d{1,7}", prefix) and len(prefix) < len("00000000"):
        number = int(prefix)
        index = number - 1 if number > 0 else len(boots) - 1 + number
        if 0 <= index < len(boots):
            return boots[index]
        raise LookupError(f"no boot {prefix}: the records have {len(boots)}; 0 is the latest")
    matches = [boot_id for boot_id in boots if boot_id.startswith(prefix.replace("-", ""))]
    if len(matches) != 1:
        advice = "give more digits" if matches else "0 is the latest, -1 the one before"
        raise LookupError(f"{len(matches) or 'no'} boots begin with {prefix}; {advice}")
    return matches[0]


_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """The current time, by the clock and by the uptime of one boot."""

    time: datetime
    boot_id: str | None = None
    uptime: float | None = None
    is_latest_entry: bool = False
    """True if it is the time of the last entry: running services have been running for at least that long."""

    def since(self, span: Span, run: Run, service: ServiceHistory) -> float | None:
        """Return the seconds since the start of a span, by uptime within a boot; None if they are unknown."""
        if span.uptime is not None and self.uptime is not None and run.boot_id == self.boot_id:
            seconds = self.uptime - span.uptime
        elif span.started is not None:
            seconds = (self.time - true_time(span.started, service)).total_seconds()
        else:
            return None
        return round(seconds, 3) if seconds >= 0 else None


def boot_times(history: History) -> dict[str | None, float]:
    """Return boot id -> time of the boot in seconds since 1970, by the clock at its last entry.

    These times make uptimes of different boots comparable, even if the clock was changed.
    """
    latest: dict[str | None, tuple[float, float]] = {}
    for service in history.services:
        for run in service.runs:
            if run.last_uptime is None or run.last_entry is None:
                continue
            if run.last_uptime >= latest.get(run.boot_id, (0.0, 0.0))[0]:
                latest[run.boot_id] = (run.last_uptime, run.last_entry.timestamp())
    return {boot_id: time - uptime for boot_id, (uptime, time) in latest.items()}


def latest_entry(history: History) -> Now:
    """Return the time of the last entry of the latest boot, the latest known time of another host."""
    boot_id = history.boots[-1] if history.boots else None
    last: list[datetime] = []
    uptimes: list[float] = []
    for service in history.services:
        runs = [run for run in service.runs if run.boot_id is None or run.boot_id == boot_id]
        times = [run.last_entry for run in runs if run.last_entry is not None]
        if times:
            last.append(true_time(max(times), service))
        uptimes += [run.last_uptime for run in runs if run.last_uptime is not None]
    return Now(
        time=max(last, default=_BEGINNING),
        boot_id=boot_id,
        uptime=max(uptimes, default=None),
        is_latest_entry=True,
    )


@overload
def true_time(recorded: datetime, service: ServiceHistory) -> datetime: ...
@overload
def true_time(recorded: datetime | None, service: ServiceHistory) -> datetime | None: ...
def true_time(recorded: datetime | None, service: ServiceHistory) -> datetime | None:
    """Correct a time from a record that labels local times as UTC; None stays None."""
    return None if recorded is None else recorded - (service.utc_offset or timedelta())
