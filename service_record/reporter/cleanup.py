"""The end of the reporter: it never runs again, and nothing of it stays but a tombstone and the records.

The tombstone is written first, and says all that removing needs to know: whatever cuts it short, the next
round goes on. Each step may find its work done. Once program or units are gone there is no next round, so a
rule of tmpfiles.d(5) stands by meanwhile, by which the next boot removes what is left, the rule included.
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
from service_record.reporter.console import tell_systemd
from service_record.reporter.paths import Places, is_there

UNDELIVERED: Final = ("spool", "console")
"""The parts that a stop keeps when nothing of this host's failure has arrived anywhere."""
PURGE: Final = "service-record report --stop --purge"
"""Removes that."""
_RULE: Final = "/etc/tmpfiles.d/boot-reporter.conf"
_RULE_CANNOT_NAME: Final = re.compile(r"[\s\"'%*?\[\]\\]")
_LEAST_DEPTH: Final = 3
"""The least depth of a directory that settings name for removal, `/` counted: `/opt/reporter`, and never
`/opt`.
"""


class Tombstone(msgspec.Struct, frozen=True, rename={"boot_id": "bootId", "is_finished": "finished"}):
    """A note that the reporter has stopped permanently, and what is still to be removed for it."""

    reason: str
    stopped: str = ""
    """The time of the stop, by this host's clock; RFC 3339."""
    boot_id: str | None = None
    remove: tuple[str, ...] = ()
    """The places to remove that the settings name beyond the reporter's own."""
    keep: tuple[str, ...] = ()
    """The parts to keep, out of `settings`, `spool`, `state`, `units`, `console`. The token is always
    removed.
    """
    is_finished: bool = False
    version: int = 1


def read_tombstone(places: Places) -> Tombstone | None:
    """Return the tombstone; None when there is none.

    A damaged one counts, only what it named is not known.
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
    """Write the tombstone, unless there is one, and clean up; a line for each thing that stays.

    A full disk gets room first, from what is removed anyway. Where no tombstone can be written at all, that
    is one of the lines, and everything is removed just the same.
    """
    tombstone = Tombstone(
        reason=reason,
        stopped=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        boot_id=systemd.boot_id(),
        remove=tuple(map(str, remove)),
        keep=tuple(keep),
    )
    unwritten = () if is_there(places.tombstone) else _written(places, tombstone)
    return (*unwritten, *finish(places, read_tombstone(places) or tombstone))


def purge(places: Places) -> tuple[str, ...]:
    """Remove what a stop has kept because it was delivered nowhere; a line for each thing that stays."""
    tombstone = read_tombstone(places)
    if tombstone is None or not set(UNDELIVERED) & set(tombstone.keep):
        return ()
    keep = tuple(word for word in tombstone.keep if word not in UNDELIVERED)
    bare = replace(tombstone, keep=keep, is_finished=False)
    return (*_written(places, bare), *finish(places, bare))


def undelivered_bundle(places: Places) -> Path | None:
    """Return the bundle that a stop has kept because it was delivered nowhere; None when there is none."""
    tombstone = read_tombstone(places)
    if tombstone is None or not set(UNDELIVERED) <= set(tombstone.keep):
        return None
    with suppress(OSError):
        return max(places.spool_directory.glob("[!.]*"), default=None)
    return None


def finish(places: Places, tombstone: Tombstone) -> tuple[str, ...]:
    """Remove what is still there; a line for each thing that stays, none when everything is gone."""
    rule = places.at(_RULE)
    with suppress(
        OSError
    ):  # without it only a loss of power at the very end leaves a unit, which does nothing
        write_whole(rule, _rule(places, tombstone), mode=0o644)
    tell_systemd(places, "stop", "--no-block", places.timer.name)
    problems = [line for path in _everything(places, tombstone) for line in _removed(path)]
    _forgotten(places.settings_file.parent)
    problems += [
        f"{path}: too much would go with it; remove it by hand" for path in _too_much(places, tombstone)
    ]
    tell_systemd(places, "daemon-reload")
    problems += _removed(rule)
    if problems or tombstone.is_finished or not is_there(places.tombstone):
        return tuple(problems)
    return _written(places, replace(tombstone, is_finished=True))


def _everything(places: Places, tombstone: Tombstone) -> Iterator[Path]:
    """Yield the files to remove, in that order: secrets first, last whatever could go on with the rest."""
    yield places.credential_file
    yield places.collector_credential_file
    yield from _unless("settings", [places.settings_file], tombstone)
    yield from _unless("console", [places.issue], tombstone)
    yield from _gathered(places, tombstone)
    too_much = set(_too_much(places, tombstone))
    yield from (places.at(path) for path in tombstone.remove if path not in too_much)
    yield from _unless("units", _units(places), tombstone)


def _unless(retained: str, paths: Iterable[Path], tombstone: Tombstone) -> Iterable[Path]:
    return () if retained in tombstone.keep else paths


def _gathered(places: Places, tombstone: Tombstone) -> Iterator[Path]:
    """Yield what rounds kept: bundles, the state, its damaged copies, and leftovers of interrupted writes."""
    yield places.work_directory
    yield from _unless("spool", [places.spool_directory, places.volatile.state_directory], tombstone)
    name = places.state_file.name
    paths = sorted(places.state_directory.glob(f"*{name}*"))
    ours = [path for path in paths if path.name.lstrip(".").startswith(name)]
    yield from _unless("state", ours, tombstone)


def _units(places: Places) -> Iterator[Path]:
    units = (places.service, places.timer)
    yield from (unit.with_name(f"{unit.name}.d") for unit in units)
    yield from (*places.unit_links, *units)


def _too_much(places: Places, tombstone: Tombstone) -> Iterator[str]:
    """Directories that no settings can have meant: `/`, `/usr`."""
    for path in tombstone.remove:
        if len(Path(path).parts) < _LEAST_DEPTH and places.at(path).is_dir():
            yield path


def _rule(places: Places, tombstone: Tombstone) -> bytes:
    """Return the rule: at the next boot (`!`) each of these is removed, with all that is in it (`R`)."""
    paths = [*_everything(places, tombstone), places.at(_RULE)]
    on_host = [f"/{path.relative_to(places.root)}" for path in paths]
    named = [path for path in on_host if not _RULE_CANNOT_NAME.search(path)]
    return "".join(f"R! {path}\n" for path in named).encode()


def _written(places: Places, tombstone: Tombstone) -> tuple[str, ...]:
    data = msgspec.json.format(msgspec.json.encode(tombstone)) + b"\n"
    try:
        try:
            write_whole(places.tombstone, data)
        except OSError:
            for path in _gathered(places, tombstone):
                list(_removed(path))
            write_whole(places.tombstone, data)
    except OSError as error:
        return (_remove_by_hand(places.tombstone, error),)
    return ()


def _removed(path: Path) -> Iterator[str]:
    """Remove a file, a link, or a directory with all that is in it, for good; say so when it stays."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
        sync_directory(path.parent)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield _remove_by_hand(path, error)


def _forgotten(directory: Path) -> None:
    """Remove a directory that may hold files of somebody else, and then stays."""
    with suppress(OSError):
        directory.rmdir()
        sync_directory(directory.parent)


def _remove_by_hand(path: Path, error: OSError) -> str:
    return f"{path}: {error.strerror or error}; remove it by hand"
