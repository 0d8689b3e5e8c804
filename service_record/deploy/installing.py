"""`install` and `uninstall`, on this host or a mounted one, and what the service manager is told of them.

`install` again replaces an older version. `uninstall` leaves the host as it was before, but for what somebody
edited meanwhile.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service_record.deploy.apply import apply, check_rights, do, existing_parents, parent
from service_record.deploy.delivered import CLOSING, HOST, Item, Option, closing, contents
from service_record.deploy.installed import FILE, NOTHING_INSTALLED, Installed, read
from service_record.deploy.planning import Action, DeployStep, after, aside, beside, to_install, to_uninstall
from service_record.deploy.root import NOTHING, PathSeen, Root
from service_record.record import systemd
from service_record.record.programs import Deadline, ProgramError, run
from service_record.reporter.paths import Places

_SECONDS: Final = 60
_MAX_OUTPUT_BYTES: Final = 1 << 20
_UNITS: Final = "/systemd/system/"


def runs_on(root: Root) -> bool:
    """Return whether there is a running systemd that these files are for."""
    return root.is_this_host and systemd.is_running()


def reload_for(root: Root, paths: Iterable[str]) -> Iterator[str]:
    """Make systemd read its units again if these paths are units; return a line if that failed."""
    if any(_UNITS in path for path in paths):
        yield from run_on(root, "systemctl", "daemon-reload")


def run_on(root: Root, *command: str) -> Iterator[str]:
    """Run a program of systemd if it manages the host in question; return a line if that failed."""
    if not runs_on(root):
        return
    try:
        status, _, errors = run(command, os.environ, Deadline(_SECONDS), _MAX_OUTPUT_BYTES)
    except ProgramError as error:
        yield f"{' '.join(command)}: {error}; run it yourself"
        return
    if status != 0:
        message = errors.decode(errors="replace").strip().splitlines()[:1]
        yield f"{' '.join(command)}: {message[0] if message else f'exit {status}'}; run it yourself"


_INBOX: Final = "/dev/shm/service-record"  # noqa: S108  # root's, and sticky
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
    """Further remarks, a line each."""
    options: frozenset[Option] = frozenset()
    """All options in force."""
    closed: tuple[str, ...] = ()
    """Services whose records systemd closes, each by a drop-in of its own."""


def install(
    root: Root,
    options: Iterable[Option],
    pages: Iterable[tuple[str, str]],
    *,
    closes: Iterable[str] = (),
    replaces: bool = False,
    is_trial: bool = False,
) -> InstallOutcome:
    """Bring the selected options, and those installed before, to this version.

    systemd closes the records of the services in `closes`, beside those of before. Without options that is
    what was installed before, or else the shim. A file of somebody else stays where it is, unless `replaces`.
    A trial changes nothing. Raises OSError, DamagedError.
    """
    with root.locked():
        before = read(root) or NOTHING_INSTALLED
        closed = tuple(dict.fromkeys([*_closed_before(before), *closes]))
        requested = frozenset([*options, *([Option.SHIM] if closed else [])])
        chosen = _chosen(root, requested, before)
        if Option.ALL_SERVICES in chosen:
            closed = ()
        items = (*contents(chosen, HOST, pages), *closing(closed))
        steps = tuple(to_install(items, _look(root, items, before), before, replaces=replaces))
        if is_trial:
            return InstallOutcome(steps, tuple(_notes(root, chosen)), chosen, closed)
        apply(root, steps, before, after(steps, before, chosen))
        changed = [step.path for step in steps if step.changes]
        troubles = [*reload_for(root, changed), *_inbox_made(root, changed)]
        return InstallOutcome(steps, (*troubles, *_notes(root, chosen)), chosen, closed)


def _inbox_made(root: Root, paths: Iterable[str]) -> Iterator[str]:
    """Make the inbox of services that are not root, as each boot does; return a line if that failed."""
    if _INBOX_RULE in paths:
        yield from run_on(root, "systemd-tmpfiles", "--create", "--prefix=/dev/shm", _INBOX_RULE)


def _inbox_removed(root: Root, steps: Iterable[DeployStep]) -> Iterator[str]:
    """Remove the inbox and the copy of the uptime, which are in memory; return a line for what stays.

    Before that, entries go to their records that root's services left there when these could not be written.
    """
    removed = {step.path for step in steps if step.action is Action.REMOVE}
    if _INBOX_RULE not in removed or not root.is_this_host:
        return
    if _COLLECTOR in removed:
        yield from run_on(root, _COLLECTOR, "--collect")
    if root.see(_INBOX).kind == "directory":
        shutil.rmtree(_INBOX, ignore_errors=True)
        if root.see(_INBOX) != NOTHING:
            yield f"{_INBOX} stays: it could not be removed"
    Path(_UPTIME_COPY).unlink(missing_ok=True)


def _closed_before(before: Installed) -> Iterator[str]:
    """Yield the services that an earlier installation gave a drop-in of their own."""
    for path in sorted(before.files):
        match = _DROP_IN.fullmatch(path)
        if match is not None:
            yield match["service"]


def _chosen(root: Root, requested: frozenset[Option], before: Installed) -> frozenset[Option]:
    """Return the options requested now and before, and those that they need."""
    retained = before.options
    if Option.REPORTER not in requested and _has_stopped(root):
        retained -= {Option.REPORTER}  # it has removed its units; an upgrade does not bring them back
    shim = frozenset([Option.SHIM])
    chosen = requested | retained or shim
    return chosen | shim if Option.ALL_SERVICES in chosen else chosen


def _look(root: Root, items: Iterable[Item], before: Installed) -> dict[str, PathSeen]:
    paths = {item.path for item in items} | set(before.files)
    around = {other for path in paths for other in (beside(path), aside(path))}
    return {path: root.see(path) for path in paths | around | set(before.beside)}


def _notes(root: Root, options: frozenset[Option]) -> Iterator[str]:
    if os.geteuid() != 0:
        yield f"not root: what is written belongs to user {os.geteuid()}, not to root"
    if Option.REPORTER in options:
        yield from _notes_on_reporter(root)


def _notes_on_reporter(root: Root) -> Iterator[str]:
    places = Places()
    if _has_stopped(root):
        yield f"the reporter has stopped here permanently; remove {places.tombstone} to have it run again"
    for path, what in {_PROGRAM: "the program", str(places.settings_file): "its settings"}.items():
        if root.see(path) == NOTHING:
            yield f"{path} is missing: without {what} the reporter does nothing"
    if runs_on(root):
        yield "the next boot starts it; systemctl start boot-reporter.timer does so now"


def _has_stopped(root: Root) -> bool:
    return root.see(str(Places().tombstone)) != NOTHING


def uninstall(root: Root, *, is_trial: bool = False) -> InstallOutcome | None:
    """Remove what `install` has put there, and restore what it replaced; None if nothing is installed.

    Records stay, and all else that is not ours. When it is cut short, the next call goes on. A trial changes
    nothing. Raises OSError, DamagedError.
    """
    with root.locked():
        installed = read(root)
        if installed is None:
            return None
        paths = {*installed.files, *installed.beside, *installed.aside.values()}
        steps = tuple(to_uninstall({path: root.see(path) for path in paths}, installed))
        if is_trial:
            return InstallOutcome(steps)
        touched = existing_parents(root, [FILE, *installed.directories, *paths])
        check_rights(root, touched)
        notes = [*_stopped(root, steps), *_inbox_removed(root, steps)]
        notes += _removed(root, steps, installed, touched)
        notes += reload_for(root, [step.path for step in steps if step.changes])
        return InstallOutcome(steps, tuple(notes))


def _stopped(root: Root, steps: Iterable[DeployStep]) -> Iterator[str]:
    """Stop the services that are about to lose their unit."""
    going = [Path(step.path) for step in steps if step.action is Action.REMOVE]
    units = [path.name for path in going if str(path.parent) == HOST.units]
    if units:
        yield from run_on(root, "systemctl", "stop", *units)


def _removed(
    root: Root, steps: Sequence[DeployStep], installed: Installed, touched: Sequence[str]
) -> Iterator[str]:
    """Remove everything, the note of what is installed last; return a line for each directory of ours that
    stays.
    """
    for step in steps:
        do(root, step)
        root.tidy(step.path)
    home = f"{parent(root, FILE)}/"
    inner_first = sorted(installed.directories, reverse=True)
    yield from _emptied(root, [path for path in inner_first if not home.startswith(f"{path}/")])
    _sync(root, touched)
    root.remove(FILE)
    root.tidy(FILE)
    yield from _emptied(root, [path for path in inner_first if home.startswith(f"{path}/")])
    _sync(root, touched)


def _emptied(root: Root, directories: Iterable[str]) -> Iterator[str]:
    """Remove directories of ours; return a line for each that stays."""
    for directory in directories:
        if not root.remove_directory(directory):
            yield f"{directory} stays: there is something else in it"


def _sync(root: Root, directories: Iterable[str]) -> None:
    for directory in directories:
        if root.see(directory).kind == "directory":
            root.sync(directory)
