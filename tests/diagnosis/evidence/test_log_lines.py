"""Files of hosts by their paths, lines by what wrote them, and where rules look for lines."""

from datetime import timedelta

import pytest

from service_record.diagnosis.evidence.log_lines import (
    SYSTEMD,
    Era,
    LinePlace,
    LogLine,
    LogStream,
    classify_file,
    find_home,
    find_top,
    log_line,
    matches_source,
)
from tests.builders import START

WHERES = (
    *("any", "kernel", "journal", "systemd", "containers", "agent", "installer", "other"),
    *("unit:kubelet", "unit:job", "container:etcd"),
)


@pytest.mark.parametrize(
    ("kind", "name", "unit", "wheres"),
    [
        ("kernel", "kernel", "", "any journal kernel"),
        ("systemd", "systemd", "", "any journal systemd"),
        ("journal", "kubelet", "", "any journal unit:kubelet"),
        ("journal", "kubenswrapper", "other", "any journal unit:kubelet"),
        ("journal", "child", "job", "any journal unit:job"),
        ("journal", "job.sh", "", "any journal unit:job"),
        ("journal", "curtin", "", "any journal installer"),
        ("agent", "agent", "", "any journal agent"),
        ("containers", "etcd-bootstrap", "", "any containers container:etcd"),
        ("containers", "kubelet", "", "any containers"),
        ("installer", "etcd", "", "any installer"),
        ("other", "x", "", "any other"),
    ],
)
def test_rule_finds_lines_in_its_sources(kind: str, name: str, unit: str, wheres: str) -> None:
    line = LogLine(place=LinePlace("x", 1), kind=kind, name=name, unit=unit, text="said")
    assert {where for where in WHERES if matches_source(line, where)} == set(wheres.split())


FILES = """\
log-bundle-1/bootstrap/journals/bootkube.log => journal bootkube
log-bundle-1/bootstrap/journals/kernel.log => kernel kernel
log-bundle-1/bootstrap/containers/etcd-bootstrap-5fd1.log => containers etcd-bootstrap
log-bundle-1/bootstrap/pod-logs/ns_p_9/mcd/0.log => containers mcd
log-bundle-1/bootstrap/network/resolv.conf => facts resolv.conf
log-bundle-1/bootstrap/services/bootkube.json => skipped
log-bundle-1/bootstrap/network/ip-link.txt => skipped
log-bundle-1/bootstrap/network/reachability.txt => other reachability
sosreport-x/sos_commands/networking/ip_-s_-d_link => skipped
sosreport-x/sos_commands/networking/ethtool_-S_eth0 => skipped
log-bundle-1/control-plane/192.0.2.7/journals/kubelet.log => journal kubelet of 192.0.2.7
must-gather/x/namespaces/n/pods/p/etcd/etcd/logs/current.log => containers etcd
must-gather/x/host_service_logs/masters/kubelet_service.log => journal kubelet
c_bootstrap_1.tar/h/agent.logs => agent agent
agent-gather-x/var/log/cloud-init-output.log => installer cloud-init-output
sos-x/proc/cmdline => facts cmdline
journalctl --boot => journal
/sys/fs/pstore/dmesg-efi-1 => kernel dmesg-efi-1 before
/var/log/pods/ns_pod_uid/etcd/0.log => containers etcd
/proc/sys/kernel/hostname => facts hostname
a/nodes/n1/kubelet_service.log => journal kubelet of n1
a/bootstrap/journals/boot-1.log => journal boot-1 before
a/journals/previous-boot.log => journal previous-boot before
a/pod-logs/ns/etcd/previous.log => containers etcd
a/pods/p/etcd/logs/previous.log => containers etcd
a/sos_commands/crio/crictl_logs_-t_0af3 => containers 0af3
a/journals/invocations/job-0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a.log => journal job
a/cloud-init-output.log.1 => installer cloud-init-output.log.1
a/secrets/resolv.conf => skipped
a/secrets/x.log => skipped
a/private/tls/ca.crt => other ca.crt
a/tls/ca.crt => facts ca.crt
a/x.json => skipped
a/notes => other notes"""


def kind_of(path: str) -> str:
    stream = classify_file(path)
    if stream is None:
        return "skipped"
    host = f" of {stream.host}" if stream.host else ""
    return f"{stream.kind} {stream.name}{host}{' before' * stream.is_earlier_boot}".strip()


def test_path_identifies_kind_and_boot_of_file() -> None:
    paths = [line.partition(" => ")[0] for line in FILES.split("\n")]
    assert "\n".join(f"{path} => {kind_of(path)}" for path in paths) == FILES


def test_path_identifies_the_folder_of_a_host() -> None:
    tops = {
        "a/b/bootstrap/network/x": "a/b/",
        "sos-x/proc/cmdline": "sos-x/",
        "bootstrap/services/job.json": "",
        "x": "",
    }
    assert {path: find_top(path) for path in tops} == tops
    homes = {
        "a/bootstrap/services/job.json": "a/",
        "a/var/log/openshift/job.json": "a/",
        "bootstrap/services/job.txt": None,
    }
    assert {path: find_home(path) for path in homes} == homes


def test_time_is_plausible_within_a_day_of_records() -> None:
    day, moment = timedelta(days=1), timedelta(microseconds=1)
    era = Era(START, START + day)
    times = (START - day, START + 2 * day, START - day - moment, START + 2 * day + moment)
    assert [era.plausible(time) for time in times] == [START - day, START + 2 * day, None, None]
    assert [Era(START).plausible(time) for time in times] == list(times)


@pytest.mark.parametrize(("kind", "unit"), [("journal", "job"), ("kernel", ""), ("installer", "")])
def test_line_has_kind_unit_and_host_of_file(kind: str, unit: str) -> None:
    line = log_line(LogStream("x", kind, "job", "n1", is_earlier_boot=True), 7, b"said\r\n", Era())
    place = LinePlace("x", 7)
    assert line == LogLine(
        place=place, kind=kind, name="job", unit=unit, text="said", host="n1", is_earlier_boot=True
    )
    assert (str(place), str(LinePlace("x"))) == ("x:7", "x")


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("Nov 21 10:00:00 node ignition[7]: error: no such host", "ignition", "error: no such host"),
        ("Nov 21 10:00:00 ignition[7]: error: no such host", "ignition", "error: no such host"),
        ("Nov 21 10:00:00 kernel: error: no such disk", "kernel", "error: no such disk"),
        ("2026-11-21T10:00:00Z error: no such host", "x", "2026-11-21T10:00:00Z error: no such host"),
    ],
)
def test_line_without_host_needs_a_pid(text: str, name: str, message: str) -> None:
    line = log_line(LogStream("x", "other", "x"), 1, text.encode(), Era())
    assert (line.name, line.text) == (name, message)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (
            "[ TIME ] Timed out waiting for device /dev/sdb.",
            "systemd",
            "Timed out waiting for device /dev/sdb.",
        ),
        ("[FAILED] Failed to start a.service - A.", "systemd", "Failed to start a.service - A."),
        ("stopping slurmctld: [FAILED]", "x", "stopping slurmctld: [FAILED]"),
        ("[FAILED]", "x", "[FAILED]"),
    ],
)
def test_status_on_the_console_is_a_line_of_systemd(text: str, name: str, message: str) -> None:
    line = log_line(LogStream("x", "other", "x"), 1, text.encode(), Era())
    assert (line.name, line.text) == (name, message)
    assert (line.kind == SYSTEMD) == (name == "systemd")
