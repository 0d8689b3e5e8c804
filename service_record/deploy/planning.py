"""What is to be done for an installation or its removal, told by what is there. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from service_record.deploy.delivered import Item, Option
from service_record.deploy.installed import Installed, Mark
from service_record.deploy.root import NOTHING, PathSeen, digest


class Action(Enum):
    """What becomes of a path."""

    CREATE = auto()
    UPDATE = auto()
    """Ours of another version, which nobody edited."""
    REPLACE = auto()
    """Somebody's, who gets it back when we are removed."""
    LEAVE = auto()
    """It is as it should be."""
    KEEP = auto()
    """Somebody's, or edited. What would be delivered is put beside it."""
    REMOVE = auto()
    RESTORE = auto()
    """What REPLACE has kept goes back."""


@dataclass(frozen=True, slots=True)
class DeployStep:
    """What becomes of one path, and why where that is not plain."""

    path: str
    action: Action
    why: str = ""
    item: Item | None = None
    mode: int = 0
    """Of a file that is written; that of the one before, where somebody has changed it."""
    other: str = ""
    """The second path of it: of KEEP where the delivered file is put, of REPLACE and RESTORE the one kept."""

    @property
    def writes(self) -> str:
        """Return the path that gets what is delivered; none where nothing is written."""
        if self.action is Action.KEEP:
            return self.other
        return self.path if self.action in {Action.CREATE, Action.UPDATE, Action.REPLACE} else ""

    @property
    def changes(self) -> bool:
        """Return whether anything is done at all."""
        return bool(self.writes) or self.action in {Action.REMOVE, Action.RESTORE}


def beside(path: str) -> str:
    return f"{path}.new"


def aside(path: str) -> str:
    return f"{path}.replaced"


def mark(item: Item) -> Mark:
    if item.target is not None:
        return Mark("link", item.target)
    return Mark("file", digest(item.data), item.mode)


def to_install(
    items: tuple[Item, ...], seen: Mapping[str, PathSeen], installed: Installed, *, replaces: bool
) -> Iterator[DeployStep]:
    """Yield a step for each item, and for each path of ours that is delivered no more.

    `seen` has their paths, and those `beside` and `aside` of them.
    """
    needed = set()
    for item in items:
        step = _step(item, seen, installed, replaces=replaces)
        if step.action is Action.KEEP:
            needed.add(beside(item.path))
        yield step
    for path in sorted(set(installed.files) - {item.path for item in items}):
        yield _removal(path, seen, installed)
    for path in sorted(set(installed.beside) - needed):
        yield _without(path, seen.get(path, NOTHING), installed.beside[path])


def to_uninstall(seen: Mapping[str, PathSeen], installed: Installed) -> Iterator[DeployStep]:
    """Yield a step for each path of ours."""
    for path in sorted(installed.files):
        yield _removal(path, seen, installed)
    for path, ours in sorted(installed.beside.items()):
        yield _without(path, seen.get(path, NOTHING), ours)


def after(steps: Iterable[DeployStep], installed: Installed, options: frozenset[Option]) -> Installed:
    """What is installed when the steps are done; its directories and times are those of before."""
    files, new, kept = dict(installed.files), dict(installed.beside), dict(installed.aside)
    for step in steps:
        if step.item is None:
            for gone in (files, new, kept):
                gone.pop(step.path, None)
        elif step.action is Action.KEEP and step.other:
            new[step.other] = mark(step.item)
        elif step.writes or (step.path in files and step.action is Action.LEAVE):
            files[step.path] = mark(step.item)
        if step.action is Action.REPLACE:
            kept[step.path] = step.other
    return replace(installed, options=options, files=files, beside=new, aside=kept)


def _step(item: Item, seen: Mapping[str, PathSeen], installed: Installed, *, replaces: bool) -> DeployStep:
    found, ours = seen.get(item.path, NOTHING), installed.files.get(item.path)
    if found == NOTHING:
        return DeployStep(item.path, Action.CREATE, item=item, mode=item.mode)
    if _is(found, mark(item)):
        why = "" if found.mode == item.mode or found.kind == "link" else f"mode {found.mode:04o} is kept"
        return DeployStep(item.path, Action.LEAVE, why, item)
    if ours and _is(found, ours):
        is_ours = found.mode == ours.mode
        return DeployStep(item.path, Action.UPDATE, item=item, mode=item.mode if is_ours else found.mode)
    whose = "edited" if ours else "not ours"
    if found.kind == "directory":
        return DeployStep(item.path, Action.KEEP, "a directory is in its place", item)
    if replaces:
        return _replacement(item, seen, installed, whose)
    return _keep_step(item, seen, installed, whose)


def _replacement(item: Item, seen: Mapping[str, PathSeen], installed: Installed, whose: str) -> DeployStep:
    other = aside(item.path)
    if seen.get(other, NOTHING) != NOTHING and installed.aside.get(item.path) != other:
        return DeployStep(item.path, Action.KEEP, f"{whose}; and so is {other}", item)
    return DeployStep(item.path, Action.REPLACE, f"{whose}; kept as {other}", item, item.mode, other)


def _keep_step(item: Item, seen: Mapping[str, PathSeen], installed: Installed, whose: str) -> DeployStep:
    if item.target is not None:  # what stands in *.wants/ would be taken for a unit
        return DeployStep(item.path, Action.KEEP, f"{whose}; a link to {item.target} is due", item)
    other = beside(item.path)
    there, ours = seen.get(other, NOTHING), installed.beside.get(other)
    if _is(there, mark(item)):
        return DeployStep(item.path, Action.KEEP, f"{whose}; ours is {other}", item)
    if there != NOTHING and not (ours and _is(there, ours)):
        return DeployStep(item.path, Action.KEEP, f"{whose}; and so is {other}", item)
    return DeployStep(item.path, Action.KEEP, f"{whose}; ours is {other}", item, item.mode, other)


def _removal(path: str, seen: Mapping[str, PathSeen], installed: Installed) -> DeployStep:
    step = _without(path, seen.get(path, NOTHING), installed.files[path])
    kept = installed.aside.get(path)
    if kept is None or seen.get(kept, NOTHING) == NOTHING:
        return step
    if step.action is Action.KEEP and seen[path] != seen[kept]:  # else ours never came into its place
        return DeployStep(path, Action.KEEP, f"{step.why}; {kept} is what was there before")
    return DeployStep(path, Action.RESTORE, other=kept)


def _without(path: str, found: PathSeen, ours: Mark) -> DeployStep:
    if found == NOTHING:
        return DeployStep(path, Action.LEAVE, "gone already")
    if _is(found, ours):
        return DeployStep(path, Action.REMOVE)
    return DeployStep(path, Action.KEEP, "edited")


def _is(found: PathSeen, ours: Mark) -> bool:
    """Return whether it is what we put there, in whatever mode it is now."""
    return (found.kind, found.content) == (ours.kind, ours.content)
