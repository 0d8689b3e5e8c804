"""The rules of users and groups."""

import re
from collections.abc import Iterator
from typing import Any, Final

from service_record.deploy.ignition.fault import Fault, quoted
from service_record.deploy.ignition.places import items, twice

_NAME: Final = re.compile(r"[^\s:/\0,-][^\s:/\0,]{0,31}")
"""What useradd, groupadd and the files they write to can take at all."""


def faults_of_people(config: dict[str, Any], _minor: int) -> Iterator[Fault]:
    for kind, number in (("users", "uid"), ("groups", "gid")):
        people = items(config, f"passwd.{kind}")
        for where, each in people:
            if not _NAME.fullmatch(each["name"]):
                yield Fault(f"{where}.name", f"{quoted(each['name'])} is no name of a {kind[:-1]}")
            if (each.get(number) or 0) < 0:
                yield Fault(f"{where}.{number}", f"{each[number]} is no id")
            yield from _faults_of_line(where, each)
            keys = enumerate(each.get("sshAuthorizedKeys") or [])
            yield from twice([(f"{where}.sshAuthorizedKeys[{n}]", key) for n, key in keys], "key")
            groups = enumerate(each.get("groups") or [] if kind == "users" else [])
            yield from twice([(f"{where}.groups[{n}]", group) for n, group in groups], "group")
        yield from twice([(f"{where}.name", each["name"]) for where, each in people], kind[:-1])


def _faults_of_line(where: str, each: dict[str, Any]) -> Iterator[Fault]:
    """What becomes a field of a line, with colons between."""
    for name in ("gecos", "homeDir", "shell", "passwordHash"):
        text = each.get(name) or ""
        if ":" in text or "\n" in text:
            yield Fault(f"{where}.{name}", "has a colon or a line end; /etc/passwd has no place for it")
    if each.get("homeDir") and not each["homeDir"].startswith("/"):
        yield Fault(f"{where}.homeDir", f"{quoted(each['homeDir'])} is relative; paths begin with /")
