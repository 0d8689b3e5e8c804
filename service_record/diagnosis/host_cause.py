"""Add to a diagnosis what only evidence beside the records tells. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from service_record.diagnosis.causes import Causes
from service_record.diagnosis.evidence.log_lines import SYSTEMD, Era, LogLine
from service_record.diagnosis.evidence.scan import Scanner
from service_record.diagnosis.findings import Diagnosis, FailedUnit, HostCause, ToldLine, Trouble
from service_record.diagnosis.trouble_facts import telling_line, weight
from service_record.diagnosis.units import Unit
from service_record.history import History
from service_record.history.outcome import Run

if TYPE_CHECKING:
    from datetime import datetime

HostFiles: TypeAlias = Iterable[tuple[str, Callable[[int], bytes]]]
"""The path of each file of a host, and what reads it; one is read before the next is asked for."""
_LATEST_RUNS: Final = 3
_LEAST_WEIGHT: Final = 2
"""Of a line that speaks of an error."""


def scanner(causes: Causes, history: History, failed_services: frozenset[str] = frozenset()) -> Scanner:
    """Return what reads the files of the host whose history this is."""
    own = {
        service.name: [run.pid for run in service.runs[-_LATEST_RUNS:] if run.pid is not None]
        for service in history.services
    }
    return Scanner(causes.line_set, {**{name: [] for name in failed_services}, **own}, _era(history))


def causes_with(
    causes: Causes,
    history: History,
    units: Iterable[Unit],
    files: HostFiles,
) -> Causes:
    """Return the causes with the evidence in the files of a host: the path of each, and what reads it."""
    reading = scanner(causes, history, failed_services(units))
    for path, read in files:
        reading.read(path, read)
    return causes.with_evidence(reading.evidence(), history)


def failed_services(units: Iterable[Unit]) -> frozenset[str]:
    """Return the services among the units that failed: each need have no record."""
    return frozenset(unit.service for unit in units if unit.is_failed and unit.service)


def _era(history: History) -> Era:
    """Return the times that the records of a host have."""
    times: list[datetime] = []
    for service in history.services:
        for run in service.runs:
            times += [time for time in (run.first_entry, run.last_entry) if time is not None]
    return Era(min(times, default=None), max(times, default=None))


def add_evidence(diagnosis: Diagnosis, causes: Causes) -> Diagnosis:
    """Return the diagnosis with the lines that tell, and with a cause that stands on evidence alone.

    That is asked for only where no service is in trouble: the host may be at work, and get no further.
    """
    root = diagnosis.root and _with_telling(diagnosis.root, causes)
    host = None if root is not None else _host_cause(diagnosis, causes)
    name = causes.evidence.facts.first("hostname")
    return replace(
        diagnosis,
        host_name=name.value if name is not None else None,
        root=root,
        followers=tuple(_with_telling(trouble, causes) for trouble in diagnosis.followers),
        others=tuple(_with_telling(trouble, causes) for trouble in diagnosis.others),
        failed_units=tuple(_unit_with_telling(failed, causes) for failed in diagnosis.failed_units),
        host=host,
        looked=causes.evidence.looked,
        weighed=dict(causes.log),
    )


def _host_cause(diagnosis: Diagnosis, causes: Causes) -> HostCause | None:
    for failed in diagnosis.failed_units:
        if failed.cause is not None and failed.cause.is_cause:
            return HostCause(service=failed.unit.service or failed.unit.name, cause=failed.cause)
    cause = causes.of_host()
    return HostCause(service=cause.of or "host", cause=cause) if cause is not None else None


def _unit_with_telling(failed: FailedUnit, causes: Causes) -> FailedUnit:
    service = failed.unit.service
    if service is None or (failed.cause is not None and failed.cause.is_cause):
        return failed
    telling = _telling([line for line in causes.evidence.own.get(service, ()) if line.kind != SYSTEMD])
    return failed if telling is None else replace(failed, telling=telling)


def _telling(lines: Sequence[LogLine]) -> ToldLine | None:
    """Return the line that tells most; None where none speaks of an error."""
    best = max(reversed(lines), key=lambda line: weight(line.text.strip()), default=None)
    if best is None or weight(best.text.strip()) < _LEAST_WEIGHT:
        return None
    return ToldLine(best.text.strip(), str(best.place))


def _with_telling(trouble: Trouble, causes: Causes) -> Trouble:
    """Add the line that tells most, where the service's last lines tell little."""
    message_line = telling_line(trouble.facts.message)
    if message_line is not None and weight(message_line) >= _LEAST_WEIGHT:
        return trouble
    lines = [line for line in causes.evidence.own.get(trouble.service, ()) if _is_of_run(line, trouble.run)]
    telling = _telling(lines)
    return trouble if telling is None else replace(trouble, telling=telling)


def _is_of_run(line: LogLine, run: Run) -> bool:
    if line.kind == SYSTEMD or line.time is None:
        return False
    begun, ended = run.started or run.first_entry, run.ended
    return (begun is None or begun <= line.time) and (ended is None or line.time <= ended)
