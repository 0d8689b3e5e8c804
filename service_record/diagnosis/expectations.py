"""Add units without a record to a diagnosis: failed, never started, or named by the user. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from service_record.diagnosis.diagnose import Explain
from service_record.diagnosis.evidence.unit_logs import FAULTS, Hindrance
from service_record.diagnosis.findings import (
    Diagnosis,
    FailedUnit,
    NotStarted,
    Stopped,
    Trouble,
    TroubleFacts,
    Unrecorded,
    Verdict,
)
from service_record.diagnosis.units import Unit, find_chain_to_root, find_unit
from service_record.history import History
from service_record.history.outcome import Outcome

ROLES: Final = {"bootstrap": ("release-image", "bootkube")}
"""Role of a host -> the services that must run on it, in the order in which they start.

`openshift-install` judges a bootstrap host by the same services.
"""
_BOOTSTRAPPING: Final = frozenset(
    {"approve-csr", "bootkube", "crio-configure", "node-image-pull", "release-image"}
)
_MAY_PASS: Final = {Hindrance.QUEUED, Hindrance.UNREACHED}
_MAY_PASS_WHILE_WAITING: Final = {Hindrance.ABSENT, Hindrance.UNKNOWN}
"""The reasons that may disappear with `--wait`."""


def default_expected_services(history: History) -> tuple[str, ...]:
    """Return the services that are missing in a log bundle of OpenShift, as in `openshift-install analyze`.

    These are the services of a bootstrap host after the last service with a record.
    """
    recorded = {service.name for service in history.services}
    if recorded.isdisjoint(_BOOTSTRAPPING):
        return ()
    names = ROLES["bootstrap"]
    return names[max((place + 1 for place, name in enumerate(names) if name in recorded), default=0) :]


def add_units(
    diagnosis: Diagnosis | None,
    history: History,
    units: Iterable[Unit] | None,
    *,
    expected: Sequence[str] = (),
    named: Sequence[str] = (),
    selects: Callable[[Unit], bool] | None = None,
    is_waiting: bool = False,
    explain: Explain | None = None,
) -> Diagnosis | None:
    """Add the failed units and the units that have not started to a diagnosis.

    Units that have not started are `expected` services, selected units that systemd could not start because
    of a fault, and `named` services without a record. `units` is None if systemd did not answer.

    If one of them failed, the verdict is at least failed. If an expected service may still start, the verdict
    is running. While waiting (`is_waiting`), a service without a known obstacle may still start.
    Returns None if there is still nothing to judge.
    """
    are_unknown = units is None
    units = tuple(units or ())
    # Units that are not selected can still be the root of a selected unit's failure.
    selected = [unit for unit in units if selects is None or selects(unit)]
    failed = tuple(_find_failed_units(diagnosis, history, selected, explain))
    missing = [
        *_find_expected(history, units, expected, is_waiting=is_waiting),
        *_find_faulty(history, units, selected, expected),
    ]
    recorded = {service.name for service in history.services}
    unrecorded: list[Unrecorded] = []
    for name in dict.fromkeys(named):
        unit = find_unit(units, name)
        if unit is None or unit.is_absent or unit.is_failed or name in {*recorded, *expected}:
            continue
        hindrance = unit.hindrance
        if hindrance is None:
            unrecorded.append(Unrecorded(unit=unit, chain=() if unit.is_active else _find_chain(unit, units)))
        elif hindrance not in FAULTS:
            missing.append(_make_not_started(unit, hindrance, units, is_expected=False))
    if diagnosis is None and not failed and not missing and not unrecorded:
        return None
    diagnosis = diagnosis or Diagnosis(verdict=_verdict_of_units(missing, unrecorded))
    diagnosis = _add_commands(diagnosis, history, units)
    verdict = diagnosis.verdict
    if not verdict.is_bad and (failed or any(one.is_fault for one in missing)):
        verdict = Verdict.FAILED
    elif verdict is Verdict.SUCCEEDED and any(one.is_pending for one in missing):
        verdict = Verdict.RUNNING
    return replace(
        diagnosis,
        verdict=verdict,
        stopped=tuple(_add_partner(stopped, units) for stopped in diagnosis.stopped),
        failed_units=failed,
        not_started=tuple(missing),
        unrecorded=tuple(unrecorded),
        are_units_unknown=are_unknown,
    )


def _verdict_of_units(missing: Sequence[NotStarted], unrecorded: Sequence[Unrecorded]) -> Verdict:
    """Return the verdict if there are only units, of which none has failed."""
    if any(one.unit.is_active for one in unrecorded):
        return Verdict.RUNNING
    is_asked = any(not one.is_expected for one in missing)
    return Verdict.STOPPED if unrecorded or is_asked else Verdict.SUCCEEDED


def _add_commands(diagnosis: Diagnosis, history: History, units: Iterable[Unit]) -> Diagnosis:
    """Add the failed command, as systemd reports it, to troubles whose record does not have it.

    A record lacks it if nothing recorded the end of the service, or if systemd stopped the service because
    another command failed, such as ExecStartPost=. The recorded signal of that stop is not the reason.
    """
    failed = {unit.service: unit for unit in units if unit.is_failed}

    def complete(trouble: Trouble) -> Trouble:
        unit, facts = failed.get(trouble.service), trouble.facts
        if unit is None or unit.command is None or trouble.run.boot_id not in history.boots[-1:]:
            return trouble
        ends = (facts.message, facts.exit_code, facts.signal, facts.command)
        is_stopped_for_another = facts.signal is not None and facts.service_result == "exit-code"
        if not is_stopped_for_another and any(each is not None for each in ends):
            return trouble
        how = replace(facts, exit_code=unit.facts.exit_code, signal=unit.facts.signal, command=unit.command)
        is_known = trouble.cause is not None and (trouble.cause.is_cause or not is_stopped_for_another)
        return replace(trouble, facts=how, cause=trouble.cause if is_known else None)

    return replace(
        diagnosis,
        root=diagnosis.root and complete(diagnosis.root),
        followers=tuple(map(complete, diagnosis.followers)),
        others=tuple(map(complete, diagnosis.others)),
    )


_STOP_TIME: Final = timedelta(minutes=5)
"""A stop job takes no longer than TimeoutStopSec=, which is 90 s by default."""


def _add_partner(stopped: Stopped, units: Sequence[Unit]) -> Stopped:
    """Add the unit that a stopped service is bound to (BindsTo=), if it ended right before the stop."""
    unit, ended = find_unit(units, stopped.run.service), stopped.run.ended
    if unit is None or ended is None:
        return stopped
    for name in sorted(unit.bound_to):
        partner = next((one for one in units if one.name == name), None)
        if partner is None or partner.is_active or partner.since is None:
            continue
        if (stopped.run.started or ended) <= partner.since <= ended + timedelta(seconds=1) and (
            ended - partner.since <= _STOP_TIME
        ):
            return replace(stopped, partner=partner)
    return stopped


def make_unit_facts(unit: Unit, recorded: Outcome | None) -> TroubleFacts:
    """Return the facts of a failed unit that rules are tested against."""
    kinds = {str(Verdict.FAILED)} | ({"ended-well"} if recorded is Outcome.SUCCESS else set())
    return TroubleFacts(
        kinds=frozenset(kinds), service=unit.label, facts=unit.facts, ended=unit.log.time or unit.since
    )


def _find_failed_units(
    diagnosis: Diagnosis | None, history: History, units: Iterable[Unit], explain: Explain | None
) -> Iterator[FailedUnit]:
    """Yield the failed units whose service has no trouble.

    A unit that systemd refuses to start again is always included, because no record can show that.
    """
    outcomes = {service.name: service.outcome for service in history.services}
    troubles = (diagnosis.root, *diagnosis.followers, *diagnosis.others) if diagnosis is not None else ()
    troubled = {trouble.service for trouble in troubles if trouble is not None}
    failed = [unit for unit in units if unit.is_failed]
    for unit in sorted(failed, key=lambda unit: unit.since.timestamp() if unit.since else 0.0):
        if unit.service in troubled and not unit.has_hit_start_limit:
            continue
        recorded = outcomes.get(unit.service) if unit.service else None
        cause = None
        if explain is not None:
            cause = explain(make_unit_facts(unit, recorded))
        yield FailedUnit(unit=unit, recorded=recorded, cause=cause)


def _find_expected(
    history: History, units: Sequence[Unit], expected: Sequence[str], *, is_waiting: bool
) -> Iterator[NotStarted]:
    """Yield the expected services that have not started, in their order."""
    services = {service.name: service for service in history.services}
    unfinished: str | None = None
    for name in dict.fromkeys(expected):
        service, unit = services.get(name), find_unit(units, name)
        if service is not None and service.runs:
            unfinished = unfinished or (name if service.outcome is not Outcome.SUCCESS else None)
            continue
        if unit is not None and (unit.is_failed or unit.is_active or unit.has_started):
            unfinished = unfinished or (name if unit.is_failed else None)
            continue
        unit = unit or Unit(name=f"{name}.service")
        hindrance = unit.hindrance
        if service is not None:
            hindrance = Hindrance.DAMAGE
        elif _find_chain(unit, units):
            hindrance = Hindrance.DEPENDENCY
        elif hindrance in {None, Hindrance.ABSENT} and unfinished is not None:
            hindrance = Hindrance.UNREACHED
        one = _make_not_started(unit, hindrance or Hindrance.UNKNOWN, units, is_expected=True)
        is_pending = one.hindrance in _MAY_PASS or (is_waiting and one.hindrance in _MAY_PASS_WHILE_WAITING)
        by = unfinished if one.hindrance is Hindrance.UNREACHED else one.by
        yield replace(one, service=name, by=by, is_pending=is_pending)
        unfinished = unfinished or name


def _find_faulty(
    history: History, units: Sequence[Unit], selected: Iterable[Unit], expected: Sequence[str]
) -> Iterator[NotStarted]:
    """Yield the selected units that systemd could not start because of a fault, roots first."""
    latest = {None, *history.boots[-1:]}
    started = {one.name for one in history.services if any(run.boot_id in latest for run in one.runs)}
    found = []
    for unit in selected:
        hindrance = unit.hindrance
        if hindrance in FAULTS and unit.services.isdisjoint(started.union(expected)):
            found.append(_make_not_started(unit, hindrance, units, is_expected=False))
    yield from sorted(found, key=lambda one: (one.hindrance is Hindrance.DEPENDENCY, len(one.chain)))


def _make_not_started(
    unit: Unit, hindrance: Hindrance, units: Sequence[Unit], *, is_expected: bool
) -> NotStarted:
    chain = _find_chain(unit, units) if hindrance is Hindrance.DEPENDENCY else ()
    return NotStarted(
        service=unit.label,
        hindrance=hindrance,
        by=chain[0].name if chain else None,
        chain=chain,
        detail=unit.detail if unit.hindrance is hindrance else "",
        is_expected=is_expected,
    )


def _find_chain(unit: Unit, units: Sequence[Unit]) -> tuple[Unit, ...]:
    return find_chain_to_root(unit, {one.name: one for one in units})
