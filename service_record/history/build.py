"""The history of a host: what its entries come to. Services, their runs, and the stages and commands of each.

Pure. `pairing` finds which entries belong together, `results` what they come to, and `completed_runs` keeps
the runs. Times that the files speak against are doubted here.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from service_record.history.clock import ClockStep, clock_steps
from service_record.history.completed_runs import Head, Runs, SettledRun
from service_record.history.outcome import Outcome, Run
from service_record.history.pairing import Pairing, pair
from service_record.history.results import Liveness, Presence, boots_in_order, run_of
from service_record.record.entry import Malformed
from service_record.record.plain import Stretch


@dataclass(frozen=True, slots=True)
class ServiceHistory:
    """What one service did, and what of its record could not be read."""

    name: str
    runs: Runs = field(default_factory=Runs)
    malformed: tuple[Malformed, ...] = ()
    """The first damaged pieces of its record, abridged."""
    utc_offset: timedelta | None = None
    """How far from UTC its times seem to be, although labelled so; None where nothing speaks against them."""
    has_no_run: bool = False
    """True when its record has no entry of any run: it is empty, or damaged throughout."""
    is_unfinished: bool = False
    """True when the file that was to replace the record lies beside it, from a write that did not end."""
    has_damaged_copy: bool = False
    """True when damaged bytes that a writer replaced in the record are kept in a file beside it."""
    unlisted: int = 0
    """How many damaged pieces there are besides."""

    @property
    def damaged_pieces(self) -> int:
        """How many pieces of its record are not entries."""
        return len(self.malformed) + self.unlisted

    @property
    def attempts(self) -> Runs:
        """The runs that stand for each attempt: of several programs in one invocation only one."""
        return self.runs.attempts()

    @property
    def outcome(self) -> Outcome | None:
        """That of the latest attempt; None when there is none."""
        return self.attempts.heads[-1].outcome if self.runs else None


@dataclass(frozen=True, slots=True)
class History:
    """What the services of a host did."""

    services: tuple[ServiceHistory, ...]
    boots: tuple[str, ...] = ()
    """Boot ids, oldest first."""
    clock_steps: tuple[ClockStep, ...] = ()
    """Where the clock was set while the host ran."""
    latest_boot: str | None = None
    """The boot that is running now, where that is certain; otherwise the latest with a record."""


def build_history(
    records: Iterable[tuple[str, Iterable[Stretch]]], liveness: Liveness | None = None
) -> History:
    """The history that records tell, given each service's name and what is in its record, in its order."""
    liveness = liveness or Liveness()
    pairings = [(name, pair(record)) for name, record in records]
    boots = boots_in_order(pairing.boots for _, pairing in pairings)
    latest = _latest_boot(boots, liveness)
    presence = Presence(liveness, latest)
    steps = clock_steps(pairing.runs for _, pairing in pairings)
    return History(
        tuple(_service(name, pairing, presence) for name, pairing in pairings), boots, steps, latest
    )


def with_running(history: History, running: Iterable[Run]) -> History:
    """Return the history with runs that nothing has recorded yet, in the order of the names of services.

    What has recorded its start is left out: the record knows more. Commands before that are part of the run.
    """
    services = {service.name: service for service in history.services}
    recorded = {head.invocation_id for service in history.services for head in service.runs.heads}
    for run in running:
        service = services.get(run.service) or ServiceHistory(run.service)
        heads = _with_run(service.runs, run)
        if heads is None and run.invocation_id in recorded:
            continue
        attempt = max((h.attempt for h in service.runs.heads if h.boot_id == run.boot_id), default=0) + 1
        heads = heads or [*service.runs.heads, replace(run, attempt=attempt)]
        services[run.service] = replace(service, runs=Runs(run.service, heads))
        if run.boot_id is not None and run.boot_id not in history.boots:
            history = replace(history, boots=(*history.boots, run.boot_id))
    return replace(history, services=tuple(services[name] for name in sorted(services)))


def _with_run(runs: Runs, running: Run) -> list[Head] | None:
    """Return the runs with the last one running, where that has recorded only the commands before it."""
    last = runs.heads[-1] if runs else None
    if not isinstance(last, Run) or last.invocation_id != running.invocation_id:
        return None
    if last.started is not None or last.stages or running.pid is None:
        return None
    known = replace(
        last, outcome=Outcome.RUNNING, started=running.started, uptime=running.uptime, pid=running.pid
    )
    return [*runs.heads[:-1], known]


def _latest_boot(boots: tuple[str, ...], liveness: Liveness) -> str | None:
    if liveness.boot_id is not None and (liveness.is_at_home or liveness.boot_id in boots):
        return liveness.boot_id
    return boots[-1] if boots else None


def _service(name: str, pairing: Pairing, presence: Presence) -> ServiceHistory:
    heads = (
        found if isinstance(found, SettledRun) else run_of(name, found, presence) for found in pairing.drain()
    )
    runs = Runs(name, heads)
    unlisted = pairing.damaged_pieces - len(pairing.malformed)
    return ServiceHistory(name, runs, tuple(pairing.malformed), has_no_run=not runs, unlisted=unlisted)


_QUARTER: Final = 15 * 60  # all in seconds
_LEAST_OFFSET: Final = 2 * _QUARTER
_TOLERANCE: Final = 2 * 60
_WEST: Final = -12 * 3600
_EAST: Final = 14 * 3600


def doubted(
    history: History,
    written: Mapping[str, float],
    unfinished: Collection[str],
    damaged: Collection[str] = (),
) -> History:
    """The history with what speaks against its records.

    `written` says when the file of a service was last written, `unfinished` which lie beside a file that was
    to replace them, `damaged` which beside a copy of what was damaged in them. Times are doubted where all of
    upstream's records are off by the same: a host has one zone, while files that were copied have any time.
    """
    offsets = {
        service.name: utc_offset(last, written[service.name])
        for service in history.services
        if service.name in written and (last := _last_of_upstream(service)) is not None
    }
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
    """The zone of a clock that was taken for UTC, given what it showed and, since 1970, when that was.

    Zones are whole quarter hours from UTC, no less than 30 minutes here, from -12 to +14 hours. None when the
    two times are not such an offset apart, give or take two minutes.
    """
    ahead = recorded.timestamp() - written
    offset = round(ahead / _QUARTER) * _QUARTER
    is_zone = _WEST <= offset <= _EAST and abs(offset) >= _LEAST_OFFSET
    return timedelta(seconds=offset) if is_zone and abs(ahead - offset) <= _TOLERANCE else None


def _last_of_upstream(service: ServiceHistory) -> datetime | None:
    """Return the last time of a record whose last run is of upstream's shim, which writes local time.

    That shim knows no ids.
    """
    if not service.runs:
        return None
    run = service.runs[-1]
    return run.last_entry if run.boot_id is None and run.pid is None else None
