"""Judge a host: from its history, its units and the evidence in its files to one diagnosis. Pure."""

from collections.abc import Callable, Iterable, Sequence

from service_record.diagnosis.budget import Budgets
from service_record.diagnosis.causes import Causes, judge_evidence
from service_record.diagnosis.diagnose import diagnose
from service_record.diagnosis.expectations import add_units
from service_record.diagnosis.findings import Diagnosis
from service_record.diagnosis.units import Unit, with_logs
from service_record.history import History
from service_record.history.build import Now


def judge(
    history: History,
    causes: Causes,
    units: Iterable[Unit] | None = (),
    *,
    now: Now | None = None,
    budgets: Budgets | None = None,
    expected: Sequence[str] = (),
    named: Sequence[str] = (),
    selects: Callable[[Unit], bool] | None = None,
    is_waiting: bool = False,
) -> Diagnosis | None:
    """Return the diagnosis of a host; None where there is nothing to judge.

    `causes` are the rules with the evidence in the host's files. `units` are those that systemd or a bundle
    tells about, None if systemd did not answer; what systemd logged about units is part of the evidence.
    `expected` services must have started, and the `named` ones are described even without a record.
    `selects` says which failed units and faults are listed: by default all.
    """
    diagnosis = diagnose(history, now=now, budgets=budgets, explain=causes.explain)
    if units is not None:
        units = with_logs(units, causes.evidence.unit_logs, named)
    diagnosis = add_units(
        diagnosis,
        history,
        units,
        expected=expected,
        named=named,
        selects=selects,
        is_waiting=is_waiting,
        explain=causes.explain,
    )
    return judge_evidence(diagnosis, causes)
