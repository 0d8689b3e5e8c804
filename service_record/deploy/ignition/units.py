"""The rules of systemd units and their drop-ins."""

import posixpath
import re
from collections.abc import Iterator
from typing import Any, Final

from service_record.deploy.ignition.fault import Fault, quoted
from service_record.deploy.ignition.places import items, twice

EXTENSIONS: Final = (
    *(".service", ".socket", ".device", ".mount", ".automount", ".swap"),
    *(".target", ".path", ".timer", ".snapshot", ".slice", ".scope"),
)
_NAME: Final = re.compile(r"[A-Za-z0-9:_.\\-]+(?:@[A-Za-z0-9:_.\\@-]*)?", re.ASCII)
"""Of systemd.unit(5)."""
_LONGEST: Final = 255
_SECTION: Final = re.compile(r"\[[^\[\]\n]+\]\s*")


def faults_of_units(config: dict[str, Any], _minor: int) -> Iterator[Fault]:
    units = items(config, "systemd.units")
    for where, unit in units:
        yield from _faults_of_name(f"{where}.name", unit["name"])
        drop_ins = items(unit, "dropins")
        for place, drop_in in drop_ins:
            yield from _faults_of_drop_in(f"{where}.{place}", drop_in)
        yield from twice([(f"{where}.{place}", drop_in["name"]) for place, drop_in in drop_ins], "drop-in")
        contents = unit.get("contents") or ""
        yield from _faults_of_contents(f"{where}.contents", contents)
        if unit.get("enabled") and contents and not _is_installed(contents):
            what = "is true, but the unit has no [Install] section: it is not enabled"
            yield Fault(f"{where}.enabled", what, is_warning=True)
    yield from twice([(f"{where}.name", unit["name"]) for where, unit in units], "unit")


def is_unit_name(name: str) -> bool:
    """Whether systemd takes a unit of this name."""
    base, extension = posixpath.splitext(name)
    return bool(extension in EXTENSIONS and len(name) <= _LONGEST and _NAME.fullmatch(base))


def _faults_of_name(where: str, name: str) -> Iterator[Fault]:
    if posixpath.splitext(name)[1] not in EXTENSIONS:
        yield Fault(where, f"{quoted(name)} is no name of a unit; it ends in .service, .timer, …")
    elif not is_unit_name(name):
        yield Fault(where, f"{quoted(name)} is no name of a unit; letters, digits and :-_.\\@ are")


def _faults_of_drop_in(where: str, drop_in: dict[str, Any]) -> Iterator[Fault]:
    name = drop_in["name"]
    if not name.endswith(".conf"):
        yield Fault(f"{where}.name", f"{quoted(name)} is no drop-in; its name ends in .conf")
    elif "/" in name or "\0" in name:
        yield Fault(f"{where}.name", f"{quoted(name)} is no file name")
    yield from _faults_of_contents(f"{where}.contents", drop_in.get("contents") or "")


def _faults_of_contents(where: str, contents: str) -> Iterator[Fault]:
    """What systemd.syntax(7) rules out: lines before a section, and that are no section and no setting."""
    section = ""
    for number, line in enumerate(_lines(contents), 1):
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            if not _SECTION.fullmatch(line):
                yield Fault(where, f"line {number}: {quoted(line)} is no section; one is [Service]")
                return
            section = line
        elif not section:
            yield Fault(where, f"line {number}: {quoted(line)} stands before any section", is_warning=True)
        elif "=" not in line:
            yield Fault(where, f"line {number}: {quoted(line)} is no setting; one is NAME=VALUE")
            return


def _lines(contents: str) -> Iterator[str]:
    """The lines; those that others are continued on are empty.

    As Ignition reads them: to systemd a comment amid the lines of a setting is none of it, to Ignition it is
    the last of them.
    """
    is_continued = False
    for line in contents.split("\n"):
        text = line.strip()
        yield "" if is_continued else text
        is_continued = text.endswith("\\") and (is_continued or text[0] not in "#;")


def _is_installed(contents: str) -> bool:
    return any(line.strip() == "[Install]" for line in contents.split("\n"))
