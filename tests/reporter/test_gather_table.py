"""The table of gathered evidence, and the manifest with the result of each row."""

import json
import re
from collections import Counter
from pathlib import Path

import jsonschema
import pytest

from service_record.cli import main
from service_record.diagnosis.evidence.log_lines import classify_file
from service_record.reporter.gather.collectors import COLLECTORS
from service_record.reporter.gather.gathering import ROUND_SECONDS, GatherRow, GatherStatus
from service_record.reporter.gather.journal import Journal
from service_record.reporter.gather.sources import File, Listing, ProgramSource, Tree
from tests.builders import BOOT_ID, entry, failed_run, timestamp
from tests.command_line import service_record
from tests.faults import Faults
from tests.gathering import Host
from tests.programs import REPOSITORY

SHELLS = {"sh", "bash", "dash", "env", "sudo", "xargs", "nsenter"}
PAGE = (REPOSITORY / "docs" / "gathering.md").read_text()
TABLE = re.findall(r"^\| .*\|$", PAGE.partition("## The table")[2].partition("## Limits")[0], re.MULTILINE)[
    1:
]
PROJECT_PAGE = (REPOSITORY / "docs" / "project" / "boot-reporter.md").read_text()
SCHEMA = json.loads((REPOSITORY / "docs" / "manifest.schema.json").read_text())
UPSTREAMS = {
    "failed-units.txt",
    "unit-status/",
    "bootstrap/services/",
    "bootstrap/containers/",
    "bootstrap/pods/",
    *(
        f"bootstrap/journals/{unit}.log"
        for unit in ("release-image", "crio-configure", "bootkube", "kubelet")
    ),
    *(f"bootstrap/journals/{unit}.log" for unit in ("crio", "approve-csr", "ironic", "master-bmh-update")),
    *(f"bootstrap/network/{name}.txt" for name in ("ip-addr", "ip-route", "hostname")),
    "bootstrap/network/resolv.conf",
}
"""Members of upstream's log bundles that its programs and users look for."""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("what", ["name", "member"])
def test_names_and_members_are_unique(what: str) -> None:
    found = Counter(getattr(collector, what).casefold() for collector in COLLECTORS)

    assert [name for name, count in found.items() if count > 1] == []


def test_rows_have_limits_and_relative_members() -> None:
    with Faults() as faults:
        for row in COLLECTORS:
            with faults.case(row.name):
                assert 0 < row.seconds <= 120
                assert 0 < row.bytes <= 256 << 20
                assert re.fullmatch(r"[A-Za-z0-9-]+", row.name)
                assert re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9.-]*/)*([A-Za-z0-9][A-Za-z0-9.-]*)?", row.member)


def test_rows_have_absolute_paths_and_no_shell() -> None:
    with Faults() as faults:
        for row in COLLECTORS:
            with faults.case(row.name):
                source: object = row.source
                if isinstance(source, ProgramSource):
                    assert "/" not in source.argv[0]
                    assert source.argv[0] not in SHELLS
                if isinstance(source, File):
                    assert source.path.startswith("/")
                if isinstance(source, Listing | Tree):
                    assert all(pattern.startswith("/") for pattern in source.patterns)
                if isinstance(source, Tree):
                    assert all(pattern.startswith(f"{source.base}/") for pattern in source.patterns)


def test_only_rows_of_several_files_have_a_directory() -> None:
    several = {collector.name for collector in COLLECTORS if collector.member.endswith("/")}

    assert several == {
        *("service-records", "unit-status", "failed-runs", "container-logs", "pod-logs", "podman-logs"),
        *("control-plane-logs", "agent-logs", "installer-logs", "pstore", "pstore-kept"),
        *("assisted-network", "connections", "connections-of-initrd", "nmstate"),
        *("kubernetes-certificates", "bootstrap-certificates", "kubelet-certificates"),
    }


def test_members_of_upstream_have_the_paths_of_upstream() -> None:
    assert {collector.member for collector in COLLECTORS} >= UPSTREAMS


def test_records_are_first_and_the_journal_is_last() -> None:
    assert COLLECTORS[0].name == "service-records"
    assert (COLLECTORS[-1].name, COLLECTORS[-1].source) == ("journal", Journal(lines=1_000_000))


def test_no_row_fails_on_an_empty_host(host: Host) -> None:
    result = host.gather(*COLLECTORS)

    statuses = {each.name: each.status for each in result.gathered}
    assert {name for name, status in statuses.items() if status is GatherStatus.GIVEN} == {"clocks"}
    assert set(statuses.values()) == {GatherStatus.GIVEN, GatherStatus.ABSENT}


@pytest.fixture
def failing(host: Host) -> Host:
    """A host with records and files, and with programs that fail or print without end."""
    host.file("/var/log/openshift/bootkube.json", b"".join(each.to_line() for each in failed_run()))
    host.file("/var/log/openshift/kubelet.json", entry().to_line() + b"torn")
    host.file("/etc/resolv.conf", "nameserver 192.0.2.53\n")
    host.file("/etc/machine-config-daemon/currentconfig", "{}")
    host.file("/run/systemd/system/none")
    host.file("/run/crio/crio.sock")
    host.program("journalctl", "echo 'kubelet: no address'")
    host.program("systemctl", "[[ $* == *show* ]] && exec yes; echo 'kubelet.service failed'")
    host.program("ip", "echo '1: lo'")
    host.program("lsblk", "exit 32")
    host.program("crictl", "echo 'connection refused' >&2; exit 1")
    return host


def test_rows_of_a_failing_host_have_their_status(failing: Host) -> None:
    result = failing.gather(*COLLECTORS, urls=("http://127.0.0.1:1/",))

    assert {
        name: result.get(name).status for name in ("service-records", "journal", "ip-addr", "nmcli-general")
    } == {
        "service-records": GatherStatus.GIVEN,
        "journal": GatherStatus.GIVEN,
        "ip-addr": GatherStatus.GIVEN,
        "nmcli-general": GatherStatus.ABSENT,
    }
    assert result.get("unit-times").status is GatherStatus.CUT
    assert result.get("block-devices").reason == "exit status 32"
    assert result.get("container-logs").status is GatherStatus.FAILED
    assert result.get("reachability").status is GatherStatus.GIVEN


def test_logs_of_agent_and_assisted_installer_are_gathered(host: Host) -> None:
    logs = {
        "agent.log": "connection to the service refused\n",
        "agent/agent-tui.log": "release image not found\n",
        "assisted-installer.log": "writing image to disk: 5%\n",
    }
    for name, text in logs.items():
        host.file(f"/var/log/{name}", text)

    result = host.gather(*COLLECTORS)

    assert result.get("agent-logs").status is GatherStatus.GIVEN
    assert {name: result.data(f"bootstrap/agent/{name}").decode() for name in logs} == logs


def test_logs_of_installers_and_pstore_are_gathered(host: Host) -> None:
    logs = {
        "/var/log/cloud-init-output.log": "bootstrap/installer/cloud-init-output.log",
        "/var/log/anaconda/packaging.log": "bootstrap/installer/anaconda/packaging.log",
        "/var/log/installer/curtin-install.log": "bootstrap/installer/installer/curtin-install.log",
        "/sys/fs/pstore/dmesg-efi-1": "bootstrap/pstore/dmesg-efi-1",
        "/var/lib/systemd/pstore/1772/dmesg.txt": "bootstrap/pstore/kept/1772/dmesg.txt",
    }
    for path in logs:
        host.file(path, f"of {path}\n")

    result = host.gather(*COLLECTORS)

    assert {path: result.data(member).decode() for path, member in logs.items()} == {
        path: f"of {path}\n" for path in logs
    }
    kinds = {member: stream.kind for member in logs.values() if (stream := classify_file(member)) is not None}
    assert list(kinds.values()) == ["installer", "installer", "installer", "kernel", "kernel"]


HELPER = "helper[7]: Error: the moon is in the wrong phase"
REFUSED = "01:05:15,682 DEBUG Payloads: - Curl error (7): Couldn't connect to server for http://mirror.lab/x"
BAD_YAML = "2026-11-21 01:05:15,002 - schema.py[WARNING]: Cloud config schema errors: format-l1.c1: x is bad"
MALFORMED = (
    "2026-11-21 01:05:15,000 ERROR subiquity.server.server:428 Malformed autoinstall in 'updates' section"
)

GRUB = "Stderr: grub-install: error: cannot find EFI directory."


@pytest.mark.parametrize(
    ("path", "line", "cause", "member"),
    [
        ("/var/log/cloud-init.log", BAD_YAML, "cloud-config-invalid", "installer/cloud-init.log"),
        (
            "/var/log/anaconda/packaging.log",
            REFUSED,
            "repository-unreachable",
            "installer/anaconda/packaging.log",
        ),
        (
            "/var/log/installer/subiquity.log",
            MALFORMED,
            "answer-file-invalid",
            "installer/installer/subiquity.log",
        ),
        ("/var/log/curtin/install.log", GRUB, "boot-loader-failed", "installer/curtin/install.log"),
        (
            "/sys/fs/pstore/dmesg-efi-1",
            "<0>[ 61.2] Kernel panic - not syncing: VFS",
            "kernel-panic",
            "pstore/dmesg-efi-1",
        ),
        ("", HELPER, "", f"journals/invocations/prepared-{'1f' * 16}.log"),
    ],
    ids=["cloud-init", "anaconda", "subiquity", "curtin", "pstore", "invocation"],
)
def test_analyze_finds_the_cause_in_gathered_logs(
    host: Host, path: str, line: str, cause: str, member: str
) -> None:
    record = b"".join(one.to_line() for one in failed_run(error_message="Use --help"))
    host.file("/var/log/openshift/prepared.json", record)
    host.file("/run/systemd/system/any.conf")
    journal = ""
    if path:
        host.file(path, f"{line}\n")
    else:
        journal = f"{timestamp(5)} host {line}"
    host.program(
        "journalctl", f'[[ $* == *_SYSTEMD_INVOCATION_ID={"1f" * 16}* ]] && echo "{journal}"; exit 0'
    )

    bundle = host.gather(*COLLECTORS).bundle.directory

    root = json.loads(service_record("analyze", "--from", bundle, "-o", "json").out)["root"]
    found = root["cause"] if cause else root["told"]
    assert (found.get("name", ""), found["place"]) == (cause, f"bootstrap/{member}:1")


def test_certificates_are_gathered_without_their_keys(host: Host) -> None:
    certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    key = "-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----\n"
    files = {
        "/etc/kubernetes/pki/apiserver.crt": "kubernetes/apiserver.crt",
        "/etc/kubernetes/pki/etcd/server.crt": "kubernetes/etcd/server.crt",
        "/opt/openshift/tls/kube-apiserver-lb-server.crt": "bootstrap/kube-apiserver-lb-server.crt",
        "/var/lib/kubelet/pki/kubelet-client-2026-11-21.pem": "kubelet/kubelet-client-2026-11-21.pem",
    }
    for path in files:
        host.file(path, certificate + key)

    result = host.gather(*COLLECTORS)

    members = [f"bootstrap/certificates/{member}" for member in files.values()]
    assert {result.data(member).decode() for member in members} == {certificate}
    assert {stream.kind for member in members if (stream := classify_file(member)) is not None} == {"facts"}


def test_records_of_a_bundle_are_shown(failing: Host, capsys: pytest.CaptureFixture[str]) -> None:
    result = failing.gather(*COLLECTORS)

    main(["show", "--from", str(result.bundle.directory)], standalone_mode=False)

    assert "bootkube" in capsys.readouterr().out


def test_manifest_follows_its_schema_and_lists_the_bundle(failing: Host) -> None:
    result = failing.gather(*COLLECTORS)

    document = result.manifest()

    jsonschema.validate(document, SCHEMA)
    assert [row["name"] for row in document["collectors"]] == [row.name for row in COLLECTORS]
    paths = [file["path"] for collector in document["collectors"] for file in collector["files"]]
    assert paths == result.bundle.paths
    assert document["bootId"] == BOOT_ID


def test_each_row_is_documented_with_its_member() -> None:
    rows = {row.name: row for row in COLLECTORS}
    named: list[str] = []

    for line in TABLE:
        names, places = (re.findall("`([^`]+)`", cell) for cell in line.split("|")[1:3])
        named += names
        for name in names:
            assert any(rows[name].member.startswith(place.partition("<")[0]) for place in places) or any(
                rows[name].member.endswith(f"/{place}") for place in places
            ), name

    assert sorted(named) == sorted(rows)


def test_documented_manifest_follows_its_schema() -> None:
    _, _, section = PAGE.partition("## The manifest\n")
    example = json.loads("".join(re.findall(r"^    (.*\n)", section, re.MULTILINE)))

    jsonschema.validate(example, SCHEMA)
    stated = set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))
    assert stated == {status.value for status in GatherStatus}


def test_documented_row_is_valid() -> None:
    block = re.search("^```python\n(.*?)^```", PROJECT_PAGE, re.DOTALL | re.MULTILINE)
    assert block

    assert isinstance(eval(block[1], {"GatherRow": GatherRow, "ProgramSource": ProgramSource}), GatherRow)


def test_limits_are_those_of_the_page() -> None:
    seconds = Counter(row.seconds for row in COLLECTORS)
    sizes = {row.name: row.bytes for row in COLLECTORS}

    assert seconds.most_common(1)[0][0] == 10
    assert set(seconds) - {10} <= {20, 30, 60, 120}
    assert ROUND_SECONDS == 5 * 60
    assert (sizes["journal-kubelet"], sizes["journal-boot-1"], sizes["journal"]) == (
        4 << 20,
        8 << 20,
        256 << 20,
    )
    assert (sizes["service-records"], sizes["container-logs"], sizes["pod-logs"]) == (
        8 << 20,
        256 << 10,
        128 << 10,
    )
