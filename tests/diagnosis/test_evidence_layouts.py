"""Bundles that others gather: `analyze` reads each layout from end to end, and finds the same causes in them.

The layouts are those of these programs:

- openshift/installer: data/data/bootstrap/files/usr/local/bin/installer-gather.sh (log-bundle-*.tar.gz) and
  data/data/agent/files/usr/local/bin/agent-gather (agent-gather-*.tar.xz)
- openshift/assisted-installer-agent: src/logs_sender/send_logs.go
- openshift/must-gather: collection-scripts/gather_service_logs_util, gather_ppc, gather_ppc_single_node
- sosreport/sos: sos/report/plugins (networking, logs, kernel, systemd, memory, block, filesys, crio)
"""

import io
import json
import shlex
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from service_record.collector.ingest.opening_bundles import read_bundle
from service_record.triage.judge import judge_bundle
from service_record.triage.rows import Reference
from tests.builders import entry, failed_run, require_type
from tests.command_line import PROGRAM, environment, service_record

WAITED = "Error: error while checking pod status: timed out waiting for the condition"
OOM = "Out of memory: Killed process 6214 (hyperkube) total-vm:1586752kB, anon-rss:1000kB"
RECORD = b"".join(one.to_line() for one in failed_run(error_message=WAITED))
ASKED = shlex.join([*PROGRAM, "analyze", "--from", "-", "-o", "json"])
CRI = "2026-11-21T01:05:15.123456789Z"
HOST = "2026-11-21T01:05:15.000000+00:00 m0"


def tar(files: Mapping[str, bytes | str], mode: str = "w:gz") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def unpacked(folder: Path, files: Mapping[str, bytes | str]) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def analysis_of(place: Path, status: int) -> dict[str, Any]:
    answer = service_record("analyze", "--from", place, "-o", "json")
    assert answer.status == status, (answer.out, answer.err)
    return require_type(dict, json.loads(answer.out))


def exported(*messages: tuple[str, str]) -> bytes:
    """A journal as `journalctl -o export` writes it: program and message; one of several lines is binary."""
    data = b""
    for program, message in messages:
        transport = "kernel" if program == "kernel" else "stdout"
        data += f"__CURSOR=s=1;i={len(data)}\n__REALTIME_TIMESTAMP=1795223115000000\n".encode()
        data += f"_TRANSPORT={transport}\n_HOSTNAME=m0\nSYSLOG_IDENTIFIER={program}\n_PID=812\n".encode()
        text = message.encode()
        if b"\n" in text:
            data += b"MESSAGE\n" + len(text).to_bytes(8, "little") + text + b"\n\n"
        else:
            data += b"MESSAGE=" + text + b"\n\n"
    return data


ADDRESSES = json.dumps(
    [
        {"ifname": "lo", "flags": ["LOOPBACK", "UP"], "mtu": 65536, "operstate": "UNKNOWN", "addr_info": []},
        {
            "ifname": "ens3",
            "flags": ["BROADCAST", "UP"],
            "mtu": 1500,
            "operstate": "UP",
            "addr_info": [
                {"family": "inet", "local": "192.0.2.20", "prefixlen": 24, "scope": "global"},
                {"family": "inet6", "local": "2001:db8::20", "prefixlen": 64, "scope": "global"},
            ],
        },
    ],
    indent=4,
)
ROUTES = json.dumps(
    [
        {"dst": "default", "gateway": "192.0.2.1", "dev": "ens3"},
        {"type": "unicast", "dst": "10.128.0.0/14", "dev": "ovn-k8s-mp0"},
    ],
    indent=4,
)
LOG_BUNDLE: dict[str, bytes | str] = {
    "bootstrap/services/bootkube.json": RECORD,
    "failed-units.txt": "  UNIT LOAD ACTIVE SUB DESCRIPTION\n",
    "bootstrap/journals/bootkube.log": f"Nov 21 01:05:11 bootstrap bootkube.sh[1234]: {WAITED}\n",
    "bootstrap/journals/kubelet.log": "Nov 21 01:05:11 bootstrap kubenswrapper[1871]: I1121 up\n",
    "bootstrap/network/hostname.txt": "bootstrap\n",
    "bootstrap/containers/etcd-5fd1a2.inspect": '{"state": "x509: certificate has expired"}\n',
    "rendered-assets/openshift/manifests/a.yaml": "kind: ConfigMap\n",
    "gather.log": "Gathering bootstrap journals ...\n",
}
PICTURE = b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(range(256))
DAMAGED = "Error: creating container storage: layer not known"


def test_log_bundle_of_the_installer_is_judged(tmp_path: Path) -> None:
    refused = f'E1121 01:05:15.1 1 pod.go:3] err="{DAMAGED}"'
    files: dict[str, bytes | str] = {
        **LOG_BUNDLE,
        "bootstrap/journals/kubelet.log": f"Nov 21 01:05:15 bootstrap kubenswrapper[1871]: {refused}\n",
        "control-plane/192.0.2.21/journals/kubelet.log": f"Nov 21 01:05:15 m0 kubenswrapper[1]: {OOM}\n",
    }
    bundle = tmp_path / "log-bundle-20261121.tar.gz"
    bundle.write_bytes(tar({f"log-bundle-20261121/{path}": text for path, text in files.items()}))
    root = analysis_of(bundle, 1)["root"]
    assert root["cause"]["name"] == "container-storage-damaged"
    assert root["cause"]["place"] == "log-bundle-20261121/bootstrap/journals/kubelet.log:1"


def test_agent_gather_with_exported_journal_and_json_addresses(tmp_path: Path) -> None:
    journal = exported(("agent", "Hello"), ("bootkube.sh", "Rendering\nDone"), ("kernel", OOM))
    nested = tar({f"log-bundle-1/{path}": text for path, text in LOG_BUNDLE.items()}, "w")
    files: dict[str, bytes | str] = {
        "journal.export": journal,
        "ipaddr": ADDRESSES,
        "iproute": ROUTES,
        "resolv.conf": "nameserver 192.0.2.53\n",
        "etc/mtab": "/dev/sr0 /run/media/iso iso9660 ro 0 0\n",
        "lsblk": "NAME MAJ:MIN RM SIZE RO TYPE MOUNTPOINTS\nsr0 11:0 1 1.1G 0 rom /run/media/iso\n",
        "df": "Filesystem Size Used Avail Use% Mounted on\n/dev/sr0 1.1G 1.1G 0 100% /run/media/iso\n",
        "bootstrap-gather.tar": nested,
    }
    place = tmp_path / "agent-gather-1.tar.xz"
    place.write_bytes(tar({f"agent-gather/{path}": text for path, text in files.items()}, "w:xz"))
    root = analysis_of(place, 1)["root"]
    assert root["cause"]["name"] == "out-of-memory"
    path, _, line = root["cause"]["place"].partition(":")
    assert path == "agent-gather/journal.export"
    assert OOM in journal.decode(errors="replace").split("\n")[int(line) - 1]

    files["journal.export"] = exported(("agent", "Hello"))
    own = "E1121 01:05:15.1 1 ovnkube.go:133] failed to get default gateway interface"
    files["bootstrap-gather.tar"] = tar(
        {
            **{f"log-bundle-1/{path}": text for path, text in LOG_BUNDLE.items()},
            "log-bundle-1/bootstrap/containers/ovnkube-node-7c1a.log": f"{own}\n",
        },
        "w",
    )
    place.write_bytes(tar({f"agent-gather/{path}": text for path, text in files.items()}, "w:xz"))
    cause = analysis_of(place, 1)["root"]["cause"]
    assert cause["name"] == "one-default-route"
    assert "IPv6" in cause["says"]


def test_logs_of_assisted_service_are_judged(tmp_path: Path) -> None:
    bundle = tar({f"log-bundle-1/{path}": text for path, text in LOG_BUNDLE.items()})
    kernel = "[Sat Nov 21 01:05:15 2026] blk_update_request: I/O error, dev sr0, sector 1 op 0x0:(READ)\n"
    kernel += "[Sat Nov 21 01:05:16 2026] SQUASHFS error: Failed to read block 0x2e4a1: -5\n"
    host: dict[str, bytes | str] = {
        "logs_host_7f/log-bundle-1.tar.gz": bundle,
        "logs_host_7f/dmesg.logs": kernel,
        "logs_host_7f/journal.logs": "Nov 21 01:05:15 m0 systemd[1]: Started sshd.service.\n",
        "logs_host_7f/agent.logs": "Nov 21 01:05:15 m0 next_step_runner[9]: fine\n",
        "logs_host_7f/mount.logs": "List block devices\nsr0 11:0 1G rom\n",
    }
    place = tmp_path / "cluster.tar"
    place.write_bytes(tar({"c_bootstrap_m0.tar": tar({"c_bootstrap_m0.tar.gz": tar(host)}, "w")}, "w"))
    root = analysis_of(place, 1)["root"]
    assert root["service"] == "bootkube"
    assert root["cause"]["name"].startswith("medium-")
    assert root["cause"]["place"].startswith("c_bootstrap_m0.tar/c_bootstrap_m0.tar")
    assert "logs_host_7f/dmesg.logs:" in root["cause"]["place"]


MUST_GATHER = {
    "host_service_logs/masters/kubelet_service.log": "Nov 21 01:05:11.000001 m0 kubenswrapper[1]: I1121 up\n",
    "namespaces/openshift-etcd/pods/etcd-m0/etcd/etcd/logs/current.log": "2026-11-21T01:05:11.1Z fine\n",
    "cluster-scoped-resources/core/nodes/m0.yaml": "kind: Node\n",
    "nodes/m0/proc_cmdline": "BOOT_IMAGE=(hd0,gpt3)/ostree/rhcos root=UUID=a rw\n",
    "nodes/m0/dmesg": "[    0.000000] Linux version 5.14\n[   12.1] XFS (vda4): Ending clean mount\n",
    "nodes/m0/lspci": "00:00.0 0600: 8086:29c0\n",
}
TOP = "must-gather.local.1/quay-io-openshift-sha256-1f/"


@pytest.mark.parametrize(
    ("path", "text", "cause"),
    [
        ("nodes/m0/dmesg", f"[  812.123456] {OOM}\n", "out-of-memory"),
        (
            "nodes/m0/m0_logs_kubelet",
            f'Nov 21 01:05:15.1 m0 kubenswrapper[1]: E1121 err="{DAMAGED}"\n',
            "container-storage-damaged",
        ),
        (
            "host_service_logs/masters/crio_service.log",
            f'Nov 21 01:05:15.1 m0 crio[9]: time="2026-11-21 01:05:15.1Z" level=error msg="{DAMAGED}"\n',
            "container-storage-damaged",
        ),
        (
            "namespaces/openshift-mco/pods/mcd-1/machine-config-daemon/machine-config-daemon/logs/previous.log",
            f"{CRI} W1121 expected target osImageURL quay.io/a@sha256:1, have quay.io/b@sha256:2",
            "os-image-mismatch",
        ),
    ],
)
def test_must_gather_without_records_is_judged(tmp_path: Path, path: str, text: str, cause: str) -> None:
    files = {f"{TOP}{name}": content for name, content in {**MUST_GATHER, path: text}.items()}
    packed = tmp_path / "must-gather.tar.gz"
    packed.write_bytes(tar(files))
    for place in (packed, unpacked(tmp_path / "must-gather", files)):
        document = analysis_of(place, 1)
        assert (document["verdict"], document["root"]["cause"]["name"]) == ("unknown", cause)
        assert document["root"]["cause"]["place"] == f"{TOP}{path}:1"
        assert document["says"].startswith("unknown: no service recorded anything; ")


def test_nodes_of_kind_export_are_judged_separately(tmp_path: Path) -> None:
    def journal(host: str, *lines: str) -> str:
        return "".join(f"Nov 21 01:05:1{at} {host} {line}\n" for at, line in enumerate(lines))

    started = "systemd[1]: Started kubelet.service - kubelet."
    failed = "systemd[1]: kubelet.service: Main process exited, code=exited, status=1/FAILURE"
    swap = "kubelet[99]: E1121 run.go:74] failed to run Kubelet: running with swap on is not supported"
    files = {
        "kind-version.txt": "kind v0.20.0\n",
        "k-control-plane/journal.log": journal("k-control-plane", started),
        "k-control-plane/kubernetes-version.txt": "v1.29.0\n",
        "k-worker/journal.log": journal(
            "k-worker", started, swap, failed, "systemd[1]: kubelet.service: Failed with result 'exit-code'."
        ),
        "k-worker/kubernetes-version.txt": "v1.29.0\n",
    }
    packed = tmp_path / "kind.tar.gz"
    packed.write_bytes(tar({f"logs/{path}": text for path, text in files.items()}))
    for place in (packed, unpacked(tmp_path / "kind", files)):
        document = analysis_of(place, 1)
        assert (document["source"], document["root"]["service"]) == (f"{place}: k-worker", "kubelet")
        (other,) = document["otherHosts"]
        assert other["source"] == f"{place}: k-control-plane"
        assert other["verdict"] in {"running", "succeeded"}
    rows = judge_bundle(str(packed), Reference(str(packed)))
    assert [(row.member, row.verdict) for row in rows] == [
        ("k-control-plane", other["verdict"]),
        ("k-worker", "failed"),
    ]
    for form in ("table", "html"):
        page = service_record("analyze", "--from", packed, "-o", form)
        assert "k-control-plane: " in page.out
    for verb in ("show", "timeline"):
        shown = service_record(verb, "--from", packed).out
        assert "k-worker/kubelet" in shown
        assert "k-control-plane/kubelet" in shown
    seen = read_bundle(packed, "kind")
    assert (seen.look.verdict, [one.service for one in seen.look.services]) == ("failed", ["kubelet"])
    assert "kind: k-worker" in seen.analysis.lead
    assert "k-control-plane: " in seen.analysis.rest


def test_other_nodes_are_judged_beside_an_unreadable_one(tmp_path: Path) -> None:
    failed = "systemd[1]: kubelet.service: Failed with result 'exit-code'."
    files: dict[str, bytes | str] = {
        "k-control-plane/journal.log": PICTURE,
        "k-worker/journal.log": f"Nov 21 01:05:10 k-worker {failed}\n",
    }
    packed = tmp_path / "kind.tar.gz"
    packed.write_bytes(tar(files))
    rows = judge_bundle(str(packed), Reference(str(packed)))
    assert [(row.member, row.verdict) for row in rows] == [
        ("k-control-plane", "unreadable"),
        ("k-worker", "failed"),
    ]


def test_verdict_in_our_bundle_is_not_evidence(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "log-bundle-1/bootstrap/services/job.json": RECORD,
        "log-bundle-1/manifest.json": b'{"generator": "service-record/0.2.0"}',
        "log-bundle-1/verdict.txt": "verdict: \u2717 failed: job: fatal error: cannot connect\n",
        "log-bundle-1/network/ip-addresses.txt": "1: lo: <LOOPBACK> mtu 65536\n",
    }
    (tmp_path / "bundle.tar.gz").write_bytes(tar(files))

    answer = service_record("analyze", tmp_path / "bundle.tar.gz")

    assert "job" in answer.out
    assert "verdict.txt" not in answer.out


def test_collector_and_triage_judge_bundle_without_records(tmp_path: Path) -> None:
    reported = {
        f"{TOP}{name}": text for name, text in {**MUST_GATHER, "nodes/m0/dmesg": f"[1.5] {OOM}\n"}.items()
    }
    quiet = {f"{TOP}{name}": text for name, text in MUST_GATHER.items()}
    shelf = tmp_path / "shelf"
    photos: dict[str, bytes | str] = {"summer.jpg": PICTURE}
    shown: dict[str, Mapping[str, bytes | str]] = {"told": reported, "quiet": quiet, "photos": photos}
    for name, files in shown.items():
        shelf.mkdir(exist_ok=True)
        (shelf / f"{name}.tar.gz").write_bytes(tar(files))
    seen = {name: read_bundle(shelf / f"{name}.tar.gz") for name in ("told", "quiet", "photos")}
    assert [one.look.verdict for one in seen.values()] == ["unknown", "unknown", ""]
    assert "hyperkube was killed" in seen["told"].look.reason
    assert "nodes/m0/dmesg:1" in seen["told"].analysis.rest
    assert "names a cause" in seen["quiet"].look.reason
    assert "nothing is wrong" not in seen["quiet"].analysis.verdict
    document = json.loads(service_record("triage", shelf, "-o", "json").out)
    assert document["verdicts"]["unknown"] == 2
    assert [one["cause"] for one in document["causes"] if one["cause"] == "out-of-memory"]
    (refused,) = document["unreadable"]
    assert "no records in" in refused["reason"]


def test_must_gather_without_evidence_is_not_healthy(tmp_path: Path) -> None:
    files = {f"{TOP}{name}": content for name, content in MUST_GATHER.items()}
    place = unpacked(tmp_path / "must-gather", files)
    document = analysis_of(place, 0)
    assert document["verdict"] == "unknown"
    assert "none of 5 lines in 4 files names a cause" in document["says"]
    page = service_record("analyze", "--from", place)
    assert "nothing is wrong" not in page.out
    assert page.status == 0


STARTED = "Nov 21 01:05:11 m0 systemd[1]: Started sshd.service.\n"
SHOWN = "default via 192.0.2.1 dev ens3\n10.128.0.0/14 dev tun0\n"
FATAL = "Nov 21 01:05:11 m0 chronyd[9]: Fatal error : moon\n"
SOS = {
    "sos_commands/logs/journalctl_--no-pager_--boot": STARTED,
    "sos_commands/networking/ip_-o_addr": "2: ens3    inet 192.0.2.20/24 brd 192.0.2.255 scope global ens3\n",
    "sos_commands/networking/ip_route_show_table_all": SHOWN,
    "sos_commands/kernel/dmesg_-T": "[Sat Nov 21 01:05:15 2026] Linux version 5.14\n",
    "proc/meminfo": "MemTotal: 16384000 kB\n",
    "etc/resolv.conf": "nameserver 192.0.2.53\n",
    "hostname": "m0.lab.example.net\n",
    "version.txt": "sosreport: 4.7\n",
}
UNITS = "  UNIT LOAD ACTIVE SUB DESCRIPTION\n{}\n0 loaded units listed.\n"


@pytest.mark.parametrize(
    ("path", "text", "cause", "place"),
    [
        ("var/log/messages", f"Nov 21 01:05:15 m0 kernel: {OOM}\n", "out-of-memory", "var/log/messages:1"),
        (
            "etc/resolv.conf",
            "nameserver 10.128.0.10\n",
            "name-server-in-cluster-network",
            "etc/resolv.conf:1",
        ),
        (
            "sos_commands/crio/crictl_logs_-t_1f2e",
            f'{CRI} F1121 1 a.go:1] error creating read-write layer with ID "1f": layer not known\n',
            "container-storage-damaged",
            "sos_commands/crio/crictl_logs_-t_1f2e:1",
        ),
    ],
)
def test_sos_report_is_judged_by_its_evidence(
    tmp_path: Path, path: str, text: str, cause: str, place: str
) -> None:
    top = "sosreport-m0-2026-11-21/"
    archive = tmp_path / "sosreport-m0.tar.xz"
    archive.write_bytes(
        tar({f"{top}{name}": content for name, content in {**SOS, path: text}.items()}, "w:xz")
    )
    document = analysis_of(archive, 1)
    assert document["root"]["cause"]["name"] == cause
    assert document["root"]["cause"]["place"] == f"{top}{place}"


def test_failed_units_of_a_sos_report_are_shown(tmp_path: Path) -> None:
    listed = UNITS.format("● chronyd.service loaded failed failed NTP client/server")
    files = {
        **SOS,
        "sos_commands/systemd/systemctl_list-units_--failed": listed,
        "sos_commands/logs/journalctl_--no-pager_--boot": FATAL,
    }
    for place in (tmp_path / "sos", tmp_path / "whole"):
        unpacked(place / ("" if place.name == "sos" else "sosreport-m0"), files)
        document = analysis_of(place, 1)
        assert document["verdict"] == "failed"
        assert document["failedUnits"][0]["unit"] == "chronyd.service"
        assert "moon" in document["says"]
    archive = tmp_path / "sos.tar.xz"
    archive.write_bytes(tar({f"sosreport-m0/{name}": text for name, text in files.items()}, "w:xz"))
    assert analysis_of(archive, 1)["failedUnits"][0]["unit"] == "chronyd.service"


def test_directory_without_any_text_is_refused(tmp_path: Path) -> None:
    place = unpacked(tmp_path / "photos", {"summer.jpg": PICTURE})
    answer = service_record("analyze", "--from", place)
    assert (answer.status, answer.out) == (3, "")
    assert answer.err.startswith(f"Error: no records in {place}: no *.json file there")
    for verb in ("show", "timeline"):
        assert "no records in" in service_record(verb, "--from", place).err


@pytest.mark.parametrize("is_pipe", [False, True])
def test_evidence_of_bundle_on_standard_input_is_read(tmp_path: Path, *, is_pipe: bool) -> None:
    bundle, record = tmp_path / "b.tar.gz", tmp_path / "bootkube.json"
    kernel = f"{HOST} kernel: {OOM}\n"
    bundle.write_bytes(tar({**LOG_BUNDLE, "bootstrap/journals/kernel.log": kernel}))
    record.write_bytes(entry().to_line())
    command = f"cat {{}} | {ASKED}" if is_pipe else f"{ASKED} < {{}}"
    answers = [
        subprocess.run(
            ["bash", "-c", command.format(file)], capture_output=True, env=environment(), check=False
        )
        for file in (bundle, record)
    ]
    assert answers[0].returncode == 1
    assert json.loads(answers[0].stdout)["root"]["cause"]["name"] == "out-of-memory"
    assert json.loads(answers[1].stdout)["verdict"] == "running"


@pytest.mark.parametrize(
    "path",
    [
        "sosreport-x/sos_commands/service_record/service-record_analyze_--color_never",
        "must-gather/service-record/m0/analysis.txt",
        "must-gather/service-record/m0/errors.txt",
    ],
)
def test_own_reports_are_no_evidence(tmp_path: Path, path: str) -> None:
    report = f"✗ failed: job: no space left on device\n  message  │ {OOM}\n"
    answer = analysis_of(unpacked(tmp_path, {path: report, "x/messages": "quiet\n"}), 0)
    assert answer["looked"]["files"] == 1
