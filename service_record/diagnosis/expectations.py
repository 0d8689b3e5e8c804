"""Add to a diagnosis what no record tells: units that failed, and services that never started. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from service_record.diagnosis.diagnose import Explain
from service_record.diagnosis.findings import Diagnosis, FailedUnit, Hindrance, NotStarted, Trouble, Verdict
from service_record.diagnosis.trouble_facts import TroubleFacts, Unit
from service_record.history import History
from service_record.history.outcome import Outcome

ROLES: Final = {"bootstrap": ("release-image", "bootkube")}
"""Role of a host -> the services that must run on it, in the order in which they start.

Those of a bootstrap host are what `openshift-install` judges one by.
"""
_START_LIMIT: Final = "start-limit-hit"
_PASSING: Final = {Hindrance.QUEUED, Hindrance.UNREACHED}
_OPEN: Final = {Hindrance.ABSENT, Hindrance.UNKNOWN}
"""The hindrances that may pass while somebody waits."""


def add_units(
    diagnosis: Diagnosis | None,
    history: History,
    units: Iterable[Unit] | None,
    *,
    expected: Sequence[str] = (),
    is_waiting: bool = False,
    explain: Explain | None = None,
) -> Diagnosis | None:
    """Return the diagnosis with the failed units, and with the expected services that have not started.

    With any of them the verdict is at least failed; one that may yet start leaves it running. While waiting,
    one without a known hindrance may yet start. None where there is still nothing to judge. Units are None
    where systemd did not say which there are.
    """
    are_unknown = units is None
    units = tuple(units or ())
    failed = tuple(_failed(diagnosis, history, units, explain))
    absent = tuple(_not_started(history, units, expected, is_waiting=is_waiting))
    if diagnosis is None and not failed and not absent:
        return None
    diagnosis = _explained(diagnosis or Diagnosis(verdict=Verdict.SUCCEEDED), history, units)
    verdict = diagnosis.verdict
    if not verdict.is_bad and (failed or any(not one.is_pending for one in absent)):
        verdict = Verdict.FAILED
    elif verdict is Verdict.SUCCEEDED and absent:
        verdict = Verdict.RUNNING
    return replace(
        diagnosis, verdict=verdict, failed_units=failed, not_started=absent, are_units_unknown=are_unknown
    )


def _explained(diagnosis: Diagnosis, history: History, units: Iterable[Unit]) -> Diagnosis:
    """Add the command that systemd saw failing to the troubles of which no record says how they ended."""
    failed = {unit.service: unit for unit in units if unit.is_failed and unit.command is not None}

    def explained(trouble: Trouble) -> Trouble:
        unit, facts = failed.get(trouble.service), trouble.facts
        ends = (facts.message, facts.exit_code, facts.signal, facts.command)
        if (
            unit is None
            or any(each is not None for each in ends)
            or trouble.run.boot_id not in history.boots[-1:]
        ):
            return trouble
        completed = replace(
            facts, exit_code=unit.facts.exit_code, signal=unit.facts.signal, command=unit.command
        )
        return replace(trouble, facts=completed)

    return replace(
        diagnosis,
        root=diagnosis.root and explained(diagnosis.root),
        followers=tuple(map(explained, diagnosis.followers)),
        others=tuple(map(explained, diagnosis.others)),
    )


def _failed(
    diagnosis: Diagnosis | None, history: History, units: Iterable[Unit], explain: Explain | None
) -> Iterator[FailedUnit]:
    """Yield the failed units, without those of whose failure a trouble tells.

    That systemd gave up restarting one is said in any case: no record can.
    """
    outcomes = {service.name: service.outcome for service in history.services}
    troubled = {trouble.service for trouble in _troubles(diagnosis)}
    failed = [unit for unit in units if unit.is_failed]
    for unit in sorted(failed, key=lambda unit: unit.since.timestamp() if unit.since else 0.0):
        if unit.service in troubled and unit.facts.service_result != _START_LIMIT:
            continue
        yield FailedUnit(
            unit=unit,
            recorded=outcomes.get(unit.service) if unit.service else None,
            cause=explain(_evidence(unit.service, unit, outcomes.get(unit.service)))
            if explain and unit.service
            else None,
        )


def _troubles(diagnosis: Diagnosis | None) -> Iterator[Trouble]:
    if diagnosis is not None:
        yield from (one for one in (diagnosis.root, *diagnosis.followers, *diagnosis.others) if one)


def _evidence(service: str, unit: Unit, recorded: Outcome | None) -> TroubleFacts:
    kinds = {str(Verdict.FAILED)} | ({"ended-well"} if recorded is Outcome.SUCCESS else set())
    return TroubleFacts(kinds=frozenset(kinds), service=service, facts=unit.facts)


def _not_started(
    history: History, units: Sequence[Unit], expected: Sequence[str], *, is_waiting: bool
) -> Iterator[NotStarted]:
    services = {service.name: service for service in history.services}
    failed = {unit.name for unit in units if unit.is_failed}
    unfinished: str | None = None
    for name in dict.fromkeys(expected):
        service = services.get(name)
        if service is not None and service.runs:
            unfinished = unfinished or (name if service.outcome is not Outcome.SUCCESS else None)
            continue
        unit = next((one for one in units if f"{name}.service" in {one.name, *one.aliases}), None)
        if unit is not None and (unit.is_failed or unit.has_started):
            unfinished = unfinished or (name if unit.is_failed else None)
            continue
        unit = unit or Unit(name=f"{name}.service")
        required = min(unit.requires & failed, default=None)
        hindrances = {
            Hindrance.DAMAGE: service is not None,
            Hindrance.DEPENDENCY: required is not None,
            Hindrance.CONDITION: unit.has_unmet_condition,
            Hindrance.ASSERTION: unit.has_unmet_assertion,
            Hindrance.QUEUED: unit.is_queued,
            Hindrance.UNREACHED: unfinished is not None,
            Hindrance.ABSENT: unit.is_absent,
        }
        hindrance = next((one for one, applies in hindrances.items() if applies), Hindrance.UNKNOWN)
        yield NotStarted(
            service=name,
            hindrance=hindrance,
            by={Hindrance.DEPENDENCY: required, Hindrance.UNREACHED: unfinished}.get(hindrance),
            is_pending=hindrance in _PASSING or (is_waiting and hindrance in _OPEN),
        )
        unfinished = unfinished or name
