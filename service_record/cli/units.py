"""Ask systemd, or a bundle, which units failed and which expected services have not started."""

import time
from collections.abc import Iterable, Sequence

import click

from service_record import systemd
from service_record.cli.completion import complete_services
from service_record.cli.options import service_name
from service_record.diagnosis.expectations import ROLES, add_units
from service_record.diagnosis.findings import FailedUnit
from service_record.diagnosis.units import PROPERTIES, Unit, read_properties, read_texts
from service_record.history import History
from service_record.history.outcome import order
from service_record.source import Source
from service_record.writer import DEFAULT_DIRECTORY

BASELINE = "baseline"

expect_option = click.option(
    "--expect",
    "expectations",
    metavar="SERVICE|ROLE",
    multiple=True,
    shell_complete=complete_services,
    help="Services that must have started, in their order: names with commas; bootstrap, for the services of "
    "that host; baseline, for those of --baseline. Repeatable.",
)


def expected_services(expectations: Iterable[str], baseline: History | None) -> tuple[str, ...]:
    """Return the services that `--expect` means, in its order. Raises UsageError."""
    names: list[str] = []
    for word in (part.strip() for text in expectations for part in text.split(",")):
        if not word:
            raise click.UsageError("--expect: a name is empty")
        if word != BASELINE:
            names += ROLES.get(word, (service_name(word),))
        elif baseline is None:
            raise click.UsageError("--expect baseline needs --baseline, whose services are then expected")
        else:
            started = [service for service in baseline.services if service.runs]
            names += [s.name for s in sorted(started, key=lambda service: order(service.runs[0].first_entry))]
    return tuple(dict.fromkeys(names))


def units_for(
    source: Source, places: Sequence[str], history: History, boot_id: str | None, expected: Sequence[str]
) -> tuple[Unit, ...]:
    """Return the failed and the expected units, of the bundle that is read or of this host.

    None are known of an earlier boot that was asked for, nor of a directory that may be another host's.
    """
    if source.is_snapshot:
        is_latest = boot_id is None or boot_id in history.boots[-1:]
        return read_texts(source.unit_texts) if is_latest else ()
    here = systemd.boot_id()
    is_only_home = source.is_home and len(places) <= 1
    is_of_host = source.name == DEFAULT_DIRECTORY or (here is not None and here in history.boots)
    return units_here(expected) if is_only_home and is_of_host and boot_id in {None, here} else ()


def failed_units(source: Source) -> tuple[FailedUnit, ...]:
    """Return the units that failed by the texts of a bundle without records."""
    found = add_units(None, History(()), read_texts(source.unit_texts))
    return found.failed_units if found is not None else ()


def units_here(expected: Sequence[str]) -> tuple[Unit, ...]:
    """Return the failed and the expected units of this host; none where there is no systemd."""
    if not systemd.is_running():
        return ()
    text = systemd.unit_properties(expected, PROPERTIES)
    if text is None:
        click.echo("Warning: systemd does not answer; which units failed is not known", err=True)
        return ()
    return read_properties(text, time.time() - time.clock_gettime(time.CLOCK_MONOTONIC))
