"""Compare names of block devices, and find the device that a unit needs. Pure."""

import re
from typing import Final

from service_record.diagnosis.evidence.known_facts import KnownFacts

_DISK: Final = r"(?P<disk>(?:sd|vd|hd|xvd)[a-z]+|(?:nvme\d+n|mmcblk)\d+)(?:p?(?P<partition>\d+))?"
"""A kernel name of a whole disk or of a partition on it."""
_TAGS: Final = r"(?i)(UUID|LABEL|PARTUUID|PARTLABEL|ID)=(.*)"
_LINK: Final = r"disk/by-(?P<kind>uuid|label|partuuid|partlabel)/(?P<value>.+)"
_DEVICE_OF_UNIT: Final = r"(?:[\w-]+@)?(?P<device>dev-.+?)(?:\.(?:device|swap|service))?"
"""Units with the name of their device: `dev-sdb1.swap`, `systemd-fsck@dev-sdb1`."""
_ROOT_UNITS: Final = frozenset({"-.mount", "sysroot.mount", "systemd-fsck-root", "systemd-remount-fs"})


def device_name(name: str) -> str:
    """Return one name for all spellings: `sda1` for `/dev/sda1` and `dev-sda1.device`."""
    name = name.strip("\"'")
    if (tag := re.fullmatch(_TAGS, name)) is not None:
        return f"disk/by-{tag[1].lower()}/{tag[2]}"
    if name.startswith("dev-"):
        name = _unescape_path(name.removesuffix(".device"))
    return name.removeprefix("/").removeprefix("dev/")


def _unescape_path(name: str) -> str:
    """Return the path in the name of a unit, without its first slash (systemd.unit(5), `systemd-escape`)."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda code: chr(int(code[1], 16)), name.replace("-", "/"))


def mount_point(mount: str) -> str:
    """Return the directory of a mount unit, `var-lib.mount`. A path is returned as it is."""
    return mount if mount.startswith("/") else "/" + _unescape_path(mount.removesuffix(".mount"))


def are_different(one: str, other: str) -> bool:
    """Return True if two names from `device_name` are certainly of different devices.

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
    point = "/" if unit in _ROOT_UNITS else mount_point(unit)
    fact = next((one for one in facts.all("mount-device") if one.of == point), None)
    return "" if fact is None else follow_link(fact.value, facts)


def follow_link(name: str, facts: KnownFacts) -> str:
    """Return the kernel's name for a device, in any spelling, or for a link by UUID or label.

    Returns the link itself if the facts do not show its device. Two file systems with the same UUID or label
    make a link ambiguous.
    """
    name = device_name(name)
    link = re.fullmatch(_LINK, name)
    if link is None:
        return name
    found = {
        words[0]
        for words in (fact.value.split() for fact in facts.all("block"))
        if link["value"].lower() in map(str.lower, words[1:])
    }
    return found.pop() if len(found) == 1 else name
