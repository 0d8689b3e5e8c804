"""What shells complete with: the names of services and stages in the records that are there."""

import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

import click

_MAX_PIECES: Final = 20_000
"""Of a record, from its beginning: a completion is waited for."""


def complete_services(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The services of the directories given so far, or of this host."""
    return _typed({service for _, service in _records(context)}, incomplete)


def complete_stages(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The stages of the services given so far, or of all."""
    # What stands before an option that lacks its value yet is still among the arguments.
    services = context.params.get("services") or context.args
    stages = {
        stage
        for directory, service in _records(context)
        if service in services or not services
        for stage in _stages(directory, service)
    }
    return _typed(stages, incomplete)


def _typed(names: Iterable[str], incomplete: str) -> list[str]:
    """Those that begin so and need no quotes: click hands names to the shell as they are."""
    return sorted(name for name in names if name.startswith(incomplete) and shlex.quote(name) == name)


def _records(context: click.Context) -> Iterator[tuple[Path, str]]:
    """Directory and service of each record. Standard input and archives are left alone: somebody types."""
    from service_record.records import Records  # noqa: PLC0415  # only where something is completed
    from service_record.source import SourceError, records_directory  # noqa: PLC0415

    places = context.params.get("places") or filter(None, [context.params.get("directory")])
    for directory in [Path(place) for place in places] or [Records().directory]:
        with suppress(OSError, SourceError):
            there = records_directory(directory)
            yield from ((there, service) for service in Records(there).services())


def _stages(directory: Path, service: str) -> Iterator[str]:
    from service_record.entry import Entry  # noqa: PLC0415  # only where something is completed
    from service_record.records import Records  # noqa: PLC0415

    with suppress(OSError):
        for piece in islice(Records(directory).read(service), _MAX_PIECES):
            if isinstance(piece, Entry) and piece.stage is not None:
                yield piece.stage
