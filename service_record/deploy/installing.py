"""Installs and uninstalls on this host or below a mounted root, and reloads systemd.

`install` also upgrades an older version. `uninstall` restores the host, except for files that somebody has
edited.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service_record.deploy.apply import apply, apply_step, check_rights, existing_parents, real_parent
from service_record.deploy.delivered import CLOSING, HOST, Item, Option, closing_drop_ins, contents
from service_record.deploy.installed import FILE, NOTHING_INSTALLED, Installed, read
from service_record.deploy.planning import (
    Action,
    DeployStep,
    new_path,
    plan_install,
    plan_uninstall,
    replaced_path,
    update_installed,
)
from service_record.deploy.root import NOTHING, PathSeen, Root
from service_record.record import systemd
from service_record.record.programs import Deadline, ProgramError, run
from service_record.reporter.paths import Places

_SECONDS: Final = 60
_MAX_OUTPUT_BYTES: Final = 1 << 20
_UNITS: Final = "/systemd/system/"


def is_managed(root: Root) -> bool:
    """Return whether a running systemd reads the files below this root."""
    return root.is_this_host and systemd.is_running()


def reload_units(root: Root, paths: Iterable[str]) -> Iterator[str]:
    """Reload systemd if one of the paths is a unit. Yield a line if that fails."""
    if any(_UNITS in path for path in paths):
        yield from run_if_managed(root, "systemctl", "daemon-reload")


def run_if_managed(root: Root, *command: str) -> Iterator[str]:
    """Run a command if a running systemd manages this root. Yield a line if it fails."""
    if not is_managed(root):
        return
    try:
        status, _, errors = run(command, os.environ, Deadline(_SECONDS), _MAX_OUTPUT_BYTES)
    except ProgramError as error:
        yield f"{' '.join(command)}: {error}; run it yourself"
        return
    if status != 0:
        message = errors.decode(errors="replace").strip().splitlines()[:1]
        yield f"{' '.join(command)}: {message[0] if message else f'exit {status}'}; run it yourself"


_INBOX: Final = "/dev/shm/service-record"  # noqa: S108  # of root, and sticky
_UPTIME_COPY: Final = "/dev/shm/service-record.uptime"  # noqa: S108  # likewise
_INBOX_RULE: Final = f"{HOST.tmpfiles}/service-record.conf"
_COLLECTOR: Final = f"{HOST.templates}/service-record-close.sh"
_PROGRAM: Final = f"{HOST.programs}/service-record"
_DROP_IN: Final = re.compile(rf"{re.escape(HOST.units)}/(?P<service>[^/]+)\.service\.d/{re.escape(CLOSING)}")


@dataclass(frozen=True, slots=True)
class InstallOutcome:
    """The changes that were made, or would be."""

    steps: tuple[DeployStep, ...]
    notes: tuple[str, ...] = ()
    """Remarks for the user, a line each."""
    options: frozenset[Option] = frozenset()
    """All installed options."""
    closed: tuple[str, ...] = ()
    """Services with a drop-in of their own, by which systemd closes their records."""


def install(
    root: Root,
    options: Iterable[Option],
    pages: Iterable[tuple[str, str]],
    *,
    closes: Iterable[str] = (),
    replaces: bool = False,
    is_trial: bool = False,
) -> InstallOutcome:
    """Install these options, and upgrade the options that are installed already.

    Without any option, the shim is installed. systemd closes the records of the services in `closes`, in
    addition to earlier ones. A foreign file is replaced only if `replaces` is true. A trial changes nothing.
    Raises OSError, DamagedError.
    """
    with root.locked():
        before = read(root) or NOTHING_INSTALLED
        closed = tuple(dict.fromkeys([*_find_closed_services(before), *closes]))
        requested = frozenset([*options, *([Option.SHIM] if closed else [])])
        chosen = _choose_options(root, requested, before)
        if Option.ALL_SERVICES in chosen:
            closed = ()
        items = (*contents(chosen, HOST, pages), *closing_drop_ins(closed))
        steps = tuple(plan_install(items, _read_paths(root, items, before), before, replaces=replaces))
        if is_trial:
            return InstallOutcome(steps, tuple(_make_notes(root, chosen)), chosen, closed)
        apply(root, steps, before, update_installed(steps, before, chosen))
        changed = [step.path for step in steps if step.changes]
        troubles = [*reload_units(root, changed)]
        if _INBOX_RULE in changed:  # create the inbox of services that are not root, as each boot does
            command = ("systemd-tmpfiles", "--create", "--prefix=/dev/shm", _INBOX_RULE)
            troubles += run_if_managed(root, *command)
        return InstallOutcome(steps, (*troubles, *_make_notes(root, chosen)), chosen, closed)


def _remove_inbox(root: Root, steps: Iterable[DeployStep]) -> Iterator[str]:
    """Remove the inbox and the copy of the uptime, which are in memory. Yield a line if that fails.

    Entries that root's services have left in the inbox are moved to their records first.
    """
    removed = {step.path for step in steps if step.action is Action.REMOVE}
    if _INBOX_RULE not in removed or not root.is_this_host:
        return
    if _COLLECTOR in removed:
        yield from run_if_managed(root, _COLLECTOR, "--collect")
    if root.see(_INBOX).kind == "directory":
        shutil.rmtree(_INBOX, ignore_errors=True)
        if root.see(_INBOX) != NOTHING:
            yield f"{_INBOX} stays: it could not be removed"
    Path(_UPTIME_COPY).unlink(missing_ok=True)


def _find_closed_services(before: Installed) -> Iterator[str]:
    """Yield the services for which an earlier installation wrote a drop-in."""
    for path in sorted(before.files):
        match = _DROP_IN.fullmatch(path)
        if match is not None:
            yield match["service"]


def _choose_options(root: Root, requested: frozenset[Option], before: Installed) -> frozenset[Option]:
    """Return the requested and the installed options, and the options that they need."""
    retained = before.options
    if Option.REPORTER not in requested and _has_stopped(root):
        retained -= {Option.REPORTER}  # it has removed its units; an upgrade must not restore them
    shim = frozenset([Option.SHIM])
    chosen = requested | retained or shim
    return chosen | shim if Option.ALL_SERVICES in chosen else chosen


def _read_paths(root: Root, items: Iterable[Item], before: Installed) -> dict[str, PathSeen]:
    paths = {item.path for item in items} | set(before.files)
    around = {other for path in paths for other in (new_path(path), replaced_path(path))}
    return {path: root.see(path) for path in paths | around | set(before.beside)}


def _make_notes(root: Root, options: frozenset[Option]) -> Iterator[str]:
    if os.geteuid() != 0:
        yield f"not root: what is written belongs to user {os.geteuid()}, not to root"
    if Option.REPORTER in options:
        yield from _make_reporter_notes(root)


def _make_reporter_notes(root: Root) -> Iterator[str]:
    places = Places()
    if _has_stopped(root):
        yield f"the reporter has stopped here permanently; remove {places.tombstone} to have it run again"
    for path, what in {_PROGRAM: "the program", str(places.settings_file): "its settings"}.items():
        if root.see(path) == NOTHING:
            yield f"{path} is missing: without {what} the reporter does nothing"
    if is_managed(root):
        yield "the next boot starts it; systemctl start boot-reporter.timer does so now"


def _has_stopped(root: Root) -> bool:
    return root.see(str(Places().tombstone)) != NOTHING


def uninstall(root: Root, *, is_trial: bool = False) -> InstallOutcome | None:
    """Remove what `install` has put there, and restore what it replaced; None if nothing is installed.

    Records and other files stay. After an interruption, the next call completes the removal. A trial changes
    nothing. Raises OSError, DamagedError.
    """
    with root.locked():
        installed = read(root)
        if installed is None:
            return None
        paths = {*installed.files, *installed.beside, *installed.aside.values()}
        steps = tuple(plan_uninstall({path: root.see(path) for path in paths}, installed))
        if is_trial:
            return InstallOutcome(steps)
        touched = existing_parents(root, [FILE, *installed.directories, *paths])
        check_rights(root, touched)
        notes = [*_stop_units(root, steps), *_remove_inbox(root, steps)]
        notes += _remove_all(root, steps, installed, touched)
        notes += reload_units(root, [step.path for step in steps if step.changes])
        return InstallOutcome(steps, tuple(notes))


def _stop_units(root: Root, steps: Iterable[DeployStep]) -> Iterator[str]:
    """Stop the units that will be removed."""
    going = [Path(step.path) for step in steps if step.action is Action.REMOVE]
    units = [path.name for path in going if str(path.parent) == HOST.units]
    if units:
        yield from run_if_managed(root, "systemctl", "stop", *units)


def _remove_all(
    root: Root, steps: Sequence[DeployStep], installed: Installed, touched: Sequence[str]
) -> Iterator[str]:
    """Apply the steps, and remove the directories. Yield a line for each directory that is not empty.

    The list of installed files is removed last: after an interruption, the next call completes the removal.
    """
    for step in steps:
        apply_step(root, step)
        root.tidy(step.path)
    home = f"{real_parent(root, FILE)}/"
    inner_first = sorted(installed.directories, reverse=True)
    yield from _remove_directories(root, [path for path in inner_first if not home.startswith(f"{path}/")])
    _sync(root, touched)
    root.remove(FILE)
    root.tidy(FILE)
    yield from _remove_directories(root, [path for path in inner_first if home.startswith(f"{path}/")])
    _sync(root, touched)


def _remove_directories(root: Root, directories: Iterable[str]) -> Iterator[str]:
    """Remove these directories. Yield a line for each that is not empty."""
    for directory in directories:
        if not root.remove_directory(directory):
            yield f"{directory} stays: there is something else in it"


def _sync(root: Root, directories: Iterable[str]) -> None:
    for directory in directories:
        if root.see(directory).kind == "directory":
            root.sync(directory)
