"""`service-record show`: list what services did, failures first."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import IO, TYPE_CHECKING

import click
from msgspec.structs import replace

from service_record.cli import FAILED
from service_record.cli.inputs import ReadRequest, check_names, open_places, read_history, request_options
from service_record.cli.options import (
    journal_option,
    output_option,
    selection_options,
)
from service_record.cli.terminal import Answer, OutputForm, display_options, emit
from service_record.display.text import BLANK, Ink, Line, View, count, wrap_lines
from service_record.history import History
from service_record.history.build import ALL_BOOTS, Selection, latest_entry
from service_record.read.source import Source
from service_record.record import systemd
from service_record.record.appending import record_name
from service_record.record.entry import Piece
from service_record.record.visible import visible

if TYPE_CHECKING:
    from service_record.diagnosis import Diagnosis
    from service_record.display.show_document import ShowDocument


@click.command("show")
@request_options
@output_option(about="table: one screen; wide: every run")
@journal_option
@selection_options
@display_options
@click.option(
    "--fail", is_flag=True, help="Exit 1 when the latest run of a service failed or was interrupted."
)
def command(*, request: ReadRequest, form: OutputForm, fail: bool) -> None:
    """Show what services did, failures first.

    \b
    Examples:
      service-record show                   what ran here
      service-record show bootkube -o wide  every run of one service
      service-record show --from -          records from standard input
      service-record show --boot -1 --failed
      service-record show example:failed-stage
    """
    source = open_places(request.places, (), needs_records=False, derives=True, reads_journal=request.journal)
    recorded = {name for name, _ in source.records}.union(record_name(one.unit) for one in source.running)
    unrecorded = [name for name in request.services if name not in recorded]
    if form.output == "jsonl" and request.boot == ALL_BOOTS and not fail and not unrecorded:
        emit(_RecordEntries(source.records, request.select()), form)
        return
    if form.output == "jsonl":  # the pieces are needed twice: for the history, and for the output
        source = replace(source, records=tuple((name, list(record)) for name, record in source.records))
    whole = read_history(source)
    selection = request.select(whole)
    history = selection.of(whole)
    is_failed_here = source.is_home and systemd.is_running() and bool(systemd.failed_units(timeout=2.0))
    units = None
    if unrecorded or source.unit_texts or is_failed_here:
        units = _units(source, request.places, whole, selection, unrecorded)
    is_bad = any(service.outcome and service.outcome.is_bad for service in history.services)
    is_bad = is_bad or (units is not None and units.verdict.is_bad)
    del whole  # so that each run can be freed when it has been printed
    answer = (
        _RecordEntries(source.records, selection) if form.output == "jsonl" else _Runs(history, source, units)
    )
    emit(answer, form)
    if fail and is_bad:
        raise click.exceptions.Exit(FAILED)


def _units(
    source: Source, places: Sequence[str], whole: History, selection: Selection, unrecorded: Sequence[str]
) -> "Diagnosis | None":
    """Return the diagnosis of failed and named units that the records do not show; None without any.

    Such a unit has no record, or its latest recorded run ended well.
    """
    # Imported here, because on most hosts no unit failed.
    from service_record.cli.diagnosis_input import Criteria, Subject, add_start_limits, described_units
    from service_record.diagnosis import Diagnosis, Verdict
    from service_record.diagnosis.causes import built_in_causes
    from service_record.diagnosis.judgement import judge

    subject = Subject(
        source=source,
        places=places,
        whole=whole,
        history=whole,
        now=latest_entry(whole),
        boot_id=selection.boot_id,
        unrecorded=unrecorded,
        selects=lambda unit: not selection.services or not unit.services.isdisjoint(selection.services),
    )
    causes = built_in_causes()
    if unrecorded:
        diagnosis = subject.judge(Criteria(causes=causes))
    else:  # of the journal only what decides about the start limit: all of it would take seconds
        units = subject.units()
        units = units if units is None or source.unit_texts else add_start_limits(units)
        diagnosis = judge(whole, causes, units, selects=subject.selects).diagnosis
    described = described_units(diagnosis)
    recorded = [service.name for service in whole.services]
    check_names(set(unrecorded) - described, sorted(recorded), source.name)
    if diagnosis is None or not described:
        return None
    is_bad = diagnosis.failed_units or any(one.is_fault for one in diagnosis.not_started)
    verdict = Verdict.FAILED if is_bad else Verdict.SUCCEEDED
    return Diagnosis(
        verdict=verdict,
        failed_units=diagnosis.failed_units,
        not_started=diagnosis.not_started,
        unrecorded=diagnosis.unrecorded,
    )


class _Runs(Answer, frozen=True):
    """The runs of each service, and the units that the records do not show."""

    history: History
    source: Source
    units: "Diagnosis | None"

    def lines(self, view: View, *, is_wide: bool) -> Iterable[Line]:
        lines: Iterable[Line]
        if self.history.services or self.units is None:
            from service_record.display.table import table, wide

            lines = (wide if is_wide else table)(self.history, self.source.name, view)
        else:
            failed = len(self.units.failed_units)
            text = f"no records: {count(failed, 'unit')} failed" if failed else "no records"
            lines = (((text, Ink.STRONG),), ((visible(self.source.name), Ink.FAINT),))
        return chain(lines, _unit_lines(self.units, view))

    def page(self, view: View) -> str:
        from service_record.display.html.show_page import show_html

        return show_html(self.history, self.source.name, _unit_lines(self.units, view), view)

    def document(self) -> object:
        return self._document(has_runs=True)

    def write_json(self, stream: IO[bytes]) -> None:
        # A record may have a million runs, so the document of each is made when it is written.
        from service_record.display.machine import write_run_by_run
        from service_record.display.show_document import run_documents

        write_run_by_run(self._document(has_runs=False), map(run_documents, self.history.services), stream)

    def _document(self, *, has_runs: bool) -> "ShowDocument":
        from service_record.display.show_document import show_document

        left_out = [(part.path, part.reason) for part in self.source.left_out]
        document = show_document(self.history, self.source.name, left_out, has_runs=has_runs)
        if self.units is None:
            return document
        from service_record.display.analysis_document import add_units

        return add_units(document, self.units)


class _RecordEntries(Answer, frozen=True):
    """The entries for `--output jsonl`."""

    records: Iterable[tuple[str, Iterable[Piece]]]
    selection: Selection

    def write_jsonl(self, stream: IO[bytes]) -> None:
        # Encoding takes most of the time, so entries are encoded in batches.
        from service_record.display.machine import write_jsonl

        selection = self.selection
        named = (record for record in self.records if selection.has_service(record[0]))
        write_jsonl(((name, selection.within(record)) for name, record in named), stream)


def _unit_lines(units: "Diagnosis | None", view: View) -> Iterator[Line]:
    """Yield a sentence for each unit that the records do not show."""
    if units is None:
        return
    from service_record.display.sentences import (  # only where there is one
        failed_unit_sentence,
        not_started_sentence,
        unrecorded_sentence,
    )

    yield BLANK
    for failed in units.failed_units:
        yield from wrap_lines(failed_unit_sentence(failed), Ink.BAD, view)
    for missing in units.not_started:
        yield from wrap_lines(not_started_sentence(missing), Ink.BAD if missing.is_fault else Ink.CALM, view)
    for unrecorded in units.unrecorded:
        yield from wrap_lines(unrecorded_sentence(unrecorded), Ink.CALM, view)
