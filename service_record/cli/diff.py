"""`service-record diff`: what a bad host did differently from a good one."""

from collections.abc import Iterable, Sequence

import click
import msgspec

from service_record.cli import FAILED
from service_record.cli.inputs import check_names, find_now, open_places, read_history
from service_record.cli.options import DURATION, Number, output_option, service_names
from service_record.cli.terminal import Answer, OutputForm, display_options, emit
from service_record.diagnosis.comparison import FLOOR, RATIO, ServiceComparison, Tolerance, compare
from service_record.diagnosis.findings import KnownCause
from service_record.display.text import Line, View
from service_record.history import History
from service_record.read.source import Source


@click.command("diff")
@click.argument("good", metavar="GOOD")
@click.argument("bad", metavar="BAD")
@click.option(
    "--service",
    "services",
    metavar="NAME",
    multiple=True,
    callback=service_names,
    help="Compare only this service; repeatable.",
)
@click.option(
    "--ratio",
    type=Number(min=1),
    default=RATIO,
    show_default=True,
    help="A stage is slower if it took more than this many times as long.",
)
@click.option(
    "--floor",
    type=DURATION,
    default=f"{FLOOR:g}s",
    show_default=True,
    help="A stage is slower only if it took longer by more than this: 90s, 2m, 0.5s.",
)
@output_option(about="table: at most ten differences of a kind; wide: all")
@display_options
def command(
    *,
    good: str,
    bad: str,
    services: tuple[str, ...],
    ratio: float,
    floor: float,
    form: OutputForm,
) -> None:
    """Compare the records of a bad host with those of a good one.

    GOOD and BAD are directories, files or bundles; one of them may be - for standard input. Of each service
    the last run that is over is compared, or else the last; failures are those of all its runs.

    Exits with 0 when nothing differs that matters, and with 1 otherwise.

    \b
    Examples:
      service-record diff good.tar.gz bad.tar.gz
      service-record diff /mnt/good /var/log/openshift --ratio 3
      service-record diff example:good example:failed-stage
    """
    if good == bad == "-":
        raise click.UsageError("standard input is one source: name a directory, file or bundle for the other")
    sources = open_places([good], (), derives=True), open_places([bad], (), derives=True)
    before, after = read_history(sources[0]), read_history(sources[1])
    recorded = {service.name for history in (before, after) for service in history.services}
    check_names(services, sorted(recorded), "either")
    tolerance = Tolerance(ratio, floor)
    evident = _evidence_only_in_bad((good, sources[0], before), (bad, sources[1], after))
    comparisons = compare(before, after, find_now(after, sources[1]), tolerance, services)
    names = (sources[0].name, before), (sources[1].name, after)
    emit(_ComparedHosts(comparisons, names, tolerance, evident), form)
    if evident or any(one.differs for one in comparisons):
        raise click.exceptions.Exit(FAILED)


class _ComparedHosts(Answer, frozen=True):
    comparisons: Sequence[ServiceComparison]
    hosts: tuple[tuple[str, History], tuple[str, History]]
    """Source and history of the good host and of the bad one."""
    tolerance: Tolerance
    evident: tuple[KnownCause, ...]

    def lines(self, view: View, *, is_wide: bool) -> Iterable[Line]:
        from service_record.display.difference import comparison_page

        return comparison_page(self.comparisons, *self.hosts, view, self.evident, is_wide=is_wide)

    def page(self, view: View) -> str:
        from service_record.display.html.rendering import SUMMARY_COLUMNS
        from service_record.display.html.show_page import difference_html

        lines = self.lines(msgspec.structs.replace(view, width=SUMMARY_COLUMNS), is_wide=False)
        return difference_html(lines, (self.hosts[0][0], self.hosts[1][0]), view)

    def document(self) -> object:
        from service_record.display.comparison_document import comparison_document

        (good, _), (bad, _) = self.hosts
        return comparison_document(self.comparisons, good, bad, self.tolerance, self.evident)

    def documents(self) -> Iterable[object]:
        from service_record.display.comparison_document import difference_documents

        return difference_documents(self.comparisons, self.evident)


def _evidence_only_in_bad(
    good: tuple[str, Source, History], bad: tuple[str, Source, History]
) -> tuple[KnownCause, ...]:
    """Return the evidence in the bad host's files, if both are bundles with files beside the records."""
    if not (good[1].is_snapshot and bad[1].is_snapshot):
        return ()
    # Imported here because only comparisons of bundles need it.
    from service_record.diagnosis.causes import built_in_causes, find_new_evidence
    from service_record.diagnosis.judgement import read_evidence
    from service_record.diagnosis.units import read_texts
    from service_record.read.host_files import host_files

    before, after = (
        read_evidence(
            built_in_causes(),
            history,
            read_texts(source.unit_texts),
            host_files(source) or (),
        )
        for _, source, history in (good, bad)
    )
    return find_new_evidence(after, before)
