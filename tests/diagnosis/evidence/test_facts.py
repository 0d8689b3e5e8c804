"""Each file of a host that tells facts: every value, its line, and what it is of."""

import re

import pytest

from service_record.diagnosis.evidence.fact_checks import CHECKS
from service_record.diagnosis.evidence.facts import FACT_NAMES, read_facts
from service_record.history import History

FILES = r"""= resolv.conf
# made by
nameserver fe80::1%ens3 => nameserver fe80::1
nameserver
search a.lab b.lab => search a.lab; search b.lab
domain c.lab => search c.lab

options search
= nsswitch.conf
passwd: files
hosts:  files dns => nsswitch-hosts files dns
hosts
x hosts: no
= hostnamectl.txt
 Static hostname: node-0 => hostname node-0
Transient hostname: other
 Hardware Vendor: QEMU => hardware QEMU
  Hardware Model: Q35 => hardware Q35
Static hostname:
= hostname

 node-1  => hostname node-1
node-2
= hardware-vendor.txt
QEMU => hardware QEMU

Q35 => hardware Q35
= ip-addr.txt
1: lo: <LOOPBACK,UP> => link LOOPBACK,UP (lo)
2: ens3@if4: <UP> mtu 1500 qdisc x state DOWN group => link UP,state-DOWN (ens3); mtu 1500 (ens3)
    inet 192.0.2.20/24 brd x scope global ens3 => address 192.0.2.20/24 (ens3)
    inet 127.0.0.1/8 scope host lo
    inet6 fe80::1/64 scope link dadfailed tentative => duplicate-address fe80::1/64 (ens3)
3: br0    inet6 2001:db8::2/64 scope global dadfailed => address 2001:db8::2/64 (br0); duplicate-address 2001:db8::2/64 (br0)
= ip_-j_addr
 => link state-None
[{"ifname": "ens3", "flags": ["UP", 7], "operstate": "UP", "mtu": 9000, => link UP,7,state-UP (ens3); mtu 9000 (ens3)
"addr_info": [{"local": "192.0.2.20", "prefixlen": 24, "scope": "global"}, => address 192.0.2.20/24 (ens3)
{"local": "2001:db8::2", "prefixlen": 64, "scope": "link", "dadfailed": true}, 7]}, 7, => duplicate-address 2001:db8::2/64 (ens3)
{"flags": "UP"}]
= ip-address-damaged
[{
= ip-route.txt
unicast default via inet6 fe80::1 dev ens3 => default-route 0.0.0.0/0 (ens3)
0.0.0.0/0 dev ens4 => default-route 0.0.0.0/0 (ens4)
10.0.0.0/8 via 192.0.2.1 => route 10.0.0.0/8
local 192.0.2.20 dev lo
broadcast 192.0.2.255 dev ens3
blackhole 192.0.2.128/25
  2001:db8::/64 dev ens3 proto ra => route 2001:db8::/64 (ens3)
multicast ff00::/8 dev x
= ip-j-route
[{"dst": "default", "gateway": "192.0.2.1", "dev": "ens3"}, => default-route 192.0.2.1 (ens3)
{"dst": "10.0.0.0/8"}, {"type": "local", "dst": "192.0.2.20"}, => route 10.0.0.0/8
 {"type": "unicast", "dst": "10.1.0.0/16", "dev": "tun0"}] => route 10.1.0.0/16 (tun0)
= kernel-command-line
 => cmdline quiet boot=casper rd.live.image; live-medium boot=casper
 quiet boot=casper rd.live.image
= proc_cmdline
  
= cmdline
quiet noboot=live => cmdline quiet noboot=live
= meminfo
MemTotal:  16384 kB => memory-kb 16384
MemFree: 1 kB
MemAvailable: 2 kB => available-kb 2
SwapTotal: 0 kB => swap-kb 0
MemTotal:
= swaps
Filename Type Size Used
/dev/dm-0 partition 1024 0 => swap-kb 1024 (/dev/dm-0)
/file file
= lsmod
Module Size Used => module Module
xfs 1 2 => module xfs
= lsblk.txt
NAME FSTYPE MOUNTPOINTS
vda  disk => block vda disk (vda)
|-vda1 vfat /boot/efi => block vda1 vfat /boot/efi (vda); mounted /boot/efi (vda)
`-vda4 xfs /sysroot / => block vda4 xfs /sysroot / (vda); mounted / (vda); mounted /sysroot (vda)
vdb swap [SWAP] => block vdb swap [SWAP] (vdb); mounted [SWAP] (vdb)
  │ 
sr0 rom => block sr0 rom (sr0)
= findmnt.txt
TARGET SOURCE FSTYPE
/ /dev/vda4[/ostree] xfs => mounted / (vda4)
├─/boot /dev/vda3 ext4 => mounted /boot (vda3)
└─/x => mounted /x
└─
/dev/vda5
= fstab
# <file system> <mount point>
UUID=1f2e /data xfs defaults 0 0 => mount-device UUID=1f2e (/data)
/dev/sdb1	/srv ext4 => mount-device /dev/sdb1 (/srv)
/dev/sdc1 none swap sw 0 0
#/dev/sdd1 /old ext4
/dev/sde1
= blkid.txt
/dev/sda1: UUID="1f2e" TYPE="xfs" LABEL="a b" => block sda1 1f2e xfs (sda1)
/dev/sda2:
sda3: UUID="x"
= mounts
/dev/vda4 /sysroot xfs ro => mounted /sysroot (vda4)
tmpfs /run tmpfs rw
proc none x
= df.txt
Filesystem 1K Used Use% Mounted
/dev/vda4 98 98 100% / => full 100% (/)
/dev/vda3 98 97 99% /boot
/dev/vdb 9 9 101% /var => full 101% (/var)
/dev/loop0 1 1 100% /snap
/dev/sr0 1 1 100% /cd
tmpfs 1 1 100% /tmp
/dev/vdc iso9660 1 100% /data
/dev/vdd 1 1 100% /run/media/x
/dev/vde 1 1 100% x
/dev/vdf 1 1 - /y
= chrony.txt
Reference ID : C0
Leap status     : Normal => chrony-leap Normal
^* time.lab 2 6 => chrony-selected time.lab; chrony-source time.lab (*)
^? other.lab 2 6 => chrony-source other.lab (?)
=- third.lab => chrony-source third.lab (-)
#x local => chrony-source local (x)
^+ => chrony-source  (+)
leap status : x
Leap status
^* => chrony-selected ; chrony-source  (*)
= timedatectl.txt
System clock synchronized: yes => clock-synchronized yes
NTP synchronized: no => clock-synchronized no
  NTP service: active => ntp active
NTP enabled: n/a => ntp n/a
Network time on: yes => ntp yes
RTC: x
= rpm-ostree-status
State: idle
* pivot://quay.io/a => deployment pivot://quay.io/a (booted)
  ostree-unverified-registry:quay.io/b => deployment ostree-unverified-registry:quay.io/b
● container://c => deployment container://c (booted)
  containers://d => deployment containers://d
    Version: 1
= os-release
NAME="x"
ID="rhcos" => os rhcos (ID)
VARIANT_ID='coreos' => os coreos (VARIANT_ID)
VERSION_ID=4.15 => os 4.15 (VERSION_ID)
ID_LIKE="rhel fedora" => os rhel fedora (ID_LIKE)
= packages.txt
bash-5.1.8-9.el9.x86_64 => package bash
kernel-core-5.14.0-427.el9.x86_64 => package kernel-core
gpg-pubkey-fd431d51-4ae0493b
package x is not installed
= installed-rpms
containerd.io-1.6.33-3.1.el9.x86_64       Mon Jul  1 10:00:00 2026 => package containerd.io
= dpkg_-l
||/ Name           Version      Architecture Description
ii  libc6:amd64    2.35-0ubuntu3.8 amd64 GNU C Library => package libc6
rc  nano           6.2-1        amd64        text editor
= programs-on-path
nmcli => program nmcli
= journalctl_--list-boots
 -1 00112233445566778899aabbccddeeff Mon 2026-11-21 01:05:10 UTC => boots 2026-11-21 01:05:10 (00112233445566778899aabbccddeeff)
  0 ffeeddccbbaa99887766554433221100 Tue 2026-11-22 01:05:10 UTC => boots 2026-11-22 01:05:10 (ffeeddccbbaa99887766554433221100)
IDX BOOT ID
= mokutil
 SecureBoot enabled => secure-boot SecureBoot enabled
= cgroup.txt
cgroup2fs => cgroup cgroup2fs
= selinux
Enforcing => selinux Enforcing
= crictl_images
quay.io/a => image quay.io/a
= failed-units.txt
UNIT LOAD ACTIVE SUB
● a.service loaded failed failed A => failed-unit a.service
* b.mount not-found failed dead => failed-unit b.mount; unmounted /b
c.service loaded active failed C
d.service failed
e.service failed x
= cluster-names.txt
api.a.lab 192.0.2.5 => api-name api.a.lab
api-int.a.lab => api-name api-int.a.lab
apps.a.lab
clusterNetwork: 10.128.0.0/14 => cluster-network 10.128.0.0/14 (clusterNetwork)
serviceNetwork: 172.30.0.0/16 => service-network 172.30.0.0/16 (serviceNetwork)
= efibootmgr
BootCurrent: 0001 => boot-current 0001
BootOrder: 0001,0002 => boot-order 0001,0002
Boot0001* Fedora => boot-entry Fedora (0001)
Boot000A  PXE => boot-entry PXE (000A)
BootNext: 2
Boot001 x
= cleanfsynctest.log
fsync/fdatasync/sync_file_range:
  sync (usec): min=1
  sync percentiles (usec):
   | 99.00th=[ 12345], 99.50th=[ 20000] => sync-ms 12.3
   | 99.00th=[1]
  clat percentiles (nsec):
 99.00th=[5]
  sync percentiles (msec):
 | 99.00th=[   7] => sync-ms 7.0
 sync percentiles (nsec):
 99.00th=[900000] => sync-ms 0.9
 sync percentiles (csec):
 99.00th=[9]
= my-hostname
hosts: x
"""  # noqa: E501, W291, W293
"""Names of files, their lines, and the facts in each line."""
EACH = [file.partition("\n")[::2] for file in FILES.removeprefix("= ").split("\n= ")]


def lines_with_facts(name: str, lines: list[str]) -> str:
    """Return each line, and behind an arrow the facts that are read from it."""
    facts_of_line: list[list[str]] = [[] for _ in lines]
    for kind, facts in read_facts([("file", name, "\n".join(lines))]).values.items():
        for fact in facts:
            facts_of_line[(fact.place.line or 1) - 1].append(
                f"{kind} {fact.value} ({fact.of})" if fact.of else f"{kind} {fact.value}"
            )
    return "\n".join(
        line + " => " * bool(of) + "; ".join(sorted(of))
        for line, of in zip(lines, facts_of_line, strict=True)
    )


@pytest.mark.parametrize(("name", "expected"), EACH, ids=[name for name, _ in EACH])
def test_file_yields_its_facts_even_if_cut(name: str, expected: str) -> None:
    lines = [line.partition(" => ")[0] for line in expected.split("\n")]
    assert lines_with_facts(name, lines) == expected
    for line in lines:
        for end in range(len(line)):
            lines_with_facts(name, [line[:end]])
        absurd = re.sub(r"\d+", "9" * 5000, line)
        known = read_facts([("file", name, absurd)])
        numbers = [fact.number for kind in ("mtu", "swap-kb", "memory-kb") for fact in known.all(kind)]
        assert not any(numbers)
        for check in CHECKS.values():
            list(check.find(known, History(())))


def test_every_testable_fact_has_a_file() -> None:
    texts = ((file, file, re.sub(" => .*", "", expected)) for file, expected in EACH)
    names = set(read_facts(texts).values)
    of_other_tests = {"certificate-start", "certificate-end", "certificate-name", "container", "kernel"}
    assert names | of_other_tests == FACT_NAMES


def test_facts_of_one_name_are_limited() -> None:
    text = "\n".join(f"m{number} 1" for number in range(2001))
    facts = read_facts([("one", "lsmod", text), ("two", "hostname", "a"), ("three", "hostname", "b")])
    assert len(facts.all("module")) == 2000
    assert [str(fact.place) for fact in facts.all("hostname")] == ["two:1", "three:1"]
    assert [fact.number for fact in facts.all("hostname")] == [None, None]
    assert (facts.first("none"), facts.all("none")) == (None, ())
