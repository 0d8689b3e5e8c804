"""Stop the reporter permanently: lock out other rounds, write the tombstone, and remove its files.

Only the tombstone and the records stay. The tombstone is written first and lists everything to remove. If the
clean-up is interrupted, the next round repeats it; steps that are already done do nothing. After the program
or its units are removed there is no next round. So a temporary rule of tmpfiles.d(5) has systemd remove the
rest, and the rule, at the next boot.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.record import systemd
from service_record.record.array_file import is_locked
from service_record.record.atomic_write import clear_the_way_of_all, sync_directory, write_whole
from service_record.record.journal_sending import MessageKind
from service_record.reporter.log import Log, run_systemctl
from service_record.reporter.paths import Places, is_there
from service_record.reporter.policy.round_context import Fact
from service_record.reporter.settings import Settings, read_settings
from service_record.reporter.state import newest_state_file, read

BY_HAND: Final = "by hand (report --stop)"
_SETTINGS: Final = Places().settings_file.parent
_WAIT_SECONDS: Final = 20.0
UNDELIVERED: Final = ("spool", "console")
"""The parts that a stop keeps if no destination has the bundle of this host's failure."""
PURGE: Final = "service-record report --stop --purge"
"""The command that removes these parts."""
_RULE_PATH: Final = "/etc/tmpfiles.d/boot-reporter.conf"
_UNQUOTABLE: Final = re.compile(r"[\s\"'%*?\[\]\\]")
_MIN_DEPTH: Final = 3
"""The least number of path components, including `/`, of a directory in the setting `remove`. `/opt/reporter`
is accepted, `/opt` is not.
"""


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
        remains = purge(places) if purges else ()
        remains += stop(places, settings, BY_HAND, is_undelivered=is_undelivered, purges=purges)
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
    return Fact.KEPT in state.reported or not state.is_delivered(state.bundle.fingerprint)


class Tombstone(msgspec.Struct, frozen=True, rename={"boot_id": "bootId", "is_finished": "finished"}):
    """The file that marks the reporter as permanently stopped, and lists what the clean-up removes."""

    reason: str
    stopped: str = ""
    """The time of the stop by this host's clock, in RFC 3339 form."""
    boot_id: str | None = None
    remove: tuple[str, ...] = ()
    """Paths from the setting `remove`, in addition to the reporter's own files."""
    keep: tuple[str, ...] = ()
    """The parts to keep, out of `settings`, `spool`, `state`, `units`, `console`. The token is always
    removed.
    """
    is_finished: bool = False
    version: int = 1


def read_tombstone(places: Places) -> Tombstone | None:
    """Return the tombstone, or None if the reporter has not stopped.

    An unreadable tombstone is valid, but its lists `remove` and `keep` are lost.
    """
    if not is_there(places.tombstone):
        return None
    try:
        return msgspec.json.decode(places.tombstone.read_bytes(), type=Tombstone)
    except (OSError, ValueError):
        return Tombstone("its tombstone cannot be read")


def stop(
    places: Places, settings: Settings, reason: str, *, is_undelivered: bool = False, purges: bool = False
) -> tuple[str, ...]:
    """Write the tombstone, unless it exists, and clean up. Return a line for each failed step.

    The parts that the settings name are kept. A CA bundle in the directory of the settings belongs to the
    reporter, and is removed with them. On a full disk, bundles and state are removed first to make room for
    the tombstone. If the tombstone cannot be written even then, everything is removed all the same.
    """
    keep = [word for word in settings.keep_after if not (purges and word in UNDELIVERED)]
    remove = list(settings.remove)
    bundle = settings.service.ca_bundle if settings.service else None
    if bundle is not None and _SETTINGS in bundle.parents and "settings" not in keep:
        remove.append(bundle)
    tombstone = Tombstone(
        reason=reason,
        stopped=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        boot_id=systemd.boot_id(),
        remove=tuple(map(str, remove)),
        keep=tuple(dict.fromkeys((*keep, *(UNDELIVERED if is_undelivered else ())))),
    )
    unwritten = () if is_there(places.tombstone) else _write_tombstone(places, tombstone)
    return (*unwritten, *finish(places, read_tombstone(places) or tombstone))


def purge(places: Places) -> tuple[str, ...]:
    """Remove the undelivered bundle and the console lines that a stop kept. Return a line for each error."""
    tombstone = read_tombstone(places)
    if tombstone is None or not set(UNDELIVERED) & set(tombstone.keep):
        return ()
    keep = tuple(word for word in tombstone.keep if word not in UNDELIVERED)
    bare = replace(tombstone, keep=keep, is_finished=False)
    return (*_write_tombstone(places, bare), *finish(places, bare))


def undelivered_bundle(places: Places) -> Path | None:
    """Return the undelivered bundle that a stop kept, or None."""
    tombstone = read_tombstone(places)
    if tombstone is None or not set(UNDELIVERED) <= set(tombstone.keep):
        return None
    return newest_bundle(places)


def newest_bundle(places: Places) -> Path | None:
    """Return the bundle in memory, else the one on the disk, else None.

    The one in memory is newer: it is made only while the disk cannot be written.
    """
    for spool in (places.volatile.spool_directory, places.spool_directory):
        with suppress(OSError):
            bundle = max(spool.glob("[!.]*"), default=None)
            if bundle is not None:
                return bundle
    return None


def finish(places: Places, tombstone: Tombstone) -> tuple[str, ...]:
    """Remove the remaining files. Return a line for each that could not be removed."""
    rule = places.at(_RULE_PATH)
    # The rule is a safeguard: without it, a power loss between the last removals leaves a harmless unit.
    with suppress(OSError):
        write_whole(rule, _format_rule(places, tombstone), mode=0o644)
    run_systemctl(places, "stop", "--no-block", places.timer.name)
    problems = [line for path in _list_removals(places, tombstone) for line in _remove(path)]
    with suppress(OSError):  # it may hold files that are not the reporter's
        places.settings_file.parent.rmdir()
        sync_directory(places.settings_file.parent.parent)
    problems += [
        f"{path}: too much would go with it; remove it by hand" for path in _list_refused(places, tombstone)
    ]
    run_systemctl(places, "daemon-reload")
    problems += _remove(rule)
    if problems or tombstone.is_finished or not is_there(places.tombstone):
        return tuple(problems)
    return _write_tombstone(places, replace(tombstone, is_finished=True))


def _list_removals(places: Places, tombstone: Tombstone) -> Iterator[Path]:
    """Yield the files to remove, in order: secrets first, last the units that could repeat the clean-up."""
    yield places.credential_file
    yield places.collector_credential_file
    if "settings" not in tombstone.keep:
        yield places.settings_file
    if "console" not in tombstone.keep:
        yield places.issue
    yield from _list_round_files(places, tombstone)
    too_much = set(_list_refused(places, tombstone))
    yield from (places.at(path) for path in tombstone.remove if path not in too_much)
    if "units" not in tombstone.keep:
        units = (places.service, places.timer)
        yield from (unit.with_name(f"{unit.name}.d") for unit in units)
        yield from (*places.unit_links, *units)


def _list_round_files(places: Places, tombstone: Tombstone) -> Iterator[Path]:
    """Yield the files of rounds: bundles, the state and its damaged copies, and torn writes."""
    yield places.work_directory
    if "spool" not in tombstone.keep:
        yield places.spool_directory
        yield places.volatile.state_directory
    if "state" not in tombstone.keep:
        name = places.state_file.name
        paths = sorted(places.state_directory.glob(f"*{name}*"))
        yield from (path for path in paths if path.name.lstrip(".").startswith(name))


def _list_refused(places: Places, tombstone: Tombstone) -> Iterator[str]:
    """Yield the directories in `remove` that are refused as a likely mistake, such as `/` or `/usr`."""
    for path in tombstone.remove:
        if len(Path(path).parts) < _MIN_DEPTH and places.at(path).is_dir():
            yield path


def _format_rule(places: Places, tombstone: Tombstone) -> bytes:
    """Return the rule of tmpfiles.d: remove each path recursively (`R`), at boot only (`!`)."""
    paths = [*_list_removals(places, tombstone), places.at(_RULE_PATH)]
    on_host = [f"/{path.relative_to(places.root)}" for path in paths]
    named = [path for path in on_host if not _UNQUOTABLE.search(path)]
    return "".join(f"R! {path}\n" for path in named).encode()


def _write_tombstone(places: Places, tombstone: Tombstone) -> tuple[str, ...]:
    data = msgspec.json.format(msgspec.json.encode(tombstone)) + b"\n"
    try:
        try:
            write_whole(places.tombstone, data)
        except OSError:
            for path in _list_round_files(places, tombstone):
                list(_remove(path))
            write_whole(places.tombstone, data)
    except OSError as error:
        return (_failure_line(places.tombstone, error),)
    return ()


def _remove(path: Path) -> Iterator[str]:
    """Remove a file, a link or a directory tree, and sync that to disk. Yield a line if it fails."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
        sync_directory(path.parent)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield _failure_line(path, error)


def _failure_line(path: Path, error: OSError) -> str:
    return f"{path}: {error.strerror or error}; remove it by hand"
