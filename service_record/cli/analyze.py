"""`service-record analyze`: diagnose a host; with `--wait`, when its services have ended."""

import shlex
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec.structs import replace

from service_record.cli import FAILED, TIMED_OUT, UNREADABLE, Unreadable, system_error_line
from service_record.cli.diagnosis_input import (
    Criteria,
    Subject,
    described_units,
    expect_option,
    expected_services,
    read_criteria,
)
from service_record.cli.inputs import (
    ReadRequest,
    check_names,
    find_now,
    open_places,
    read_history,
    request_options,
)
from service_record.cli.options import DURATION, EXISTING_FILE, output_option, period_options
from service_record.cli.terminal import Answer, OutputForm, display_options, emit
from service_record.diagnosis import Diagnosis, Verdict
from service_record.diagnosis.units import Unit
from service_record.display.text import Line, View
from service_record.history import History
from service_record.history.build import Now, latest_entry
from service_record.read.source import Source, SourceError, is_unpacked_bundle
from service_record.record.appending import DEFAULT_DIRECTORY
from service_record.record.directory import Records, is_record_name
from service_record.record.visible import visible

_FIRST_STEPS: Final = (
    "\nTry: service-record doctor, service-record analyze example:stuck, or service-record --help"
)
_NEEDS_DIRECTORY: Final = "--wait needs one directory of records that a host writes"


@click.command("analyze")
@request_options
@output_option(about="table: one screen; wide: every trouble in full")
@click.option(
    "--brief",
    is_flag=True,
    help="Print only the verdict, up to three lines of evidence and what to run next; on this host from "
    "fewer lines of the journal.",
)
@click.option("--wait", is_flag=True, help="Wait until all services have ended, or something is wrong.")
@click.option(
    "--timeout",
    type=DURATION,
    help="With --wait: give up after this time (90s, 10m, 1h30m), and exit with 124.",
)
@click.option(
    "--budget",
    metavar="FILE",
    type=EXISTING_FILE,
    help="Time limits of stages. [default: learned from earlier runs, or 30m]",
)
@click.option(
    "--baseline",
    metavar="SOURCE",
    help="A good run: slower stages are listed, and lines that it logged too do not stand out.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="List the rules that match, with their evidence, and why only one is shown.",
)
@click.option(
    "--rules",
    metavar="FILE",
    type=EXISTING_FILE,
    multiple=True,
    help="A file with more rules for known causes. Repeatable.",
)
@expect_option
@period_options
@display_options
def command(
    *,
    request: ReadRequest,
    form: OutputForm,
    brief: bool,
    wait: bool,
    timeout: float | None,
    explain: bool,
    budget: Path | None,
    baseline: str | None,
    rules: tuple[Path, ...],
    expectations: tuple[str, ...],
) -> None:
    """Say what is wrong with a host, and why: the root cause first.

    \b
    Examples:
      service-record analyze                     this host
      service-record analyze node7-journal.txt   another host: its journal
      service-record analyze --from bundle.tar.gz
      service-record analyze bootkube --wait --timeout 30m
      service-record analyze --baseline good.tar.gz --from bad.tar.gz
      service-record analyze --expect bootstrap
      service-record analyze example:stuck
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait; add it")
    if baseline == "-" and "-" in request.places:
        raise click.UsageError(
            "standard input holds one of --from and --baseline, not both; give a file for the other"
        )
    criteria = read_criteria(budget, baseline, rules)
    expected = expected_services(expectations, criteria.budgets.baseline)
    question = _Question(request, criteria, expected, is_waiting=wait, is_brief=brief)
    try:
        answer = _wait_for_answer(question, timeout) if wait else question.answer()
    except Unreadable as refusal:
        if not brief or request.places:
            raise
        raise Unreadable(refusal.message + _FIRST_STEPS) from None
    sources = [word for place in request.places for word in ("--from", place)]
    in_full = shlex.join(["service-record", "analyze", *request.services, *sources]) if brief else None
    emit(replace(answer, explains=explain, in_full=in_full), form)
    diagnosis = answer.diagnosis
    if wait and diagnosis.verdict is Verdict.RUNNING:
        raise click.exceptions.Exit(TIMED_OUT)
    if diagnosis.verdict.is_bad or diagnosis.host is not None:
        raise click.exceptions.Exit(FAILED)
    has_read_nothing = diagnosis.verdict is Verdict.UNKNOWN and not diagnosis.looked.lines
    if diagnosis.unreadable or has_read_nothing:
        raise click.exceptions.Exit(UNREADABLE)


class _Analysis(Answer, frozen=True):
    """The result of reading and judging the records once. It prints itself in each format."""

    source: str
    history: History
    diagnosis: Diagnosis
    now: Now
    """The time as of which running services were judged."""
    explains: bool = False
    in_full: str | None = None
    """The command that prints everything, if only the brief form is wanted."""

    other_hosts: tuple[tuple[str, Diagnosis], ...] = ()
    """The other hosts in the same source, with their diagnoses."""

    def lines(self, view: View, *, is_wide: bool) -> Iterable[Line]:
        from service_record.display.verdict_page import (
            analysis,
            brief_analysis,
            other_host_lines,
            weighed_lines,
        )

        if self.in_full is not None:
            return brief_analysis(self.diagnosis, self.history, view, self.in_full)
        lines = list(analysis(self.diagnosis, self.history, self.source, view, whole=is_wide))
        lines += other_host_lines(self.other_hosts, view)
        return [*lines, *(weighed_lines(self.diagnosis, view) if self.explains else ())]

    def page(self, view: View) -> str:
        from service_record.display.charts import charts
        from service_record.display.html.diagnosis_page import analysis_html

        drawn = charts(self.history, self.now)
        return analysis_html(
            self.diagnosis,
            self.history,
            self.source,
            drawn,
            view,
            at=self.now.time,
            other_hosts=self.other_hosts,
        )

    def document(self) -> object:
        from service_record.display.analysis_document import analysis_document

        return analysis_document(
            self.diagnosis, self.source, other_hosts=self.other_hosts, explains=self.explains
        )

    def documents(self) -> Iterable[object]:
        from service_record.display.analysis_document import analysis_lines

        return analysis_lines(self.diagnosis, self.source, other_hosts=self.other_hosts)


class _Question(msgspec.Struct, frozen=True):
    """The records to judge, and how."""

    request: ReadRequest
    criteria: Criteria
    expected: Sequence[str] = ()
    """Services that must have started."""
    is_waiting: bool = False
    is_brief: bool = False

    def answer(self) -> _Analysis:
        """Read and judge the records. Raises Unreadable if there is nothing to judge."""
        try:
            source = open_places(
                self.request.places,
                (),
                needs_records=False,
                with_evidence=not self.is_waiting,
                derives=bool(self.request.places) and not self.is_waiting,
            )
        except Unreadable as refusal:
            return self._answer_without_records(refusal)
        if not source.hosts:
            return self._answer_from(source)
        answers: list[_Analysis] = []
        for host in source.hosts:
            try:
                answers.append(self._answer_from(host))
            except Unreadable as refusal:
                click.echo(f"Warning: {refusal.message}", err=True)
        # The control planes are first: a worker that cannot join a broken control plane is a consequence.
        chosen = min(answers, key=lambda one: one.diagnosis.urgency, default=None)
        if chosen is None:
            return self._answer_from(source)
        others = ((one.source, one.diagnosis) for one in answers if one is not chosen)
        return replace(chosen, other_hosts=tuple(others))

    def _answer_from(self, source: Source) -> "_Analysis":
        """Judge the records and files of one host."""
        whole = read_history(source)
        recorded = {service.name for service in whole.services}
        unrecorded = [name for name in self.request.services if name not in recorded]
        selection = self.request.select(whole)
        if self.request.services:
            selection = replace(selection, services=(*self.request.services, *self.expected))
        subject = Subject(
            source=source,
            places=self.request.places,
            whole=whole,
            history=selection.of(whole),
            now=find_now(whole, source),
            boot_id=selection.boot_id,
            expected=self.expected,
            unrecorded=unrecorded,
            selects=self._selects,
            selects_services=bool(self.request.services),
            is_waiting=self.is_waiting,
            is_brief=self.is_brief,
        )
        diagnosis = subject.judge(self.criteria)
        unknown = set(unrecorded) - described_units(diagnosis)
        check_names(unknown, sorted(recorded), source.name)
        if diagnosis is None:
            raise Unreadable(visible(source.refusal or f"no run to judge in {source.name}"))
        return _Analysis(source.name, subject.history, diagnosis, subject.now)

    def _answer_without_records(self, refusal: Unreadable) -> _Analysis:
        """Answer from systemd alone, if this host has no record; without an answer, raise the refusal."""
        directory = Records().directory
        if self.request.places or str(directory) != DEFAULT_DIRECTORY or Records().services():
            raise refusal
        nothing = History(())
        subject = Subject(
            source=Source(str(directory), (), is_home=True),
            whole=nothing,
            history=nothing,
            now=latest_entry(nothing),
            expected=self.expected,
            unrecorded=self.request.services,
            selects=self._selects,
            is_waiting=self.is_waiting,
            is_brief=self.is_brief,
        )
        diagnosis = subject.judge(self.criteria)
        if diagnosis is None or not (diagnosis.failed_units or diagnosis.not_started or diagnosis.unrecorded):
            raise refusal
        return _Analysis(str(directory), nothing, diagnosis, subject.now)

    def _selects(self, unit: Unit) -> bool:
        request = self.request
        if request.services and unit.services.isdisjoint({*request.services, *self.expected}):
            return False
        if unit.since is None or not unit.is_failed:
            # When a unit could not start is not known, so it may be outside of a period.
            return unit.is_failed or not (request.since or request.until)
        return (request.since or unit.since) <= unit.since <= (request.until or unit.since)

    def directory(self) -> Path:
        """Return the records directory to watch. Raises UsageError for anything else."""
        directory = Path(self.request.places[0]) if self.request.places else Records().directory
        if any("://" in place for place in self.request.places):
            raise click.UsageError(_NEEDS_DIRECTORY)
        if (
            len(self.request.places) > 1
            or (directory.exists() and not directory.is_dir())
            or "-" in self.request.places
        ):
            raise click.UsageError(_NEEDS_DIRECTORY)
        try:
            is_bundle = is_unpacked_bundle(directory)
        except SourceError as error:
            raise Unreadable(visible(str(error))) from None
        if is_bundle:
            unchanging = f"{visible(str(directory))} is an unpacked bundle, where nothing will change"
            raise click.UsageError(f"{_NEEDS_DIRECTORY}; {unchanging}")
        return directory


_POLL_SECONDS: Final = 0.25  # a look at the names, sizes and times of the files costs next to nothing
_REJUDGE_SECONDS: Final = 5.0
"""Time after which records are judged again without a change: a process may end without an entry."""
_IDLE_FACTOR: Final = 4
"""Judging takes at most one part in four of the time: a long record costs seconds."""


def _wait_for_answer(question: _Question, timeout: float | None) -> _Analysis:
    """Return the final answer, or the latest one after `timeout` seconds; None waits without limit.

    Records are judged again when one of them changes, and every few seconds.
    """
    directory = question.directory()
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        files, begun = _list_records(directory), time.monotonic()
        answer: _Analysis | None = None
        reason = ""
        try:
            answer = question.answer()
        except Unreadable as error:
            reason = error.message
        except FileNotFoundError as error:
            reason = system_error_line(error)
        ended = time.monotonic()
        is_late = deadline is not None and ended >= deadline
        if answer is not None and (is_late or answer.diagnosis.verdict is not Verdict.RUNNING):
            return answer
        if is_late:
            click.echo(f"Error: {visible(reason)}", err=True)
            raise click.exceptions.Exit(TIMED_OUT)
        again = ended + max(_REJUDGE_SECONDS, (ended - begun) * _IDLE_FACTOR)
        earliest = ended + (ended - begun) * (_IDLE_FACTOR - 1)
        while time.monotonic() < again and (time.monotonic() < earliest or _list_records(directory) == files):
            pause = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - time.monotonic())
            if pause <= 0:
                break
            time.sleep(pause)


def _list_records(directory: Path) -> frozenset[tuple[str, int, int]]:
    """Return the names, sizes and times of the records; empty if there is no such directory."""
    try:
        records = [path for path in directory.iterdir() if is_record_name(path.name)]
        return frozenset((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in records)
    except OSError:  # the directory is missing so far, or a file was replaced meanwhile
        return frozenset()
