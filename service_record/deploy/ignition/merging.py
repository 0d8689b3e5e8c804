"""A config merged into somebody else's, which stays as it is. Pure."""

import copy
from collections.abc import Iterable, Iterator
from typing import Any, Final

from service_record.deploy.ignition.checking import KINDS, check, content_of, insist, unit_paths
from service_record.deploy.ignition.reading import (
    VERSIONS,
    BadConfigError,
    Config,
    ConfigFault,
    at,
    items,
    parse_minor,
    quoted,
    read_config,
)

_SPECIAL_BITS: Final = 4
"""The minor version that has them first."""
LISTS: Final = (
    *((f"storage.{kind}", "path") for kind in KINDS),
    *(("storage.disks", "device"), ("storage.raid", "name"), ("storage.filesystems", "device")),
    *(("storage.luks", "name"), ("systemd.units", "name")),
    *(("passwd.users", "name"), ("passwd.groups", "name")),
)
"""The lists of objects that have something of their own to be told apart by."""


def merge(base: Config, ours: Config, replacing: Iterable[str] = ()) -> Config:
    """Return the base, unchanged, with our config behind; with the higher of their versions.

    Files of the base whose paths are in `replacing` give way to ours. Raises BadConfigError where the base is
    none, where both have the same file, unit, user or the like, and where the higher version would give
    something in the base another meaning.
    """
    insist(base)
    version = max(base["ignition"]["version"], ours["ignition"]["version"], key=VERSIONS.index)
    _refuse([*_faults_of_version(base, version), *_faults_of_replacement(base)])
    merged = _without(base, ours, frozenset(replacing))
    _refuse(list(conflicts(merged, ours)))
    merged["ignition"]["version"] = version
    for place, _ in LISTS:
        nodes = at(ours, place)
        if nodes:
            section, name = place.split(".")
            if merged.get(section) is None:
                merged[section] = {}
            merged[section][name] = [*(merged[section].get(name) or []), *copy.deepcopy(nodes)]
    insist(merged)
    return merged


def conflicts(base: Config, ours: Config) -> Iterator[ConfigFault]:
    """Yield the paths that both configs have."""
    for place, name in LISTS:
        if place.removeprefix("storage.") in KINDS:
            continue
        theirs = {each[name] for _, each in items(base, place)}
        for _, each in items(ours, place):
            if each[name] in theirs:
                kind = place.rpartition(".")[2].removesuffix("s")
                yield ConfigFault(
                    place, f"the {kind} {quoted(each[name])} is there already, and we would add it, too"
                )
    written = dict(_paths(base))
    for path, _ in _paths(ours):
        if path in written:
            hint = (
                f"; --replace {path} puts ours in its place" if written[path].startswith("storage.f") else ""
            )
            yield ConfigFault(
                written[path], f"{quoted(path)} is there already, and we would add it, too{hint}"
            )


def _paths(config: Config, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield every path that a config writes, and its writer; configs in the config are included."""
    for kind in KINDS:
        yield from ((node["path"], f"{where}{place}") for place, node in items(config, f"storage.{kind}"))
    yield from ((path, f"{where}{place}") for path, place in unit_paths(config))
    for place, resource in items(config, "ignition.config.merge"):
        inner = _inner(resource)
        if inner is not None:
            yield from _paths(inner, f"{where}{place} ")


def _inner(resource: dict[str, Any]) -> Config | None:
    """Return the config in a data URL, if it has one."""
    try:
        data = content_of(resource)
        inner = None if data is None else read_config(data)
    except ValueError:
        return None
    return inner if inner is not None and not check(inner) else None


def _faults_of_version(base: Config, version: str) -> Iterator[ConfigFault]:
    """Yield what Ignition ignored in the base's version, and would obey in the higher one."""
    before, after = parse_minor(base["ignition"]["version"]), parse_minor(version)
    if not before < _SPECIAL_BITS <= after:
        return
    for kind in ("files", "directories"):
        for where, node in items(base, f"storage.{kind}"):
            mode = node.get("mode") or 0
            if mode & 0o7000:
                what = (
                    f"the special bits of 0{mode:o} do nothing in 3.{before}.0, and would in {version}: "
                    f"write {mode & 0o777}, or make ours with --spec 3.{before}.0"
                )
                yield ConfigFault(f"{where}.mode", what)


def _faults_of_replacement(base: Config) -> Iterator[ConfigFault]:
    source = at(base, "ignition.config.replace.source")
    if source:
        what = f"Ignition puts {quoted(source)} in the place of all that is here, ours too; merge into that"
        yield ConfigFault("ignition.config.replace", what)


def _without(base: Config, ours: Config, replacing: frozenset[str]) -> Config:
    """Return a copy of the base, without the files that give way."""
    merged = copy.deepcopy(base)
    offered = {node["path"] for _, node in items(ours, "storage.files")}
    present = {node["path"] for _, node in items(merged, "storage.files")}
    for path in sorted(replacing):
        if path not in offered:
            _refuse([ConfigFault("", f"--replace {path}: ours has no such file")])
        if path not in present:
            _refuse([ConfigFault("", f"--replace {path}: there is no such file to replace")])
    if replacing:
        files = [node for node in merged["storage"]["files"] if not node or node["path"] not in replacing]
        merged["storage"]["files"] = files
    return merged


def _refuse(faults: list[ConfigFault]) -> None:
    if faults:
        raise BadConfigError(tuple(faults))
