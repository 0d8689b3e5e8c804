"""Remove the reporter from the host permanently. Only a tombstone and the records stay.

The tombstone is written first and lists everything to remove. If the clean-up is interrupted, the next round
repeats it; steps that are already done do nothing. After the program or its units are removed there is no
next round. So a temporary rule of tmpfiles.d(5) has systemd remove the rest, and the rule, at the next boot.
"""

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.record import systemd
from service_record.record.atomic_write import sync_directory, write_whole
from service_record.reporter.console import run_systemctl
from service_record.reporter.paths import Places, is_there

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
    places: Places, reason: str, remove: Iterable[Path] = (), keep: Iterable[str] = ()
) -> tuple[str, ...]:
    """Write the tombstone, unless it exists, and clean up. Return a line for each failed step.

    On a full disk, bundles and state are removed first to make room for the tombstone. If the tombstone
    cannot be written even then, everything is removed all the same.
    """
    tombstone = Tombstone(
        reason=reason,
        stopped=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        boot_id=systemd.boot_id(),
        remove=tuple(map(str, remove)),
        keep=tuple(keep),
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
    yield from _unless_kept("settings", [places.settings_file], tombstone)
    yield from _unless_kept("console", [places.issue], tombstone)
    yield from _list_round_files(places, tombstone)
    too_much = set(_list_refused(places, tombstone))
    yield from (places.at(path) for path in tombstone.remove if path not in too_much)
    yield from _unless_kept("units", _list_units(places), tombstone)


def _unless_kept(retained: str, paths: Iterable[Path], tombstone: Tombstone) -> Iterable[Path]:
    return () if retained in tombstone.keep else paths


def _list_round_files(places: Places, tombstone: Tombstone) -> Iterator[Path]:
    """Yield the files of rounds: bundles, the state and its damaged copies, and torn writes."""
    yield places.work_directory
    yield from _unless_kept("spool", [places.spool_directory, places.volatile.state_directory], tombstone)
    name = places.state_file.name
    paths = sorted(places.state_directory.glob(f"*{name}*"))
    ours = [path for path in paths if path.name.lstrip(".").startswith(name)]
    yield from _unless_kept("state", ours, tombstone)


def _list_units(places: Places) -> Iterator[Path]:
    units = (places.service, places.timer)
    yield from (unit.with_name(f"{unit.name}.d") for unit in units)
    yield from (*places.unit_links, *units)


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
