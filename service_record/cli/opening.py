"""Opening what a verb was told to read, with refusals of one line."""

from collections.abc import Sequence

import click

from service_record.cli import UNREADABLE
from service_record.display.text import visible
from service_record.history import History, build_history
from service_record.history.build import with_running
from service_record.history.doubts import doubted
from service_record.history.outcome import Outcome, Run
from service_record.source import Source, SourceError, liveness_for, open_source
from service_record.systemd import RunningService, boot_id
from service_record.writer import record_name


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
    running = {record_name(one.unit) for one in source.running}
    unknown = set(services) - {name for name, _ in source.records} - running
    if unknown:
        known = ", ".join(sorted(running.union(name for name, _ in source.records)))
        missing = f"no record of {', '.join(sorted(unknown))} in {source.name}; there are: {known}"
        raise Unreadable(visible(missing))
    return source


def history_of(source: Source) -> History:
    """The history that the records of a source tell, with what speaks against them."""
    history = build_history(source.records, liveness_for(source))
    history = with_running(history, map(_run_of, source.running))
    return doubted(history, source.written, source.unfinished, source.damaged)


def _run_of(running: RunningService) -> Run:
    """Return the run of a service that runs, as far as systemd knows it."""
    return Run(
        service=record_name(running.unit),
        attempt=1,
        outcome=Outcome.RUNNING,
        started=running.started,
        ended=None,
        duration=None,
        uptime=running.uptime,
        first_entry=running.started,
        last_entry=running.started,
        last_uptime=running.uptime,
        boot_id=boot_id(),
        invocation_id=running.invocation_id,
        pid=running.pid,
        recorder="systemd",
    )
