"""Names of block devices, and the devices that units need."""

import pytest

from service_record.diagnosis.evidence.facts import read_facts
from service_record.diagnosis.evidence.named_things import (
    are_different,
    find_device,
    follow_link,
    normalize_device,
)

FACTS = read_facts(
    (name, name, text)
    for name, text in {
        "fstab": "UUID=1F2E /data xfs x 0 0\nLABEL=twice /srv xfs x 0 0\n/dev/sda2 / ext4 x 0 1\n",
        "lsblk": "NAME FSTYPE LABEL UUID\nsdb\n|-sdb1 xfs twice 1f2e\n`-sdb2 xfs twice 3a4b\n",
    }.items()
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/dev/sda1", "sda1"),
        ("dev-sda1.device", "sda1"),
        (r"dev-disk-by\x2duuid-024D\x2d8283.device", "disk/by-uuid/024D-8283"),
        ("UUID=024D-8283", "disk/by-uuid/024D-8283"),
        ('"LABEL=data"', "disk/by-label/data"),
        ("/dev/mapper/vg-home", "mapper/vg-home"),
    ],
)
def test_device_has_one_name(name: str, expected: str) -> None:
    assert normalize_device(name) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("sda1", "sda1", False),
        ("sda", "sda1", False),
        ("sda1", "sda2", True),
        ("sda1", "sdb1", True),
        ("nvme0n1p1", "nvme0n1", False),
        ("nvme0n1p1", "nvme0n1p2", True),
        ("nvme0n1p1", "nvme1n1p1", True),
        ("mapper/vg-home", "sda1", False),
        ("dm-0", "sda1", False),
        ("disk/by-uuid/1f2e", "sda1", False),
        ("disk/by-uuid/1f2e", "disk/by-uuid/1F2E", False),
        ("disk/by-uuid/1f2e", "disk/by-uuid/3a4b", True),
        ("disk/by-uuid/1f2e", "disk/by-label/data", False),
    ],
)
def test_devices_are_different_if_certain(one: str, other: str, *, expected: bool) -> None:
    assert are_different(one, other) is expected
    assert are_different(other, one) is expected


@pytest.mark.parametrize(
    ("unit", "device"),
    [
        ("data.mount", "sdb1"),
        ("srv.mount", "disk/by-label/twice"),
        ("sysroot.mount", "sda2"),
        ("-.mount", "sda2"),
        ("other.mount", ""),
        ("dev-sdc1.swap", "sdc1"),
        ("systemd-fsck@dev-sdc1", "sdc1"),
        (r"systemd-fsck@dev-disk-by\x2duuid-1f2e", "sdb1"),
        ("kubelet", ""),
    ],
)
def test_unit_needs_a_device(unit: str, device: str) -> None:
    assert find_device(unit, FACTS) == device


def test_link_is_followed_if_unambiguous() -> None:
    assert follow_link("UUID=3a4b", FACTS) == "sdb2"
    assert follow_link("UUID=none", FACTS) == "disk/by-uuid/none"
