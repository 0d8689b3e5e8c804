"""Whether Ignition would take a config: the rules of disks here, and all others put together. Pure.

The rules are those of coreos.github.io/ignition, versions 3.1.0 to 3.5.0, and of what fails on the host
later: gzip that is cut off, hashes of other contents, files below files.
"""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

from service_record.deploy.ignition.config_shape import CONFIG, faults_of_shape
from service_record.deploy.ignition.node_rules import faults_of_nodes, faults_of_resources
from service_record.deploy.ignition.reading import (
    TAKEN_BY_ASSISTED_SERVICE,
    BadConfigError,
    Config,
    ConfigFault,
    Item,
    faults_of_path,
    items,
    minor_of,
    quoted,
    twice,
)
from service_record.deploy.ignition.unit_rules import faults_of_people, faults_of_settings, faults_of_units

_GUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", re.ASCII)
_SERVER: Final = re.compile(r"https?://[!-~]+", re.ASCII | re.IGNORECASE)
_LONGEST_PARTITION_LABEL: Final = 36
_LABELS: Final = {"ext4": 16, "btrfs": 256, "xfs": 12, "vfat": 11, "swap": 15}
"""File system -> the most characters of its label."""
_STRIPED: Final = {"linear", "raid0", "0", "stripe"}
_LEVELS: Final = {
    *_STRIPED,
    *("raid1", "1", "mirror", "raid4", "4", "raid5", "5", "raid6", "6", "raid10", "10"),
}
_GIVEN: Final = ("label", "sizeMiB", "startMiB", "typeGuid", "guid")


def faults_of_disks(config: dict[str, Any], minor: int) -> Iterator[ConfigFault]:
    for where, disk in items(config, "storage.disks"):
        yield from _faults_of_partitions(where, items(disk, "partitions"))
    for kind, name in (("disks", "device"), ("filesystems", "device"), ("luks", "device"), ("luks", "name")):
        found = items(config, f"storage.{kind}")
        yield from twice([(f"{where}.{name}", each[name]) for where, each in found], name)
        if name == "device":
            for where, each in found:
                yield from _faults_of_device(f"{where}.{name}", each[name])
    yield from _faults_of_arrays(items(config, "storage.raid"))
    for where, system in items(config, "storage.filesystems"):
        yield from _faults_of_filesystem(where, system, minor)
    for where, device in items(config, "storage.luks"):
        yield from _faults_of_luks(where, device)


def _faults_of_device(where: str, path: str) -> Iterator[ConfigFault]:
    if not path.startswith("/"):
        yield ConfigFault(where, f"{quoted(path)} is no device; devices are named by absolute paths")
    else:
        yield from faults_of_path(where, path)


def _faults_of_partitions(disk: str, partitions: list[Item]) -> Iterator[ConfigFault]:
    for where, partition in partitions:
        yield from _faults_of_partition(f"{disk}.{where}", partition)
    numbers = [(f"{disk}.{where}.number", each.get("number")) for where, each in partitions]
    yield from twice([(where, number) for where, number in numbers if number], "partition")
    labels = [(f"{disk}.{where}.label", each.get("label")) for where, each in partitions]
    yield from twice([(where, label) for where, label in labels if label], "label")
    yield from _faults_of_overlaps(disk, partitions)


def _faults_of_partition(where: str, partition: dict[str, Any]) -> Iterator[ConfigFault]:
    label = partition.get("label") or ""
    for name in ("number", "sizeMiB", "startMiB"):
        if (partition.get(name) or 0) < 0:
            yield ConfigFault(f"{where}.{name}", f"{partition[name]} is negative")
    for name in ("typeGuid", "guid"):
        if partition.get(name) and not _GUID.fullmatch(partition[name]):
            yield ConfigFault(f"{where}.{name}", f"{quoted(partition[name])} is no GUID")
    if len(label) > _LONGEST_PARTITION_LABEL:
        yield ConfigFault(f"{where}.label", f"has more than {_LONGEST_PARTITION_LABEL} characters")
    if ":" in label:
        yield ConfigFault(f"{where}.label", f"{quoted(label)} has a colon; it would be cut there")
    yield from _faults_of_existence(where, partition)


def _faults_of_existence(where: str, partition: dict[str, Any]) -> Iterator[ConfigFault]:
    if partition.get("shouldExist") is False:
        given = [name for name in _GIVEN if partition.get(name)]
        if given:
            yield ConfigFault(where, f"is not to exist, and has {', '.join(given)}")
        if not partition.get("number"):
            yield ConfigFault(where, "is not to exist, but its number is missing")
    elif not partition.get("number") and not partition.get("label"):
        yield ConfigFault(where, "has neither number nor label")


def _faults_of_overlaps(disk: str, partitions: list[Item]) -> Iterator[ConfigFault]:
    """Only of partitions whose place is given can it be known."""
    placed = sorted(
        (each["startMiB"], each["startMiB"] + each["sizeMiB"], where)
        for where, each in partitions
        if each.get("startMiB") and each.get("sizeMiB")
    )
    for (_, end, first), (start, _, second) in pairwise(placed):
        if start < end:
            yield ConfigFault(f"{disk}.{second}", f"begins before the end of {disk}.{first}")


def _faults_of_arrays(arrays: list[Item]) -> Iterator[ConfigFault]:
    for where, array in arrays:
        level = array.get("level")
        if level not in _LEVELS:
            yield ConfigFault(f"{where}.level", f"{quoted(level)} is no level of a RAID; raid1 is one")
        if (array.get("spares") or 0) and level in _STRIPED:
            yield ConfigFault(f"{where}.spares", f"are not for {level}")
        if (array.get("spares") or 0) < 0:
            yield ConfigFault(f"{where}.spares", f"{array['spares']} is no number of devices")
        devices = array.get("devices") or []
        if not devices:
            yield ConfigFault(f"{where}.devices", "are missing")
        places = [(f"{where}.devices[{number}]", device) for number, device in enumerate(devices)]
        for place, device in places:
            yield from _faults_of_device(place, device)
        yield from twice([(place, device) for place, device in places], "device")
    yield from twice([(f"{where}.name", array["name"]) for where, array in arrays], "array")


def _faults_of_filesystem(where: str, system: dict[str, Any], minor: int) -> Iterator[ConfigFault]:
    form, label = system.get("format") or "", system.get("label") or ""
    formats = {*_LABELS, *(("none",) if minor >= 3 else ())}  # noqa: PLR2004  # 3.3.0 has it first
    if form and form not in formats:
        yield ConfigFault(f"{where}.format", f"{quoted(form)} is no format; {', '.join(sorted(formats))} are")
    elif not form:
        given = [name for name in ("path", "label", "uuid", "options", "mountOptions") if system.get(name)]
        if given:
            yield ConfigFault(f"{where}.format", f"is missing, and there is {', '.join(given)}")
    elif len(label) > _LABELS.get(form, 0):
        yield ConfigFault(f"{where}.label", f"has more characters than the {_LABELS.get(form, 0)} of {form}")
    if system.get("path"):
        yield from faults_of_path(f"{where}.path", system["path"])


def _faults_of_luks(where: str, device: dict[str, Any]) -> Iterator[ConfigFault]:
    if not device["name"] or "/" in device["name"]:
        yield ConfigFault(f"{where}.name", f"{quoted(device['name'])} is no name of a device")
    clevis = device.get("clevis") or {}
    custom = clevis.get("custom") or {}
    if any(custom.values()) and (clevis.get("tang") or clevis.get("tpm2") or clevis.get("threshold")):
        yield ConfigFault(f"{where}.clevis", "has custom and more; custom stands alone")
    if any(custom.values()) and not (custom.get("pin") and custom.get("config")):
        yield ConfigFault(f"{where}.clevis.custom", "needs both pin and config")
    for place, server in items(clevis, "tang"):
        if not server.get("url") or not server.get("thumbprint"):
            yield ConfigFault(f"{where}.clevis.{place}", "needs both url and thumbprint")
        elif not _SERVER.fullmatch(server["url"]):
            yield ConfigFault(
                f"{where}.clevis.{place}.url", f"{quoted(server['url'])} is no URL of http or https"
            )
    servers = items(clevis, "tang")
    yield from twice([(f"{where}.clevis.{place}", server.get("url")) for place, server in servers], "server")


_RULES: Final[tuple[Callable[[dict[str, Any], int], Iterator[ConfigFault]], ...]] = (
    faults_of_settings,
    faults_of_resources,
    faults_of_nodes,
    faults_of_disks,
    faults_of_units,
    faults_of_people,
)


def check(config: Config) -> tuple[ConfigFault, ...]:
    """All that is wrong with a config, warnings among it; of one whose shape is wrong, the shape alone."""
    ignition = config.get("ignition")
    if not isinstance(ignition, dict):
        return (ConfigFault("ignition", 'is missing; a config begins {"ignition": {"version": "3.4.0"}}'),)
    try:
        minor = minor_of(ignition.get("version"))
    except ValueError as error:
        return (ConfigFault("ignition.version", str(error)),)
    shape = tuple(faults_of_shape(config, CONFIG, minor))
    if any(not fault.is_warning for fault in shape):
        return shape
    return (*shape, *(fault for rule in _RULES for fault in rule(config, minor)))


def insist(config: Config) -> tuple[ConfigFault, ...]:
    """The warnings about a config; BadConfigError where Ignition would refuse it."""
    faults = check(config)
    bad = tuple(fault for fault in faults if not fault.is_warning)
    if bad:
        raise BadConfigError(bad)
    return faults


def insist_on_assisted_service(config: Config) -> None:
    """Raise BadConfigError where an assisted-service does not read a config of this version."""
    version = config["ignition"]["version"]
    if version not in TAKEN_BY_ASSISTED_SERVICE:
        known = " and ".join(TAKEN_BY_ASSISTED_SERVICE)
        what = f"{version} is not taken by an assisted-service; {known} are"
        raise BadConfigError((ConfigFault("ignition.version", what),))
