"""Facts of a host that lines of its journal or kernel log state."""

import pytest

from service_record.diagnosis.evidence.log_lines import JOURNAL, Era, LogStream, log_line
from service_record.diagnosis.evidence.stated_facts import StatedFacts

LEASE = "NetworkManager[700]: <info>  [1.2] dhcp4 (ens3): {}"
DEFAULT = "NetworkManager[700]: <info>  [1.2] policy: set 'x' (ens3) as default for {} routing and DNS"


def stated(*lines: str) -> list[str]:
    """Return the facts in lines of a journal: `NAME VALUE (SUBJECT)`."""
    facts = StatedFacts()
    stream = LogStream("journal.log", JOURNAL)
    for number, line in enumerate(lines, 1):
        facts.add(log_line(stream, number, f"Jan 03 10:00:00 node {line}".encode(), Era()))
    return [
        f"{name} {fact.value}{f' ({fact.of})' if fact.of else ''}"
        for name, found in facts.facts().values.items()
        for fact in found
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["kernel: Command line: quiet boot=casper"],
            ["cmdline quiet boot=casper", "live-medium boot=casper"],
        ),
        (["kernel: [    0.000000] Command line: quiet"], ["cmdline quiet"]),
        (["Xorg[9]: Command line: quiet"], []),
        (["kernel: Memory: 2011892K/2096632K available (16384K kernel code)"], ["memory-kb 2096632"]),
        (["kernel: Adding 2097148k swap on /dev/dm-1.  Priority:-2"], ["swap-kb 2097148"]),
        (
            ["kernel: Adding 2097148k swap on /dev/dm-1.", "systemd[1]: Deactivated swap dev-dm\\x2d1.swap."],
            [],
        ),
        (["systemd-modules-load[300]: Inserted module 'br_netfilter'"], ["module br_netfilter"]),
        (
            ["kernel: XFS (sdb1): Mounting V5 Filesystem 8a3c1a1c-0000-4000-8000-000000000001"],
            ["block sdb1 8a3c1a1c-0000-4000-8000-000000000001 (sdb1)"],
        ),
        (
            ["kernel: EXT4-fs (sda1): mounted filesystem 8a3c1a1c-0000-4000-8000-000000000002 r/w x"],
            ["block sda1 8a3c1a1c-0000-4000-8000-000000000002 (sda1)"],
        ),
        (["kernel: EXT4-fs (sda1): mounted filesystem with ordered data mode."], []),
        (
            ["mount[612]: mount: /data: wrong fs type, bad option, bad superblock on /dev/sdb1, x"],
            ["mount-device /dev/sdb1 (/data)"],
        ),
        (["mount[612]: mount: /data: can't find UUID=1f2e."], ["mount-device UUID=1f2e (/data)"]),
        ([LEASE.format("state changed new lease, address=192.0.2.5")], ["address 192.0.2.5 (ens3)"]),
        (
            [
                LEASE.format("state changed new lease, address=192.0.2.5"),
                LEASE.format("state changed bound -> expire"),
            ],
            [],
        ),
        (
            [LEASE.format("option domain_name_servers => '192.0.2.53 192.0.2.54'")],
            ["nameserver 192.0.2.54 (ens3)", "nameserver 192.0.2.53 (ens3)"],
        ),
        (
            [
                LEASE.format("option domain_name_servers => '192.0.2.53'"),
                LEASE.format("option domain_name_servers => '192.0.2.54'"),
            ],
            ["nameserver 192.0.2.54 (ens3)"],
        ),
        ([LEASE.format("option requested_domain_name_servers => '1'")], []),
        (
            [DEFAULT.format("IPv4"), DEFAULT.format("IPv6")],
            ["default-route ::/0 (ens3)", "default-route 0.0.0.0/0 (ens3)"],
        ),
        (
            ["cloud-init[9]: ci-info: |   0   | 0.0.0.0 | 192.0.2.1 | 0.0.0.0 |   eth0    |   UG  |"],
            ["default-route 192.0.2.1 (eth0)"],
        ),
        (
            ["cloud-init[9]: ci-info: |  eth0  | True | 192.0.2.5 | 255.255.255.0 | global | fa:16 |"],
            ["address 192.0.2.5 (eth0)"],
        ),
        (["dhclient[9]: bound to 192.0.2.5 -- renewal in 300 seconds."], ["address 192.0.2.5"]),
        (
            ["systemd-resolved[9]: Using degraded feature set UDP instead of TCP for DNS server 192.0.2.53."],
            ["nameserver 192.0.2.53"],
        ),
        (["kube[9]: FLAG: --cluster-cidr=10.128.0.0/14"], ["cluster-network 10.128.0.0/14"]),
        (["chronyd[9]: Can't synchronise: no selectable sources"], ["chrony-leap Not synchronised"]),
        (
            [
                "chronyd[9]: Can't synchronise: no selectable sources",
                "chronyd[9]: Selected source 192.0.2.9 (time.lab)",
            ],
            ["chrony-selected 192.0.2.9"],
        ),
    ],
)
def test_line_states_a_fact(lines: list[str], expected: list[str]) -> None:
    assert stated(*lines) == expected
