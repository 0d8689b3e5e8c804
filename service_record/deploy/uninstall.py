"""`uninstall`: the host as it was before, but for what somebody edited meanwhile."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from service_record.deploy import manager
from service_record.deploy.apply import check_rights, do, existing_parents, parent
from service_record.deploy.contents import HOST
from service_record.deploy.install import Outcome
from service_record.deploy.installed import FILE, Installed, read
from service_record.deploy.plan import Action, Step, to_uninstall
from service_record.deploy.root import Root


def uninstall(root: Root, *, is_trial: bool = False) -> Outcome | None:
    """Remove what `install` has put there, and put back what it replaced; None where nothing is installed.

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
            return Outcome(steps)
        check_rights(root, existing_parents(root, [FILE, *installed.directories, *paths]))
        notes = [*_stopped(root, steps), *_removed(root, steps, installed)]
        notes += manager.reload_for(root, [step.path for step in steps if step.changes])
        return Outcome(steps, tuple(notes))


def _stopped(root: Root, steps: Iterable[Step]) -> Iterator[str]:
    """Stop what is about to lose its unit."""
    going = [Path(step.path) for step in steps if step.action is Action.REMOVE]
    units = [path.name for path in going if str(path.parent) == HOST.units]
    if units:
        yield from manager.tell(root, "stop", *units)


def _removed(root: Root, steps: Sequence[Step], installed: Installed) -> Iterator[str]:
    """Do it, the note of what is installed last; a line for each directory of ours that cannot go."""
    untouched = {
        directory: times.before
        for directory, times in installed.times.items()
        if root.see(directory).kind == "directory" and root.modified(directory) == times.after
    }
    for step in steps:
        do(root, step)
        root.tidy(step.path)
    home = f"{parent(root, FILE)}/"
    inner_first = sorted(installed.directories, reverse=True)
    yield from _emptied(root, [path for path in inner_first if not home.startswith(f"{path}/")])
    _sync(root, [*installed.directories, *installed.times])
    root.remove(FILE)
    root.tidy(FILE)
    yield from _emptied(root, [path for path in inner_first if home.startswith(f"{path}/")])
    for directory, when in untouched.items():
        root.set_modified(directory, when)
    _sync(root, installed.times)


def _emptied(root: Root, directories: Iterable[str]) -> Iterator[str]:
    """Remove directories of ours; a line for each that stays."""
    for directory in directories:
        if not root.remove_directory(directory):
            yield f"{directory} stays: there is something else in it"


def _sync(root: Root, directories: Iterable[str]) -> None:
    for directory in directories:
        if root.see(directory).kind == "directory":
            root.sync(directory)
