"""Opening what a verb was told to read, with refusals of one line."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

import click

from service_record.cli import UNREADABLE
from service_record.display.text import visible
from service_record.history import History, build_history
from service_record.history.doubts import doubted
from service_record.source import Source, SourceError, liveness_for, open_source

_MAX_NEAREST: Final = 3
_MAX_LISTED: Final = 8


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
    check_names(services, [name for name, _ in source.records], source.name)
    return source


def check_names(services: Iterable[str], recorded: Sequence[str], place: str) -> None:
    """Raise Unreadable with the nearest name where a service has no record there."""
    unknown = sorted(set(services) - set(recorded))
    if not unknown:
        return
    nearest = dict.fromkeys(
        near for name in unknown for near in get_close_matches(name, recorded, _MAX_NEAREST)
    )
    if nearest:
        advice = f"did you mean {' or '.join(nearest)}?"
    else:
        more = f" and {len(recorded) - _MAX_LISTED} more" if len(recorded) > _MAX_LISTED else ""
        advice = f"there are: {', '.join(recorded[:_MAX_LISTED])}{more}"
    raise Unreadable(visible(f"no record of {', '.join(unknown)} in {place}; {advice}"))


def history_of(source: Source) -> History:
    """The history that the records of a source tell, with what speaks against them."""
    history = build_history(source.records, liveness_for(source))
    return doubted(history, source.written, source.unfinished, source.damaged)
