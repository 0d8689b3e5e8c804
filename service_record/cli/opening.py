"""Opening what a verb was told to read, with refusals of one line."""

from collections.abc import Sequence
from pathlib import Path

import click

from service_record.cli import UNREADABLE
from service_record.display.text import visible
from service_record.history import History, build_history
from service_record.history.doubts import doubted
from service_record.records import Records
from service_record.reporter.places import Places, is_there
from service_record.source import Source, SourceError, liveness_for, open_source


class Unreadable(click.ClickException):
    """Nothing to read there, or not readable."""

    exit_code = UNREADABLE


def opened(places: Sequence[str], services: Sequence[str]) -> Source:
    """The source at these places; it has a record of each of these services."""
    try:
        source = open_source(places)
    except SourceError as error:
        raise Unreadable(visible(str(error))) from None
    for part in source.left_out:
        click.echo(f"Warning: {visible(str(part))}", err=True)
    unknown = set(services) - {name for name, _ in source.records}
    if unknown:
        known = ", ".join(name for name, _ in source.records)
        missing = f"no record of {', '.join(sorted(unknown))} in {source.name}; there are: {known}"
        raise Unreadable(visible(missing))
    _tell_undelivered(Path(places[0]) if len(places) == 1 else None if places else Records().directory)
    return source


def _tell_undelivered(directory: Path | None) -> None:
    """Say where the bundle lies that the boot reporter of this host delivered nowhere."""
    if directory is None or directory.parts[-3:] != Places().records.parts[-3:]:
        return
    host = Places(directory.parents[2])
    if not is_there(host.tombstone):
        return
    from service_record.reporter.cleanup import PURGE, undelivered_bundle  # noqa: PLC0415  # rarely needed

    bundle = undelivered_bundle(host)
    if bundle is not None:
        told = f"the boot reporter delivered nothing; its bundle is {bundle}; remove it with: {PURGE}"
        click.echo(f"Note: {visible(told)}", err=True)


def history_of(source: Source) -> History:
    """The history that the records of a source tell, with what speaks against them."""
    history = build_history(source.records, liveness_for(source))
    return doubted(history, source.written, source.unfinished, source.damaged)
