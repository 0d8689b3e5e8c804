"""`report --stop`: a person wants the reporter gone."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from service_record import systemd
from service_record.reporter.cleanup import stop
from service_record.reporter.lock import HeldError, only_one
from service_record.reporter.log import Log
from service_record.reporter.places import Places
from service_record.reporter.settings import read_settings
from service_record.reporter.telling import tell_systemd

BY_HAND: Final = "somebody told it to stop (report --stop)"
_WAIT_SECONDS: Final = 20.0


def stop_by_hand(places: Places, environ: Mapping[str, str], say: Log) -> bool:
    """Stop the reporter for good, a round that is running included; whether nothing of it is left."""
    settings = read_settings(places, environ)
    _end_the_round(places)
    with ExitStack() as stack:
        try:
            stack.enter_context(only_one(places.state_directory, _WAIT_SECONDS))
        except HeldError:
            say.warning(f"a round still runs after {_WAIT_SECONDS:.0f} s; it is not waited for")
        except OSError as error:
            say.warning(f"{places.state_directory}: {error.strerror}")
        left = stop(places, BY_HAND, settings.remove, settings.keep_after)
    for line in left:
        say.error(line)
    if not left:
        say.notice(f"stopped for good: {places.tombstone} stays, and the records")
    return not left


def _end_the_round(places: Places) -> None:
    """Have systemd stop timer and service, unless that would be this very process."""
    units = [places.timer.name]
    if systemd.unit_of_process() != places.service.name:
        units.append(places.service.name)
    tell_systemd(places, "stop", *units)
