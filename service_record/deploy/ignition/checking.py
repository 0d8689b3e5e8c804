"""Checks that merging a config neither loses a part nor changes its meaning. Pure.

`ignition-validate` checks everything else; see `reading`.
"""

import posixpath
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from service_record.deploy.ignition import urls
from service_record.deploy.ignition.reading import (
    TAKEN_BY_ASSISTED_SERVICE,
    BadConfigError,
    Config,
    ConfigFault,
    Item,
    check_path,
    find_duplicates,
    items,
    parse_minor,
    quoted,
)

UNITS: Final = "/etc/systemd/system"
"""The directory to which Ignition writes units."""
KINDS: Final = ("files", "directories", "links")
_EXTENSIONS: Final = (
    *(".service", ".socket", ".device", ".mount", ".automount", ".swap"),
    *(".target", ".path", ".timer", ".snapshot", ".slice", ".scope"),
)


class _Resource(msgspec.Struct):
    source: str | None = None
    compression: str | None = None


class _Node(msgspec.Struct):
    path: str
    mode: int | None = None
    contents: _Resource | None = None
    append: list[_Resource | None] | None = None
    target: str | None = None


class _DropIn(msgspec.Struct):
    name: str
    contents: str | None = None


class _Unit(_DropIn):
    dropins: list[_DropIn | None] | None = None


class _Named(msgspec.Struct):
    name: str


class _Device(msgspec.Struct):
    device: str


class _Storage(msgspec.Struct):
    files: list[_Node | None] | None = None
    directories: list[_Node | None] | None = None
    links: list[_Node | None] | None = None
    disks: list[_Device | None] | None = None
    raid: list[_Named | None] | None = None
    filesystems: list[_Device | None] | None = None
    luks: list[_Named | None] | None = None


class _Systemd(msgspec.Struct):
    units: list[_Unit | None] | None = None


class _Passwd(msgspec.Struct):
    users: list[_Named | None] | None = None
    groups: list[_Named | None] | None = None


class _Others(msgspec.Struct):
    merge: list[_Resource | None] | None = None
    replace: _Resource | None = None


class _Ignition(msgspec.Struct):
    version: str
    config: _Others | None = None


class _KernelArguments(msgspec.Struct, rename="camel"):
    should_exist: list[str] | None = None


class _MergedConfig(msgspec.Struct, rename="camel"):
    """The parts of a config that merging reads, or adds to."""

    ignition: _Ignition
    storage: _Storage | None = None
    systemd: _Systemd | None = None
    passwd: _Passwd | None = None
    kernel_arguments: _KernelArguments | None = None


_READ: Final = {
    name.lower(): name
    for shape in (
        *(_Resource, _Node, _DropIn, _Unit, _Named, _Device, _Storage, _Systemd, _Passwd),
        *(_Others, _Ignition, _KernelArguments, _MergedConfig),
    )
    for name in shape.__struct_encode_fields__
}
"""Lower-case name -> name, of each field that merging reads: Ignition ignores the case of names."""

_LATER: Final = {
    "kernelArguments": 3,
    "luks": 2,
    "resize": 2,
    "advertisement": 4,
    "discard": 4,
    "openOptions": 4,
    "cex": 5,
}
"""Field -> the first minor version that has it.

Ignition ignores such a field in an older config. In the merged config, whose version may be newer, it would
take effect.
"""
_LATER_FOR_ACCOUNTS: Final = 2
"""The first minor version in which users and groups have `shouldExist`. Partitions always have it."""


def check(config: Config) -> tuple[ConfigFault, ...]:
    """Return the faults because of which a config cannot be merged; after a wrong type, only that fault."""
    ignition = config.get("ignition")
    if not isinstance(ignition, dict):
        return (ConfigFault("ignition", 'is missing; a config begins {"ignition": {"version": "3.4.0"}}'),)
    try:
        minor = parse_minor(ignition.get("version"))
        msgspec.convert(config, _MergedConfig)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        return (ConfigFault(where.strip(".`"), what[:1].lower() + what[1:]),)
    except ValueError as error:
        return (ConfigFault("ignition.version", str(error)),)
    return (*_check_fields(config, minor), *_check_paths(config))


def require_valid(config: Config) -> None:
    """Raise BadConfigError if a config cannot be merged."""
    if faults := check(config):
        raise BadConfigError(faults)


def require_assisted_service_version(config: Config) -> None:
    """Raise BadConfigError if an assisted-service does not read a config of this version."""
    version = config["ignition"]["version"]
    if version not in TAKEN_BY_ASSISTED_SERVICE:
        versions = " and ".join(TAKEN_BY_ASSISTED_SERVICE)
        what = f"{version} is not taken by an assisted-service; {versions} are"
        raise BadConfigError((ConfigFault("ignition.version", what),))


def is_unit_name(name: str) -> bool:
    """Return True if Ignition treats a file of this name as a unit."""
    return posixpath.splitext(name)[1] in _EXTENSIONS


def unit_paths(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the files that Ignition writes for units: the path, and the unit's place in the config."""
    for where, unit in items(config, "systemd.units"):
        if unit.get("contents"):
            yield f"{UNITS}/{unit['name']}", where
        for place, drop_in in items(unit, "dropins"):
            if drop_in.get("contents"):
                yield f"{UNITS}/{unit['name']}.d/{drop_in['name']}", f"{where}.{place}"


def read_contents(resource: dict[str, Any]) -> bytes | None:
    """Return the bytes of a resource that contains them, unpacked; ValueError has the fault."""
    source = resource.get("source") or ""
    if source[:5].lower() != "data:":
        return None
    data = urls.decode_data_url(source)
    return urls.decompress(data) if resource.get("compression") else data


def _check_fields(config: Config, minor: int) -> Iterator[ConfigFault]:
    """Yield faults of fields with the wrong case, and of fields that a later version introduced."""
    pending: list[tuple[str, Any]] = [("", config)]
    while pending:
        where, value = pending.pop()
        if isinstance(value, list):
            pending.extend((f"{where}[{number}]", each) for number, each in enumerate(value))
        if not isinstance(value, dict):
            continue
        for name, inner in value.items():
            place = f"{where}.{name}" if where else name
            correct = _READ.get(name.lower(), name)
            is_account = name == "shouldExist" and where.startswith("passwd.")
            since = _LATER_FOR_ACCOUNTS if is_account else _LATER.get(name, minor)
            if correct != name:
                yield ConfigFault(quoted(place).strip("'"), f"is taken for {correct}; write that")
            elif since > minor and inner is not None:
                what = f"is known from 3.{since}.0 on, and does nothing in 3.{minor}.0; remove it"
                yield ConfigFault(quoted(place).strip("'"), what)
            pending.append((place, inner))


def _check_paths(config: Config) -> Iterator[ConfigFault]:
    nodes = [item for kind in KINDS for item in items(config, f"storage.{kind}")]
    for where, node in nodes:
        yield from check_path(f"{where}.path", node["path"])
    yield from find_duplicates([(f"{where}.path", node["path"]) for where, node in nodes], "path")
    yield from _check_parents(config, nodes)
    written = dict(unit_paths(config))
    for where, node in nodes:
        if node["path"] in written:
            yield ConfigFault(
                f"{where}.path", f"{quoted(node['path'])} is written by {written[node['path']]}, too"
            )


def _check_parents(config: Config, nodes: list[Item]) -> Iterator[ConfigFault]:
    """Yield faults of paths below a file, or below a link: Ignition does not write there."""
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
                yield ConfigFault(f"{where}.path", f"{quoted(node['path'])} is below a {kind}, {place}")
                break
            above = posixpath.dirname(above)
