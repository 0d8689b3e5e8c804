"""Plans of an installation or its removal, from what is there. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from msgspec.structs import replace

from service_record.deploy.delivered import Item, Option
from service_record.deploy.installed import Installed, Mark
from service_record.deploy.root import NOTHING, PathSeen, digest


class Action(Enum):
    """The action on a path."""

    CREATE = auto()
    UPDATE = auto()
    """A file of another version of ours, which nobody edited."""
    REPLACE = auto()
    """Somebody's, who gets it back when we are removed."""
    LEAVE = auto()
    """The file is as it should be."""
    KEEP = auto()
    """Somebody's, or edited. What would be delivered is put beside it."""
    REMOVE = auto()
    RESTORE = auto()
    """A file that REPLACE has kept goes back."""


@dataclass(frozen=True, slots=True)
class DeployStep:
    """The action on one path, with a reason unless that is obvious."""

    path: str
    action: Action
    why: str = ""
    item: Item | None = None
    mode: int = 0
    """The mode of a file that is written; the mode of the earlier file, if somebody has changed it."""
    other: str = ""
    """The second path of it: of KEEP where the delivered file is put, of REPLACE and RESTORE the one kept."""

    @property
    def writes(self) -> str:
        """Return the path that is written; none if nothing is."""
        if self.action is Action.KEEP:
            return self.other
        return self.path if self.action in {Action.CREATE, Action.UPDATE, Action.REPLACE} else ""

    @property
    def changes(self) -> bool:
        """Return whether anything changes at all."""
        return bool(self.writes) or self.action in {Action.REMOVE, Action.RESTORE}


def beside(path: str) -> str:
    return f"{path}.new"


def aside(path: str) -> str:
    return f"{path}.replaced"


def mark(item: Item) -> Mark:
    if item.target is not None:
        return Mark(link=item.target)
    return Mark(sha256=digest(item.data), mode=f"{item.mode:04o}")


def to_install(
    items: tuple[Item, ...], on_disk: Mapping[str, PathSeen], installed: Installed, *, replaces: bool
) -> Iterator[DeployStep]:
    """Yield a step for each item, and for each path of ours that is no longer delivered.

    `on_disk` has their paths, and those `beside` and `aside` of them.
    """
    needed = set()
    for item in items:
        step = _step(item, on_disk, installed, replaces=replaces)
        if step.action is Action.KEEP:
            needed.add(beside(item.path))
        yield step
    for path in sorted(set(installed.files) - {item.path for item in items}):
        yield _removal(path, on_disk, installed)
    for path in sorted(set(installed.beside) - needed):
        yield _without(path, on_disk.get(path, NOTHING), installed.beside[path])


def to_uninstall(on_disk: Mapping[str, PathSeen], installed: Installed) -> Iterator[DeployStep]:
    """Yield a step for each path of ours."""
    for path in sorted(installed.files):
        yield _removal(path, on_disk, installed)
    for path, ours in sorted(installed.beside.items()):
        yield _without(path, on_disk.get(path, NOTHING), ours)


def after(steps: Iterable[DeployStep], installed: Installed, options: frozenset[Option]) -> Installed:
    """Return what is installed after the steps; its directories and times are those of before."""
    files, new, aside = dict(installed.files), dict(installed.beside), dict(installed.aside)
    for step in steps:
        if step.item is None:
            for paths in (files, new, aside):
                paths.pop(step.path, None)
        elif step.action is Action.KEEP and step.other:
            new[step.other] = mark(step.item)
        elif step.writes or (step.path in files and step.action is Action.LEAVE):
            files[step.path] = mark(step.item)
        if step.action is Action.REPLACE:
            aside[step.path] = step.other
    return replace(installed, options=options, files=files, beside=new, aside=aside)


def _step(item: Item, on_disk: Mapping[str, PathSeen], installed: Installed, *, replaces: bool) -> DeployStep:
    state, ours = on_disk.get(item.path, NOTHING), installed.files.get(item.path)
    if state == NOTHING:
        return DeployStep(item.path, Action.CREATE, item=item, mode=item.mode)
    if _is(state, mark(item)):
        why = "" if state.mode == item.mode or state.kind == "link" else f"mode {state.mode:04o} is kept"
        return DeployStep(item.path, Action.LEAVE, why, item)
    if ours and _is(state, ours):
        is_ours = f"{state.mode:04o}" == ours.mode
        return DeployStep(item.path, Action.UPDATE, item=item, mode=item.mode if is_ours else state.mode)
    whose = "edited" if ours else "not ours"
    if state.kind == "directory":
        return DeployStep(item.path, Action.KEEP, "a directory is in its place", item)
    if replaces:
        return _replacement(item, on_disk, installed, whose)
    return _keep_step(item, on_disk, installed, whose)


def _replacement(item: Item, on_disk: Mapping[str, PathSeen], installed: Installed, whose: str) -> DeployStep:
    other = aside(item.path)
    if on_disk.get(other, NOTHING) != NOTHING and installed.aside.get(item.path) != other:
        return DeployStep(item.path, Action.KEEP, f"{whose}; and so is {other}", item)
    return DeployStep(item.path, Action.REPLACE, f"{whose}; kept as {other}", item, item.mode, other)


def _keep_step(item: Item, on_disk: Mapping[str, PathSeen], installed: Installed, whose: str) -> DeployStep:
    if item.target is not None:  # what stands in *.wants/ would be taken for a unit
        return DeployStep(item.path, Action.KEEP, f"{whose}; a link to {item.target} is due", item)
    other = beside(item.path)
    there, ours = on_disk.get(other, NOTHING), installed.beside.get(other)
    if _is(there, mark(item)):
        return DeployStep(item.path, Action.KEEP, f"{whose}; ours is {other}", item)
    if there != NOTHING and not (ours and _is(there, ours)):
        return DeployStep(item.path, Action.KEEP, f"{whose}; and so is {other}", item)
    return DeployStep(item.path, Action.KEEP, f"{whose}; ours is {other}", item, item.mode, other)


def _removal(path: str, on_disk: Mapping[str, PathSeen], installed: Installed) -> DeployStep:
    step = _without(path, on_disk.get(path, NOTHING), installed.files[path])
    copy = installed.aside.get(path)
    if copy is None or on_disk.get(copy, NOTHING) == NOTHING:
        return step
    if step.action is Action.KEEP and on_disk[path] != on_disk[copy]:  # else ours never came into its place
        return DeployStep(path, Action.KEEP, f"{step.why}; {copy} is what was there before")
    return DeployStep(path, Action.RESTORE, other=copy)


def _without(path: str, state: PathSeen, ours: Mark) -> DeployStep:
    if state == NOTHING:
        return DeployStep(path, Action.LEAVE, "gone already")
    if _is(state, ours):
        return DeployStep(path, Action.REMOVE)
    return DeployStep(path, Action.KEEP, "edited")


def _is(state: PathSeen, ours: Mark) -> bool:
    """Return whether it is the file that we put there, whatever its mode is now."""
    return bool(state.content) and state.content == (ours.link if state.kind == "link" else ours.sha256)
