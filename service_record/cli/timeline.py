"""`service-record timeline`: when everything ran, as bars."""

import gc
import sys
from datetime import datetime

import click
from msgspec.structs import replace

from service_record.cli.inputs import history_of, now_for, opened, selected_boot, with_places
from service_record.cli.options import (
    display_options,
    journal_option,
    selection_options,
    service_or_source_argument,
    source_options,
)
from service_record.cli.terminal import print_lines, view
from service_record.display.charts import charts
from service_record.display.text import Glyphs
from service_record.history.build import Selection


@click.command("timeline")
@service_or_source_argument
@source_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "jsonl", "yaml", "html"]),
    default="table",
    help="table: a row for each service and stage; wide: runs that ended differently apart; "
    "html: a page in one file; the others for programs.",
)
@click.option("--by-duration", is_flag=True, help="What took longest first.")
@click.option("--startup", is_flag=True, help="Only until the host has started, where a journal tells that.")
@journal_option
@selection_options
@display_options
def command(
    *,
    services: tuple[str, ...],
    places: tuple[str, ...],
    output: str,
    journal: bool,
    by_duration: bool,
    startup: bool,
    boot: str,
    stage: str | None,
    failed: bool,
    since: datetime | None,
    until: datetime | None,
    clock: str | None,
    color: str,
    pager: bool,
) -> None:
    """Show when services and their stages ran, as bars over each boot.

    \b
    Examples:
      service-record timeline                       the latest boots of this host
      service-record timeline --boot 0 bootkube     one service in the latest boot
      service-record timeline --by-duration         what took longest first
      service-record timeline --from bundle.tar.gz
      service-record timeline --from example:boot-loop
    """  # noqa: D301  # click takes a backspace for a paragraph that stays as it is
    gc.disable()  # nothing here forms cycles
    services, places = with_places(services, places)
    source = opened(places, services, derives=True, reads_journal=journal)
    whole = history_of(source)
    selection = Selection(
        services=services,
        boot_id=selected_boot(whole, boot),
        stage=stage,
        failed=failed,
        since=since,
        until=until,
    )
    history = selection.of(whole)
    is_apart = output == "wide"
    drawn = charts(history, now_for(whole, source), apart=is_apart, by_duration=by_duration, startup=startup)
    page_view = view(clock)
    if output in {"table", "wide"}:
        from service_record.display.timeline import timeline_page  # only what is shown

        lines = timeline_page(history, source.name, drawn, page_view, wide=is_apart, flat=by_duration)
        print_lines(lines, color, pager=pager)
    elif output == "html":
        from service_record.cli.terminal import write_page
        from service_record.display.html.timeline_page import timeline_html

        page = timeline_html(
            history, source.name, drawn, replace(page_view, glyphs=Glyphs()), flat=by_duration
        )
        write_page(page)
    else:
        from service_record.display.machine import written
        from service_record.display.timeline import row_documents, timeline_document

        document = timeline_document(drawn, source.name)
        sys.stdout.buffer.write(written(document, row_documents(drawn), output).encode())
