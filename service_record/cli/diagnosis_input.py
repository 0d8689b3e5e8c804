"""Collect the input of a diagnosis for `analyze` and `show`: budgets, rules, systemd units, other files.

Also make the page of `analyze` in a bundle.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

import click
import msgspec
from msgspec.structs import replace

from service_record.cli import system_error_line
from service_record.cli.inputs import find_now, open_places, read_history
from service_record.cli.options import complete_services, service_name
from service_record.diagnosis import Diagnosis, Verdict, diagnose
from service_record.diagnosis.budget import BudgetFile, Budgets
from service_record.diagnosis.causes import Causes, built_in_causes, built_in_rules
from service_record.diagnosis.evidence.unit_logs import UnitLog, read_messages
from service_record.diagnosis.judgement import judge, read_evidence
from service_record.diagnosis.units import (
    PROPERTIES,
    Unit,
    add_logs,
    add_required_units,
    find_asserted_units,
    read_assertions,
    read_properties,
    read_texts,
)
from service_record.history import History, build_history
from service_record.history.build import Now
from service_record.history.outcome import Outcome, order
from service_record.read.source import Source, SourceError, open_source
from service_record.record import systemd
from service_record.record.appending import DEFAULT_DIRECTORY
from service_record.record.visible import visible

_T = TypeVar("_T")


class BadFile(click.ClickException):
    """A budget or rule file that is not valid."""

    exit_code = click.UsageError.exit_code


class Criteria(msgspec.Struct, frozen=True):
    """The budgets and rules of one call."""

    budgets: Budgets = msgspec.field(default_factory=Budgets)
    causes: Causes = msgspec.field(default_factory=lambda: Causes(()))


def read_criteria(budget: Path | None, baseline: str | None, rules: Sequence[Path]) -> Criteria:
    """Read budget, baseline and rules; the user's rules come before the built-in ones.

    Raises BadFile, which names the line with the error.
    """
    file, causes = BudgetFile(), built_in_causes()
    if budget or rules:
        from service_record.diagnosis.yaml_files import read_budgets, read_rules

        file = _read(budget, read_budgets) if budget else file
        own_rules = [rule for path in rules for rule in _read(path, read_rules)]
        causes = Causes([*own_rules, *built_in_rules()]) if own_rules else causes
    if baseline is None:
        return Criteria(Budgets(file=file), causes)
    source = open_places([baseline], (), derives=True)
    good = build_history(source.records)
    known_lines: frozenset[str] = frozenset()
    if source.contents is not None:
        from service_record.read.host_files import host_files

        # Lines that a good host logged as well do not stand out.
        evidence = read_evidence(causes, good, (), host_files(source) or ()).evidence
        known_lines = frozenset(line.template for line in evidence.notable)
    return Criteria(Budgets(file=file, baseline=good), Causes(causes.book, known_lines=known_lines))


def _read(path: Path, read: Callable[[str, str], _T]) -> _T:
    from service_record.record.config_file import ConfigError

    try:
        return read(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadFile(visible(f"{path}:{line}: not UTF-8")) from None
    except ConfigError as error:
        raise BadFile(visible(str(error))) from None


BASELINE = "baseline"

expect_option = click.option(
    "--expect",
    "expectations",
    metavar="SERVICE|ROLE",
    multiple=True,
    shell_complete=complete_services,
    help="Services that must have started, in their order: names separated by commas; `bootstrap` for those "
    "of a bootstrap host; `baseline` for those of --baseline. Repeatable.",
)


def expected_services(expectations: Sequence[str], baseline: History | None) -> tuple[str, ...]:
    """Return the services named by `--expect`, in its order. Raises UsageError."""
    if not expectations:
        return ()
    from service_record.diagnosis.expectations import ROLES  # loaded only for --expect

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


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A host to judge, with the services, boot and period that the user selected."""

    source: Source
    places: Sequence[str] = ()
    whole: History
    """All of its records, including other boots and periods than the selected ones."""
    history: History
    now: Now
    boot_id: str | None = None
    expected: Sequence[str] = ()
    """Services that must have started."""
    unrecorded: Sequence[str] = ()
    """Services that were asked for by name, and that have no record."""
    selects: Callable[[Unit], bool] | None = None
    """Which units to list; by default all."""
    selects_services: bool = False
    """True if only some services are judged."""
    is_waiting: bool = False
    is_brief: bool = False
    """True for `--brief`: fewer lines of the journal are read, so that the answer comes at once."""

    @property
    def is_here(self) -> bool:
        """Return True if the records are certainly of this host and its current boot is selected."""
        source, here = self.source, systemd.boot_id()
        is_only_home = source.is_home and not source.is_snapshot and len(self.places) <= 1
        is_of_host = source.name == DEFAULT_DIRECTORY or (here is not None and here in self.whole.boots)
        return is_only_home and is_of_host and self.boot_id in {None, here}

    @property
    def is_latest_boot(self) -> bool:
        """Return True if the latest boot is selected. Units are known only of that."""
        return self.boot_id is None or self.boot_id in self.whole.boots[-1:]

    def units(self) -> tuple[Unit, ...] | None:
        """Return the failed, expected and named units of this host; for a bundle, the units in it.

        Returns None if systemd does not answer.
        """
        if self.source.is_snapshot:
            return read_texts(self.source.unit_texts) if self.is_latest_boot else ()
        if not self.is_here:
            return ()
        stopped = [one.name for one in self.history.services if one.outcome is Outcome.STOPPED]
        return units_here([*self.expected, *self.unrecorded, *stopped[:_MAX_STOPPED]])

    def judge(self, criteria: Criteria) -> Diagnosis | None:
        """Read the files beside the records, and judge the host; return None if there is nothing to judge."""
        units, files = self.units(), None
        if self._reads_files(criteria):
            from service_record.read.host_files import host_files

            files = host_files(
                self.source,
                units,
                named=self.unrecorded,
                is_here=self.is_here,
                is_brief=self.is_brief,
                leave=lambda part: click.echo(f"Warning: {visible(str(part))}", err=True),
            )
            if self.is_here:
                criteria.causes.prepare()  # now, while the host's programs run
        return judge(
            self.history,
            criteria.causes,
            units,
            files=files,
            whole=self.whole,
            now=self.now,
            budgets=criteria.budgets,
            expected=self.expected,
            named=self.unrecorded if self.is_latest_boot else (),
            selects=self.selects if self.is_latest_boot else lambda _unit: False,
            look_up=add_explaining_units if self.is_here else None,
            is_waiting=self.is_waiting,
            is_log_bundle=self.source.is_log_bundle and self.is_latest_boot and not self.selects_services,
        ).diagnosis

    def _reads_files(self, criteria: Criteria) -> bool:
        if self.source.contents is not None:
            return True
        if not self.is_here:
            return False
        # While something runs the answer is not final, and reading the host each time takes seconds.
        first = diagnose(self.history, now=self.now, budgets=criteria.budgets) if self.is_waiting else None
        return first is None or first.verdict is not Verdict.RUNNING


_MAX_STOPPED: Final = 20
_MAX_RESTARTED: Final = 20
_MESSAGES_OF_A_UNIT: Final = 20
_LOOKUP_SECONDS: Final = 2.0


def units_here(services: Sequence[str]) -> tuple[Unit, ...] | None:
    """Return the failed units of this host and the units of these services; empty without systemd.

    Returns None, and prints a warning, if systemd does not answer.
    """
    if not systemd.is_running():
        return ()
    text = systemd.unit_properties([f"{service}.service" for service in services], PROPERTIES)
    if text is None:
        click.echo("Warning: systemd does not answer; which units failed is not known", err=True)
        return None
    return read_properties(text, systemd.booted())


def add_explaining_units(units: Sequence[Unit], logs: Mapping[str, UnitLog]) -> tuple[Unit, ...]:
    """Add the units of this host that explain others, and the assertions of units that these stopped.

    Queries of systemd take at most two seconds together. Facts that are unknown by then are left out.
    """
    deadline = time.monotonic() + _LOOKUP_SECONDS

    def remaining() -> float:
        return max(deadline - time.monotonic(), 0)

    def show(names: Sequence[str]) -> tuple[Unit, ...] | None:
        text = systemd.unit_properties(names, PROPERTIES, remaining(), with_failed=False)
        return None if text is None else read_properties(text, systemd.booted())

    known = {unit.name: unit for unit in add_required_units(units, logs, show)}
    for name in find_asserted_units(known.values(), logs):
        file = systemd.unit_file(name, remaining())
        known[name] = replace(known[name], assertions=read_assertions(file))
    return tuple(known.values())


def add_start_limits(units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Add systemd's messages about a reached start limit to failed units that were restarted.

    The properties of a unit do not show that the start limit stopped its restarts.
    """
    names = [unit.name for unit in units if unit.is_failed and unit.restarts][:_MAX_RESTARTED]
    if not names:
        return tuple(units)
    messages = systemd.messages_about(names, lines=_MESSAGES_OF_A_UNIT * len(names), timeout=_LOOKUP_SECONDS)
    logs = read_messages(messages.splitlines())
    return add_logs(units, {name: log for name, log in logs.items() if log.has_hit_start_limit})


def described_units(diagnosis: Diagnosis | None) -> set[str]:
    """Return the services that a diagnosis describes by their units."""
    if diagnosis is None:
        return set()
    failed = {one.unit.service for one in diagnosis.failed_units}
    calm = {one.unit.service for one in diagnosis.unrecorded}
    return {name for name in failed | calm if name} | {one.service for one in diagnosis.not_started}


def verdict_page(at: datetime) -> str:
    """Return the page of `analyze` for this host as text, or the reason why there is none."""
    from service_record.display.verdict_page import analysis_text  # `analyze` and `show` do not need it

    try:
        source = open_source()
        history = read_history(source)
        subject = Subject(source=source, whole=history, history=history, now=find_now(history, source))
        diagnosis = subject.judge(read_criteria(None, None, ()))
    except SourceError as error:
        return f"{visible(str(error))}\n"
    except OSError as error:
        return f"{system_error_line(error)}\n"
    if diagnosis is None:
        return f"no run to judge in {visible(source.name)}\n"
    return analysis_text(diagnosis, history, source.name, at)
