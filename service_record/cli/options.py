"""Options that several verbs share, and the completion of services and stages in shells."""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import click


class _Quantity(click.ParamType[float]):
    """A number, or a text that a function of `record.quantities` reads."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not isinstance(value, str):
            return value
        from service_record.record import quantities  # few have one

        try:
            return quantities.parse_size(value) if self.name == "size" else quantities.parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION: Final = _Quantity("duration")
"""Seconds."""
SIZE: Final = _Quantity("size")
"""Bytes; a K is 1024 of them."""


class Number(click.FloatRange):
    """A number within bounds; `nan` is refused."""

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)  # type: ignore[arg-type]
        if number != number:  # noqa: PLR0124  # only nan does
            self.fail(f"{value!r} is not a number; use one like 30", param, ctx)
        return number


_NAMES_OF_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO: Final = re.compile(r"-?((?:\d+[smhdw] ?)+)(?:ago)?")
_MOMENTS: Final = "2026-11-21T03:12, 10m or -10m (ago), today, yesterday, now, @1700000000"


class MomentType(click.ParamType[datetime]):
    """An aware datetime. A text without a time zone is in the zone of this host."""

    name = "time"

    def convert(
        self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return parse_moment(value, datetime.now().astimezone())
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is not a valid time; use {_MOMENTS}", param, ctx)


def parse_moment(text: str, now: datetime) -> datetime:
    """Parse a moment. Raises ValueError, OverflowError or, for a time beyond the C library's, OSError."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    named = {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}
    if text in named:
        return named[text]
    if text.startswith("@"):
        return datetime.fromtimestamp(float(text[1:]), now.tzinfo)
    ago = _AGO.fullmatch(text)
    if ago:
        amounts = re.findall(r"(\d+)([smhdw])", ago[1])
        return now - sum((timedelta(**{_NAMES_OF_UNITS[unit]: int(n)}) for n, unit in amounts), timedelta())
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.astimezone()


_MAX_PIECES: Final = 20_000
"""The pieces of a record read for a completion, from its beginning: the user waits for it."""


def complete_services(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the services of the directories given so far, or of this host."""
    return _filter_names({service for _, service in _records(context)}, incomplete)


def complete_stages(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the stages of the services given so far, or of all."""
    # What stands before an option that lacks its value yet is still among the arguments.
    services = context.params.get("services") or context.args
    stages = {
        stage
        for directory, service in _records(context)
        if service in services or not services
        for stage in _stages(directory, service)
    }
    return _filter_names(stages, incomplete)


def _filter_names(names: Iterable[str], incomplete: str) -> list[str]:
    """Return names that begin like this and need no quotes, because click does not quote them."""
    return sorted(name for name in names if name.startswith(incomplete) and shlex.quote(name) == name)


def _records(context: click.Context) -> Iterator[tuple[Path, str]]:
    """Yield directory and service of each record.

    Standard input and archives are not read, which would take too long while the user is typing.
    """
    from service_record.read.source import SourceError, records_directory
    from service_record.record.directory import Records  # only where something is completed

    places = context.params.get("places") or filter(None, [context.params.get("directory")])
    for directory in [Path(place) for place in places] or [Records().directory]:
        with suppress(OSError, SourceError):
            there = records_directory(directory)
            yield from ((there, service) for service in Records(there).services())


def _stages(directory: Path, service: str) -> Iterator[str]:
    from service_record.record.directory import Records
    from service_record.record.entry import Entry  # only where something is completed

    with suppress(OSError):
        for piece in islice(Records(directory).read(service), _MAX_PIECES):
            if isinstance(piece, Entry) and piece.stage is not None:
                yield piece.stage


Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


def all_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds these options in this order."""

    def apply(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


FILE_PATH: Final = click.Path(path_type=Path, dir_okay=False)
EXISTING_FILE: Final = click.Path(path_type=Path, dir_okay=False, exists=True)

_BOOT: Final = click.option(
    "--boot", metavar="ID|N|all", default="all", help="Only this boot: 0 the latest, -1 the one before."
)
_PERIOD: Final = (
    click.option(
        "--since", type=MomentType(), help="Only runs with entries at or after TIME: 10m, today, ISO 8601."
    ),
    click.option("--until", type=MomentType(), help="Only runs that began at or before TIME."),
)


def service_name(name: str) -> str:
    """Return the name under which a unit records: `bootkube` of `bootkube.service`."""
    return name.removesuffix(".service") or name


_UNIT_NAME: Final = re.compile(r"[\w:.\\@-]+", re.ASCII)
"""See systemd.unit(5)."""


def unit_names(_context: click.Context, _parameter: click.Parameter, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of services. Raises BadParameter for a text that cannot be one."""
    from service_record.record.visible import visible  # only where one is refused

    for name in names:
        if not _UNIT_NAME.fullmatch(name):
            raise click.BadParameter(f"{visible(name)!r} is not the name of a service; use one like bootkube")
    return tuple(map(service_name, names))


def service_names(
    _context: click.Context, _parameter: click.Parameter, names: Sequence[str]
) -> tuple[str, ...]:
    """Return names of services for names of services or units."""
    return tuple(map(service_name, names))


def services_argument(metavar: str) -> Decorator:
    """Return the argument `services`; without a name it means all."""
    return click.argument(
        "services", metavar=metavar, nargs=-1, shell_complete=complete_services, callback=service_names
    )


service_argument: Final = services_argument("[SERVICE]...")
source_option: Final = click.option(
    "--from",
    "places",
    metavar="SOURCE",
    multiple=True,
    help="Directory, file, bundle, journal, or - for standard input; repeatable. "
    "[default: $SERVICE_RECORDS_DIR, else /var/log/openshift]",
)
journal_option: Final = click.option(
    "--journal",
    is_flag=True,
    help="Add the runs in journals. [default: only if there are no records]",
)


class _RecordsDirectory(click.Path):
    """A directory, or `example:NAME`."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        from service_record.read.examples import resolve_example  # most commands read none

        return super().convert(resolve_example(os.fspath(value)), param, ctx)


def directory_option(kind: click.Path) -> Decorator:
    """Return the option for the one directory of records: `directory`, None for this host's."""
    return click.option(
        "--from",
        "directory",
        metavar="DIRECTORY",
        type=kind,
        help="Records of this directory. [default: $SERVICE_RECORDS_DIR, else /var/log/openshift]",
    )


read_directory_option: Final = directory_option(_RecordsDirectory(path_type=Path, file_okay=False))
changed_directory_option: Final = directory_option(click.Path(path_type=Path, file_okay=False))
"""Without examples: these are files of the program."""


selection_options: Final = all_options(
    _BOOT,
    click.option(
        "--stage",
        metavar="NAME",
        shell_complete=complete_stages,
        help="Only runs with this stage, and only this stage of them.",
    ),
    click.option("--failed", is_flag=True, help="Only runs that failed or were interrupted."),
    *_PERIOD,
)
"""The options that select runs: `boot`, `stage`, `failed`, `since`, `until`."""
period_options: Final = all_options(_BOOT, *_PERIOD)
"""The options that select runs by time: `boot`, `since`, `until`."""


FORMS: Final = ("table", "wide", "json", "jsonl", "yaml", "html")
"""The values of `--output`, the same for each verb that answers a question."""


def output_option(*more: str, about: str = "table: one screen; wide: in full") -> Decorator:
    """Return the option `output`, with a verb's own forms after those of all verbs."""
    programs = ", ".join(["json", "jsonl", "yaml", *more])
    return click.option(
        "-o",
        "--output",
        type=click.Choice([*FORMS, *more]),
        default="table",
        help=f"{about}; html: a page in one file; {programs}: for programs.",
    )


clock_options: Final = (
    click.option("--utc", "clock", flag_value="utc", help="Times in UTC."),
    click.option("--local", "clock", flag_value="local", help="Times with the offset of this host."),
)
color_option: Final = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="auto: on a terminal, unless NO_COLOR is set.",
)
pager_option: Final = click.option(
    "--pager/--no-pager", default=True, help="Use a pager for output longer than the screen."
)
