"""`service-record show`: what services did, failures first."""

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from service_record.cli import FAILED
from service_record.cli.inputs import history_of, opened, selected_boot
from service_record.cli.options import display_options, selection_options, service_argument, source_options
from service_record.cli.terminal import print_lines, view
from service_record.display.text import BLANK, Ink, Line, View, count, wrapped
from service_record.history import History
from service_record.history.build import ALL_BOOTS, Selection
from service_record.read.source import Source
from service_record.record.entry import Piece
from service_record.record.visible import visible

if TYPE_CHECKING:
    from service_record.diagnosis.findings import FailedUnit


@click.command("show")
@service_argument
@source_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "jsonl", "yaml"]),
    default="table",
    help="table: the answer in one screen; wide: every run; the others for programs.",
)
@selection_options
@display_options
@click.option(
    "--fail", is_flag=True, help="Exit 1 when the latest run of a service failed or was interrupted."
)
def command(
    *,
    services: tuple[str, ...],
    places: tuple[str, ...],
    output: str,
    boot: str,
    stage: str | None,
    failed: bool,
    since: datetime | None,
    until: datetime | None,
    clock: str | None,
    color: str,
    pager: bool,
    fail: bool,
) -> None:
    """Show what services did, failures first.

    \b
    Examples:
      service-record show                   what ran here
      service-record show bootkube -o wide  every run of one service
      service-record show --from -          records from standard input
      service-record show --boot -1 --failed
    """  # noqa: D301  # click takes a backspace for a paragraph that stays as it is
    gc.disable()  # nothing here forms cycles, and looking for some takes a third of the time
    selection = Selection(services=services, stage=stage, failed=failed, since=since, until=until)
    source = opened(places, services, needs_records=False)
    if output == "jsonl" and boot == ALL_BOOTS and not fail:
        _print_entries(source.records, selection)
        return
    if output == "jsonl":  # each record is read once, and here needed twice
        source = replace(source, records=tuple((name, list(record)) for name, record in source.records))
    whole = history_of(source)
    selection = replace(selection, boot_id=selected_boot(whole, boot))
    history = selection.of(whole)
    units = _failed_units(source)
    is_bad = bool(units) or any(service.outcome and service.outcome.is_bad for service in history.services)
    del whole  # what is printed is forgotten run by run
    match output:
        case "jsonl":
            _print_entries(source.records, selection)
        case "json" | "yaml":
            _print_document(history, source, output, units)
        case _:
            page = view(clock)
            _print_page(history, source.name, output, page, units=units, color=color, pager=pager)
    if fail and is_bad:
        raise click.exceptions.Exit(FAILED)


def _failed_units(source: Source) -> "Sequence[FailedUnit]":
    """Return the failed units of a bundle without records, which has no other sign of them."""
    if source.records or not source.is_snapshot:
        return ()
    from service_record.cli.diagnosing import failed_units  # only where there is no record

    return failed_units(source)


def _print_page(
    history: History,
    source: str,
    output: str,
    view: View,
    *,
    units: "Sequence[FailedUnit]",
    color: str,
    pager: bool,
) -> None:
    if units:
        lines = _failed_units_page(units, source, view)
    elif output == "wide":
        from service_record.display.table import wide  # only what is shown

        lines = wide(history, source, view)
    else:
        from service_record.display.table import table

        lines = table(history, source, view)
    print_lines(lines, color, pager=pager)


def _failed_units_page(units: "Sequence[FailedUnit]", source: str, view: View) -> Iterator[Line]:
    """Yield the units that failed, if there are no records that tell more."""
    from service_record.display.sentences import failed_unit_sentence  # only what is shown

    yield ((f"no records: {count(len(units), 'unit')} failed", Ink.STRONG),)
    yield ((visible(source), Ink.FAINT),)
    yield BLANK
    for failed in units:
        yield from wrapped(failed_unit_sentence(failed), Ink.BAD, view)


def _print_document(history: History, source: Source, output: str, units: "Sequence[FailedUnit]") -> None:
    from service_record.display.machine import document, run_documents  # only what is shown

    left_out = [(part.path, part.reason) for part in source.left_out]
    if output == "yaml":
        from service_record.display.machine import as_yaml

        sys.stdout.buffer.write(as_yaml(document(history, source.name, left_out, units)).encode())
        return
    from service_record.display.machine import write_with_runs

    outline = document(history, source.name, left_out, units, has_runs=False)
    write_with_runs(outline, map(run_documents, history.services), sys.stdout.buffer)


def _print_entries(records: Iterable[tuple[str, Iterable[Piece]]], selection: Selection) -> None:
    from service_record.display.machine import write_jsonl  # only what is shown

    named = (record for record in records if selection.has_service(record[0]))
    write_jsonl(((name, selection.within(record)) for name, record in named), sys.stdout.buffer)
