"""The files of a static network without their secrets, and the addresses of the cluster's names."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from service_record.reporter.gather.collectors import COLLECTORS
from service_record.reporter.gather.gathering import GatherRow, GatherStatus
from service_record.reporter.gather.sources import mask_keyfile
from tests.gathering import Host
from tests.name_server import NameServer, serve_names
from tests.programs import REPOSITORY

KEYFILE = """\
[connection]
id=eno1
interface-name=eno1
[ipv4]
address1=10.19.142.216/21,10.19.143.254
dns=10.19.143.247;
"""
SECRETIVE = """\
[802-1x]
private-key-password=canary-1
pin=canary-2
[gsm]
pin=canary-3
[vpn-secrets]
IPSec secret=canary-4
cert-pass=canary-5
any name at all=canary-6
[macsec]
mka-cak=canary-7
[wireguard]
private-key=canary-8
[wifi-security]
#psk=canary-9
canary-10
[not known]
x=canary-11
"""
KUBECONFIG = "clusters:\n- cluster:\n    server: https://api-int.lab.example:6443\n"
ASK = """\
import sys, time
from service_record.reporter.gather.network import names_of_cluster, resolve
began = time.monotonic()
for answer in resolve(names_of_cluster("lab.example")):
    print(answer.name, *answer.addresses, answer.problem, answer.is_answered)
print(time.monotonic() - began < 2.5)
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def row(name: str) -> GatherRow:
    (found,) = (each for each in COLLECTORS if each.name == name)
    return found


def test_network_files_of_the_assisted_installer_are_gathered(host: Host) -> None:
    host.file("/etc/assisted/network/host0/mac_interface.ini", "3c:ec:ef:1c:f1:12=eno1\n")
    host.file("/etc/assisted/network/host0/eno1.nmconnection", KEYFILE + SECRETIVE)

    result = host.gather(row("assisted-network"))

    place = "bootstrap/network/assisted-network/host0"
    assert result.only.status is GatherStatus.GIVEN
    assert result.data(f"{place}/mac_interface.ini") == b"3c:ec:ef:1c:f1:12=eno1\n"
    profile = result.data(f"{place}/eno1.nmconnection").decode()
    assert profile.startswith(KEYFILE)
    assert "canary" not in profile


@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("connections", "/etc/NetworkManager/system-connections"),
        ("connections-of-initrd", "/run/NetworkManager/system-connections"),
    ],
)
def test_networkmanager_profiles_are_gathered_without_secrets(host: Host, name: str, directory: str) -> None:
    host.file(f"{directory}/eno1.nmconnection", KEYFILE)
    host.file(f"{directory}/an older name", SECRETIVE)

    result = host.gather(row(name))

    assert result.data(f"bootstrap/network/{name}/eno1.nmconnection").decode() == KEYFILE
    older = result.data(f"bootstrap/network/{name}/an older name").decode()
    assert "canary" not in older
    assert "IPSec secret=<withheld>\n" in older
    assert older.count("\n") == SECRETIVE.count("\n")


def test_truncated_profile_is_masked_up_to_its_first_section() -> None:
    masked = mask_keyfile(
        Path("lab"), b"ret=canary\r\n canary\n[ipv4]\r\nmethod=auto\r\n[vpn-secrets]\nx=canary"
    )

    assert masked == b"ret=<withheld>\n<withheld>\n[ipv4]\r\nmethod=auto\r\n[vpn-secrets]\nx=<withheld>"


def test_cluster_names_are_absent_without_an_api_url(host: Host) -> None:
    host.file("/etc/kubernetes/kubeconfig", "server: https://localhost:6443\n")

    urls = ("https://api.openshift.com", "https://api.openshift.com:443/", "https://[::1")
    assert host.gather(row("cluster-names"), urls=urls).only.status is GatherStatus.ABSENT


@pytest.mark.parametrize(
    ("path", "text", "urls"),
    [
        ("/etc/kubernetes/kubeconfig", KUBECONFIG, ()),
        ("/var/lib/kubelet/kubeconfig", KUBECONFIG, ()),
        (
            "/etc/ignition-machine-config-encapsulated.json",
            '{"source":"https://api-int.lab.example:22623/config/master"}',
            (),
        ),
        ("/etc/other", "", ("https://api.LAB.example:6443/readyz",)),
    ],
    ids=["kubeconfig", "kubelet", "pointer", "settings"],
)
def test_cluster_names_come_from_the_api_url(host: Host, path: str, text: str, urls: tuple[str, ...]) -> None:
    host.file(path, text)

    began = time.monotonic()
    result = host.gather(row("cluster-names"), urls=urls)

    assert time.monotonic() - began < 5
    lines = result.data("bootstrap/network/cluster-names.txt").decode().splitlines()
    assert [line.split()[0] for line in lines] == [
        "api.lab.example",
        "api-int.lab.example",
        "console-openshift-console.apps.lab.example",
    ]


def test_names_are_resolved_within_a_second(tmp_path: Path) -> None:
    answers = {"api.lab.example": "192.0.2.10", "api-int.lab.example": NameServer.SILENT}
    with serve_names(tmp_path, answers) as server:
        command = [*server.prefix(), sys.executable, "-c", ASK]
        printed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout

    assert printed.splitlines() == [
        "api.lab.example 192.0.2.10 None True",
        "api-int.lab.example no answer within 1 s False",
        "console-openshift-console.apps.lab.example Name or service not known True",
        "True",
    ]
    assert sorted(server.questions) == sorted(
        ["api.lab.example", "api-int.lab.example", "console-openshift-console.apps.lab.example"]
    )
