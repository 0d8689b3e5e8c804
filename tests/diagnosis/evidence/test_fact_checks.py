"""Checks of facts against each other: facts that each finds trouble in, and near ones in which none is."""

import pytest

from service_record.diagnosis.evidence.fact_checks import (
    CHECKS,
    MEASURES,
    find_roles,
    is_address_in,
    parse_go_duration,
)
from service_record.diagnosis.evidence.facts import KnownFact, read_facts
from service_record.diagnosis.evidence.log_lines import LinePlace
from service_record.history import build_history
from service_record.record.entry import Phase, Result
from tests.builders import BOOT_ID, entry

MTUS = "2: ens3: <UP> mtu {link} state UP\n4: ovn-k8s-mp0: <UP> mtu {overlay} state UNKNOWN"
LINKS = (
    "1: lo: <LOOPBACK,UP> mtu 65536\n    inet 127.0.0.1/8 scope host lo\n2: ens3: <UP> mtu 1500 state UP\n"
)
IPV4 = "    inet 192.0.2.20/24 scope global ens3\n"
DEFAULT = "default via 192.0.2.1 dev ens3\n"
DEFAULT_6 = "default via fe80::1 dev ens3\n"
DF = "Filesystem Type Size Used Avail Use% Mounted on\n/dev/vda4 xfs 98G {used} {left} {share}% /"
LSBLK = "NAME   FSTYPE MOUNTPOINTS\nvda\n└─vda4 xfs    /"
FIO = "  sync percentiles (usec):\n   | 99.00th=[{}], 99.50th=[60031], 99.90th=[81265], 99.95th=[92121]"
SERVER = "nameserver 10.128.0.9"
SYSROOT = {"disk": "vda4", "mount": "/sysroot"}
OVERLAY = {"interface": "ovn-k8s-mp0", "mtu": "1501", "link": "1500"}
LIVE = "coreos.liveiso=rhcos-415 ignition.firstboot"


def boots(*minutes: int) -> str:
    """The list of boots that began so many minutes after one another's first."""
    return "\n".join(
        f" {number - len(minutes) + 1} {number:032x} Mon 2026-03-02 09:{minute:02}:00 UTC"
        for number, minute in enumerate(minutes)
    )


OF_CERTIFICATES = {"certificate-ended", "certificate-not-yet-good", "certificate-without-api-name"}
"""tests/causes/facts.yaml has their cases."""
CASES = [
    (
        "name-server-in-cluster-network",
        {"resolv.conf": "nameserver 10.128.0.9", "ip-route.txt": "10.128.0.0/14 dev tun0"},
        {"server": "10.128.0.9", "network": "10.128.0.0/14"},
    ),
    (
        "name-server-in-cluster-network",
        {"resolv.conf": "nameserver 10.132.0.9", "ip-route.txt": "10.128.0.0/14 dev tun0"},
        None,
    ),
    (
        "name-server-in-cluster-network",
        {"resolv.conf": "nameserver 10.128.0.9", "ip-route.txt": "10.128.0.0/14 dev ens3"},
        None,
    ),
    (
        "runs-from-target-disk",
        {"lsblk.txt": LSBLK, "cmdline": "root=UUID=a rw"},
        {"disk": "vda", "mount": "/"},
    ),
    ("runs-from-target-disk", {"lsblk.txt": LSBLK, "cmdline": LIVE}, None),
    (
        "one-default-route-of-two-families",
        {"ip-addr.txt": f"{LINKS}{IPV4}    inet6 fd00::20/64 scope global\n", "ip-route.txt": DEFAULT},
        {"family": "IPv6", "other": "IPv4"},
    ),
    (
        "one-default-route-of-two-families",
        {"ip-addr.txt": f"{LINKS}{IPV4}    inet6 fe80::20/64 scope link\n", "ip-route.txt": DEFAULT},
        None,
    ),
    ("no-address", {"ip-addr.txt": f"{LINKS}    inet6 fe80::20/64 scope link\n"}, {"interface": "ens3"}),
    ("no-address", {"ip-addr.txt": f"{LINKS}{IPV4}"}, None),
    (
        "name-servers-without-route",
        {
            "resolv.conf": "nameserver 198.51.100.53",
            "ip-addr.txt": f"{LINKS}{IPV4}",
            "ip-route.txt": "192.0.2.0/24 dev ens3",
        },
        {"server": "198.51.100.53"},
    ),
    (
        "name-servers-without-route",
        {
            "resolv.conf": "nameserver 198.51.100.53",
            "ip-addr.txt": f"{LINKS}{IPV4}",
            "ip-route.txt": f"{DEFAULT}192.0.2.0/24 dev ens3",
        },
        None,
    ),
    *(
        (
            "name-servers-without-route",
            {
                "resolv.conf": f"nameserver {server}",
                "ip-addr.txt": f"{LINKS}{IPV4}",
                "ip-route.txt": "192.0.2.0/24 dev ens3\n10.0.0.53 via 192.0.2.1 dev ens3",
            },
            None,
        )
        for server in ("10.0.0.53", "::1")
    ),
    ("no-time-source", {"chrony-tracking.txt": "Leap status     : Not synchronised"}, {}),
    ("no-time-source", {"chrony-tracking.txt": "Leap status     : Normal"}, None),
    (
        "overlay-mtu",
        {"ip-addr.txt": MTUS.format(link=1500, overlay=8901), "ip-route.txt": DEFAULT},
        {"interface": "ovn-k8s-mp0", "mtu": "8901", "link": "1500"},
    ),
    ("overlay-mtu", {"ip-addr.txt": MTUS.format(link=1500, overlay=1400), "ip-route.txt": DEFAULT}, None),
    ("hostname-is-localhost", {"hostname": "localhost.localdomain"}, {"hostname": "localhost.localdomain"}),
    ("hostname-is-localhost", {"hostname": "localhost-7.lab"}, None),
    ("hostname-has-etcd", {"hostname": "etcd-0.lab"}, {"hostname": "etcd-0.lab"}),
    ("hostname-has-etcd", {"hostname": "master-0.lab"}, None),
    (
        "two-deployments",
        {"rpm-ostree.txt": "State: idle\n* pivot://quay.io/a@sha256:8c\n  pivot://quay.io/b@sha256:8d"},
        {"refs": "pivot://quay.io/a, pivot://quay.io/b"},
    ),
    (
        "two-deployments",
        {"rpm-ostree.txt": "State: idle\n* pivot://quay.io/a@sha256:8c\n  pivot://quay.io/a@sha256:8d"},
        None,
    ),
    ("too-little-memory", {"memory.txt": "MemTotal:  2048000 kB"}, {"memory": "2000 MiB", "role": "a node"}),
    ("too-little-memory", {"memory.txt": "MemTotal: 16384000 kB"}, None),
    ("swap-is-on", {"memory.txt": "SwapTotal: 2048000 kB"}, {"swap": "2000 MiB"}),
    ("swap-is-on", {"memory.txt": "SwapTotal: 0 kB"}, None),
    ("disk-is-full", {"df.txt": DF.format(used="98G", left=0, share=100)}, {"directory": "/"}),
    ("disk-is-full", {"df.txt": DF.format(used="92G", left="6G", share=94)}, None),
    ("boots-repeat", {"boots.txt": boots(0, 10, 20, 30, 40)}, {"count": "5", "span": "40 minutes"}),
    ("boots-repeat", {"boots.txt": boots(0, 10, 20, 30)}, None),
    ("boots-repeat", {"boots.txt": boots(0, 10, 20, 45, 55)}, None),
    ("disk-syncs-slowly", {"cleanfsynctest.log": FIO.format(54264)}, {"took": "54.3 ms"}),
    ("disk-syncs-slowly", {"cleanfsynctest.log": FIO.format(6980)}, None),
    ("name-server-in-cluster-network", {"resolv.conf": SERVER, "ip-route.txt": "10.128.0.9 dev tun0"}, None),
    (
        "name-server-in-cluster-network",
        {"resolv.conf": SERVER, "cluster-names.txt": "serviceNetwork: 10.128.0.0/14"},
        {"server": "10.128.0.9", "network": "10.128.0.0/14"},
    ),
    ("runs-from-target-disk", {"lsblk.txt": LSBLK}, None),
    ("runs-from-target-disk", {"lsblk.txt": f"{LSBLK}boot", "cmdline": "ro"}, None),
    ("runs-from-target-disk", {"mounts": "/dev/vda4 /sysroot xfs", "cmdline": "ro"}, SYSROOT),
    ("runs-from-target-disk", {"findmnt": "/", "cmdline": "ro"}, None),
    *(
        ("one-default-route-of-two-families", {"ip-route.txt": f"{default}\n{route} dev {device}"}, found)
        for default, route, device, found in (
            (DEFAULT, "2001:db8::/64", "ens3", {"family": "IPv6", "other": "IPv4"}),
            (DEFAULT, "2001:db8::/64", "tun0", None),
            (DEFAULT, "fe80::/64", "ens3", None),
            (DEFAULT, "FF00::/8", "ens3", None),
            (DEFAULT, "::1", "lo", None),
            (DEFAULT, "10.0.0.0/8", "ens3", None),
            (DEFAULT_6, "10.0.0.0/8", "ens3", {"family": "IPv4", "other": "IPv6"}),
            (DEFAULT_6, "127.0.0.0/8", "lo", None),
            (DEFAULT_6, "169.254.0.0/16", "ens3", None),
            (DEFAULT_6, "224.0.0.0/4", "ens3", None),
            (DEFAULT + DEFAULT_6, "10.0.0.0/8", "ens3", None),
            ("", "10.0.0.0/8", "ens3", None),
            ("default via inet6 fe80::1 dev ens3\n", "10.0.0.0/8", "ens3", None),
            (DEFAULT_6 + "default dev ppp0\n", "10.0.0.0/8", "ens3", None),
            (DEFAULT + "default dev ppp0 metric 1024\n", "2001:db8::/64", "ens3", None),
        )
    ),
    (
        "one-default-route-of-two-families",
        {"ip-addr.txt": f"{LINKS}3: tun0    inet6 fd00::20/64 scope global\n", "ip-route.txt": DEFAULT},
        None,
    ),
    (
        "no-time-source",
        {"chronyc_sources": "^* a", "chrony-tracking.txt": "Leap status: Not synchronised"},
        None,
    ),
    ("overlay-mtu", {"ip-addr.txt": MTUS.format(link=1500, overlay=1501), "ip-route.txt": DEFAULT}, OVERLAY),
    ("overlay-mtu", {"ip-addr.txt": MTUS.format(link=1500, overlay=1500), "ip-route.txt": DEFAULT}, None),
    ("overlay-mtu", {"ip-addr.txt": MTUS.format(link=1500, overlay=8901)}, None),
    ("too-little-memory", {"memory.txt": "MemTotal: 3999999 kB"}, {"memory": "3906 MiB", "role": "a node"}),
    ("too-little-memory", {"memory.txt": "MemTotal: 4000000 kB"}, None),
    ("too-little-memory", {"memory.txt": f"MemTotal: {'9' * 19} kB"}, None),
    ("boots-repeat", {"boots.txt": boots(59, 0, 20, 40, 50, 59)}, {"count": "5", "span": "59 minutes"}),
    ("boots-repeat", {"boots.txt": boots(0, 21, 31, 41, 51)}, None),
    ("boots-repeat", {"boots.txt": boots(7, 7, 7, 7, 7)}, {"count": "5", "span": "1 minutes"}),
    ("disk-syncs-slowly", {"cleanfsynctest.log": FIO.format(20000)}, None),
    ("disk-syncs-slowly", {"cleanfsynctest.log": FIO.format(20100)}, {"took": "20.1 ms"}),
    ("no-memory-cgroup", {"cmdline": "root=UUID=a cgroup_disable=memory"}, {}),
    ("no-memory-cgroup", {"cmdline": "root=UUID=a cgroup_enable=memory"}, None),
]


@pytest.mark.parametrize(("check", "files", "values"), CASES)
def test_check_finds_its_trouble_and_no_near_miss(
    check: str, files: dict[str, str], values: dict[str, str] | None
) -> None:
    facts = read_facts((name, name, text) for name, text in files.items())
    found = next(CHECKS[check].find(facts, build_history([])), None)
    assert (dict(found.values) if found is not None else None) == values
    assert found is None or found.place is not None


@pytest.mark.parametrize(
    ("cmdline", "result", "is_found"),
    [(LIVE, Result.SUCCESS, True), (LIVE, Result.FAILURE, False), ("root=UUID=a", Result.SUCCESS, False)],
)
def test_boot_from_medium_after_installation_is_found(
    cmdline: str, result: Result, *, is_found: bool
) -> None:
    installed = [
        entry(at=0, boot_id="0a" * 16),
        entry(Phase.SERVICE_END, 60, boot_id="0a" * 16, result=result),
    ]
    agent = [entry(at=300, boot_id=BOOT_ID)]
    history = build_history([("install-to-disk", installed), ("agent", agent)])
    found = list(CHECKS["wrong-boot-medium"].find(read_facts([("cmdline", "cmdline", cmdline)]), history))
    assert bool(found) is is_found
    if found:
        assert found[0].values == {"medium": "coreos.liveiso=rhcos-415", "installer": "install-to-disk"}


@pytest.mark.parametrize(
    ("measure", "values", "measured"),
    [
        ("slow-pull", {"bytes": "5000000", "took": "1m4s"}, {"rate": "0.1"}),
        ("slow-pull", {"bytes": "4999999", "took": "1m4s"}, None),
        ("slow-pull", {"bytes": "5000000", "took": "5s"}, None),
        ("slow-pull", {"bytes": "5000000", "took": "5001ms"}, {"rate": "1.0"}),
        ("slow-pull", {"bytes": "5000000", "took": ""}, None),
        ("slow-pull", {"bytes": "image", "took": "3s"}, None),
        ("slow-probe", {"ms": "many"}, None),
        ("slow-pull", {}, None),
        ("slow-probe", {"ms": "20"}, None),
        ("slow-probe", {"ms": "20.1"}, {}),
        ("slow-probe", {}, None),
    ],
)
def test_numbers_in_a_line_are_measured(
    measure: str, values: dict[str, str], measured: dict[str, str] | None
) -> None:
    assert MEASURES[measure].compute(values) == measured


@pytest.mark.parametrize(
    ("service", "container", "kilobytes", "role"),
    [
        ("bootkube", "etcd", 7_499_999, "a bootstrap host"),
        ("kubelet", "etcd", 7_499_999, "a control-plane host"),
        ("kubelet", "etcd", 7_500_000, None),
        ("kubelet", "sdn", 4_000_000, None),
        ("k3s", "etcd", 1_000_000, None),
    ],
)
def test_least_memory_depends_on_the_role(
    service: str, container: str, kilobytes: int, role: str | None
) -> None:
    facts = read_facts([("m", "meminfo", f"MemTotal: {kilobytes} kB")])
    facts = facts.with_facts("container", (KnownFact(container, LinePlace("x")),))
    found = list(CHECKS["too-little-memory"].find(facts, build_history([(service, [entry()])])))
    assert [one.values["role"] for one in found] == [role] * (role is not None)


@pytest.mark.parametrize(
    ("names", "is_found"),
    [
        (["api.x.lab", "API.A.lab"], False),
        (["api.x.lab", "*.A.lab"], False),
        (["api.x.lab", "*.lab", "*.api.a.lab", "a.lab"], True),
        (["api-int.a.lab"], False),  # of another name: it says nothing of this one
    ],
)
def test_certificate_covers_names_and_wildcards(names: list[str], is_found: bool) -> None:
    facts = read_facts([("n", "cluster-names", "api.a.lab\napi.a.lab")])
    facts = facts.with_facts("certificate-name", tuple(KnownFact(name, LinePlace("x")) for name in names))
    found = list(CHECKS["certificate-without-api-name"].find(facts, build_history([])))
    assert [one.values for one in found] == [{"api": "api.a.lab", "names": "api.x.lab"}] * is_found


@pytest.mark.parametrize(
    ("duration", "seconds"), [("2m3.5s", 123.5), ("812ms", 0.812), ("1h0m1s", 3601.0), ("", 0.0)]
)
def test_go_duration_is_parsed(duration: str, seconds: float) -> None:
    assert parse_go_duration(duration) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("services", "files", "roles"),
    [
        (["bootkube", "kubelet"], {"etcd": "x"}, {"bootstrap"}),
        (["kubelet"], {"etcd": "x"}, {"control-plane", "node"}),
        (["kubelet"], {"sdn": "x"}, {"node"}),
        (["k3s"], {}, {"control-plane", "node"}),
        (["agent"], {"cmdline": LIVE}, {"live"}),
        (["sshd"], {}, set()),
    ],
)
def test_roles_are_those_of_running_services(
    services: list[str], files: dict[str, str], roles: set[str]
) -> None:
    facts = read_facts((name, name, text) for name, text in files.items() if name == "cmdline")
    containers = (KnownFact(name, LinePlace(name)) for name in files if name != "cmdline")
    history = build_history((service, [entry()]) for service in services)
    assert find_roles(facts.with_facts("container", tuple(containers)), history) == roles


def test_every_check_has_both_cases() -> None:
    for has_found in (True, False):
        names = {check for check, _, values in CASES if (values is not None) is has_found}
        assert names == CHECKS.keys() - {"wrong-boot-medium"} - OF_CERTIFICATES


@pytest.mark.parametrize(
    ("address", "network", "expected"),
    [
        ("192.0.2.5", "192.0.2.0/24", True),
        ("192.0.2.5/24", "192.0.2.9/24", True),
        ("192.0.3.5", "192.0.2.0/24", False),
        ("fd01::1", "192.0.2.0/24", False),
        ("host", "192.0.2.0/24", False),
        ("192.0.2.5", "network", False),
    ],
)
def test_address_lies_in_network_or_not(address: str, network: str, expected: bool) -> None:
    assert is_address_in(address, network) is expected
