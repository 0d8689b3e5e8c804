"""Merges our config into another. Pure."""

import copy
from collections.abc import Iterable, Iterator
from typing import Any, Final

from service_record.deploy.ignition.checking import KINDS, check, read_contents, require_valid, unit_paths
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
"""The first minor version in which a mode may have setuid, setgid and sticky bits."""
LISTS: Final = (
    *((f"storage.{kind}", "path") for kind in KINDS),
    *(("storage.disks", "device"), ("storage.raid", "name"), ("storage.filesystems", "device")),
    *(("storage.luks", "name"), ("systemd.units", "name")),
    *(("passwd.users", "name"), ("passwd.groups", "name")),
)
"""The lists of objects, with the field that identifies an object."""


def merge(base: Config, ours: Config, replacing: Iterable[str] = ()) -> Config:
    """Return a copy of the base with our objects added, in the higher of the two versions.

    Our files replace those of the base whose paths are in `replacing`. Raises BadConfigError if the base is
    invalid, if both have the same file, unit or user, or if the higher version would change the meaning of
    the base.
    """
    require_valid(base)
    version = max(base["ignition"]["version"], ours["ignition"]["version"], key=VERSIONS.index)
    _raise_faults([*_check_version(base, version), *_check_replace(base)])
    merged = _remove_replaced_files(base, ours, frozenset(replacing))
    _raise_faults(list(find_conflicts(merged, ours)))
    merged["ignition"]["version"] = version
    for place, _ in LISTS:
        nodes = at(ours, place)
        if nodes:
            section, name = place.split(".")
            if merged.get(section) is None:
                merged[section] = {}
            merged[section][name] = [*(merged[section].get(name) or []), *copy.deepcopy(nodes)]
    require_valid(merged)
    return merged


def find_conflicts(base: Config, ours: Config) -> Iterator[ConfigFault]:
    """Yield a fault for each path and each named object that both configs have."""
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
    written = dict(_written_paths(base))
    for path, _ in _written_paths(ours):
        if path in written:
            hint = (
                f"; --replace {path} puts ours in its place" if written[path].startswith("storage.f") else ""
            )
            yield ConfigFault(
                written[path], f"{quoted(path)} is there already, and we would add it, too{hint}"
            )


def _written_paths(config: Config, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield each path that a config writes, and its place in the config. Nested configs are included."""
    for kind in KINDS:
        yield from ((node["path"], f"{where}{place}") for place, node in items(config, f"storage.{kind}"))
    yield from ((path, f"{where}{place}") for path, place in unit_paths(config))
    for place, resource in items(config, "ignition.config.merge"):
        inner = _read_nested(resource)
        if inner is not None:
            yield from _written_paths(inner, f"{where}{place} ")


def _read_nested(resource: dict[str, Any]) -> Config | None:
    """Return the valid config in a data URL, or None."""
    try:
        data = read_contents(resource)
        inner = None if data is None else read_config(data)
    except ValueError:
        return None
    return inner if inner is not None and not check(inner) else None


def _check_version(base: Config, version: str) -> Iterator[ConfigFault]:
    """Yield modes that Ignition ignores in the base's version, but not in the higher one."""
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


def _check_replace(base: Config) -> Iterator[ConfigFault]:
    source = at(base, "ignition.config.replace.source")
    if source:
        what = f"Ignition puts {quoted(source)} in the place of all that is here, ours too; merge into that"
        yield ConfigFault("ignition.config.replace", what)


def _remove_replaced_files(base: Config, ours: Config, replacing: frozenset[str]) -> Config:
    """Return a copy of the base without the files that ours replace."""
    merged = copy.deepcopy(base)
    offered = {node["path"] for _, node in items(ours, "storage.files")}
    present = {node["path"] for _, node in items(merged, "storage.files")}
    for path in sorted(replacing):
        if path not in offered:
            _raise_faults([ConfigFault("", f"--replace {path}: ours has no such file")])
        if path not in present:
            _raise_faults([ConfigFault("", f"--replace {path}: there is no such file to replace")])
    if replacing:
        files = [node for node in merged["storage"]["files"] if not node or node["path"] not in replacing]
        merged["storage"]["files"] = files
    return merged


def _raise_faults(faults: list[ConfigFault]) -> None:
    if faults:
        raise BadConfigError(tuple(faults))
