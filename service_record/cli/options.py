"""The options that reading verbs share."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import click

from service_record.cli.completion import complete_services, complete_stages
from service_record.cli.moments import Moment

_Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

_BOOT: Final = click.option(
    "--boot", metavar="ID|N|all", default="all", help="Of one boot: 0 the latest, -1 the one before."
)
_PERIOD: Final = (
    click.option("--since", type=Moment(), help="Still recorded then or later: 10m, today, ISO 8601."),
    click.option("--until", type=Moment(), help="Begun then or before."),
)


def service_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Which services: `services`; all when none is named."""
    return click.argument(
        "services",
        metavar="[SERVICE]...",
        nargs=-1,
        shell_complete=complete_services,
        callback=service_names,
    )(function)


def service_name(name: str) -> str:
    """Return the name under which a unit records: `bootkube` of `bootkube.service`."""
    return name.removesuffix(".service") or name


def service_names(
    _context: click.Context, _parameter: click.Parameter, names: Sequence[str]
) -> tuple[str, ...]:
    """Accept the names of units for those of services."""
    return tuple(map(service_name, names))


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where records are read from: `places`."""
    return _all(
        click.option(
            "--from",
            "places",
            metavar="SOURCE",
            multiple=True,
            help="Directory, file, bundle, or - for standard input; repeatable. "
            "[default: $SERVICE_RECORDS_DIR, else /var/log/openshift]",
        ),
    )(function)


def selection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Which runs: `boot`, `stage`, `failed`, `since`, `until`."""
    return _all(
        _BOOT,
        click.option(
            "--stage",
            metavar="NAME",
            shell_complete=complete_stages,
            help="Runs with this stage, and of their stages only this.",
        ),
        click.option("--failed", is_flag=True, help="What failed or was interrupted."),
        *_PERIOD,
    )(function)


def period_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Which runs, by when they were: `boot`, `since`, `until`."""
    return _all(_BOOT, *_PERIOD)(function)


def display_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How people see it: `clock`, `color`, `pager`."""
    return _all(
        click.option("--utc", "clock", flag_value="utc", help="Times in UTC."),
        click.option("--local", "clock", flag_value="local", help="Times with the offset of this host."),
        click.option("--relative", "clock", flag_value="relative", help="Times as passed: 3m 2s ago."),
        click.option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="auto: on a terminal, unless NO_COLOR is set.",
        ),
        click.option("--pager/--no-pager", default=True, help="A pager for what is longer than the screen."),
    )(function)


def _all(*options: _Decorator) -> _Decorator:
    def apply(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return apply
