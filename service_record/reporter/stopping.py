"""Stopping for good, as settings or a person want it (`report --stop`); and the lock: one round at a time."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from service_record.record import systemd
from service_record.record.array_file import is_locked
from service_record.record.atomic_write import clear_the_way_of_all
from service_record.reporter.cleanup import PURGE, UNDELIVERED, purge, stop, undelivered_bundle
from service_record.reporter.console import tell_systemd
from service_record.reporter.log import Log
from service_record.reporter.paths import Places
from service_record.reporter.policy.round_context import Fact
from service_record.reporter.settings import Settings, read_settings
from service_record.reporter.state import read


class HeldError(Exception):
    """Another round is running."""


@contextmanager
def only_one(directory: Path, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of a directory, which is made when missing; nothing of a lock is left in it.

    Raises HeldError when another process holds it for longer than `wait` seconds, OSError when the directory
    cannot be had. A process that dies gives it back.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not is_locked(descriptor, wait):
            raise HeldError
        yield
    finally:
        os.close(descriptor)


BY_HAND: Final = "by hand (report --stop)"
_SETTINGS: Final = Places().settings_file.parent
_WAIT_SECONDS: Final = 20.0


def stop_by_hand(places: Places, environ: Mapping[str, str], say: Log, *, purges: bool = False) -> bool:
    """Stop the reporter for good, a round that is running included; whether nothing of it is left.

    A bundle that has not arrived stays, and is told, unless this purges.
    """
    settings = read_settings(places, environ)
    units = [places.timer.name]
    if systemd.unit_of_process() != places.service.name:  # not this very process
        units.append(places.service.name)
    tell_systemd(places, "stop", *units)
    with ExitStack() as stack:
        try:
            clear_the_way_of_all(places.state_directory)
            stack.enter_context(only_one(places.state_directory, _WAIT_SECONDS))
        except HeldError:
            say.warning(f"a round still runs after {_WAIT_SECONDS:.0f} s; it is not waited for")
        except OSError as error:
            say.warning(f"{places.state_directory}: {error.strerror}")
        is_undelivered = not purges and _has_undelivered(places)
        purged = purge(places) if purges else ()
        remains = (
            *purged,
            *stop_for(places, settings, BY_HAND, is_undelivered=is_undelivered, purges=purges),
        )
    for line in remains:
        say.error(line)
    if not remains:
        say.notice(f"stopped permanently: {places.tombstone} stays, and the records")
    tell_undelivered(places, say)
    return not remains


def tell_undelivered(places: Places, say: Log) -> None:
    """Say where the bundle lies that has not arrived, if there is one."""
    bundle = undelivered_bundle(places)
    if bundle is not None:
        say.notice(f"{bundle} stays: not every destination has it; remove it with: {PURGE}")


def _has_undelivered(places: Places) -> bool:
    """Return whether the spool holds a bundle that nobody is known to have, or whose place was told."""
    if not any(places.spool_directory.glob("[!.]*")):
        return False
    try:
        state = read(places.state_file)
    except OSError:
        return True
    if state is None or state.bundle is None:
        return state is None
    return Fact.KEPT in state.told or not state.is_delivered(state.bundle.fingerprint)


def stop_for(
    places: Places, settings: Settings, reason: str, *, is_undelivered: bool = False, purges: bool = False
) -> tuple[str, ...]:
    """Stop for good, as the settings want it; a line for each thing that stays.

    Certificates that lie beside the settings are the reporter's own, and go with them.
    """
    keep = tuple(word for word in settings.keep_after if not (purges and word in UNDELIVERED))
    keep = tuple(dict.fromkeys((*keep, *(UNDELIVERED if is_undelivered else ()))))
    bundle = settings.service.ca_bundle if settings.service else None
    is_ours = bundle is not None and _SETTINGS in bundle.parents and "settings" not in settings.keep_after
    remove = (*settings.remove, bundle) if bundle is not None and is_ours else settings.remove
    return stop(places, reason, remove, keep)
