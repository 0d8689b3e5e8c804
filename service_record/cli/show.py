"""`service-record show`: list what services did, failures first."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from service_record.cli import FAILED
from service_record.cli.inputs import ReadRequest, check_names, history_of, opened, request_options
from service_record.cli.options import (
    journal_option,
    output_option,
    selection_options,
)
from service_record.cli.terminal import OutputForm, display_options, write_page
from service_record.display.text import BLANK, Ink, Line, View, count, wrap_lines
from service_record.history import History
from service_record.history.build import ALL_BOOTS, Selection
from service_record.read.source import Source
from service_record.record import systemd
from service_record.record.appending import record_name
from service_record.record.entry import Piece
from service_record.record.visible import visible

if TYPE_CHECKING:
    from service_record.diagnosis import Diagnosis


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
    source = opened(request.places, (), needs_records=False, derives=True, reads_journal=request.journal)
    recorded = {name for name, _ in source.records}.union(record_name(one.unit) for one in source.running)
    unrecorded = [name for name in request.services if name not in recorded]
    if form.output == "jsonl" and request.boot == ALL_BOOTS and not fail and not unrecorded:
        _print_entries(source.records, request.select())
        return
    if form.output == "jsonl":  # the pieces are needed twice: for the history, and for the output
        source = replace(source, records=tuple((name, list(record)) for name, record in source.records))
    whole = history_of(source)
    selection = request.select(whole)
    history = selection.of(whole)
    is_failed_here = source.is_home and systemd.is_running() and bool(systemd.failed_units(timeout=2.0))
    units = None
    if unrecorded or source.unit_texts or is_failed_here:
        units = _units(source, request.places, whole, selection, unrecorded)
    is_bad = any(service.outcome and service.outcome.is_bad for service in history.services)
    is_bad = is_bad or (units is not None and units.verdict.is_bad)
    del whole  # so that each run can be freed when it has been printed
    # Not `emit`: a record may have a million entries, so documents are written as they are made.
    match form.output:
        case "jsonl":
            _print_entries(source.records, selection)
        case "json" | "yaml":
            _print_document(history, source, form.output, units)
        case "html":
            from service_record.display.html.show_page import show_html
            from service_record.display.text import Glyphs

            here = replace(form.view(), glyphs=Glyphs())
            write_page(show_html(history, source.name, _unit_lines(units, here), here))
        case _:
            _print_page(history, source.name, form, units)
    if fail and is_bad:
        raise click.exceptions.Exit(FAILED)


def _units(
    source: Source, places: Sequence[str], whole: History, selection: Selection, unrecorded: Sequence[str]
) -> "Diagnosis | None":
    """Return the diagnosis of failed and named units that the records do not show; None without any.

    Such a unit has no record, or its latest recorded run ended well.
    """
    # Imported here, because on most hosts no unit failed.
    from service_record.cli.diagnosing import Judging, Subject, described_units, with_start_limits
    from service_record.diagnosis import Diagnosis, Verdict
    from service_record.diagnosis.causes import built_in_causes
    from service_record.diagnosis.judgement import judge
    from service_record.history.build import latest_entry

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
        diagnosis = subject.judge(Judging(causes=causes))
    else:  # of the journal only what decides about the start limit: all of it would take seconds
        units = subject.units()
        units = units if units is None or source.unit_texts else with_start_limits(units)
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


def _print_page(history: History, source: str, form: OutputForm, units: "Diagnosis | None") -> None:
    here = form.view()
    lines: Iterable[Line] = ()
    if history.services or units is None:
        from service_record.display.table import table, wide

        lines = (wide if form.output == "wide" else table)(history, source, here)
    else:
        failed = len(units.failed_units)
        text = f"no records: {count(failed, 'unit')} failed" if failed else "no records"
        lines = (((text, Ink.STRONG),), ((visible(source), Ink.FAINT),))
    form.print(chain(lines, _unit_lines(units, here)))


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


def _print_document(history: History, source: Source, output: str, units: "Diagnosis | None") -> None:
    from service_record.display.machine import document, run_documents  # loaded only for this output

    left_out = [(part.path, part.reason) for part in source.left_out]
    failed = () if units is None else units.failed_units
    others: dict[str, object] = {}
    if units is not None:
        from service_record.display.analysis_document import unit_documents

        others = unit_documents(units)
    if output == "yaml":
        from service_record.display.machine import as_yaml

        whole = document(history, source.name, left_out, failed) | others
        sys.stdout.buffer.write(as_yaml(whole).encode())
        return
    from service_record.display.machine import write_with_runs

    outline = document(history, source.name, left_out, failed, has_runs=False) | others
    write_with_runs(outline, map(run_documents, history.services), sys.stdout.buffer)


def _print_entries(records: Iterable[tuple[str, Iterable[Piece]]], selection: Selection) -> None:
    from service_record.display.machine import write_jsonl  # loaded only for this output

    named = (record for record in records if selection.has_service(record[0]))
    write_jsonl(((name, selection.within(record)) for name, record in named), sys.stdout.buffer)
