"""Roles, software and check findings of one host, derived from its evidence. Pure.

The software decides which commands of a rule are shown. A command is left out if its program is certainly not
on the host, and replaced if another program there answers the same question. If nothing is known about a
program, the command stays.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

import msgspec

from service_record.diagnosis.evidence.fact_checks import CHECKS, Finding, find_roles
from service_record.diagnosis.evidence.facts import MAX_FACTS
from service_record.diagnosis.evidence.host_evidence import Evidence
from service_record.diagnosis.findings import ELSEWHERE
from service_record.history import History

PROGRAMS_FILE: Final = "programs-on-path"
"""The name of the fact file in which `analyze` lists the programs of this host."""


class Software(msgspec.Struct, frozen=True, kw_only=True):
    """Software that hosts may lack, and how to recognise it in commands and in evidence."""

    programs: frozenset[str] = frozenset()
    """Its programs, as commands call them."""
    units: frozenset[str] = frozenset()
    """Its services, and the names under which its programs log."""
    paths: tuple[str, ...] = ()
    """The beginnings of the paths of its files."""
    packages: frozenset[str] = frozenset()
    """The packages that contain it. If the evidence lists all packages, they decide."""
    systems: frozenset[str] = frozenset()
    """The systems that may have it, by ID and ID_LIKE of os-release; empty if all may."""
    not_with: frozenset[str] = frozenset()
    """Alternatives: a host with one of them lacks this software, unless both were seen."""
    roles: frozenset[str] = frozenset()
    """The roles of hosts that have it. On other hosts its commands are marked `# on another host`."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DEBIAN: Final = _words("debian ubuntu")
_FEDORA: Final = _words("fedora rhel centos rhcos scos")
_SUSE: Final = _words("suse opensuse sles")

SOFTWARE: Final[Mapping[str, Software]] = {
    # Packages
    "apt": Software(
        programs=_words("apt-cache apt-get apt-mark dpkg"),
        paths=("/etc/apt", "/usr/lib/apt", "/usr/share/keyrings"),
        systems=_DEBIAN,
        not_with=_words("dnf zypper rpm-ostree"),
    ),
    "rpm": Software(
        programs=_words("rpm"),
        paths=("/etc/pki/rpm-gpg",),
        systems=_FEDORA | _SUSE,
        not_with=_words("apt"),
    ),
    "dnf": Software(
        programs=_words("dnf yum subscription-manager"),
        paths=("/etc/yum.repos.d",),
        systems=_FEDORA,
        not_with=_words("rpm-ostree apt zypper"),
    ),
    "zypper": Software(
        programs=_words("zypper"), paths=("/etc/zypp",), systems=_SUSE, not_with=_words("apt dnf rpm-ostree")
    ),
    "rpm-ostree": Software(
        programs=_words("rpm-ostree ostree"),
        units=_words("rpm-ostree rpm-ostreed zincati ostree-remount"),
        packages=_words("rpm-ostree"),
        systems=_words("ostree"),
    ),
    # Policies
    "selinux": Software(
        programs=_words("getenforce getsebool semanage matchpathcon"), systems=_FEDORA | _SUSE
    ),
    "apparmor": Software(programs=_words("aa-status"), systems=_DEBIAN | _SUSE),
    "crypto-policies": Software(
        programs=_words("update-crypto-policies fips-mode-setup trust"),
        paths=("/etc/pki/ca-trust",),
        systems=_FEDORA,
    ),
    "dracut": Software(programs=_words("lsinitrd"), packages=_words("dracut"), systems=_FEDORA | _SUSE),
    "initramfs-tools": Software(programs=_words("lsinitramfs"), systems=_DEBIAN),
    # Networks and time
    "NetworkManager": Software(
        programs=_words("nmcli"),
        units=_words("NetworkManager NetworkManager-wait-online nm-cloud-setup"),
        paths=("/etc/NetworkManager",),
        packages=_words("NetworkManager network-manager"),
        not_with=_words("systemd-networkd wicked"),
    ),
    "nmstate": Software(
        programs=_words("nmstatectl"),
        units=_words("nmstate nmstatectl"),
        packages=_words("nmstate"),
        not_with=_words("systemd-networkd wicked"),
    ),
    "systemd-networkd": Software(
        programs=_words("networkctl"),
        units=_words("systemd-networkd systemd-networkd-wait-online"),
        not_with=_words("NetworkManager wicked"),
    ),
    "wicked": Software(programs=_words("wicked"), units=_words("wicked wickedd"), systems=_SUSE),
    "netplan": Software(
        programs=_words("netplan"),
        paths=("/etc/netplan",),
        packages=_words("netplan.io"),
        systems=_DEBIAN,
    ),
    "systemd-resolved": Software(programs=_words("resolvectl"), units=_words("systemd-resolved")),
    "chrony": Software(
        programs=_words("chronyc"),
        units=_words("chronyd chrony"),
        packages=_words("chrony"),
        not_with=_words("systemd-timesyncd ntp"),
    ),
    "systemd-timesyncd": Software(units=_words("systemd-timesyncd"), not_with=_words("chrony ntp")),
    "ntp": Software(programs=_words("ntpq"), units=_words("ntpd ntpsec ntp")),
    # Clusters and containers
    "openshift": Software(
        programs=_words("oc"),
        units=_words(
            "approve-csr bootkube release-image machine-config-daemon machine-config-daemon-firstboot "
            "machine-config-daemon-pull node-image-pull assisted-service assisted-installer "
            "start-cluster-installation ovs-configuration kubenswrapper"
        ),
        paths=("/etc/machine-config-daemon", "/run/mco-extensions", "/opt/openshift"),
        systems=_FEDORA,
        not_with=_words("k3s rke2 kubeadm"),
        roles=_words("bootstrap control-plane"),
    ),
    "kubeadm": Software(
        programs=_words("kubeadm"),
        units=_words("kubeadm kubeadm-init kubeadm-join"),
        paths=("/var/lib/kubelet/kubeadm-flags.env",),
        packages=_words("kubeadm"),
        not_with=_words("openshift k3s rke2"),
    ),
    "k3s": Software(
        programs=_words("k3s"),
        units=_words("k3s k3s-agent k3s-server"),
        paths=("/etc/rancher/k3s", "/var/lib/rancher/k3s"),
        not_with=_words("openshift kubeadm rke2"),
    ),
    "rke2": Software(
        units=_words("rke2 rke2-server rke2-agent"),
        paths=("/etc/rancher/rke2", "/var/lib/rancher/rke2"),
        not_with=_words("openshift kubeadm k3s"),
    ),
    "rancher": Software(
        units=_words("k3s k3s-agent k3s-server rke2 rke2-server rke2-agent"),
        paths=("/etc/rancher/node",),
        not_with=_words("openshift kubeadm"),
    ),
    "kubectl": Software(programs=_words("kubectl"), roles=_words("bootstrap control-plane")),
    "kubelet": Software(
        programs=_words("kubelet"),
        units=_words("kubelet kubenswrapper hyperkube"),
        paths=("/var/lib/kubelet/config.yaml", "/var/lib/kubelet/pki", "/etc/kubernetes"),
        not_with=_words("k3s rke2"),
    ),
    "cri-o": Software(
        programs=_words("crio"),
        units=_words("crio"),
        paths=("/etc/crio",),
        packages=_words("cri-o"),
        not_with=_words("k3s rke2 docker containerd"),
    ),
    "containerd": Software(
        programs=_words("containerd ctr"),
        units=_words("containerd"),
        paths=("/etc/containerd",),
        packages=_words("containerd containerd.io"),
        not_with=_words("cri-o k3s rke2"),
    ),
    "docker": Software(
        programs=_words("docker"),
        units=_words("docker dockerd"),
        paths=("/etc/docker",),
        packages=_words("docker-ce docker.io moby-engine docker"),
        not_with=_words("cri-o"),
    ),
    "podman": Software(
        programs=_words("podman"),
        units=_words("podman"),
        packages=_words("podman"),
        not_with=_words("k3s rke2 kubeadm docker"),
    ),
    "containers": Software(
        units=_words("crio podman"),
        paths=("/etc/containers", "/var/lib/containers"),
        packages=_words("containers-common podman cri-o"),
        not_with=_words("k3s rke2 kubeadm docker"),
    ),
    # Disks, hardware and tools that are often not installed
    "lvm2": Software(programs=_words("lvs pvs vgs lvmconfig"), packages=_words("lvm2")),
    "multipath": Software(
        programs=_words("multipath"),
        units=_words("multipathd"),
        packages=_words("device-mapper-multipath multipath-tools"),
    ),
    "iscsi": Software(
        programs=_words("iscsiadm"),
        units=_words("iscsid"),
        packages=_words("iscsi-initiator-utils open-iscsi"),
    ),
    "smartmontools": Software(programs=_words("smartctl"), packages=_words("smartmontools")),
    "nvme-cli": Software(programs=_words("nvme"), packages=_words("nvme-cli")),
    "sg3_utils": Software(programs=_words("sg_persist"), packages=_words("sg3_utils sg3-utils")),
    "sysstat": Software(programs=_words("iostat"), packages=_words("sysstat"), not_with=_words("rpm-ostree")),
    "psmisc": Software(programs=_words("fuser"), packages=_words("psmisc")),
    "ethtool": Software(programs=_words("ethtool"), packages=_words("ethtool")),
    "tcpdump": Software(
        programs=_words("tcpdump"), packages=_words("tcpdump"), not_with=_words("rpm-ostree")
    ),
    "ipmitool": Software(
        programs=_words("ipmitool"), packages=_words("ipmitool"), not_with=_words("rpm-ostree")
    ),
    "rasdaemon": Software(
        programs=_words("ras-mc-ctl"), packages=_words("rasdaemon"), not_with=_words("rpm-ostree")
    ),
    "pciutils": Software(programs=_words("lspci"), packages=_words("pciutils")),
    "mokutil": Software(programs=_words("mokutil"), packages=_words("mokutil")),
    "efibootmgr": Software(programs=_words("efibootmgr"), packages=_words("efibootmgr")),
    "audit": Software(programs=_words("ausearch"), units=_words("auditd"), packages=_words("audit auditd")),
    "dkms": Software(programs=_words("dkms"), packages=_words("dkms"), not_with=_words("rpm-ostree")),
    "jq": Software(programs=_words("jq"), packages=_words("jq")),
    "nfs": Software(programs=_words("showmount"), packages=_words("nfs-utils nfs-common")),
    "cloud-init": Software(
        programs=_words("cloud-init"),
        units=_words("cloud-init cloud-init-local cloud-config cloud-final"),
        packages=_words("cloud-init"),
    ),
    "etcd": Software(units=_words("etcd"), not_with=_words("openshift kubeadm k3s rke2")),
}

SUBSTITUTES: Final = (
    ("nmcli device show", "systemd-networkd", "networkctl status --all"),
    ("nmcli device show", "wicked", "cat /etc/resolv.conf"),
    ("nmcli device", "systemd-networkd", "networkctl status --all"),
    ("nmcli connection", "systemd-networkd", "networkctl list"),
    ("nmcli device", "wicked", "wicked show all"),
    (
        "journalctl --boot --unit NetworkManager",
        "systemd-networkd",
        "journalctl --boot --unit systemd-networkd",
    ),
    ("journalctl --boot --unit NetworkManager", "wicked", "journalctl --boot --unit wicked"),
    ("journalctl --boot --unit chronyd", "systemd-timesyncd", "journalctl --boot --unit systemd-timesyncd"),
    ("chronyc sources", "systemd-timesyncd", "timedatectl timesync-status"),
    ("chronyc sources", "ntp", "ntpq --peers"),
    ("apt-cache policy", "dnf", "dnf list"),
    ("dnf repolist --enabled", "zypper", "zypper repos"),
    ("ls /etc/yum.repos.d", "apt", "grep -rh ^deb /etc/apt/sources.list /etc/apt/sources.list.d"),
    ("ls /etc/yum.repos.d", "zypper", "zypper repos"),
    ("getenforce", "apparmor", "aa-status"),
    ("lsinitrd", "initramfs-tools", "lsinitramfs /initrd.img"),
    ("journalctl --boot --unit kubelet", "k3s", "journalctl --boot --unit k3s"),
    ("journalctl --boot --unit kubelet", "rke2", "journalctl --boot --unit rke2-server"),
    ("systemctl cat kubelet", "k3s", "systemctl cat k3s"),
    ("systemctl status kubelet", "k3s", "systemctl status k3s"),
    ("journalctl --boot --unit crio", "containerd", "journalctl --boot --unit containerd"),
    ("journalctl --boot --unit crio", "k3s", "journalctl --boot --unit k3s"),
    ("systemctl status crio", "containerd", "systemctl status containerd"),
    ("podman images", "k3s", "k3s crictl images"),
    ("podman images", "containerd", "crictl images"),
    ("podman images", "docker", "docker images"),
    ("podman ps", "docker", "docker ps"),
    ("podman info", "docker", "docker info"),
    ("cat /etc/containers/registries.conf", "k3s", "cat /etc/rancher/k3s/registries.yaml"),
    ("cat /etc/containers/registries.conf", "rke2", "cat /etc/rancher/rke2/registries.yaml"),
    ("cat /etc/containers/registries.conf", "containerd", "ls -R /etc/containerd/certs.d"),
    ("cat /etc/containers/registries.conf", "docker", "cat /etc/docker/daemon.json"),
)
"""The beginning of a command, other software that answers the same question, and its command."""

_SYSTEM_OF_ID: Final = {
    **dict.fromkeys(("ubuntu", "linuxmint", "raspbian", "kali", "pop"), "debian"),
    **dict.fromkeys(("rhel", "centos", "rocky", "almalinux", "ol", "rhcos", "scos", "amzn"), "fedora"),
    **dict.fromkeys(("opensuse-leap", "opensuse-tumbleweed", "sles", "sle-micro"), "suse"),
}
"""ID in os-release -> system, for evidence without ID_LIKE."""
_SYSTEM_OF_KERNEL: Final = (
    (r"\(Ubuntu |-Ubuntu\b", "ubuntu"),
    (r"\(Debian |@lists\.debian\.org", "debian"),
    (r"\.(?:el|fc)\d+", "fedora"),
    (r"\(SUSE Linux\)", "suse"),
)
"""The system by the first line of the kernel's log, for journals without os-release."""
_OSTREE: Final = "ostree"
_OSTREE_IDS: Final = frozenset({"coreos", "rhcos", "scos", "silverblue", "kinoite", "iot"})
"""IDs and variants of systems that are based on ostree images."""
_BY_PROGRAM: Final = {program: name for name, one in SOFTWARE.items() for program in one.programs}
_BY_UNIT: Final = {unit: name for name, one in reversed(list(SOFTWARE.items())) for unit in one.units}
"""Unit -> software. If several have the unit, the first counts."""
_PROGRAM: Final = r"(?:^|\|)\s*(?:sudo\s+)?([\w./-]+)"
_UNIT: Final = (
    r"(?:--unit[ =]|systemctl (?:cat|status|is-enabled|show) (?:--\S+ )*)([\w@-]+?)(?:\.service)?(?=\s|$)"
)
_PATH: Final = r"(?<=\s)/[\w./*-]+"
_QUOTED: Final = r"'[^']*'"


class JudgedHost:
    """One host. Every property is computed on first use, and cached."""

    def __init__(self, evidence: Evidence, history: History) -> None:
        self._evidence = evidence
        self._history = history
        self._findings: dict[str, Finding | None] = {}
        self._has: dict[str, bool | None] = {}

    @cached_property
    def roles(self) -> frozenset[str]:
        """Return the ROLES of the host."""
        return find_roles(self._evidence.facts, self._history)

    def finding(self, check: str) -> Finding | None:
        """Return the first finding of a check, or None."""
        if check not in self._findings:
            self._findings[check] = next(CHECKS[check].find(self._evidence.facts, self._history), None)
        return self._findings[check]

    def has(self, name: str) -> bool | None:
        """Return True or False if the evidence shows whether the host has this software, else None."""
        if name not in self._has:
            self._has[name] = self._find_software(SOFTWARE[name])
        return self._has[name]

    def _find_software(self, software: Software) -> bool | None:
        if software.programs and self._programs:
            return bool(software.programs & self._programs)
        if self._has_seen(software):
            return True
        if software.packages and self._packages:
            return False
        if software.systems and self._systems and not software.systems & self._systems:
            return False
        if any(self._has_seen(SOFTWARE[other]) for other in software.not_with):
            return False
        is_of_system = bool(software.systems & self._systems)
        return True if is_of_system and not software.units and not software.packages else None

    def _has_seen(self, software: Software) -> bool:
        """Return True if a unit, program or package of the software, or the kind of system, was seen."""
        is_of_image = software.systems == {_OSTREE} and _OSTREE in self._systems
        names = software.units | software.programs
        return is_of_image or bool(names & self.names or software.packages & self._packages)

    @cached_property
    def names(self) -> frozenset[str]:
        """Return all services and programs in the evidence."""
        units = {name.removesuffix(".service") for name in self._evidence.unit_logs}
        recorded = {service.name for service in self._history.services}
        # podman does not log under its own name. The failed command of a service shows that it is there.
        commands = {run.facts.command for service in self._history.services for run in service.runs[-1:]}
        started = {word for command in commands if command for word in command.split()[:1]}
        return self._evidence.programs.union(units, recorded, started)

    @cached_property
    def _programs(self) -> frozenset[str]:
        """Return the programs on PATH of this host; empty if another host is judged."""
        return frozenset(one.value for one in self._evidence.facts.all("program"))

    @cached_property
    def _packages(self) -> frozenset[str]:
        """Return the installed packages; empty if the evidence does not have the complete list."""
        packages = self._evidence.facts.all("package")
        return frozenset(one.value for one in packages) if len(packages) < MAX_FACTS else frozenset()

    @cached_property
    def _systems(self) -> frozenset[str]:
        """Return the IDs of the system and of the systems it derives from; empty if unknown."""
        facts = self._evidence.facts
        ids = {word for fact in facts.all("os") if fact.of != "VERSION_ID" for word in fact.value.split()}
        for fact in () if ids else facts.all("kernel"):
            ids |= {system for pattern, system in _SYSTEM_OF_KERNEL if re.search(pattern, fact.value)}
        if not ids:
            return frozenset()
        ids |= {_SYSTEM_OF_ID[one] for one in ids & _SYSTEM_OF_ID.keys()}
        is_image = ids & _OSTREE_IDS or any("ostree=" in fact.value for fact in facts.all("cmdline"))
        return frozenset(ids | {_OSTREE}) if is_image else frozenset(ids)

    def adapt(self, commands: Iterable[str]) -> Iterator[str]:
        """Yield the commands that fit this host: some are replaced, marked or left out."""
        for command in commands:
            substitutes = (
                new + command[len(old) :]
                for old, name, new in SUBSTITUTES
                if command.startswith(old) and self.has(name)
            )
            adapted = next(filter(None, map(self._adapt_one, (command, *substitutes))), None)
            if adapted is not None:
                yield adapted

    def _adapt_one(self, command: str) -> str | None:
        """Return a command without the paths that this host lacks; None if nothing is left of it."""
        bare = re.sub(_QUOTED, "''", command)
        paths = re.findall(_PATH, bare)
        lacking = [path for path in paths if self._lacks_path(path)]
        software = [
            *(_BY_PROGRAM[name] for name in re.findall(_PROGRAM, bare) if name in _BY_PROGRAM),
            *(_BY_UNIT[name] for name in re.findall(_UNIT, bare) if name in _BY_UNIT),
        ]
        if any(self.has(name) is False for name in software) or (lacking and len(lacking) == len(paths)):
            return None
        for path in lacking:
            command = re.sub(rf"\s{re.escape(path)}(?=\s|$)", "", command, count=1)
        needed = [SOFTWARE[name].roles for name in software]
        is_elsewhere = self.roles and any(roles and roles.isdisjoint(self.roles) for roles in needed)
        return f"{command}{ELSEWHERE}" if is_elsewhere else command

    def _lacks_path(self, path: str) -> bool:
        owners = (
            (len(start), name)
            for name, one in SOFTWARE.items()
            for start in one.paths
            if f"{path}/".startswith(f"{start}/")
        )
        _, owner = max(owners, default=(0, ""))
        return bool(owner) and self.has(owner) is False
