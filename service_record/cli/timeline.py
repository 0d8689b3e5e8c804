"""`service-record timeline`: when everything ran, as bars."""

from collections.abc import Iterable

import click

from service_record.cli.inputs import ReadRequest, find_now, open_places, read_history, request_options
from service_record.cli.options import (
    journal_option,
    output_option,
    selection_options,
)
from service_record.cli.terminal import Answer, OutputForm, display_options, emit
from service_record.display.charts import Chart, charts
from service_record.display.text import Line, View
from service_record.history import History


@click.command("timeline")
@request_options
@output_option(about="table: a row for each service and stage; wide: runs that ended differently apart")
@click.option("--by-duration", is_flag=True, help="Sort by duration, longest first.")
@click.option("--startup", is_flag=True, help="Only until the host has started, if a journal shows that.")
@journal_option
@selection_options
@display_options
def command(*, request: ReadRequest, form: OutputForm, by_duration: bool, startup: bool) -> None:
    """Show when services and their stages ran, as bars over each boot.

    \b
    Examples:
      service-record timeline                       the latest boots of this host
      service-record timeline --boot 0 bootkube     one service in the latest boot
      service-record timeline --by-duration         what took longest first
      service-record timeline --from bundle.tar.gz
      service-record timeline --from example:boot-loop
    """
    source = open_places(request.places, request.services, derives=True, reads_journal=request.journal)
    whole = read_history(source)
    history = request.select(whole).of(whole)
    drawn = charts(
        history,
        find_now(whole, source),
        apart=form.output == "wide",
        by_duration=by_duration,
        startup=startup,
    )
    emit(_Timeline(source.name, history, drawn, by_duration), form)


class _Timeline(Answer, frozen=True):
    source: str
    history: History
    charts: list[Chart]
    by_duration: bool

    def lines(self, view: View, *, is_wide: bool) -> Iterable[Line]:
        from service_record.display.timeline import timeline_page

        return timeline_page(
            self.history, self.source, self.charts, view, wide=is_wide, flat=self.by_duration
        )

    def page(self, view: View) -> str:
        from service_record.display.html.timeline_page import timeline_html

        return timeline_html(self.history, self.source, self.charts, view, flat=self.by_duration)

    def document(self) -> object:
        from service_record.display.timeline_document import timeline_document

        return timeline_document(self.charts, self.source)

    def documents(self) -> Iterable[object]:
        from service_record.display.timeline_document import row_lines

        return row_lines(self.charts)
