"""`service-record follow`: entries as they come."""

import sys
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

import click
import jsonlines

from service_record.cli.options import (
    all_options,
    clock_options,
    color_option,
    complete_stages,
    read_directory_option,
    service_argument,
)
from service_record.cli.terminal import paint, view
from service_record.display.entries import EntryPrinter
from service_record.display.machine import encode_document, piece_document
from service_record.history.build import Selection
from service_record.read.live_directory import LiveRecords, Watch
from service_record.record.directory import Records
from service_record.record.entry import Piece
from service_record.record.visible import visible

_ALL: Final = "all"
_HISTORY_BYTES: Final = 4 << 20
"""The end of each record in which the last entries are looked for: it holds a thousand of them at least."""

_Show: TypeAlias = Callable[[str, Piece], None]


class LineCount(click.ParamType[int | None]):
    """A number of entries of history: from 0 on, or None for `all`."""

    name = "number"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        if value != _ALL and not str(value).isdecimal():
            self.fail(f"{value!r} is not a valid number of lines; use one like 10, or {_ALL}", param, ctx)
        return None if value == _ALL else int(value)


@click.command("follow")
@service_argument
@read_directory_option
@click.option(
    "-n", "--lines", metavar="N|all", type=LineCount(), default=10, help="Show the last N entries first. [10]"
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "jsonl"]),
    default="table",
    help="table: a line for each entry; wide: failures in full; jsonl: for programs.",
)
@click.option(
    "--stage", metavar="NAME", shell_complete=complete_stages, help="Only the entries of this stage."
)
@click.option("--failed", is_flag=True, help="Only failures.")
@all_options(*clock_options, color_option)
def command(
    *,
    services: tuple[str, ...],
    directory: Path | None,
    lines: int | None,
    output: str,
    stage: str | None,
    failed: bool,
    clock: str | None,
    color: str,
) -> None:
    """Show entries as they come.

    It waits for what is not there yet: directory, record, the next entry. Damaged pieces are shown as such.

    \b
    Examples:
      service-record follow                       all that is recorded here
      service-record follow bootkube -n 0         one service, from now on
      service-record follow --failed -o wide      failures, with all details
      service-record follow -o jsonl | jq .phase
      service-record follow --from example:stuck -n all
    """
    records = Records(directory)
    selection = Selection(stage=stage, failed=failed)
    live = LiveRecords(records, services, history_bytes=None if lines is None else _HISTORY_BYTES)
    show = _show_entry if output == "jsonl" else _line_printer(output, clock, color, live.services())
    with Watch(records.directory, sys.stdout.fileno()) as watch:
        watch.aim()
        if not records.directory.is_dir():
            click.echo(f"Waiting for {visible(str(records.directory))}", err=True)
        elif missing := sorted(set(services) - set(live.services())):
            click.echo(f"Waiting for the first record of {visible(', '.join(missing))}", err=True)
        news = _select(live.look(), selection)
        if lines is not None:
            news = deque(news, maxlen=lines)
        while True:
            for service, piece in news:
                show(service, piece)
            watch.wait(live.due)
            watch.aim()
            news = _select(live.look(), selection)


def _select(news: Iterable[tuple[str, Piece]], selection: Selection) -> Iterable[tuple[str, Piece]]:
    return (new for new in news if selection.has(new[1]))


def _show_entry(service: str, piece: Piece) -> None:
    with jsonlines.Writer(sys.stdout.buffer, dumps=encode_document, flush=True) as writer:
        writer.write(piece_document(service, piece))


def _line_printer(output: str, clock: str | None, color: str, services: Iterable[str]) -> _Show:
    printer = EntryPrinter(view(clock), services, whole=output == "wide")

    def show(service: str, piece: Piece) -> None:
        sys.stdout.writelines(paint(printer.lines(service, piece), color))
        sys.stdout.flush()

    return show
