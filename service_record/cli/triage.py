"""`service-record triage`: what is failing in many bundles, how often, since when, and what is new."""

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from service_record.cli import Unreadable, require_extra
from service_record.cli.options import MomentType, color_option, pager_option
from service_record.cli.terminal import aligned, print_lines, view
from service_record.display.text import Clock
from service_record.http.address import CollectorError
from service_record.record.visible import visible

if TYPE_CHECKING:
    from service_record.triage.counting import Triage
    from service_record.triage.index import Index
    from service_record.triage.rows import Reference

_ROWS_EACH: Final = 2_000
"""Rows in one file of the index."""
_WEEK: Final = "last-week"
_TOLD_EACH: Final = 100


class _Triage(click.Group):
    """A group whose first word is a source unless it is a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["bundles", *args]
        return super().parse_args(ctx, args)


@click.group("triage", cls=_Triage)
def command() -> None:
    """Say what is failing in many bundles, how often, and what is new.

    \b
    triage SOURCE...      judge what is new in the sources, and answer
    triage sql "QUERY"    ask the index with SQL

    \b
    Examples:
      service-record triage bundles/
      service-record triage --index shelf s3://support/2026/ bundles/*.tar.gz
      service-record triage --index shelf --against last-week
      service-record triage --index shelf --cause disk-missing
      service-record triage sql --index shelf "select cause, count(*) from bad group by all"
    """  # noqa: D301  # click takes a backspace for a paragraph that stays as it is


_index_option = click.option(
    "--index",
    "place",
    metavar="DIR|s3://...",
    help="Keep the rows there: the next run reads only bundles that are new.",
)


@command.command("bundles", hidden=True)
@click.argument("sources", metavar="[SOURCE]...", nargs=-1)
@_index_option
@click.option(
    "--since", type=MomentType(), help="New is what began then or later. [default: the last seven days]"
)
@click.option(
    "--against",
    metavar="INDEX|last-week",
    help="New is what that index does not have, or what the week before --since does not have.",
)
@click.option("--cause", metavar="NAME", help="List the bundles with this cause, or with these words.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "csv", "html"]),
    default="table",
    help="table: the ten most frequent; wide: all; html: a page with the trend; the others for programs.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 512),
    default=os.cpu_count() or 1,
    show_default="one for each processor",
    help="How many bundles are judged at once on this machine.",
)
@click.option(
    "--on", "scheduler", metavar="tcp://HOST:PORT", help="Judge on the workers of a Dask scheduler."
)
@click.option("--again", is_flag=True, help="Judge bundles that are in the index already, too.")
@color_option
@pager_option
def bundles(
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
    """Judge the bundles of sources, and say what they come to.

    A SOURCE is a folder, a file, a pattern, s3://BUCKET/PREFIX, or a collector as collector://HOST. Of an
    archive of a whole cluster, as assisted-service makes it, each host is judged by itself.
    """
    if not sources and place is None:
        raise click.UsageError("give a SOURCE to judge, or --index with bundles that were judged before")
    require_extra("triage")
    if scheduler is not None:
        require_extra("dask")
    from service_record.triage.references import TriageError  # an extra

    try:
        with _opened(place, sources) as index:
            skipped = _judge(index, sources, workers, scheduler, again=again)
            if sources and not index.known_keys():
                raise Unreadable(visible(_nothing_to_judge(sources, skipped)))
            if cause is not None:
                _print_bundles(index, cause, output, color, pager=pager)
            else:
                answer = replace(_answer(index, since, against), skipped=tuple(skipped))
                _print_answer(answer, sources or (place or "",), output, color, pager=pager)
    except (TriageError, CollectorError) as fault:
        raise Unreadable(visible(str(fault))) from None


@contextmanager
def _opened(place: str | None, sources: Sequence[str]) -> "Iterator[Index]":
    """Open the index; without a place, a temporary one."""
    from service_record.triage.index import Index  # an extra

    if place is not None:
        yield Index(place, create=bool(sources))
        return
    with tempfile.TemporaryDirectory(prefix="service-record-triage-") as directory:
        yield Index(directory)


def _judge(
    index: "Index", sources: Iterable[str], workers: int, scheduler: str | None, *, again: bool
) -> list[tuple[str, str]]:
    """Judge the hosts that the index does not have, and add their rows; return the skipped files, and why."""
    from service_record.triage.engines import judge_here, judge_on_dask  # an extra
    from service_record.triage.index import add_in_parts
    from service_record.triage.references import references

    judged = set() if again else index.known_keys()
    keys: set[str] = set()

    skipped: list[tuple[str, str]] = []

    def skip(place: str, reason: str) -> None:
        skipped.append((place, reason))

    def new() -> "Iterator[Reference]":
        for reference in chain.from_iterable(references(source, skip) for source in sources):
            if reference.key not in judged and reference.uri not in keys:
                keys.add(reference.uri)
                yield reference

    answers = judge_on_dask(new(), scheduler) if scheduler else judge_here(new(), workers)
    is_terminal = sys.stderr.isatty()
    count = 0
    for count in add_in_parts(index, answers, _ROWS_EACH):
        if is_terminal and count % _TOLD_EACH == 0:
            click.echo(f"\r{count} bundles judged", err=True, nl=False)
    if is_terminal and count >= _TOLD_EACH:
        click.echo(f"\r{count} bundles judged", err=True)
    return skipped


def _nothing_to_judge(sources: Iterable[str], skipped: Sequence[tuple[str, str]]) -> str:
    if not skipped:
        return f"nothing to judge in {', '.join(sources)}: no files there"
    place, reason = skipped[0]
    files = f"{len(skipped)} file{'s were' if len(skipped) > 1 else ' was'} skipped"
    return f"nothing to judge in {', '.join(sources)}: {files}, the first of them {place}: {reason}"


def _answer(index: "Index", since: datetime | None, against: str | None) -> "Triage":
    from service_record.triage.counting import summarise
    from service_record.triage.index import Index  # an extra

    if against is None:
        return summarise(index.connect(), since)
    if against == _WEEK:
        return summarise(index.connect(), since, period=timedelta(days=7), against_name="the week before")
    if "://" not in against and not Path(against).is_dir():
        raise click.UsageError(
            f"--against: {visible(against)} is neither an index nor {_WEEK}; "
            "name a folder that triage --index has made"
        )
    return summarise(index.connect(), since, Index(against).connect(), against)


def _print_answer(
    answer: "Triage", sources: tuple[str, ...], output: str, color: str, *, pager: bool
) -> None:
    from service_record.triage import answer_table  # an extra

    if output in {"table", "wide"}:
        lines = answer_table.answer_lines(answer, view(Clock.UTC), whole=output == "wide")
        print_lines(lines, color, pager=pager)
    elif output == "html":
        click.echo(answer_table.answer_html(answer, ", ".join(sources), view(Clock.UTC).now), nl=False)
    elif output == "csv":
        _write(answer_table.as_csv(answer))
    else:
        _write_json(answer_table.document(answer))


def _print_bundles(index: "Index", cause: str, output: str, color: str, *, pager: bool) -> None:
    from service_record.display.machine import csv_of
    from service_record.triage.answer_table import bundle_lines  # an extra
    from service_record.triage.counting import bundles_of

    bundle_rows = bundles_of(index.connect(), cause)
    if output in {"table", "wide"}:
        print_lines(bundle_lines(cause, bundle_rows, view(Clock.UTC)), color, pager=pager)
    elif output == "json":
        _write_json([_plain(row) for row in bundle_rows])
    elif output == "csv":
        rows = [_plain(row) for row in bundle_rows]
        _write(csv_of(rows[0] if rows else (), (row.values() for row in rows)))
    else:
        raise click.UsageError("--cause has no page: use -o table, json or csv")


@command.command("sql")
@click.argument("query")
@_index_option
@click.option("-o", "--output", type=click.Choice(["table", "json", "csv"]), default="table")
def sql(*, query: str, place: str | None, output: str) -> None:
    """Ask the index with a QUERY of DuckDB.

    It has the tables `bundles`, a row for each host of each bundle, and `bad`, those with trouble.

    \b
    Example:
      service-record triage sql --index shelf "select release, count(*) from bad group by all"
    """  # noqa: D301  # click takes a backspace for a paragraph that stays as it is
    if place is None:
        raise click.UsageError("--index is missing; name the index to ask")
    require_extra("triage")
    from service_record.display.machine import csv_of  # only for an output
    from service_record.triage.index import Index, ask
    from service_record.triage.references import TriageError

    try:
        columns, rows = ask(Index(place), query)
    except TriageError as fault:
        raise Unreadable(visible(str(fault))) from None
    if output == "json":
        _write_json([_plain(dict(zip(columns, row, strict=True))) for row in rows])
    elif output == "csv":
        _write(csv_of(columns, rows))
    else:
        cells = [[visible("" if value is None else str(value)) for value in row] for row in rows]
        _write(aligned([columns, *cells]))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value

    return {name: plain(value) for name, value in row.items()}


def _write(text: str) -> None:
    sys.stdout.buffer.write(text.encode(errors="backslashreplace"))


def _write_json(value: object) -> None:
    from service_record.display.machine import as_json  # only for programs

    _write(as_json(value))
