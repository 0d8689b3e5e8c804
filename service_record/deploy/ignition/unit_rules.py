"""The rules of units, users and groups, and of what Ignition itself and the kernel are told."""

import posixpath
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from service_record.deploy.ignition.reading import ConfigFault, at, items, quoted, twice

_PERSON_NAME: Final = re.compile(r"[^\s:/\0,-][^\s:/\0,]{0,31}")
"""What useradd, groupadd and the files they write to can take at all."""


def faults_of_people(config: dict[str, Any], _minor: int) -> Iterator[ConfigFault]:
    for kind, number in (("users", "uid"), ("groups", "gid")):
        people = items(config, f"passwd.{kind}")
        for where, each in people:
            if not _PERSON_NAME.fullmatch(each["name"]):
                yield ConfigFault(f"{where}.name", f"{quoted(each['name'])} is no name of a {kind[:-1]}")
            if (each.get(number) or 0) < 0:
                yield ConfigFault(f"{where}.{number}", f"{each[number]} is no id")
            yield from _faults_of_line(where, each)
            keys = enumerate(each.get("sshAuthorizedKeys") or [])
            yield from twice([(f"{where}.sshAuthorizedKeys[{n}]", key) for n, key in keys], "key")
            groups = enumerate(each.get("groups") or [] if kind == "users" else [])
            yield from twice([(f"{where}.groups[{n}]", group) for n, group in groups], "group")
        yield from twice([(f"{where}.name", each["name"]) for where, each in people], kind[:-1])


def _faults_of_line(where: str, each: dict[str, Any]) -> Iterator[ConfigFault]:
    """What becomes a field of a line, with colons between."""
    for name in ("gecos", "homeDir", "shell", "passwordHash"):
        text = each.get(name) or ""
        if ":" in text or "\n" in text:
            yield ConfigFault(f"{where}.{name}", "has a colon or a line end; /etc/passwd has no place for it")
    if each.get("homeDir") and not each["homeDir"].startswith("/"):
        yield ConfigFault(f"{where}.homeDir", f"{quoted(each['homeDir'])} is relative; paths begin with /")


def faults_of_settings(config: dict[str, Any], _minor: int) -> Iterator[ConfigFault]:
    for name in ("httpResponseHeaders", "httpTotal"):
        seconds = at(config, f"ignition.timeouts.{name}") or 0
        if seconds < 0:
            yield ConfigFault(
                f"ignition.timeouts.{name}", f"{seconds} is no time; it is in seconds, 0 for no limit"
            )
    for name in ("httpProxy", "httpsProxy"):
        proxy = at(config, f"ignition.proxy.{name}")
        if proxy and urlsplit(proxy).scheme not in {"http", "https"}:
            yield ConfigFault(f"ignition.proxy.{name}", "is no URL of http or https")
    hosts = enumerate(at(config, "ignition.proxy.noProxy") or [])
    yield from twice([(f"ignition.proxy.noProxy[{number}]", host) for number, host in hosts], "host")
    arguments: list[tuple[str, object]] = []
    for name in ("shouldExist", "shouldNotExist"):
        for number, argument in enumerate(at(config, f"kernelArguments.{name}") or []):
            where = f"kernelArguments.{name}[{number}]"
            if not argument.strip() or "\n" in argument:
                yield ConfigFault(where, f"{quoted(argument)} is no argument of a kernel")
            arguments.append((where, argument))
    yield from twice(arguments, "argument")


EXTENSIONS: Final = (
    *(".service", ".socket", ".device", ".mount", ".automount", ".swap"),
    *(".target", ".path", ".timer", ".snapshot", ".slice", ".scope"),
)
_NAME: Final = re.compile(r"[A-Za-z0-9:_.\\-]+(?:@[A-Za-z0-9:_.\\@-]*)?", re.ASCII)
"""Of systemd.unit(5)."""
_LONGEST: Final = 255
_SECTION: Final = re.compile(r"\[[^\[\]\n]+\]\s*")


def faults_of_units(config: dict[str, Any], _minor: int) -> Iterator[ConfigFault]:
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
            yield ConfigFault(f"{where}.enabled", what, is_warning=True)
    yield from twice([(f"{where}.name", unit["name"]) for where, unit in units], "unit")


def is_unit_name(name: str) -> bool:
    """Whether systemd takes a unit of this name."""
    base, extension = posixpath.splitext(name)
    return bool(extension in EXTENSIONS and len(name) <= _LONGEST and _NAME.fullmatch(base))


def _faults_of_name(where: str, name: str) -> Iterator[ConfigFault]:
    if posixpath.splitext(name)[1] not in EXTENSIONS:
        yield ConfigFault(where, f"{quoted(name)} is no name of a unit; it ends in .service, .timer, …")
    elif not is_unit_name(name):
        yield ConfigFault(where, f"{quoted(name)} is no name of a unit; letters, digits and :-_.\\@ are")


def _faults_of_drop_in(where: str, drop_in: dict[str, Any]) -> Iterator[ConfigFault]:
    name = drop_in["name"]
    if not name.endswith(".conf"):
        yield ConfigFault(f"{where}.name", f"{quoted(name)} is no drop-in; its name ends in .conf")
    elif "/" in name or "\0" in name:
        yield ConfigFault(f"{where}.name", f"{quoted(name)} is no file name")
    yield from _faults_of_contents(f"{where}.contents", drop_in.get("contents") or "")


def _faults_of_contents(where: str, contents: str) -> Iterator[ConfigFault]:
    """What systemd.syntax(7) rules out: lines before a section, and that are no section and no setting."""
    section = ""
    for number, line in enumerate(_lines(contents), 1):
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            if not _SECTION.fullmatch(line):
                yield ConfigFault(where, f"line {number}: {quoted(line)} is no section; one is [Service]")
                return
            section = line
        elif not section:
            yield ConfigFault(
                where, f"line {number}: {quoted(line)} stands before any section", is_warning=True
            )
        elif "=" not in line:
            yield ConfigFault(where, f"line {number}: {quoted(line)} is no setting; one is NAME=VALUE")
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
