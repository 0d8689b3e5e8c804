"""Look up the things that log lines name: devices, interfaces, hosts, ports, files, modules, units. Pure.

A cause is not certain if a later line shows that the device, interface, host name or port in it works, or if
the host has the file, device, module or unit that its line reports as missing. Devices have several names,
which are compared here.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Final

from service_record.diagnosis.evidence.facts import KnownFacts
from service_record.diagnosis.evidence.host_evidence import Evidence
from service_record.diagnosis.evidence.line_patterns import Pattern
from service_record.diagnosis.evidence.unit_logs import find_mount_point, unescape_path

_DISK: Final = r"(?P<disk>(?:sd|vd|hd|xvd)[a-z]+|(?:nvme\d+n|mmcblk)\d+)(?:p?(?P<partition>\d+))?"
"""A kernel name of a whole disk or of a partition on it."""
_TAGS: Final = r"(?i)(UUID|LABEL|PARTUUID|PARTLABEL|ID)=(.*)"
_LINK: Final = r"disk/by-(?P<kind>uuid|label|partuuid|partlabel)/(?P<value>.+)"
_DEVICE_OF_UNIT: Final = r"(?:[\w-]+@)?(?P<device>dev-.+?)(?:\.(?:device|swap|service))?"
"""Units with the name of their device: `dev-sdb1.swap`, `systemd-fsck@dev-sdb1`."""
_ROOT_UNITS: Final = frozenset({"-.mount", "sysroot.mount", "systemd-fsck-root", "systemd-remount-fs"})


def normalize_device(name: str) -> str:
    """Return one name for all spellings: `sda1` for `/dev/sda1` and `dev-sda1.device`."""
    name = name.strip("\"'")
    if (tag := re.fullmatch(_TAGS, name)) is not None:
        return f"disk/by-{tag[1].lower()}/{tag[2]}"
    if name.startswith("dev-"):
        name = unescape_path(name.removesuffix(".device"))
    return name.removeprefix("/").removeprefix("dev/")


def are_different(one: str, other: str) -> bool:
    """Return True if two names from `normalize_device` are certainly of different devices.

    A disk and its partition count as one device. What lies below LVM, RAID or encryption is unknown.
    """
    disk, other_disk = re.fullmatch(_DISK, one), re.fullmatch(_DISK, other)
    if disk is not None and other_disk is not None:
        is_one_disk = disk["disk"] == other_disk["disk"]
        is_whole = not (disk["partition"] and other_disk["partition"])
        return not is_one_disk or not (is_whole or disk["partition"] == other_disk["partition"])
    link, other_link = re.fullmatch(_LINK, one), re.fullmatch(_LINK, other)
    if link is None or other_link is None or link["kind"] != other_link["kind"]:
        return False
    return link["value"].lower() != other_link["value"].lower()


def find_device(unit: str, facts: KnownFacts) -> str:
    """Return the device that a mount, swap or check of a file system needs; empty if it is not known.

    The name is that of the kernel if the facts show it, and otherwise that of a link: `disk/by-uuid/...`.
    """
    if (own := re.fullmatch(_DEVICE_OF_UNIT, unit)) is not None:
        return follow_link(own["device"], facts)
    if unit not in _ROOT_UNITS and not unit.endswith(".mount"):
        return ""
    point = "/" if unit in _ROOT_UNITS else find_mount_point(unit)
    fact = next((one for one in facts.all("mount-device") if one.of == point), None)
    return "" if fact is None else follow_link(fact.value, facts)


def follow_link(name: str, facts: KnownFacts) -> str:
    """Return the kernel's name for a device, in any spelling, or for a link by UUID or label.

    Returns the link itself if the facts do not show its device. Two file systems with the same UUID or label
    make a link ambiguous.
    """
    name = normalize_device(name)
    link = re.fullmatch(_LINK, name)
    if link is None:
        return name
    found = {
        words[0]
        for words in (fact.value.split() for fact in facts.all("block"))
        if link["value"].lower() in map(str.lower, words[1:])
    }
    return found.pop() if len(found) == 1 else name


_NAME: Final = r"[A-Za-z0-9._-]{2,200}"
_WORKING_TEXTS: Final = {
    "device": (
        r"(?:EXT[234]-fs|XFS) \((?P<device>[a-z0-9!-]+)\): (?:mounted filesystem|Ending clean mount)",
        r"systemd\[1\]: Found device (?P<device>dev-\S+\.device)",
        r"systemd\[1\]: Finished \S+ - File System Check on (?P<device>/dev/\S+?)\.?$",
        r"systemd\[1\]: Finished File System Check on (?P<device>/dev/\S+?)\.?$",
    ),
    "interface": (
        r"dhcp[46] \((?P<interface>\S+)\): +state changed (?:new lease|\S+ -> bound)",
        r"device \((?P<interface>\S+)\): Activation: successful, device activated",
        r"(?P<interface>\S+): DHCPv[46] address \S+(?: via |,)",
    ),
    "host": (
        rf"Connected to (?P<host>{_NAME}) \([0-9A-Fa-f.:]+\) port [0-9]+",
        rf"Connecting to (?P<host>{_NAME}) \({_NAME}\)\|[0-9A-Fa-f.:]+\|:[0-9]+\.\.\. connected",
        rf"PING (?P<host>{_NAME}) ?\([0-9A-Fa-f.:]+\)",
    ),
    "port": (r"(?:Serving (?:securely|insecurely) on|[Ll]istening on) \S*:(?P<port>[0-9]{1,5})\b",),
}
"""Kind of thing -> patterns of lines that show that one works. A group of the kind's name has its name."""
_KINDS: Final = {
    **{kind: kind for kind in _WORKING_TEXTS},
    "name": "host",
    "server": "host",
}
"""Named group of a rule -> the kind of the thing that it names."""
_FIRST_NUMBER: Final = -2
"""Numbers of the tests for these lines in a `LineSet`: this one for the first kind, and lower ones."""


@cache
def parse_working_patterns() -> Mapping[str, tuple[int, tuple[Pattern, ...]]]:
    """Return kind of thing -> the number of its test, and its patterns."""
    return {
        kind: (_FIRST_NUMBER - order, tuple(map(Pattern.parse, texts)))
        for order, (kind, texts) in enumerate(_WORKING_TEXTS.items())
    }


def list_working_patterns() -> Iterator[tuple[int, Pattern]]:
    """Yield each pattern with the number of its test."""
    for number, patterns in parse_working_patterns().values():
        yield from ((number, pattern) for pattern in patterns)


def list_named_things(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the comparable name of each thing that the named groups of a rule have."""
    for group, value in values.items():
        kind = _KINDS.get(group)
        if kind is not None:
            yield kind, normalize_name(kind, value)


def normalize_name(kind: str, name: str) -> str:
    """Return one name for all spellings of a thing; see `normalize_device`."""
    if kind == "device":
        return normalize_device(name)
    return re.sub(r":\d{1,5}$", "", name).rstrip(".").lower() if kind == "host" else name


_MISSING: Final = (
    r"(?i)no such (?:file|device)|does not exist|not found|can'?t find|cannot find|failed to find"
    r"|timed out waiting for device|/start timed out"
)
"""Words of a line which reports that something is missing."""


def find_existing(text: str, values: Mapping[str, str], evidence: Evidence, units: Collection[str]) -> str:
    """Return the name of the thing that a line reports as missing although the host has it; else "".

    `text` is the part of the line that the rule matched, and `values` are its named groups. `units` are the
    services that ran or logged.
    """
    if re.search(_MISSING, text) is None:
        return ""
    facts = evidence.facts
    for group, value in values.items():
        exists = False
        if group == "device":
            name = follow_link(value, facts)
            exists = any(fact.value.split()[0] == name for fact in facts.all("block"))
        elif group == "module":
            modules = {fact.value.replace("-", "_") for fact in facts.all("module")}
            exists = value.replace("-", "_") in modules
        elif value.startswith("/"):
            exists = value in evidence.paths
        elif value.endswith(".service"):
            exists = value.removesuffix(".service") in units
        if exists:
            return value
    return ""
