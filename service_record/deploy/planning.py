"""Plans an installation or a removal from the state of the host. Pure."""

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
    """An unedited file of another version of ours is overwritten."""
    REPLACE = auto()
    """A foreign or edited file is replaced, and kept until `uninstall` restores it."""
    LEAVE = auto()
    """The file is up to date."""
    KEEP = auto()
    """A foreign or edited file stays. Ours is written beside it as `PATH.new`."""
    REMOVE = auto()
    RESTORE = auto()
    """The file that REPLACE kept is moved back."""


@dataclass(frozen=True, slots=True)
class DeployStep:
    """The action on one path, with a reason unless it is obvious."""

    path: str
    action: Action
    why: str = ""
    item: Item | None = None
    mode: int = 0
    """The mode of the written file. A mode that somebody has changed is kept."""
    other: str = ""
    """The second path: for KEEP the `PATH.new`, for REPLACE and RESTORE the `PATH.replaced`."""

    @property
    def writes(self) -> str:
        """Return the written path; empty if nothing is written."""
        if self.action is Action.KEEP:
            return self.other
        return self.path if self.action in {Action.CREATE, Action.UPDATE, Action.REPLACE} else ""

    @property
    def changes(self) -> bool:
        """Return whether the step changes anything."""
        return bool(self.writes) or self.action in {Action.REMOVE, Action.RESTORE}


def new_path(path: str) -> str:
    return f"{path}.new"


def replaced_path(path: str) -> str:
    return f"{path}.replaced"


def make_mark(item: Item) -> Mark:
    if item.target is not None:
        return Mark(link=item.target)
    return Mark(sha256=digest(item.data), mode=f"{item.mode:04o}")


def plan_install(
    items: tuple[Item, ...], on_disk: Mapping[str, PathSeen], installed: Installed, *, replaces: bool
) -> Iterator[DeployStep]:
    """Yield a step for each item, and for each installed path that is no longer delivered.

    `on_disk` has the state of these paths, of their `new_path` and of their `replaced_path`.
    """
    needed = set()
    for item in items:
        step = _plan_item(item, on_disk, installed, replaces=replaces)
        if step.action is Action.KEEP:
            needed.add(new_path(item.path))
        yield step
    for path in sorted(set(installed.files) - {item.path for item in items}):
        yield _plan_removal_or_restore(path, on_disk, installed)
    for path in sorted(set(installed.beside) - needed):
        yield _plan_removal(path, on_disk.get(path, NOTHING), installed.beside[path])


def plan_uninstall(on_disk: Mapping[str, PathSeen], installed: Installed) -> Iterator[DeployStep]:
    """Yield a step for each installed path."""
    for path in sorted(installed.files):
        yield _plan_removal_or_restore(path, on_disk, installed)
    for path, ours in sorted(installed.beside.items()):
        yield _plan_removal(path, on_disk.get(path, NOTHING), ours)


def update_installed(
    steps: Iterable[DeployStep], installed: Installed, options: frozenset[Option]
) -> Installed:
    """Return the list of installed files after the steps. Its directories are unchanged."""
    files, new, aside = dict(installed.files), dict(installed.beside), dict(installed.aside)
    for step in steps:
        if step.item is None:
            for paths in (files, new, aside):
                paths.pop(step.path, None)
        elif step.action is Action.KEEP and step.other:
            new[step.other] = make_mark(step.item)
        elif step.writes or (step.path in files and step.action is Action.LEAVE):
            files[step.path] = make_mark(step.item)
        if step.action is Action.REPLACE:
            aside[step.path] = step.other
    return replace(installed, options=options, files=files, beside=new, aside=aside)


def _plan_item(
    item: Item, on_disk: Mapping[str, PathSeen], installed: Installed, *, replaces: bool
) -> DeployStep:
    state, ours = on_disk.get(item.path, NOTHING), installed.files.get(item.path)
    if state == NOTHING:
        return DeployStep(item.path, Action.CREATE, item=item, mode=item.mode)
    if _matches(state, make_mark(item)):
        why = "" if state.mode == item.mode or state.kind == "link" else f"mode {state.mode:04o} is kept"
        return DeployStep(item.path, Action.LEAVE, why, item)
    if ours and _matches(state, ours):
        is_ours = f"{state.mode:04o}" == ours.mode
        return DeployStep(item.path, Action.UPDATE, item=item, mode=item.mode if is_ours else state.mode)
    whose = "edited" if ours else "not ours"
    if state.kind == "directory":
        return DeployStep(item.path, Action.KEEP, "a directory is in its place", item)
    if replaces:
        return _plan_replacement(item, on_disk, installed, whose)
    return _plan_kept(item, on_disk, installed, whose)


def _plan_replacement(
    item: Item, on_disk: Mapping[str, PathSeen], installed: Installed, whose: str
) -> DeployStep:
    other = replaced_path(item.path)
    if on_disk.get(other, NOTHING) != NOTHING and installed.aside.get(item.path) != other:
        return DeployStep(item.path, Action.KEEP, f"{whose}; and so is {other}", item)
    return DeployStep(item.path, Action.REPLACE, f"{whose}; kept as {other}", item, item.mode, other)


def _plan_kept(item: Item, on_disk: Mapping[str, PathSeen], installed: Installed, whose: str) -> DeployStep:
    if item.target is not None:  # systemd would take a PATH.new in *.wants/ for a unit
        return DeployStep(item.path, Action.KEEP, f"{whose}; a link to {item.target} is due", item)
    other = new_path(item.path)
    there, ours = on_disk.get(other, NOTHING), installed.beside.get(other)
    if _matches(there, make_mark(item)):
        return DeployStep(item.path, Action.KEEP, f"{whose}; ours is {other}", item)
    if there != NOTHING and not (ours and _matches(there, ours)):
        return DeployStep(item.path, Action.KEEP, f"{whose}; and so is {other}", item)
    return DeployStep(item.path, Action.KEEP, f"{whose}; ours is {other}", item, item.mode, other)


def _plan_removal_or_restore(path: str, on_disk: Mapping[str, PathSeen], installed: Installed) -> DeployStep:
    step = _plan_removal(path, on_disk.get(path, NOTHING), installed.files[path])
    copy = installed.aside.get(path)
    if copy is None or on_disk.get(copy, NOTHING) == NOTHING:
        return step
    if (
        step.action is Action.KEEP and on_disk[path] != on_disk[copy]
    ):  # equal after an interrupted replacement
        return DeployStep(path, Action.KEEP, f"{step.why}; {copy} is what was there before")
    return DeployStep(path, Action.RESTORE, other=copy)


def _plan_removal(path: str, state: PathSeen, ours: Mark) -> DeployStep:
    if state == NOTHING:
        return DeployStep(path, Action.LEAVE, "gone already")
    if _matches(state, ours):
        return DeployStep(path, Action.REMOVE)
    return DeployStep(path, Action.KEEP, "edited")


def _matches(state: PathSeen, ours: Mark) -> bool:
    """Return whether the content is ours. The mode may differ."""
    return bool(state.content) and state.content == (ours.link if state.kind == "link" else ours.sha256)
