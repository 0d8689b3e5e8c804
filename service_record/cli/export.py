"""`service-record export`: records in a form that other programs read."""

import platform
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from service_record.cli import DAMAGED
from service_record.cli.inputs import open_places
from service_record.cli.options import service_argument, source_option
from service_record.cli.terminal import check_new, write_new
from service_record.display.text import count
from service_record.export import FORMS
from service_record.read.source import Source, liveness_for, open_source
from service_record.record import systemd
from service_record.record.directory import Records
from service_record.record.entry import Entry, Piece
from service_record.record.visible import visible

_MAX_PLACES: Final = 10
_TRACES: Final = ("chrome-trace", "otlp")
_SUMMARIES: Final = ("junit", "prometheus")


@click.command("export")
@service_argument
@click.option(
    "--to",
    "form",
    type=click.Choice([*FORMS, *_TRACES, *_SUMMARIES]),
    required=True,
    help="array: one JSON array, as OpenShift's tools read it; jsonl: an entry on each line; "
    "chrome-trace: when what ran, for Perfetto; otlp: the same as OpenTelemetry spans; "
    "junit: stages as tests, for CI; prometheus: metrics, for node_exporter's textfile collector.",
)
@source_option
@click.option(
    "--directory",
    metavar="OUT",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write SERVICE.json of each there, instead of one service to standard output.",
)
@click.option(
    "--host",
    metavar="NAME",
    help="Name of the host in a trace. [default: the name of this host, for its own records]",
)
@click.option("--redact", is_flag=True, help="Mask the secrets of this host.")
def command(
    *,
    services: tuple[str, ...],
    form: str,
    places: tuple[str, ...],
    directory: Path | None,
    host: str | None,
    redact: bool,
) -> None:
    """Write records in a form that other programs read.

    \b
    Examples:
      service-record export --to array bootkube > bootkube.json
      service-record export --to jsonl --from /mnt/logs --directory lines
      service-record export --to array --from - < record.json | jq .
      service-record export --to chrome-trace > trace.json
      service-record export --to jsonl --from example:good --directory lines
    """
    source = open_places(places, services, derives=True)
    records = [
        (name, _Entries(name, pieces)) for name, pieces in source.records if name in services or not services
    ]
    if form in (*_TRACES, *_SUMMARIES):
        if directory is not None:
            raise click.UsageError(f"{form} is one document of all services; leave out --directory")
        if form in _TRACES:
            _write(_trace(records, form, places, source, host), redact=redact)
        else:
            _write(_summary(records, form, source), redact=redact)
    elif host is not None:
        raise click.UsageError("--host is for traces; the other forms have no place for it")
    elif directory is not None:
        _write_files(records, form, directory, redact=redact)
    elif len(records) == 1:
        _write(FORMS[form](records[0][1]), redact=redact)
    else:
        names = ", ".join(visible(name) for name, _ in records)
        raise click.UsageError(
            f"one service fits standard output: name one, or give --directory; there are: {names}"
        )
    damaged = [entries for _, entries in records if entries.left_out]
    for entries in damaged:
        click.echo(entries.damage_notice(), err=True)
    if damaged:
        raise click.exceptions.Exit(DAMAGED)


def _write(chunks: Iterable[bytes], *, redact: bool) -> None:
    sys.stdout.buffer.writelines(_mask(chunks, redact=redact))


def _mask(chunks: Iterable[bytes], *, redact: bool) -> Iterable[bytes]:
    """Return the data to write. With `redact`, all of it is searched for secrets before any is written."""
    if not redact:
        return chunks
    from service_record.cli.terminal import mask_secrets

    return (mask_secrets(b"".join(chunks)),)


def _summary(records: list[tuple[str, "_Entries"]], form: str, source: Source) -> Iterable[bytes]:
    from service_record.export.junit import to_junit
    from service_record.export.prometheus import to_prometheus
    from service_record.history import build_history

    convert = to_junit if form == "junit" else to_prometheus
    return convert(build_history(records, liveness_for(source)))


def _trace(
    records: list[tuple[str, "_Entries"]],
    form: str,
    places: tuple[str, ...],
    source: Source,
    host: str | None,
) -> Iterable[bytes]:
    """Return a trace of all services.

    The records are read twice, first to find the clock of each boot, because keeping all entries would need
    much more memory. A source that can be read only once is kept in memory.
    """
    from service_record.export.trace import SteadyClock
    from service_record.history import build_history

    kept: list[tuple[str, Iterable[Piece]]] = list(records)
    first: Iterable[tuple[str, Iterable[Piece]]]
    is_derived = any(isinstance(pieces, list) for _, pieces in source.records)  # a journal is read once
    if not is_derived and all(Path(place).is_file() or Path(place).is_dir() for place in places):
        first = open_source(places).records
    else:  # standard input, a pipe or a collector
        first = kept = [(name, list(entries)) for name, entries in records]
    names = {name for name, _ in records}
    clock = SteadyClock(piece for name, pieces in first if name in names for piece in pieces)
    steady = [(name, clock.timed(pieces)) for name, pieces in kept]
    if host is None and source.is_home:
        host = platform.node()
    history = build_history(steady, liveness_for(source))
    if form == "otlp":
        from service_record.export.otlp import to_otlp

        return to_otlp(history, host, systemd.host_id() if source.is_home else None)
    from service_record.export.trace import to_chrome_trace

    return to_chrome_trace(history, host)


class _Entries:
    """The entries of a record, which can be read once. It counts the damaged pieces that are left out."""

    def __init__(self, service: str, pieces: Iterable[Piece]) -> None:
        self._service = service
        self._pieces = pieces
        self._places: list[str] = []
        self.left_out = 0

    def __iter__(self) -> Iterator[Entry]:
        for piece in self._pieces:
            if isinstance(piece, Entry):
                yield piece
                continue
            self.left_out += 1
            if self.left_out <= _MAX_PLACES:
                self._places.append(f"line {piece.line} ({visible(piece.reason)})")

    def damage_notice(self) -> str:
        """Return the number and the places of the damaged pieces, in one line."""
        rest = self.left_out - len(self._places)
        places = ", ".join([*self._places, *([f"and {rest} more"] if rest else [])])
        return f"{visible(self._service)}: {count(self.left_out, 'damaged piece')} left out: {places}"


def _write_files(records: list[tuple[str, _Entries]], form: str, directory: Path, *, redact: bool) -> None:
    """Write a file for each service. If one of the files exists already, none is written."""
    paths = [Records(directory).path(name) for name, _ in records]
    for path, uses in Counter(paths).items():
        check_new(path)
        if uses > 1:
            raise click.UsageError(f"several services would be {visible(str(path))}; export them one by one")
    directory.mkdir(parents=True, exist_ok=True)
    for path, (_, entries) in zip(paths, records, strict=True):
        write_new(path, _mask(FORMS[form](entries), redact=redact))
