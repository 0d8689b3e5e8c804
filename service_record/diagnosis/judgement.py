"""Diagnose a host from its history, its units and its other files. Pure.

`analyze`, the page in a bundle, `triage`, the collector and the boot reporter all call `judge`, with a
history from `history.build.host_history`, so that their answers agree. It calls the parts in this order:

1. `read_evidence` reads the files of the host.
2. `choose_services` leaves out derived runs that are judged as units instead.
3. `diagnose` judges the services, and `add_units` adds failed and missing units.
4. `judge_evidence` adds likely causes and the lines that stand out.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from service_record.diagnosis.budget import Budgets
from service_record.diagnosis.causes import Causes
from service_record.diagnosis.connections import FailureContext, is_between, make_failure_context
from service_record.diagnosis.diagnose import diagnose, make_trouble_facts
from service_record.diagnosis.evidence.error_lines import LineWeight, telling_line, weigh_lines, weight
from service_record.diagnosis.evidence.facts import KnownFacts
from service_record.diagnosis.evidence.host_evidence import Evidence
from service_record.diagnosis.evidence.log_lines import SYSTEMD, Era, LogLine, is_own_line
from service_record.diagnosis.evidence.scan import Scanner
from service_record.diagnosis.evidence.unit_logs import FAULTS, Hindrance, UnitLog
from service_record.diagnosis.expectations import add_units, default_expected_services, make_unit_facts
from service_record.diagnosis.findings import (
    Diagnosis,
    FailedUnit,
    HostCause,
    QuotedLine,
    Trouble,
    TroubleFacts,
    Verdict,
)
from service_record.diagnosis.ranking import (
    LEAST_POINTER,
    MOST_SHOWN,
    RankedLine,
    choose_lines,
    find_likely_cause,
    rank_lines,
)
from service_record.diagnosis.units import OTHER_SUFFIXES, Unit, add_logs
from service_record.history import History, ServiceHistory
from service_record.history.build import Now
from service_record.history.outcome import NOTHING, Outcome
from service_record.record.directory import OWN_REPORTS

HostFiles: TypeAlias = Iterable[tuple[str, Callable[[int], bytes]]]
"""The path of each file of a host, with a function that reads it. Call it before you take the next file."""
UnitLookup: TypeAlias = Callable[[Sequence[Unit], Mapping[str, UnitLog]], Sequence[Unit]]
"""Takes the known units and the units in the journal. Returns them with the units that explain them."""


class Judgement(msgspec.Struct, frozen=True):
    """The diagnosis of a host, and the facts in its files."""

    diagnosis: Diagnosis | None
    """None if there is nothing to judge."""
    facts: KnownFacts


def judge(
    history: History,
    rules: Causes,
    units: Iterable[Unit] | None = (),
    *,
    files: HostFiles | None = None,
    whole: History | None = None,
    now: Now | None = None,
    budgets: Budgets | None = None,
    expected: Sequence[str] = (),
    named: Sequence[str] = (),
    selects: Callable[[Unit], bool] | None = None,
    look_up: UnitLookup | None = None,
    is_waiting: bool = False,
    is_log_bundle: bool = False,
) -> Judgement:
    """Diagnose a host.

    - `history`: what to judge; may be a selection from the `whole` history, which defines the times that
      lines in files can have.
    - `rules`: the rules of known causes.
    - `units`: the units that systemd or a bundle describes; None if systemd did not answer.
    - `files`: the files other than records; None if there are none. Journals among them show messages
      of systemd about units.
    - `now`: the time of the judgement, by default the latest entry.
    - `expected`: services that must have started. In a log bundle of OpenShift (`is_log_bundle`), by default
      those of a bootstrap host.
    - `named`: services to describe even without a record.
    - `selects`: which failed units and faults to list, by default all.
    - `look_up`: called after the files are read, to add the units that explain others.
    - `is_waiting`: a service without a known obstacle may still start.
    """
    whole = history if whole is None else whole
    if is_log_bundle and not expected:
        expected = default_expected_services(whole)
    known = None if units is None else tuple(units)
    causes = rules.without_evidence(whole)
    if files is not None:
        causes = read_evidence(rules, whole, known or (), files, named)
    logs = causes.evidence.unit_logs
    is_recorded = has_records(whole)
    history = choose_services(history, logs)
    diagnosis = diagnose(history, now=now, budgets=budgets, explain=causes.explain)
    if diagnosis is not None and not is_recorded:
        diagnosis = replace(diagnosis, has_no_records=True)
    if known is not None:
        # Without records and without a list of failed units, only the journal shows which units failed.
        adds_failed = not is_recorded and not causes.evidence.has_unit_listing
        logs = drop_recovered(logs, history)
        starts = [run.started for service in whole.services for run in service.runs if run.started]
        known = add_logs(
            known if look_up is None else look_up(known, logs),
            logs,
            named,
            adds_failed=adds_failed,
            latest_start=max(starts, default=None),
        )
    diagnosis = add_units(
        diagnosis,
        history,
        known,
        expected=expected,
        named=named,
        selects=selects,
        is_waiting=is_waiting,
        explain=causes.explain,
    )
    return Judgement(judge_evidence(diagnosis, causes), causes.evidence.facts)


_UNIT_NAME: Final = r"[\w:.\\@-]+"
_NOT_STARTED: Final = frozenset({"dependency", "timeout"})
"""Results of a start that failed before the service ran. The unit itself shows the reason."""


def is_derived(service: ServiceHistory) -> bool:
    """Return True if all runs of the service come from a journal or an installer's log, not from a record."""
    return bool(service.runs) and all(run.is_derived for run in service.runs)


def has_records(history: History) -> bool:
    """Return True if any service of the history has a record, even a damaged one."""
    return not all(map(is_derived, history.services))


def choose_services(history: History, logs: Mapping[str, UnitLog]) -> History:
    """Return the history without derived runs that are judged as units instead.

    These are runs of mounts, devices and other units that are not services, and starts that failed before the
    service ran. Runs named by a unit's description are left out if anything else failed, because systemd logs
    the same failure with the unit's name. A failed dependency is no such failure: it follows from another.
    """
    services = [one for one in history.services if not is_derived(one) or _is_judged(one)]
    named = [one for one in services if not is_derived(one) or re.fullmatch(_UNIT_NAME, one.name)]
    has_failure = any(one.outcome is not None and one.outcome.is_bad for one in named) or any(
        log.result is not None or log.hindrance in FAULTS - {Hindrance.DEPENDENCY} for log in logs.values()
    )
    return replace(history, services=tuple(named if has_failure else services))


def _is_judged(service: ServiceHistory) -> bool:
    run = service.runs[-1]
    is_refused = run.has_no_start and run.facts.service_result in _NOT_STARTED
    return not service.name.endswith(OTHER_SUFFIXES) and not is_refused


def drop_recovered(logs: Mapping[str, UnitLog], history: History) -> Mapping[str, UnitLog]:
    """Return the unit logs without services that recovered: their derived history ends without a failure.

    A refused restart (start limit) is kept: it can follow a successful run.
    """
    good = {
        f"{one.name}.service"
        for one in history.services
        if is_derived(one) and one.outcome in {Outcome.SUCCESS, Outcome.RUNNING, Outcome.STOPPED}
    }
    return {name: log for name, log in logs.items() if name not in good or log.has_hit_start_limit}


_LATEST_RUNS: Final = 3
"""The number of runs whose pids identify the lines of a service in a journal."""


def make_scanner(causes: Causes, history: History, named: Iterable[str] = ()) -> Scanner:
    """Return a scanner for the files of the host with this history.

    It keeps the own lines of services with records, and of the `named` services, which may have none.
    """
    pids: dict[str, list[int]] = {name: [] for name in named}
    for service in history.services:
        # A journal has lines of a hundred units. Units that succeeded there need no explanation.
        if not is_derived(service) or service.outcome is None or service.outcome.is_bad:
            pids[service.name] = [run.pid for run in service.runs[-_LATEST_RUNS:] if run.pid is not None]
    runs = [run for service in history.services for run in service.runs]
    times = [time for run in runs for time in (run.first_entry, run.last_entry) if time is not None]
    return Scanner(causes.book.patterns, pids, Era(min(times, default=None), max(times, default=None)))


def read_evidence(
    causes: Causes, history: History, units: Iterable[Unit], files: HostFiles, named: Iterable[str] = ()
) -> Causes:
    """Read the files of a host and return the rules with that evidence.

    Own lines are kept for services with records, services whose units failed, and the `named` services.
    """
    failed = {unit.label for unit in units if unit.is_failed}
    scanner = make_scanner(causes, history, failed.union(named))
    for path, read in files:
        if re.search(OWN_REPORTS, path) is None:  # an earlier diagnosis is no evidence for this one
            scanner.read(path, read)
    return causes.with_evidence(scanner.evidence(), history)


def judge_evidence(diagnosis: Diagnosis | None, causes: Causes) -> Diagnosis | None:
    """Add the evidence to a diagnosis. Without records, judge the host by its files alone.

    Returns None if there is nothing to judge: records without a run, or files without lines and facts.
    """
    if diagnosis is None and (has_records(causes.history) or not causes.evidence.is_of_host):
        return None
    verdict = Verdict.SUCCEEDED if causes.evidence.has_systemd else Verdict.UNKNOWN
    return _add_evidence(diagnosis or Diagnosis(verdict=verdict, has_no_records=True), causes)


def _add_evidence(diagnosis: Diagnosis, causes: Causes) -> Diagnosis:
    """Add telling lines, likely causes and the lines that stand out.

    If no service is in trouble, look for a cause in the evidence alone: the host may be running but blocked.
    """
    failures = _make_failure_contexts(diagnosis, causes.evidence)
    ranked = rank_lines(causes.evidence.notable, failures, causes.known_lines)
    root = diagnosis.root and _add_likely_cause(_add_telling(diagnosis.root, causes), causes, ranked)
    diagnosis = replace(
        diagnosis,
        failed_units=tuple(_add_likely_cause_to_unit(failed, causes) for failed in diagnosis.failed_units),
    )
    host = None if root is not None else _find_host_cause(diagnosis, causes, ranked)
    name = causes.evidence.facts.first("hostname")
    named = root.cause if root is not None else host.cause if host is not None else None
    other_causes = [one.cause for one in diagnosis.others] + [one.cause for one in diagnosis.failed_units]
    stands_out = [
        QuotedLine(one.text, str(one.line.place), one.line.name, one.count)
        for one in choose_lines(
            ranked,
            named,
            root.telling if root is not None else None,
            # The lines that prove the causes of the other failures are shown there.
            explained=[one.line for one in other_causes if one is not None and one.line is not None],
            has_failed=bool(failures),
            is_fragment=_is_fragment(diagnosis, causes),
        )
    ]
    if root is not None and named is None and not stands_out:  # a line that a rule knows is worth reading
        doubtful = causes.doubtful.get(root.service, ())[:MOST_SHOWN]
        stands_out = [QuotedLine(one.line, one.place or "", one.of or "") for one in doubtful if one.line]
    return replace(
        diagnosis,
        stands_out=tuple(stands_out),
        host_name=name.value if name is not None else None,
        root=root,
        followers=tuple(_add_telling(trouble, causes) for trouble in diagnosis.followers),
        others=tuple(_add_telling(trouble, causes) for trouble in diagnosis.others),
        host=host,
        looked=causes.evidence.looked,
        weighed=dict(causes.log),
    )


def _find_host_cause(diagnosis: Diagnosis, causes: Causes, ranked: Sequence[RankedLine]) -> HostCause | None:
    """Return the cause to show if no trouble is the root.

    The order: a certain cause of a failed unit, of a unit that did not start, of the host, and then a likely
    cause of a failed unit, or of the problem in a fragment of a log.
    """
    of_units = [
        HostCause(service=one.unit.label, cause=one.cause)
        for one in diagnosis.failed_units
        if one.cause is not None
    ]
    certain = next((one for one in of_units if one.cause.is_cause), None)
    if certain is not None:
        return certain
    for fault in (one for one in diagnosis.not_started if one.is_fault):
        cause = causes.explain(
            TroubleFacts(kinds=frozenset({str(Verdict.FAILED)}), service=fault.service, facts=NOTHING)
        )
        if cause is not None and cause.is_cause:
            return HostCause(service=fault.service, cause=cause)
    cause = causes.explain_host()
    if cause is not None:
        return HostCause(service=cause.of or "host", cause=cause)
    likely = next((one for one in of_units if one.cause.is_pointer), None)
    if likely is not None or not _is_fragment(diagnosis, causes):
        return likely
    # Only a fragment of a log was given, and people choose fragments that show a problem. On a host with
    # working units, the same line would be harmless.
    cause = find_likely_cause(
        FailureContext(""), None, None, causes.doubtful.get("", ()), ranked, is_fragment=True
    )
    return None if cause is None else HostCause(service=cause.of or "host", cause=cause)


def _is_fragment(diagnosis: Diagnosis, causes: Causes) -> bool:
    """Return True if only logs were given that do not show which services of the host failed."""
    services = causes.history.services
    has_succeeded = bool(services) and all(one.outcome is Outcome.SUCCESS for one in services)
    has_units = causes.evidence.has_systemd or has_succeeded or diagnosis.failed_units
    return diagnosis.has_no_records and not has_units


def _make_failure_contexts(diagnosis: Diagnosis, evidence: Evidence) -> list[FailureContext]:
    """Return the services in trouble and the failed units, with the times of their runs."""
    troubles = [one for one in (diagnosis.root, *diagnosis.others) if one is not None]
    facts = [make_trouble_facts(one) for one in troubles]
    facts += [make_unit_facts(one.unit, one.recorded) for one in diagnosis.failed_units]
    return [make_failure_context(one, evidence) for one in facts]


def _add_likely_cause_to_unit(failed: FailedUnit, causes: Causes) -> FailedUnit:
    """Return a failed unit with its most telling line, and the likely cause if no rule is certain."""
    service = failed.unit.label
    if failed.cause is not None and failed.cause.is_cause:
        return failed
    lines = causes.evidence.own.get(service, ())
    telling = _find_telling([line for line in lines if line.kind != SYSTEMD])
    failure = make_failure_context(make_unit_facts(failed.unit, failed.recorded), causes.evidence)
    ranked = rank_lines(causes.evidence.notable, [failure], causes.known_lines)
    cause = find_likely_cause(failure, telling, failed.cause, causes.doubtful.get(service, ()), ranked)
    if telling is None and cause is not None and cause.is_pointer:
        own = next(
            (one for one in ranked if is_own_line(one.line, service) and one.score >= LEAST_POINTER), None
        )
        telling = None if own is None else QuotedLine(own.text, str(own.line.place))
    return replace(failed, telling=telling or failed.telling, cause=cause or failed.cause)


def _add_likely_cause(trouble: Trouble, causes: Causes, ranked: Sequence[RankedLine]) -> Trouble:
    """Add the likely cause to a trouble that no rule explains with certainty."""
    if trouble.cause is not None and (trouble.cause.is_cause or trouble.cause.is_pointer):
        return trouble
    telling = trouble.telling
    if telling is None and (line := telling_line(trouble.facts.message)) is not None:
        telling = QuotedLine(line, "")
    doubtful = causes.doubtful.get(trouble.service, ())
    failure = make_failure_context(make_trouble_facts(trouble), causes.evidence)
    cause = find_likely_cause(failure, telling, trouble.cause, doubtful, ranked)
    return trouble if cause is None else replace(trouble, cause=cause)


def _find_telling(lines: Sequence[LogLine], beyond: LineWeight = LineWeight.PLAIN) -> QuotedLine | None:
    """Return the line with the highest weight, if its weight is above `beyond`."""
    weighed = zip(weigh_lines(line.text.strip() for line in lines), lines, strict=True)
    latest_first = list(weighed)[::-1]
    if not latest_first:
        return None
    (found, text), line = max(latest_first, key=lambda one: one[0][0])
    return QuotedLine(text, str(line.place)) if found > beyond else None


def _add_telling(trouble: Trouble, causes: Causes) -> Trouble:
    """Add the number of dropped messages and, if the record has no error line, a telling line of the log."""
    log = causes.evidence.unit_logs.get(f"{trouble.service}.service")
    if log is not None and log.suppressed:
        trouble = replace(trouble, suppressed=log.suppressed)
    message_line = telling_line(trouble.facts.message)
    message_weight = LineWeight.PLAIN if message_line is None else max(LineWeight.PLAIN, weight(message_line))
    if message_weight >= LineWeight.ERROR:
        return trouble
    run = trouble.run
    lines = [
        line
        for line in causes.evidence.own.get(trouble.service, ())
        if line.kind != SYSTEMD
        and line.time is not None
        and is_between(line.time, run.started or run.first_entry, run.ended)
    ]
    telling = _find_telling(lines, message_weight)
    return trouble if telling is None else replace(trouble, telling=telling)
