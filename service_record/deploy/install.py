"""`install`: what is delivered, onto this host or a mounted one; and again, when there is a newer version."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from service_record.deploy import manager
from service_record.deploy.apply import apply
from service_record.deploy.contents import CLOSING, HOST, Item, Option, closing, contents
from service_record.deploy.installed import Installed, read
from service_record.deploy.plan import Step, after, aside, beside, to_install
from service_record.deploy.root import NOTHING, Root, Seen
from service_record.reporter.places import Places

_PROGRAM: Final = f"{HOST.programs}/service-record"
_DROP_IN: Final = re.compile(rf"{re.escape(HOST.units)}/(?P<service>[^/]+)\.service\.d/{re.escape(CLOSING)}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done, or would be."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    """What else there is to know, a line each."""
    options: frozenset[Option] = frozenset()
    """All that are in force."""
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
) -> Outcome:
    """Bring what these options select, and what was installed before, to this version.

    systemd closes the records of the services in `closes`, beside those of before. Without options that is
    what was installed before, or else the shim. A file of somebody else stays where it is, unless `replaces`.
    A trial changes nothing. Raises OSError, DamagedError.
    """
    with root.locked():
        before = read(root) or Installed()
        closed = tuple(dict.fromkeys([*_closed_before(before), *closes]))
        asked = frozenset([*options, *([Option.SHIM] if closed else [])])
        chosen = _chosen(root, asked, before)
        if Option.ALL_SERVICES in chosen:
            closed = ()
        items = (*contents(chosen, HOST, pages), *closing(closed))
        steps = tuple(to_install(items, _look(root, items, before), before, replaces=replaces))
        if is_trial:
            return Outcome(steps, tuple(_notes(root, chosen)), chosen, closed)
        apply(root, steps, before, after(steps, before, chosen))
        troubles = manager.reload_for(root, [step.path for step in steps if step.changes])
        return Outcome(steps, (*troubles, *_notes(root, chosen)), chosen, closed)


def _closed_before(before: Installed) -> Iterator[str]:
    """Yield the services that an earlier installation gave a drop-in of their own."""
    for path in sorted(before.files):
        found = _DROP_IN.fullmatch(path)
        if found is not None:
            yield found["service"]


def _chosen(root: Root, asked: frozenset[Option], before: Installed) -> frozenset[Option]:
    """The options asked for and those of before, and what they need."""
    kept = before.options
    if Option.REPORTER not in asked and _has_stopped(root):
        kept -= {Option.REPORTER}  # it has removed its units; an upgrade does not bring them back
    shim = frozenset([Option.SHIM])
    chosen = asked | kept or shim
    return chosen | shim if Option.ALL_SERVICES in chosen else chosen


def _look(root: Root, items: Iterable[Item], before: Installed) -> dict[str, Seen]:
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
        yield f"the reporter has stopped here for good; remove {places.tombstone} to have it run again"
    for path, what in {_PROGRAM: "the program", str(places.settings_file): "its settings"}.items():
        if root.see(path) == NOTHING:
            yield f"{path} is missing: without {what} the reporter does nothing"
    if manager.runs_on(root):
        yield "the next boot starts it; systemctl start boot-reporter.timer does so now"


def _has_stopped(root: Root) -> bool:
    return root.see(str(Places().tombstone)) != NOTHING
