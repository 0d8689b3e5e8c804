"""Diagnose a host from its history, its units and its other files. Pure.

`analyze`, the page in a bundle, `triage`, the collector and the boot reporter all call `judge`, with a
history from `history.build.host_history`, so that their answers agree.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from service_record.diagnosis.budget import Budgets
from service_record.diagnosis.causes import Causes, HostFiles, judge_evidence, read_evidence
from service_record.diagnosis.derived_history import choose_services, has_records, without_recovered
from service_record.diagnosis.diagnose import diagnose
from service_record.diagnosis.evidence.known_facts import KnownFacts
from service_record.diagnosis.expectations import add_units, default_expected_services
from service_record.diagnosis.findings import Diagnosis
from service_record.diagnosis.units import Unit, UnitLog, with_logs
from service_record.history import History
from service_record.history.build import Now

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
        logs = without_recovered(logs, history)
        known = with_logs(
            known if look_up is None else look_up(known, logs), logs, named, adds_failed=adds_failed
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
