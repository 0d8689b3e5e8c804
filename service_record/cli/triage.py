"""`service-record triage`: what is failing in many bundles, how often, since when, and what is new."""

import math
import os
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from service_record.cli import UNREADABLE, Unreadable, require_extra
from service_record.cli.options import MomentType, color_option, output_option, pager_option
from service_record.cli.shared_answers import RowsAnswer
from service_record.cli.terminal import Answer, OutputForm, emit
from service_record.display.text import Line, View
from service_record.display.text import count as number_of
from service_record.http.address import CollectorError
from service_record.record.visible import visible

if TYPE_CHECKING:
    from service_record.triage.counting import Triage
    from service_record.triage.index import Index
    from service_record.triage.references import Skipped
    from service_record.triage.rows import Reference

_WEEK: Final = "last-week"
_PROGRESS_BUNDLES: Final = 100


@click.command("triage")
@click.argument("sources", metavar="[SOURCE]...", nargs=-1)
@click.option(
    "--index",
    "place",
    metavar="DIR|s3://...",
    help="Keep the results there: the next run judges only bundles that are new or changed.",
)
@click.option(
    "--since",
    type=MomentType(),
    help="Compare bundles from TIME on. [default: the last seven days; with --against INDEX all]",
)
@click.option(
    "--against",
    metavar="INDEX|last-week",
    help="Compare with the bundles of another index, or with the week before --since. "
    "[default: all earlier bundles]",
)
@click.option("--cause", metavar="NAME", help="List the bundles with this cause, or with these words.")
@output_option("csv", about="table: ten items of each list; wide: all")
@click.option(
    "--workers",
    type=click.IntRange(1, 512),
    default=os.cpu_count() or 1,
    show_default="one for each processor",
    help="Number of bundles to judge at the same time on this machine.",
)
@click.option(
    "--on", "scheduler", metavar="tcp://HOST:PORT", help="Judge on the workers of a Dask scheduler."
)
@click.option("--again", is_flag=True, help="Judge all bundles, including those in the index.")
@color_option
@pager_option
def command(
    *,
    sources: tuple[str, ...],
    place: str | None,
    since: datetime | None,
    against: str | None,
    cause: str | None,
    output: str,
    workers: int,
    scheduler: str | None,
    again: bool,
    color: str,
    pager: bool,
) -> None:
    """Say what is failing in many bundles, how often, and what is new.

    A SOURCE is a folder, a file, a pattern, s3://BUCKET/PREFIX, or a collector as collector://HOST. In the
    archive of a whole cluster, as assisted-service makes it, each host is judged by itself.

    `triage sql QUERY` queries the index with SQL. Its tables are `bundles`, with a row for each host of each
    bundle, `bad`, with the hosts in trouble, and `copies`. (A folder named sql is ./sql.)

    \b
    Examples:
      service-record triage bundles/
      service-record triage --index shelf s3://support/2026/ bundles/*.tar.gz
      service-record triage --index shelf --against last-week
      service-record triage --index shelf --cause disk-missing
      service-record triage example:failed-stage
      service-record triage sql --index shelf "select count(*) from bad"
    """
    form = OutputForm(output, "utc", color, pager)
    if sources[:1] == ("sql",):
        _print_query(place, sources[1:], form)
        return
    if not sources and place is None:
        raise click.UsageError("give a SOURCE to judge, or --index with bundles that were judged before")
    if against not in {None, _WEEK} and "://" not in str(against) and not Path(str(against)).is_dir():
        raise click.UsageError(
            f"--against: {visible(str(against))} is neither an index nor {_WEEK}; "
            "name a folder that triage --index has made"
        )
    require_extra("triage")
    if scheduler is not None:
        require_extra("dask")
    from service_record.triage.references import TriageError  # an extra

    try:
        with _open_index(place, sources) as index:
            skipped = _judge(index, sources, workers, scheduler, again=again, is_kept=place is not None)
            if sources and not index.read_keys():
                raise Unreadable(visible(_nothing_to_judge(sources, skipped)))
            if cause is not None:
                _print_bundles(index, cause, form)
                return
            answer = _answer(index, since, against)
    except (TriageError, CollectorError) as fault:
        raise Unreadable(visible(str(fault))) from None
    _warn_of_files(index)
    unread = tuple((one.place, one.reason) for one in skipped if one.is_unread)
    others = tuple((one.place, one.reason) for one in skipped if not one.is_unread)
    answer = replace(answer, skipped=others, unreadable=(*answer.unreadable, *unread))
    if output == "csv":
        from service_record.triage.triage_document import format_causes  # an extra

        _write(format_causes(answer))
    else:
        emit(_TriageAnswer(answer, ", ".join(sources) or place or ""), form)
    if answer.unreadable:
        raise click.exceptions.Exit(UNREADABLE)


@contextmanager
def _open_index(place: str | None, sources: Sequence[str]) -> "Iterator[Index]":
    """Open the index; without a place, a temporary one."""
    from service_record.triage.index import Index  # an extra

    if place is not None:
        yield Index(place, create=bool(sources))
        return
    with tempfile.TemporaryDirectory(prefix="service-record-triage-") as directory:
        yield Index(directory)


class _Terminated(Exception):  # noqa: N818  # a signal, not an error
    """SIGTERM."""


@contextmanager
def _raise_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that rows are written before the program ends."""

    def end(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _judge(
    index: "Index", sources: Iterable[str], workers: int, scheduler: str | None, *, again: bool, is_kept: bool
) -> "list[Skipped]":
    """Judge the bundles that the index does not have, add their rows, and return the skipped files."""
    from service_record.triage.engines import judge_here, judge_on_dask  # an extra
    from service_record.triage.index import add_in_parts
    from service_record.triage.references import find_references

    judged = set() if again else index.read_keys()
    seen: set[str] = set()
    skipped: list[Skipped] = []

    def new() -> "Iterator[Reference]":
        for reference in chain.from_iterable(find_references(source, skipped.append) for source in sources):
            if reference.key not in judged and reference.uri not in seen:
                seen.add(reference.uri)
                yield reference

    answers = judge_on_dask(new(), scheduler) if scheduler else judge_here(new(), workers)
    is_terminal = sys.stderr.isatty()
    count = 0
    try:
        with _raise_on_sigterm(), closing(answers), closing(add_in_parts(index, answers)) as counts:
            for count in counts:
                if is_terminal and count % _PROGRESS_BUNDLES == 0:
                    click.echo(f"\r{count} bundles judged", err=True, nl=False)
    except (KeyboardInterrupt, _Terminated) as signal_:
        kept = "; their rows are kept, and the same command judges the rest" if is_kept else ""
        click.echo(f"Interrupted after {number_of(index.added, 'host')}{kept}", err=True)
        code = _INTERRUPTED if isinstance(signal_, KeyboardInterrupt) else _TERMINATED
        raise click.exceptions.Exit(code) from None
    if is_terminal and count >= _PROGRESS_BUNDLES:
        click.echo(f"\r{count} bundles judged", err=True)
    return skipped


_INTERRUPTED: Final = 128 + signal.SIGINT
_TERMINATED: Final = 128 + signal.SIGTERM


def _nothing_to_judge(sources: Iterable[str], skipped: "Sequence[Skipped]") -> str:
    if not skipped:
        return f"nothing to judge in {', '.join(sources)}: no files there"
    first = skipped[0]
    files = f"{len(skipped)} file{'s were' if len(skipped) > 1 else ' was'} skipped"
    return (
        f"nothing to judge in {', '.join(sources)}: {files}, the first of them {first.place}: {first.reason}"
    )


def _warn_of_files(index: "Index") -> None:
    for path, reason in index.left_out.items():
        click.echo(visible(f"Warning: {path}: {reason}; its rows are left out"), err=True)


def _answer(index: "Index", since: datetime | None, against: str | None) -> "Triage":
    from service_record.triage.counting import summarise
    from service_record.triage.index import Index  # an extra

    if against is None:
        return summarise(index.connect(), since)
    if against == _WEEK:
        return summarise(index.connect(), since, period=timedelta(days=7), against_name="the week before")
    return summarise(index.connect(), since, Index(against).connect(), against)


class _TriageAnswer(Answer, frozen=True):
    """The answer of `triage`. Its methods import what comes with the extra."""

    triage: Any
    source: str

    def lines(self, view: View, *, is_wide: bool) -> Iterable[Line]:
        from service_record.triage.answer_table import answer_lines

        return answer_lines(self.triage, view, whole=is_wide)

    def page(self, view: View) -> str:
        from service_record.triage.answer_table import answer_html

        return answer_html(self.triage, self.source, view.now)

    def document(self) -> object:
        from service_record.triage.triage_document import triage_document

        return triage_document(self.triage)

    def documents(self) -> Iterable[object]:
        from service_record.triage.triage_document import triage_lines

        return triage_lines(self.triage)


def _print_bundles(index: "Index", cause: str, form: OutputForm) -> None:
    from service_record.triage.answer_table import bundle_lines  # an extra
    from service_record.triage.counting import find_bundles

    bundle_rows = find_bundles(index.connect(), cause)
    _warn_of_files(index)
    if form.output in {"table", "wide"}:
        form.print(bundle_lines(cause, bundle_rows, form.view()))
    else:
        columns = list(bundle_rows[0]) if bundle_rows else []
        _print_rows(f"Bundles with {cause}", columns, [row.values() for row in bundle_rows], form)


def _print_query(place: str | None, words: Sequence[str], form: OutputForm) -> None:
    """Print the answer of the index to a query in SQL."""
    if len(words) != 1:
        raise click.UsageError("give one query, in quotes")
    if place is None:
        raise click.UsageError("--index is missing; name the index to ask")
    require_extra("triage")
    from service_record.triage.index import Index, run_query  # an extra
    from service_record.triage.references import TriageError

    try:
        index = Index(place)
        columns, rows = run_query(index, words[0])
    except TriageError as fault:
        raise Unreadable(visible(str(fault))) from None
    _warn_of_files(index)
    _print_rows("Answer of the index", columns, rows, form)


def _print_rows(title: str, columns: Sequence[str], rows: Iterable[Iterable[Any]], form: OutputForm) -> None:
    values = [[*row] for row in rows]
    plain = [[_plain(value) for value in row] for row in values]
    if form.output == "csv":
        from service_record.display.machine import format_csv  # only for programs

        _write(format_csv(columns, plain))
    else:
        emit(RowsAnswer(title, columns, plain, values), form)


def _plain(value: Any) -> Any:  # noqa: PLR0911  # one for each type
    """Return a value of DuckDB as JSON has it: times in UTC, intervals in seconds, the rest as text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < _JSON_LIMIT else str(value)  # sums in DuckDB have 128 bits
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value)


_JSON_LIMIT: Final = 1 << 63


def _write(text: str) -> None:
    sys.stdout.buffer.write(text.encode(errors="backslashreplace"))
