"""Where things stand in a config, whose shape is known to be right."""

import posixpath
from collections.abc import Iterator
from typing import Any

from service_record.deploy.ignition.fault import Fault, quoted

Item = tuple[str, dict[str, Any]]
"""Where an object of a config stands, and the object."""


def items(config: dict[str, Any], path: str) -> list[Item]:
    """The objects of a list, by its path such as `storage.files`."""
    found = at(config, path) or []
    return [(f"{path}[{number}]", each) for number, each in enumerate(found) if each is not None]


def at(config: dict[str, Any], path: str) -> Any:
    """What stands at a path of names, or None."""
    value: Any = config
    for name in path.split("."):
        if value is None:
            return None
        value = value.get(name)
    return value


def twice(found: list[tuple[str, object]], what: str) -> Iterator[Fault]:
    """Of places and values: those whose value an earlier one has."""
    first: dict[object, str] = {}
    for where, value in found:
        if value in first:
            yield Fault(where, f"{what} {quoted(value)} is given before, by {first[value]}")
        else:
            first[value] = where


def faults_of_path(where: str, path: str) -> Iterator[Fault]:
    """Why Ignition would not take a path of something on the host."""
    if not path:
        yield Fault(where, "is empty")
    elif not path.startswith("/"):
        yield Fault(where, f"{quoted(path)} is relative; paths begin with /")
    elif "\0" in path:
        yield Fault(where, f"{quoted(path)} has a NUL")
    elif path != posixpath.normpath(path) or path.startswith("//"):
        clean = posixpath.normpath("/" + path.lstrip("/"))
        yield Fault(where, f"{quoted(path)} is not simple; write {quoted(clean)}")
