"""The table of gathered evidence, in the order of the bundle: the most useful evidence comes first.

Paths in the bundle are those of OpenShift's own gather, if it has the same file. To gather more, add a row.
"""

from typing import Final

from service_record.read.host_table import HOST_FILES, HOST_LOGS, HOST_PROGRAMS
from service_record.reporter.gather import network
from service_record.reporter.gather.gathering import GatherRow
from service_record.reporter.gather.journal import (
    Journal,
    failed_runs,
    failed_units,
    service_records,
    unit_properties,
)
from service_record.reporter.gather.sources import (
    ContainerLogs,
    File,
    Listing,
    ProgramSource,
    Tree,
    clocks,
    extract_certificates,
    mask_assisted,
    mask_keyfile,
)

RECORDS: Final = "service-records"
"""The name of the row for the service records."""

_MIB: Final = 1 << 20
_KEYFILE_BYTES: Final = 256 << 10

_SYSTEMD: Final = ("/run/systemd/system",)
"""A directory that exists only if systemd is the init system; see sd_booted(3)."""
_BUS: Final = ("/run/dbus/system_bus_socket",)
_CRIO: Final = ("/run/crio/crio.sock",)
_EFI: Final = ("/sys/firmware/efi/efivars",)
_BOOT_UNFINISHED: Final = ("Bootup is not yet finished",)

_JOURNAL_UNITS: Final = {
    "bootkube": ("bootkube.service",),
    "release-image": ("release-image*.service",),
    "node-image": ("node-image-*.service",),
    "kubelet": ("kubelet.service",),
    "crio": ("crio.service",),
    "crio-configure": ("crio-configure.service",),
    "machine-config-daemon": ("machine-config-daemon-*.service",),
    "ignition": ("ignition-*.service", "coreos-ignition-*.service"),
    "NetworkManager": ("NetworkManager*.service",),
    "node-ip": ("nodeip-configuration*.service", "node-valid-hostname.service"),
    "ovs": ("ovs-configuration.service", "openvswitch.service", "ovs*-*.service"),
    "agent": ("agent*.service", "node-zero.service", "start-cluster-installation.service"),
    "assisted": ("assisted-*.service", "apply-host-config.service"),
    "install-to-disk": ("install-to-disk.service", "coreos-installer*.service"),
    "approve-csr": ("approve-csr.service",),
    "master-bmh-update": ("master-bmh-update.service",),
    "ironic": ("ironic*.service", "metal3-*.service"),
    "rpm-ostree": ("rpm-ostreed.service", "ostree-*.service", "pivot.service"),
    "time": ("chronyd.service", "systemd-timesyncd.service"),
    "boot-reporter": ("boot-reporter.service",),
}
"""Names of files in bootstrap/journals, and the units whose journal each of them has."""


def _journal_row(name: str, units: tuple[str, ...]) -> GatherRow:
    member = f"bootstrap/journals/{name}.log"
    return GatherRow(f"journal-{name}", member, Journal(units), seconds=30, bytes=4 * _MIB)


def _program_row(name: str, member: str, *argv: str, needs: tuple[str, ...] = ()) -> GatherRow:
    return GatherRow(name, member, ProgramSource(argv), needs=needs)


def _network_row(name: str, *argv: str) -> GatherRow:
    return _program_row(name, f"bootstrap/network/{name}.txt", *argv)


def _systemd_row(name: str, *argv: str, absent: tuple[str, ...] = ()) -> GatherRow:
    return GatherRow(
        name, f"bootstrap/systemd/{name}.txt", ProgramSource(argv, absent=absent), needs=_SYSTEMD
    )


def _system_file_row(name: str, path: str) -> GatherRow:
    return GatherRow(name, f"bootstrap/system/{name}.txt", File(path))


COLLECTORS: Final = (
    GatherRow(RECORDS, "bootstrap/services/", service_records, seconds=30, bytes=8 * _MIB),
    # systemd
    _program_row(
        "failed-units",
        "failed-units.txt",
        *("systemctl", "list-units", "--state=failed", "--full", "--no-pager"),
        needs=_SYSTEMD,
    ),
    GatherRow("unit-status", "unit-status/", failed_units, seconds=30, needs=_SYSTEMD),
    GatherRow("unit-properties", "unit-properties.txt", unit_properties, needs=_SYSTEMD),
    _systemd_row("jobs", "systemctl", "list-jobs", "--full", "--no-pager"),
    _systemd_row("units", "systemctl", "list-units", "--all", "--full", "--no-pager"),
    _systemd_row("unit-files", "systemctl", "list-unit-files", "--full", "--no-pager"),
    _systemd_row(
        "unit-times",
        *("systemctl", "show", "--no-pager", "--property=Id,ActiveState,SubState,Result,NRestarts"),
        "--property=ExecMainStatus,InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic",
        *("--property=ActiveExitTimestampMonotonic,InactiveEnterTimestampMonotonic", "*.service"),
    ),
    _systemd_row("startup", "systemd-analyze", "time", absent=_BOOT_UNFINISHED),
    _systemd_row("blame", "systemd-analyze", "--no-pager", "blame", absent=_BOOT_UNFINISHED),
    _systemd_row(
        "critical-chain", "systemd-analyze", "--no-pager", "critical-chain", absent=_BOOT_UNFINISHED
    ),
    _program_row(
        "boots", "bootstrap/journals/boots.txt", "journalctl", "--quiet", "--no-pager", "--list-boots"
    ),
    # the journal, by failed run and by unit
    GatherRow("failed-runs", "bootstrap/journals/invocations/", failed_runs, seconds=30, needs=_SYSTEMD),
    *(_journal_row(name, units) for name, units in _JOURNAL_UNITS.items()),
    GatherRow(
        "journal-kernel",
        "bootstrap/journals/kernel.log",
        Journal(kernel=True, lines=50_000),
        seconds=30,
        bytes=4 * _MIB,
    ),
    # the network
    GatherRow("reachability", "bootstrap/network/reachability.txt", network.reachability, seconds=60),
    *(_network_row(name, *HOST_PROGRAMS[name]) for name in ("ip-addr", "ip-route", "ip-6-route")),
    _network_row("ip-rule", "ip", "rule"),
    _network_row("ip-6-rule", "ip", "-6", "rule"),
    _network_row("ip-neighbour", "ip", "-s", "neighbour"),
    _network_row("ip-link", "ip", "-s", "link"),
    _network_row("sockets", "ss", "-lntup"),
    GatherRow(
        "open-vswitch",
        "bootstrap/network/ovs-vsctl.txt",
        ProgramSource(("ovs-vsctl", "--timeout=5", "show")),
        needs=("/run/openvswitch/db.sock",),
    ),
    GatherRow("hostname", "bootstrap/network/hostname.txt", File(HOST_FILES["hostname"])),
    GatherRow("resolv-conf", "bootstrap/network/resolv.conf", File(HOST_FILES["resolv-conf"])),
    GatherRow("nsswitch-conf", "bootstrap/network/nsswitch.conf", File(HOST_FILES["nsswitch-conf"])),
    GatherRow("hosts", "bootstrap/network/hosts", File("/etc/hosts")),
    *(
        GatherRow(
            f"nmcli-{name}",
            f"bootstrap/network/nmcli-{name}.txt",
            ProgramSource(("nmcli", "--colors=no", *what), absent=("NetworkManager is not running",)),
        )
        for name, what in {
            "general": ("general", "status"),
            "devices": ("device", "show"),
            "connections": ("connection", "show"),
        }.items()
    ),
    GatherRow(
        "network-profiles",
        "bootstrap/network/profiles.txt",
        Listing(
            (
                "/etc/NetworkManager/system-connections/*",
                "/etc/NetworkManager/conf.d/*",
                "/etc/NetworkManager/dispatcher.d/**/*",
                "/etc/sysconfig/network-scripts/ifcfg-*",
                "/run/NetworkManager/system-connections/*",
            ),
            has_digests=False,
        ),
    ),
    *(
        GatherRow(
            name,
            f"bootstrap/network/{name}/",
            Tree(base, tuple(f"{base}/{pattern}" for pattern in patterns), mask=mask),
            bytes=_KEYFILE_BYTES,
        )
        for name, base, patterns, mask in (
            ("assisted-network", "/etc/assisted/network", ("*/*",), mask_assisted),
            ("connections", "/etc/NetworkManager/system-connections", ("*",), mask_keyfile),
            ("connections-of-initrd", "/run/NetworkManager/system-connections", ("*",), mask_keyfile),
            ("nmstate", "/etc/nmstate", ("*.*", "*/*.*"), None),
        )
    ),
    GatherRow("cluster-names", "bootstrap/network/cluster-names.txt", network.cluster_names),
    # disks and mounts
    # --task 1: the unit's sandbox has its own mounts, the host's are those of PID 1
    _program_row(
        "mounts", "bootstrap/storage/findmnt.txt", "findmnt", "--real", "--notruncate", "--task", "1"
    ),
    GatherRow("proc-mounts", "bootstrap/storage/mounts.txt", File(HOST_FILES["proc-mounts"])),
    _program_row("block-devices", "bootstrap/storage/lsblk.txt", *HOST_PROGRAMS["lsblk"]),
    _program_row("disk-space", "bootstrap/storage/df.txt", *HOST_PROGRAMS["df.txt"]),
    _program_row("inodes", "bootstrap/storage/df-inodes.txt", *HOST_PROGRAMS["df-inodes.txt"]),
    GatherRow("disk-statistics", "bootstrap/storage/diskstats.txt", File("/proc/diskstats")),
    # memory, pressure, time
    _system_file_row("memory", HOST_FILES["memory"]),
    _system_file_row("load", "/proc/loadavg"),
    *(_system_file_row(f"pressure-{what}", f"/proc/pressure/{what}") for what in ("cpu", "io", "memory")),
    _program_row(
        "processes", "bootstrap/system/processes.txt", "ps", "-eo", "pid,ppid,stat,etimes,rss,wchan:20,comm"
    ),
    GatherRow("clocks", "bootstrap/system/clocks.txt", clocks),
    _program_row(
        "time-settings", "bootstrap/system/timedatectl.txt", *HOST_PROGRAMS["timedatectl"], needs=_BUS
    ),
    *(
        GatherRow(
            f"chrony-{what}",
            f"bootstrap/system/chrony-{what}.txt",
            ProgramSource(HOST_PROGRAMS[f"chrony-{what}.txt"], absent=("Cannot talk to daemon",)),
        )
        for what in ("tracking", "sources")
    ),
    # the operating system and its installation
    GatherRow(
        "os-release", "bootstrap/system/os-release.txt", File(HOST_FILES["os-release"], "/usr/lib/os-release")
    ),
    _system_file_row("kernel-version", "/proc/version"),
    _system_file_row("selinux", "/sys/fs/selinux/enforce"),
    GatherRow(
        "coredumps",
        "bootstrap/system/coredumps.txt",
        ProgramSource(
            ("coredumpctl", "--no-pager", "list"), absent=("No coredumps found", "No journal files")
        ),
    ),
    _system_file_row("kernel-command-line", HOST_FILES["kernel-command-line"]),
    _system_file_row("hardware-vendor", "/sys/class/dmi/id/sys_vendor"),
    _system_file_row("hardware-model", "/sys/class/dmi/id/product_name"),
    _system_file_row("swaps", HOST_FILES["swaps"]),
    _system_file_row("modules", HOST_FILES["modules"]),
    _program_row(
        "secure-boot", "bootstrap/system/secure-boot.txt", *HOST_PROGRAMS["secure-boot.txt"], needs=_EFI
    ),
    _program_row(
        "boot-entries", "bootstrap/system/efibootmgr.txt", *HOST_PROGRAMS["efibootmgr.txt"], needs=_EFI
    ),
    GatherRow("ignition-result", "bootstrap/system/ignition-result.json", File("/etc/.ignition-result.json")),
    GatherRow(
        "machine-config",
        "bootstrap/system/machine-config.txt",
        Listing(
            (
                *("/etc/ignition-machine-config-encapsulated.json*", "/etc/machine-config-daemon/**/*"),
                *("/etc/mcs-machine-config-content.json*", "/etc/kubernetes/*"),
                *("/etc/kubernetes/manifests/*", "/var/lib/kubelet/*", "/var/lib/kubelet/pki/*"),
                *("/run/machine-config-daemon*", "/run/ostree-booted", "/boot/ignition*"),
            )
        ),
    ),
    GatherRow(
        "rpm-ostree",
        "bootstrap/system/rpm-ostree.txt",
        ProgramSource(HOST_PROGRAMS["rpm-ostree_status"]),
        20,
        needs=_BUS,
    ),
    GatherRow(
        "packages", "bootstrap/system/packages.txt", ProgramSource(("rpm", "--query", "--all")), seconds=20
    ),
    # containers
    *(
        GatherRow(
            f"crictl-{what}",
            f"bootstrap/containers/crictl-{what}.txt",
            ProgramSource(("crictl", *argv)),
            needs=_CRIO,
        )
        for what, argv in {"ps": ("ps", "--all"), "pods": ("pods",), "images": ("images",)}.items()
    ),
    GatherRow("container-logs", "bootstrap/containers/", ContainerLogs("crictl"), 60, 256 << 10, needs=_CRIO),
    GatherRow("pod-logs", "bootstrap/pod-logs/", Tree(*HOST_LOGS["pod-logs"]), seconds=30, bytes=128 << 10),
    GatherRow(
        "control-plane-logs",
        "bootstrap/containers/bootstrap-control-plane/",
        Tree(*HOST_LOGS["control-plane-logs"]),
        seconds=30,
        bytes=256 << 10,
    ),
    _program_row("podman-ps", "bootstrap/pods/podman-ps.txt", "podman", "ps", "--all", "--no-trunc"),
    GatherRow("podman-logs", "bootstrap/pods/", ContainerLogs("podman"), 60, 256 << 10),
    GatherRow("agent-logs", "bootstrap/agent/", Tree(*HOST_LOGS["agent-logs"])),
    GatherRow("installer-logs", "bootstrap/installer/", Tree(*HOST_LOGS["installer-logs"]), bytes=256 << 10),
    # certificates, for their dates and names; keys in the same files are left out
    *(
        GatherRow(
            f"{name}-certificates",
            f"bootstrap/certificates/{name}/",
            Tree(base, tuple(f"{base}/{pattern}" for pattern in patterns), mask=extract_certificates),
            bytes=64 << 10,
        )
        for name, base, patterns in (
            ("kubernetes", "/etc/kubernetes/pki", ("*.crt", "etcd/*.crt")),
            ("bootstrap", "/opt/openshift/tls", ("*.crt",)),
            ("kubelet", "/var/lib/kubelet/pki", ("*.crt", "*.pem")),
        )
    ),
    # the last messages of a kernel that crashed
    GatherRow("pstore", "bootstrap/pstore/", Tree(*HOST_LOGS["pstore"])),
    GatherRow("pstore-kept", "bootstrap/pstore/kept/", Tree(*HOST_LOGS["pstore-kept"])),
    # the journals of earlier boots, and of this one; last, because they are the longest
    *(
        GatherRow(
            f"journal-boot{boot}",
            f"bootstrap/journals/boot{boot}.log",
            Journal(boot=boot, lines=lines),
            seconds=30,
            bytes=8 * _MIB,
        )
        for boot, lines in {-1: 20_000, -2: 5_000}.items()
    ),
    GatherRow(
        "journal", "bootstrap/journals/journal.log", Journal(lines=1_000_000), seconds=120, bytes=256 * _MIB
    ),
)
