"""Stop the reporter permanently, after a round or by `report --stop`; and lock out a second round."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from service_record.record import systemd
from service_record.record.array_file import is_locked
from service_record.record.atomic_write import clear_the_way_of_all
from service_record.record.journal_sending import MessageKind
from service_record.reporter.cleanup import PURGE, UNDELIVERED, newest_bundle, purge, stop, undelivered_bundle
from service_record.reporter.console import run_systemctl
from service_record.reporter.log import Log
from service_record.reporter.paths import Places
from service_record.reporter.policy.round_context import Fact
from service_record.reporter.settings import Settings, read_settings
from service_record.reporter.state import newest_state_file, read


class HeldError(Exception):
    """Another process holds the lock: a round is running."""


@contextmanager
def hold_lock(directory: Path, wait: float = 0.0) -> Iterator[None]:
    """Lock a directory, which is created if missing. The lock leaves no file, and ends with the process.

    Raises HeldError if another process holds the lock for longer than `wait` seconds, and OSError if the
    directory cannot be created or opened.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not is_locked(descriptor, wait):
            raise HeldError
        yield
    finally:
        os.close(descriptor)


@contextmanager
def lock_rounds(places: Places, say: Log, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of rounds, in memory if the disk prevents locking; without it if both do.

    A file in the place of the directory is moved aside. Raises HeldError after `wait` seconds.
    """
    with ExitStack() as stack:
        for directory in (places.state_directory, places.volatile.state_directory):
            try:
                moved = clear_the_way_of_all(directory)
                if moved is not None:
                    say.warning(f"{directory}: not a directory; moved to {moved}")
                stack.enter_context(hold_lock(directory, wait))
                break
            except OSError as error:
                say.warning(f"{directory}: {error.strerror}; another round may run beside this one")
        yield


BY_HAND: Final = "by hand (report --stop)"
_SETTINGS: Final = Places().settings_file.parent
_WAIT_SECONDS: Final = 20.0


def stop_by_hand(places: Places, environ: Mapping[str, str], say: Log, *, purges: bool = False) -> bool:
    """Stop the reporter permanently, including a running round. Return whether everything was removed.

    An undelivered bundle is kept and its path is logged, unless `purges` is true.
    """
    settings = read_settings(places, environ)
    units = [places.timer.name]
    if systemd.unit_of_process() != places.service.name:  # else systemd would kill this process
        units.append(places.service.name)
    run_systemctl(places, "stop", *units)
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_rounds(places, say, _WAIT_SECONDS))
        except HeldError:
            say.warning(f"a round still runs after {_WAIT_SECONDS:.0f} s; it is not waited for")
        is_undelivered = not purges and _has_undelivered(places)
        purged = purge(places) if purges else ()
        remains = (
            *purged,
            *stop_as_configured(places, settings, BY_HAND, is_undelivered=is_undelivered, purges=purges),
        )
    for line in remains:
        say.error(line)
    if not remains:
        say.notice(f"stopped permanently: {places.tombstone} stays, and the records", MessageKind.STOPPED)
    log_undelivered(places, say, is_undelivered=is_undelivered)
    return not remains


def log_undelivered(places: Places, say: Log, *, is_undelivered: bool) -> None:
    """Log the path of the bundle if it is undelivered: now, or at an earlier stop by the tombstone.

    The tombstone alone does not show it: on a full or read-only disk there is none.
    """
    bundle = newest_bundle(places) if is_undelivered else undelivered_bundle(places)
    if bundle is not None:
        how_long = " until this host reboots" if bundle.parent == places.volatile.spool_directory else ""
        say.notice(
            f"{bundle} stays{how_long}: not every destination has it; remove it with: {PURGE}",
            MessageKind.UNDELIVERED,
        )


def _has_undelivered(places: Places) -> bool:
    """Return whether a spool, on the disk or in memory, holds a bundle that is not known to be delivered.

    A bundle whose path was reported to the service counts as undelivered: somebody may look for it.
    """
    if newest_bundle(places) is None:
        return False
    try:
        state = read(newest_state_file(places))
    except OSError:
        return True
    if state is None or state.bundle is None:
        return state is None
    return Fact.KEPT in state.told or not state.is_delivered(state.bundle.fingerprint)


def stop_as_configured(
    places: Places, settings: Settings, reason: str, *, is_undelivered: bool = False, purges: bool = False
) -> tuple[str, ...]:
    """Stop permanently, keeping the parts that the settings name. Return a line for each failed removal.

    A CA bundle in the directory of the settings belongs to the reporter, and is removed with them.
    """
    keep = tuple(word for word in settings.keep_after if not (purges and word in UNDELIVERED))
    keep = tuple(dict.fromkeys((*keep, *(UNDELIVERED if is_undelivered else ()))))
    bundle = settings.service.ca_bundle if settings.service else None
    is_ours = bundle is not None and _SETTINGS in bundle.parents and "settings" not in settings.keep_after
    remove = (*settings.remove, bundle) if bundle is not None and is_ours else settings.remove
    return stop(places, reason, remove, keep)
