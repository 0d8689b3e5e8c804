"""The rules of files, directories and links."""

import posixpath
from collections.abc import Iterator
from typing import Any, Final

from service_record.deploy.ignition.fault import Fault, quoted
from service_record.deploy.ignition.places import Item, faults_of_path, items, twice

UNITS: Final = "/etc/systemd/system"
"""Where Ignition writes units."""
KINDS: Final = ("files", "directories", "links")
_MOST: Final = 0o7777
_PLAIN: Final = 0o777
_DIGITS_OF_OCTAL: Final = 3


def faults_of_nodes(config: dict[str, Any], minor: int) -> Iterator[Fault]:
    nodes = [item for kind in KINDS for item in items(config, f"storage.{kind}")]
    for where, node in nodes:
        yield from faults_of_path(f"{where}.path", node["path"])
        yield from _faults_of_mode(f"{where}.mode", node.get("mode"), minor)
        yield from _faults_of_owner(where, node)
    yield from twice([(f"{where}.path", node["path"]) for where, node in nodes], "path")
    for where, file in items(config, "storage.files"):
        if file.get("overwrite") and not (file.get("contents") or {}).get("source") is not None:
            yield Fault(
                f"{where}.overwrite", "is true, but there is nothing to write: contents.source is missing"
            )
    yield from _faults_of_ways(config, nodes)
    yield from _faults_of_hard_links(config)
    yield from _faults_of_unit_paths(config, nodes)


def unit_paths(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What Ignition writes for units: path, and where in the config the unit stands."""
    for where, unit in items(config, "systemd.units"):
        if unit.get("contents"):
            yield f"{UNITS}/{unit['name']}", where
        for place, drop_in in items(unit, "dropins"):
            if drop_in.get("contents"):
                yield f"{UNITS}/{unit['name']}.d/{drop_in['name']}", f"{where}.{place}"


def _faults_of_mode(where: str, mode: int | None, minor: int) -> Iterator[Fault]:
    if mode is None:
        return
    if not 0 <= mode <= _MOST:
        yield Fault(where, f"{mode} is no mode; modes are decimal, from 0 to {_MOST}: 0644 is 420")
    elif mode > _PLAIN:
        text = str(mode)
        octal = len(text) == _DIGITS_OF_OCTAL and not set(text) - set("01234567")
        hint = f"; perhaps 0{mode} is meant, which is {int(text, 8)} in decimal" if octal else ""
        if minor < 4:  # noqa: PLR2004  # 3.4.0 has set-user-ID, set-group-ID and sticky bits first
            hint = f", which 3.{minor}.0 passes over{hint}"
        if hint:
            yield Fault(where, f"{mode} is 0{mode:o}, with special bits{hint}", is_warning=True)


def _faults_of_owner(where: str, node: dict[str, Any]) -> Iterator[Fault]:
    for who in ("user", "group"):
        owner = node.get(who) or {}
        number, name = owner.get("id"), owner.get("name")
        if number is not None and name:
            yield Fault(f"{where}.{who}", "has both id and name; one of them is enough")
        if number is not None and number < 0:
            yield Fault(f"{where}.{who}.id", f"{number} is no id")


def _faults_of_ways(config: dict[str, Any], nodes: list[Item]) -> Iterator[Fault]:
    """Below a file there is nothing, and below a link Ignition writes nothing."""
    ends = {
        node["path"]: (kind, where)
        for kind, place in (("file", "files"), ("link", "links"))
        for where, node in items(config, f"storage.{place}")
    }
    for where, node in nodes:
        above = posixpath.dirname(node["path"])
        while len(above) > 1:
            if above in ends:
                kind, place = ends[above]
                yield Fault(f"{where}.path", f"{quoted(node['path'])} is below a {kind}, {place}")
                break
            above = posixpath.dirname(above)


def _faults_of_hard_links(config: dict[str, Any]) -> Iterator[Fault]:
    directories = {node["path"] for _, node in items(config, "storage.directories")}
    for where, link in items(config, "storage.links"):
        if not link["target"]:
            yield Fault(f"{where}.target", "is empty")
        elif link.get("hard") and posixpath.join(link["path"], link["target"]) in directories:
            yield Fault(
                f"{where}.target", f"{quoted(link['target'])} is a directory; no hard link leads there"
            )


def _faults_of_unit_paths(config: dict[str, Any], nodes: list[Item]) -> Iterator[Fault]:
    written = dict(unit_paths(config))
    for where, node in nodes:
        if node["path"] in written:
            yield Fault(f"{where}.path", f"{quoted(node['path'])} is written by {written[node['path']]}, too")
