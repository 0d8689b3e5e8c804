"""The inputs of a diagnosis: files that `analyze` is given, and the units that failed or never started.

Also the page of `analyze` that goes with a bundle.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from service_record.cli import system_error_line
from service_record.cli.inputs import history_of, now_for, opened
from service_record.cli.options import complete_services, service_name
from service_record.diagnosis import Diagnosis, diagnose
from service_record.diagnosis.budget import BudgetFile, Budgets
from service_record.diagnosis.cause_rules import CauseRule
from service_record.diagnosis.causes import Causes, built_in_rules, judge_evidence
from service_record.diagnosis.findings import FailedUnit
from service_record.diagnosis.trouble_facts import PROPERTIES, Unit, read_properties, read_texts
from service_record.history import History, build_history
from service_record.history.build import Now
from service_record.history.outcome import order
from service_record.read.source import Source, SourceError, open_source
from service_record.record import systemd
from service_record.record.appending import DEFAULT_DIRECTORY
from service_record.record.visible import visible

_T = TypeVar("_T")


class BadFile(click.ClickException):
    """A file that was given for judging by is not what it should be."""

    exit_code = click.UsageError.exit_code


class Judging(msgspec.Struct, frozen=True):
    """The inputs that all diagnoses of one call share."""

    budgets: Budgets = msgspec.field(default_factory=Budgets)
    causes: Causes = msgspec.field(default_factory=lambda: Causes(()))

    def diagnosis(self, history: History, now: Now) -> Diagnosis | None:
        return diagnose(history, now=now, budgets=self.budgets, explain=self.causes.explain)


def judging(budget: Path | None, baseline: str | None, rules: Sequence[Path]) -> Judging:
    """Read these files; rules of one's own come before the built-in ones.

    Raises BadFile with the line where one is not as docs/analyze.md has it.
    """
    file, own_rules = _budget_and_rules(budget, rules) if budget or rules else (BudgetFile(), [])
    good = build_history(opened([baseline], ()).records) if baseline else None
    return Judging(Budgets(file=file, baseline=good), Causes([*own_rules, *built_in_rules()]))


def _budget_and_rules(budget: Path | None, rules: Sequence[Path]) -> tuple[BudgetFile, list[CauseRule]]:
    from service_record.diagnosis.yaml_files import read_budgets, read_rules  # few have any

    file = _read(budget, read_budgets) if budget else BudgetFile()
    return file, [rule for path in rules for rule in _read(path, read_rules)]


def _read(path: Path, read: Callable[[str, str], _T]) -> _T:
    from service_record.diagnosis.yaml_files import FileError  # as above

    try:
        return read(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadFile(visible(f"{path}:{line}: not UTF-8")) from None
    except FileError as error:
        raise BadFile(visible(str(error))) from None


BASELINE = "baseline"

expect_option = click.option(
    "--expect",
    "expectations",
    metavar="SERVICE|ROLE",
    multiple=True,
    shell_complete=complete_services,
    help="Services that must have started, in their order: names with commas; bootstrap, for the services of "
    "that host; baseline, for those of --baseline. Repeatable.",
)


def expected_services(expectations: Sequence[str], baseline: History | None) -> tuple[str, ...]:
    """Return the services that `--expect` means, in its order. Raises UsageError."""
    if not expectations:
        return ()
    from service_record.diagnosis.expectations import ROLES  # few expect any

    names: list[str] = []
    for word in (part.strip() for text in expectations for part in text.split(",")):
        if not word:
            raise click.UsageError("--expect: a name is empty; put one comma between names")
        if word != BASELINE:
            names += ROLES.get(word, (service_name(word),))
        elif baseline is None:
            raise click.UsageError("--expect baseline needs --baseline, whose services are then expected")
        else:
            started = [service for service in baseline.services if service.runs]
            names += [s.name for s in sorted(started, key=lambda service: order(service.runs[0].first_entry))]
    return tuple(dict.fromkeys(names))


def units_for(
    source: Source, places: Sequence[str], history: History, boot_id: str | None, expected: Sequence[str]
) -> tuple[Unit, ...] | None:
    """Return the failed and the expected units, of the bundle that is read or of this host.

    None where systemd does not answer. No unit is known of an earlier boot that was asked for, nor of a
    directory that may be another host's.
    """
    if source.is_snapshot:
        is_latest = boot_id is None or boot_id in history.boots[-1:]
        return read_texts(source.unit_texts) if is_latest else ()
    return units_here(expected) if is_here(source, places, history, boot_id) else ()


def is_here(source: Source, places: Sequence[str], history: History, boot_id: str | None) -> bool:
    """Return whether records are certainly those of this host, and its present boot is asked for."""
    here = systemd.boot_id()
    is_only_home = source.is_home and not source.is_snapshot and len(places) <= 1
    is_of_host = source.name == DEFAULT_DIRECTORY or (here is not None and here in history.boots)
    return is_only_home and is_of_host and boot_id in {None, here}


def failed_units(source: Source) -> tuple[FailedUnit, ...]:
    """Return the units that failed by the texts of a bundle without records."""
    from service_record.diagnosis.expectations import add_units  # only of a bundle

    diagnosis = add_units(None, History(()), read_texts(source.unit_texts))
    return diagnosis.failed_units if diagnosis is not None else ()


def units_here(expected: Sequence[str]) -> tuple[Unit, ...] | None:
    """Return the failed and the expected units of this host; no unit where there is no systemd.

    None where systemd does not answer, which a warning says.
    """
    if not systemd.is_running():
        return ()
    text = systemd.unit_properties(expected, PROPERTIES)
    if text is None:
        click.echo("Warning: systemd does not answer; which units failed is not known", err=True)
        return None
    return read_properties(text, time.time() - time.clock_gettime(time.CLOCK_MONOTONIC))


def with_evidence(
    causes: Causes,
    source: Source,
    places: Sequence[str],
    history: History,
    units: Iterable[Unit],
    *,
    is_here: bool,
) -> Causes:
    """Return the causes with what `with_host_files` finds, which is nothing beside the records of others."""
    if not is_here and not source.is_snapshot:
        return causes.without_evidence(history)
    from service_record.read.host_files import with_host_files  # only where there may be some

    return with_host_files(causes, source, places, history, units, is_here=is_here)


def verdict_page(at: datetime) -> str:
    """Return the fault of this host, or why it is unknown; always a text."""
    from service_record.diagnosis.expectations import add_units  # only for a bundle
    from service_record.display.verdict_page import analysis_text  # as above

    try:
        source = open_source()
        history = history_of(source)
        judges = judging(None, None, ())
        units = units_for(source, (), history, None, ())
        live = is_here(source, (), history, None)
        causes = with_evidence(judges.causes, source, (), history, units or (), is_here=live)
        judged = Judging(judges.budgets, causes).diagnosis(history, now_for(history, source))
        diagnosis = add_units(judged, history, units, explain=causes.explain)
        diagnosis = judge_evidence(diagnosis, causes)
    except SourceError as error:
        return f"{visible(str(error))}\n"
    except OSError as error:
        return f"{system_error_line(error)}\n"
    if diagnosis is None:
        return f"no run to judge in {visible(source.name)}\n"
    return analysis_text(diagnosis, history, source.name, at)
