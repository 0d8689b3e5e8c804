"""The commands to run next fit the host at hand: its system, its packages, and the programs that it runs."""
# ruff: noqa: E501  # messages stand as programs print them

import re
from collections.abc import Mapping
from io import BytesIO

import pytest

from service_record.diagnosis.causes import Causes, built_in_causes
from service_record.diagnosis.findings import TroubleFacts, drop_repeated
from service_record.diagnosis.judgement import read_evidence
from service_record.diagnosis.yaml_files import read_rules
from service_record.history import build_history
from service_record.history.outcome import Facts
from tests.builders import failed_run, require
from tests.cause_cases import TOP, cause_cases

AT = "2026-11-21T01:05:10.000000+00:00 host"
UBUNTU = 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\nNAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\n'
RHCOS = (
    'NAME="Red Hat Enterprise Linux CoreOS"\nID="rhcos"\nID_LIKE="rhel fedora"\nVARIANT=CoreOS\n'
    'VARIANT_ID=coreos\nOPENSHIFT_VERSION="4.16"\n'
)
ROCKY = 'NAME="Rocky Linux"\nVERSION_ID="9.4"\nID="rocky"\nID_LIKE="rhel centos fedora"\n'
LEAP = 'NAME="openSUSE Leap"\nID="opensuse-leap"\nID_LIKE="suse opensuse"\nVERSION_ID="15.6"\n'


def host(os_release: str, *programs: str, **files: str) -> dict[str, str]:
    """Return the files of a host with this system, whose journal has a line of each program."""
    journal = "".join(f"{AT} {program}[7]: ready\n" for program in programs)
    return {
        f"{TOP}system/os-release.txt": os_release,
        f"{TOP}journals/journal.log": journal,
        **{f"{TOP}system/{name}.txt": text for name, text in files.items()},
    }


HOSTS = {
    "rhcos": host(RHCOS, "NetworkManager", "kubelet", "crio", "chronyd", "bootkube"),
    "ubuntu-k3s": host(UBUNTU, "systemd-networkd", "systemd-timesyncd", "k3s"),
    "ubuntu-kubeadm": host(UBUNTU, "systemd-networkd", "kubelet", "containerd", "kubeadm"),
    "rocky-docker": host(ROCKY, "NetworkManager", "chronyd", "dockerd"),
    "leap": host(LEAP, "wickedd", "chronyd"),
}
ABSENT = {
    "rhcos": r"apt|dpkg|\bdnf|yum|netplan|networkctl|kubeadm|rancher|/etc/containerd|subscription-manager",
    "ubuntu-k3s": r"\bdnf|yum|/rpm|\brpm|ostree|nmcli|chronyc|kubeadm|/etc/kubernetes|crio\b|\boc |getenforce|lsinitrd",
    "ubuntu-kubeadm": r"\bdnf|yum|/rpm|\brpm|ostree|nmcli|rancher|crio\b|\boc |podman|getenforce",
    "rocky-docker": r"apt-|/etc/apt|dpkg|ostree|netplan|networkctl|crio\b|podman|aa-status",
    "leap": r"apt|dpkg|\bdnf|yum|ostree|netplan|nmcli|networkctl|subscription-manager|\boc ",
}
QUOTED = r"'[^']*'"


def judged(files: Mapping[str, str]) -> Causes:
    history = build_history([("job", failed_run(error_message="near"))])
    streams = ((path, BytesIO(text.encode()).read) for path, text in files.items())
    return read_evidence(built_in_causes(), history, (), streams)


def commands(files: Mapping[str, str], message: str) -> tuple[str, ...]:
    trouble = TroubleFacts(
        kinds=frozenset({"failed"}), service="job", facts=Facts(message=message, exit_code=1)
    )
    return require(judged(files).explain(trouble)).commands


MESSAGES = [case.values["own"] for case in cause_cases() if "own" in case.values and not case.is_near_miss]


@pytest.mark.parametrize("name", HOSTS)
def test_commands_never_name_software_that_the_host_lacks(name: str) -> None:
    causes = judged(HOSTS[name])
    shown = set()
    for message in MESSAGES:
        facts = Facts(message=message, exit_code=1)
        cause = causes.explain(TroubleFacts(kinds=frozenset({"failed"}), service="job", facts=facts))
        quoted_in_message = message  # a command may quote what the service itself names
        shown |= {
            one for one in (cause.commands if cause else ()) if one.split()[-1] not in quoted_in_message
        }
    assert shown
    wrong = {one for one in shown if re.search(ABSENT[name], re.sub(QUOTED, "", one))}
    assert not wrong


NO_ADDRESS = "Error: Connection activation failed: IP configuration could not be reserved (no available address, timeout, etc.)"
NO_PACKAGE = "E: Unable to locate package kubelet"
NO_IMAGE = (
    "Error: initializing source docker://quay.io/x:1: reading manifest 1 in quay.io/x: manifest unknown"
)


@pytest.mark.parametrize(
    ("name", "message", "has", "lacks"),
    [
        ("rhcos", NO_ADDRESS, "nmcli device", "networkctl"),
        ("ubuntu-k3s", NO_ADDRESS, "networkctl status --all", "nmcli"),
        ("leap", NO_ADDRESS, "wicked show all", "nmcli"),
        ("ubuntu-k3s", NO_PACKAGE, "apt-cache policy kubelet", "dnf"),
        ("rocky-docker", NO_PACKAGE, "dnf list kubelet", "apt"),
        ("rhcos", NO_PACKAGE, "", "apt"),
        ("rhcos", NO_IMAGE, "cat /etc/containers/registries.conf", "rancher"),
        ("ubuntu-k3s", NO_IMAGE, "cat /etc/rancher/k3s/registries.yaml", "/etc/containers"),
        ("ubuntu-kubeadm", NO_IMAGE, "ls -R /etc/containerd/certs.d", "/etc/containers"),
        ("rocky-docker", NO_IMAGE, "cat /etc/docker/daemon.json", "/etc/containers"),
    ],
)
def test_commands_ask_the_programs_of_the_host(name: str, message: str, has: str, lacks: str) -> None:
    shown = commands(HOSTS[name], message)
    assert not has or has in shown
    assert lacks not in " ".join(shown)


@pytest.mark.parametrize(
    ("version", "has", "lacks"),
    [
        (
            "5.15.0-105-generic (buildd@lcy02) (gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0) #115-Ubuntu SMP",
            "apt-cache policy kubelet",
            "dnf",
        ),
        (
            "6.1.0-18-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0)",
            "apt-cache policy kubelet",
            "dnf",
        ),
        (
            "5.14.0-427.13.1.el9_4.x86_64 (mockbuild@x) (gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3))",
            "dnf list kubelet",
            "apt",
        ),
        ("6.4.0-150600.21-default (geeko@buildhost) (gcc (SUSE Linux) 7.5.0)", "zypper repos", "apt"),
    ],
)
def test_kernel_line_names_the_system_without_other_facts(version: str, has: str, lacks: str) -> None:
    shown = commands({"journal.txt": f"{AT} kernel: Linux version {version}\n"}, NO_PACKAGE)
    assert has in shown
    assert lacks not in " ".join(shown)


def test_failed_command_shows_installed_packages() -> None:
    for command, has, lacks in (
        ("apt-get update", "apt-cache policy kubelet", "dnf"),
        ("dnf install kubelet", "dnf list kubelet", "apt"),
    ):
        history = build_history([("job", failed_run(error_message="near", command=command))])
        causes = built_in_causes().without_evidence(history)
        facts = Facts(message=NO_PACKAGE, exit_code=1, command=command)
        cause = causes.explain(TroubleFacts(kinds=frozenset({"failed"}), service="job", facts=facts))
        assert has in require(cause).commands
        assert lacks not in " ".join(require(cause).commands)


@pytest.mark.parametrize("message", [NO_ADDRESS, NO_PACKAGE, NO_IMAGE])
def test_commands_stay_where_nothing_is_known_of_the_host(message: str) -> None:
    rules = {rule.name: rule for rule in built_in_causes().rules}
    trouble = TroubleFacts(
        kinds=frozenset({"failed"}), service="job", facts=Facts(message=message, exit_code=1)
    )
    cause = require(built_in_causes().explain(trouble))
    fixed = [command for command in rules[cause.name].next if "{" not in command]
    assert fixed
    assert set(fixed) <= set(cause.commands)


PACKAGES = "bash-5.1.8-9.el9.x86_64\ntcpdump-4.99.0-9.el9.x86_64\nnmstate-2.2.27-1.el9.x86_64\n"


def test_list_of_packages_decides_which_programs_exist() -> None:
    message = "nvme nvme0: I/O 12 QID 3 timeout"
    rules = "{name: a, says: a, message: [nvme], next: [tcpdump -n, smartctl --all /dev/sda, 'nmcli device']}"
    history = build_history([("job", failed_run(error_message=message))])
    own = Causes(read_rules(f"- {rules}", "own.yaml"))
    trouble = TroubleFacts(
        kinds=frozenset({"failed"}), service="job", facts=Facts(message=message, exit_code=1)
    )

    def shown(files: Mapping[str, str]) -> tuple[str, ...]:
        streams = ((path, BytesIO(text.encode()).read) for path, text in files.items())
        return require(read_evidence(own, history, (), streams).explain(trouble)).commands

    assert shown(host(ROCKY, packages=PACKAGES)) == ("tcpdump -n",)
    # A list that was cut short does not say what is missing.
    cut_short = PACKAGES + "x-1-1.el9.x86_64\n" * 20_000
    assert len(shown(host(ROCKY, packages=cut_short))) == 3


def test_cluster_commands_are_marked_on_other_nodes() -> None:
    rules = "- {name: a, says: a, message: [near], next: [kubectl get nodes, ip route]}"
    trouble = TroubleFacts(
        kinds=frozenset({"failed"}), service="job", facts=Facts(message="near", exit_code=1)
    )
    for service, expected in (
        ("k3s-agent", "kubectl get nodes  # on another host"),
        ("k3s", "kubectl get nodes"),
        ("job", "kubectl get nodes"),
    ):
        causes = Causes(read_rules(rules, "own.yaml")).without_evidence(
            build_history([(service, failed_run(error_message="near"))])
        )
        assert require(causes.explain(trouble)).commands == (expected, "ip route")


def test_repeated_commands_are_shown_once() -> None:
    assert drop_repeated(
        [
            "journalctl --boot --unit kubelet --lines 50",
            "ip route",
            "journalctl --boot --unit=kubelet.service",
            "systemctl status kubelet",
            "systemctl status kubelet.service",
            "ip route",
            "journalctl --unit=kubelet.service",
        ]
    ) == (
        "journalctl --boot --unit kubelet --lines 50",
        "ip route",
        "systemctl status kubelet",
        "journalctl --unit=kubelet.service",
    )
