"""Where things stand in a config, whose shape is known to be right."""

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
