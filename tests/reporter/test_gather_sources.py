"""Each kind of source that is gathered from: files, the journal, records, units and containers."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from service_record.diagnosis.units import read_texts
from service_record.record.entry import Phase, Result
from service_record.reporter.gather.gathering import GatherRow, GatherStatus
from service_record.reporter.gather.journal import (
    Journal,
    failed_runs,
    failed_units,
    newest_cursor,
    service_records,
    unit_properties,
)
from service_record.reporter.gather.sources import ContainerLogs, File, Listing, Tree
from tests.builders import array, entry, failed_run, upstream_entry
from tests.gathering import Host, run_collector

JOURNALCTL = """
    for argument; do
      case $argument in
      --after-cursor=bad*) echo 'Failed to seek to cursor: Invalid argument' >&2; exit 1 ;;
      --boot=-*) echo 'Data from the specified boot (-1) is not available: No such boot ID' >&2; exit 1 ;;
      --unit=none*) echo 'Failed to add filter for units: No data available' >&2; exit 1 ;;
      --show-cursor) echo '-- cursor: s=17;i=4'; exit ;;
      esac
    done
    echo "$@"
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_file_is_a_member(host: Host) -> None:
    host.file("/etc/os-release", "ID=rhcos\n")

    assert run_collector(host, File("/etc/os-release")).data("facts.txt") == b"ID=rhcos\n"


def test_fallback_path_is_used(host: Host) -> None:
    host.file("/usr/lib/os-release", "ID=rhcos\n")

    result = run_collector(host, File("/etc/os-release", "/usr/lib/os-release"))

    assert result.data("facts.txt") == b"ID=rhcos\n"


def test_only_the_end_of_a_huge_file_is_read(host: Host) -> None:
    with host.file("/var/log/huge.log").open("r+b") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(b"the end\n")

    result = run_collector(host, File("/var/log/huge.log"), size=1000)

    assert result.only.status is GatherStatus.CUT
    assert result.only.bytes == (1 << 40) + 8
    assert result.only.bytes - result.only.dropped_bytes == 1000
    assert result.data("facts.txt").endswith(b"\0the end\n")


def test_kernel_file_without_a_size_is_read(host: Host) -> None:
    host.root = Path("/")

    assert b"MemTotal" in run_collector(host, File("/proc/meminfo")).data("facts.txt")


def test_links_are_resolved_as_on_the_host(host: Host) -> None:
    host.file("/run/resolv/stub.conf", "nameserver 192.0.2.53\n")
    host.file("/etc/other")
    (host.root / "etc" / "resolv.conf").symlink_to("/run/../run/resolv/stub.conf")
    (host.root / "run" / "up").symlink_to("../../../../../etc/resolv.conf")

    for path in ("/etc/resolv.conf", "/run/up"):
        assert run_collector(host, File(path)).data("facts.txt") == b"nameserver 192.0.2.53\n"


def test_circular_links_lead_to_no_file(host: Host) -> None:
    host.file("/etc/other")
    (host.root / "etc" / "resolv.conf").symlink_to("resolv.conf")

    result = host.gather(
        GatherRow("conf", "conf", File("/etc/resolv.conf")),
        GatherRow("needy", "needy", File("/etc/other"), needs=("/etc/resolv.conf",)),
    )

    assert [each.status for each in result.gathered] == [GatherStatus.FAILED] * 2
    assert result.get("conf").reason == "/etc/resolv.conf: too many links, or links in a circle"


def test_irregular_file_fails_without_blocking(host: Host) -> None:
    host.file("/var/log/other")
    os.mkfifo(host.root / "var" / "log" / "pipe")

    result = run_collector(host, File("/var/log/pipe"))

    assert result.only.status is GatherStatus.FAILED
    assert "not a regular file" in str(result.only.reason)


def test_unreadable_file_fails_with_its_name() -> None:
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        host = Host(Path(directory))
        host.file("/etc/shadow", "root:*:").chmod(0o600 if os.geteuid() == 0 else 0)
        host.bundles.mkdir()
        host.bundles.chmod(0o777)

        with nobody():
            result = run_collector(host, File("/etc/shadow"))

    assert result.only.status is GatherStatus.FAILED
    assert str(result.only.reason).endswith("etc/shadow: Permission denied")


@contextmanager
def nobody() -> Iterator[None]:
    """Without root's rights, if we have them."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_file_on_a_failing_disk_fails(host: Host) -> None:
    host.root = Path("/")

    result = run_collector(host, File("/proc/self/mem"))  # which has nothing at its beginning

    assert (result.only.status, result.bundle.paths) == (GatherStatus.FAILED, [])
    assert str(result.only.reason).endswith("/mem: Input/output error")


def test_newest_files_of_many_are_members(host: Host) -> None:
    for number in range(5):
        path = host.file(f"/var/log/pods/a_b_{number}/etcd/0.log", f"log {number}\n")
        os.utime(path, (number, number))

    tree = Tree("/var/log/pods", ("/var/log/pods/*/*/*.log",), most=2)
    result = run_collector(host, tree, "pods/")

    assert result.bundle.paths == ["pods/a_b_4/etcd/0.log", "pods/a_b_3/etcd/0.log"]
    assert (result.only.status, result.only.reason) == (GatherStatus.CUT, "2 of 5 files")


def test_linked_files_of_a_tree_are_left_out(host: Host) -> None:
    secret = host.file("/root/secret/shadow.log", "root:$6$...\n")
    host.file("/var/log/agent/good.log", "good\n")
    (host.root / "var/log/agent/link.log").symlink_to(secret)
    (host.root / "var/log/agent/way").symlink_to(secret.parent)

    result = run_collector(
        host, Tree("/var/log/agent", ("/var/log/agent/*.log", "/var/log/agent/*/*.log")), "agent/"
    )

    assert result.bundle.paths == ["agent/good.log"]


def test_files_of_linked_subdirectory_keep_pattern_names(host: Host) -> None:
    host.file("/etc/etcd/ca.crt", "etcd\n")
    host.file("/etc/kubernetes/pki/ca.crt", "cluster\n")
    (host.root / "etc/kubernetes/pki/etcd").symlink_to("/etc/etcd")
    (host.root / "etc/kubernetes/loop").symlink_to("loop")

    patterns = tuple(f"/etc/kubernetes/{directory}/*.crt" for directory in ("loop", "pki", "pki/etcd"))
    result = run_collector(host, Tree("/etc/kubernetes", patterns), "kubernetes/")

    assert sorted(result.bundle.paths) == ["kubernetes/pki/ca.crt", "kubernetes/pki/etcd/ca.crt"]
    assert result.data("kubernetes/pki/etcd/ca.crt") == b"etcd\n"
    assert result.only.status is GatherStatus.GIVEN


def test_bad_file_is_reported_and_others_are_gathered(host: Host) -> None:
    host.file("/var/log/agent/a.log", "a\n")
    os.mkfifo(host.root / "var/log/agent/b.log")
    host.file("/var/log/agent/c.log", "c\n")

    result = run_collector(host, Tree("/var/log/agent", ("/var/log/agent/*.log",)), "agent/")

    assert sorted(result.bundle.paths) == ["agent/a.log", "agent/c.log"]
    assert result.only.status is GatherStatus.FAILED
    assert "b.log: not a regular file" in str(result.only.reason)


def test_listing_has_names_and_digests_only(host: Host) -> None:
    path = host.file("/etc/machine-config-daemon/currentconfig", "pull secret\n")
    os.utime(path, (0, 0))
    path.chmod(0o600)

    listed = run_collector(host, Listing(("/etc/machine-config-daemon/*",))).data("facts.txt").decode()

    assert listed.startswith("-rw------- 0:0" if os.geteuid() == 0 else "-rw-------")
    assert " 12 1970-01-01T00:00:00+00:00 " in listed
    assert listed.endswith("  /etc/machine-config-daemon/currentconfig\n")
    assert hashlib.sha256(b"pull secret\n").hexdigest() in listed
    assert "pull secret" not in listed


def test_listing_without_digests(host: Host) -> None:
    host.file("/etc/NetworkManager/system-connections/wifi.nmconnection", "psk=12345678")

    listed = run_collector(host, Listing(("/etc/NetworkManager/system-connections/*",), has_digests=False))

    assert len(listed.data("facts.txt").split()) == 5


def test_pattern_without_matches_is_absent(host: Host) -> None:
    result = run_collector(host, Listing(("/etc/kubernetes/*", "/etc/mcs/*")))

    assert result.only.status is GatherStatus.ABSENT
    assert result.only.reason == "no file /etc/kubernetes/*, nor any of 1 others"


def test_journal_without_cursor_has_the_end_of_the_boot(host: Host) -> None:
    host.program("journalctl", JOURNALCTL)

    asked = run_collector(host, Journal(("kubelet.service",), lines=7)).data("facts.txt").decode().split()

    assert {"--unit=kubelet.service", "--boot=0", "--lines=7", "--utc"} <= set(asked)


def test_journal_with_cursor_has_only_newer_lines(host: Host) -> None:
    host.program("journalctl", JOURNALCTL)

    asked = run_collector(host, Journal(kernel=True), cursor="s=17;i=3").data("facts.txt").decode().split()

    assert {"--after-cursor=s=17;i=3", "_TRANSPORT=kernel"} <= set(asked)
    assert not [argument for argument in asked if argument.startswith(("--boot", "--lines"))]


def test_unknown_cursor_is_ignored(host: Host) -> None:
    host.program("journalctl", JOURNALCTL)

    result = run_collector(host, Journal(), cursor="bad")

    assert result.only.status is GatherStatus.GIVEN
    assert b"--boot=0" in result.data("facts.txt")


def test_earlier_boots_are_left_out_after_a_cursor(host: Host) -> None:
    host.program("journalctl", "echo old")

    assert run_collector(host, Journal(boot=-1)).data("facts.txt") == b"old\n"
    assert run_collector(host, Journal(boot=-1), cursor="s=17;i=3").only.status is GatherStatus.EMPTY


@pytest.mark.slow
@pytest.mark.parametrize(
    ("endless", "cursor"),
    [("sleep 1000", None), ("exec yes 'and again'", None), ("exec yes 'and again'", "s=17;i=3")],
)
def test_last_lines_of_a_long_journal_are_kept(host: Host, endless: str, cursor: str | None) -> None:
    host.program("journalctl", f"[[ $* == *--lines=2000* ]] && echo the end && exit; echo begin; {endless}")

    row = GatherRow("journal", "journal.log", Journal(("kubelet.service",), lines=9), seconds=8, bytes=90_000)
    result = host.gather(row, cursor=cursor)

    assert result.only.status in {GatherStatus.TIMED_OUT, GatherStatus.CUT}
    assert result.data("journal.log").endswith(b"the latest lines follow]\nthe end\n")


@pytest.mark.parametrize("journal", [Journal(boot=-1), Journal(("none*.service",))])
def test_unknown_boot_or_unit_is_absent(host: Host, journal: Journal) -> None:
    host.program("journalctl", JOURNALCTL)

    assert run_collector(host, journal).only.status is GatherStatus.ABSENT


def test_newest_cursor_is_read(host: Host) -> None:
    assert newest_cursor(host.context()) is None

    host.program("journalctl", JOURNALCTL)
    assert newest_cursor(host.context()) == "s=17;i=4"

    host.program("journalctl", "exit 1")
    assert newest_cursor(host.context()) is None


def test_records_are_arrays_beside_their_damaged_parts(host: Host) -> None:
    lines = b"".join(each.to_line() for each in failed_run())
    host.file("/var/log/openshift/bootkube.json", lines + b"torn {\n" + entry(at=60).to_line())
    host.file("/var/log/openshift/bootkube.json.damaged", b"older damage")
    host.file("/var/log/openshift/kubelet.json", array(upstream_entry()))
    host.file("/var/log/openshift/kubelet.json.tmp", b"[")

    result = run_collector(host, service_records, "bootstrap/services/")

    names = ["bootkube.json", "bootkube.json.damaged", "kubelet.json"]
    assert result.bundle.paths == [f"bootstrap/services/{name}" for name in names]
    read = json.loads(result.data("bootstrap/services/bootkube.json"))
    assert [each["phase"] for each in read] == [
        *("service start", "stage start", "stage end", "service end"),
        "service start",
    ]
    damaged = result.data("bootstrap/services/bootkube.json.damaged")
    assert damaged.startswith(b"older damage\nline 5: ")
    assert b"torn {" in damaged


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_bad_damaged_file_costs_no_other_record(host: Host, kind: str) -> None:
    host.file("/var/log/openshift/a.json", entry().to_line() + b"torn {\n")
    host.file("/var/log/openshift/b.json", entry().to_line())
    bad = host.root / "var/log/openshift/a.json.damaged"
    if kind == "directory":
        bad.mkdir()
    else:
        bad.symlink_to(host.file("/root/secret", "secret"))

    result = run_collector(host, service_records, "services/")

    assert result.bundle.paths == ["services/a.json", "services/a.json.damaged", "services/b.json"]
    assert b"torn {" in result.data("services/a.json.damaged")
    assert b"secret" not in result.data("services/a.json.damaged")
    assert result.only.status is GatherStatus.FAILED
    assert "a.json.damaged: " in str(result.only.reason)


def test_long_record_keeps_its_last_entries(host: Host) -> None:
    many = [entry(at=number) for number in range(1000)]
    host.file("/var/log/openshift/release-image.json", b"".join(each.to_line() for each in many))

    result = run_collector(host, service_records, "services/", size=10_000)

    data = result.data("services/release-image.json")
    assert result.only.status is GatherStatus.CUT
    assert 9_000 < len(data) <= 10_002
    read = json.loads(data)
    assert read == [each.to_json() for each in many[-len(read) :]]


def test_records_directory_of_the_environment_is_used(host: Host) -> None:
    host.file("/srv/records/job.json", entry().to_line())

    result = run_collector(
        host, service_records, "services/", environ={"SERVICE_RECORDS_DIR": "/srv/records"}
    )

    assert result.bundle.paths == ["services/job.json"]


def test_host_without_records_is_absent(host: Host) -> None:
    assert run_collector(host, service_records, "services/").only.status is GatherStatus.ABSENT


def test_failed_units_have_status_and_journal(host: Host) -> None:
    host.program(
        "systemctl",
        """
        if [[ $1 == list-units ]]; then
          echo 'kubelet.service loaded failed failed Kubelet'
          echo 'foo@a-b.service loaded failed failed Foo'
        else
          echo "status of ${@: -1}"; exit 3
        fi
        """,
    )
    host.program("journalctl", JOURNALCTL)

    result = run_collector(host, failed_units, "unit-status/")

    units = ("kubelet.service", "foo@a-b.service")
    assert result.only.status is GatherStatus.GIVEN
    assert result.bundle.paths == [f"unit-status/{unit}.{what}" for unit in units for what in ("txt", "log")]
    assert result.data("unit-status/kubelet.service.txt") == b"status of kubelet.service\n"
    assert b"--unit=kubelet.service" in result.data("unit-status/kubelet.service.log")


def test_unit_properties_have_the_assertions_of_stopped_units(host: Host) -> None:
    host.program(
        "systemctl",
        """
        case $* in
        'cat '*job.service) printf '[Unit]\\nAssertPathExists=/srv/a\\n' ;;
        'show '*failed*) ;;
        'show '*job.service*) printf 'Id=job.service\\nLoadState=loaded\\nActiveState=inactive\\n' ;;
        *) exit 1 ;;
        esac
        """,
    )
    host.program("journalctl", "echo 'Assertion failed for job.service - The job.'")

    result = run_collector(host, unit_properties, "unit-properties.txt")

    (unit,) = read_texts({"unit-properties.txt": result.data("unit-properties.txt").decode()})
    assert (unit.name, unit.assertions) == ("job.service", ("AssertPathExists=/srv/a",))


def test_unreadable_failed_unit_costs_no_other(host: Host) -> None:
    host.program(
        "systemctl",
        """
        [[ $1 == list-units ]] && printf '%s.service loaded failed\\n' gone kubelet && exit
        [[ $* == *gone* ]] && echo 'Unit gone.service could not be found.' >&2 && exit 4
        echo status
        """,
    )
    host.program("journalctl", "echo 'No journal files were found.' >&2; exit 1")

    result = run_collector(host, failed_units, "unit-status/")

    assert result.data("unit-status/kubelet.service.txt") == b"status\n"
    assert result.only.status is GatherStatus.FAILED
    assert result.only.reason == "gone.service: exit status 4: Unit gone.service could not be found."


def test_latest_failed_run_has_its_journal(host: Host) -> None:
    first, second = "a1" * 16, "b2" * 16
    loop = [*failed_run(invocation_id=first), *failed_run(invocation_id=second), entry(at=90)]
    mended = [*failed_run(), entry(Phase.SERVICE_END, at=90, result=Result.SUCCESS)]
    hostile = failed_run(invocation_id="--vacuum-size=1")
    for service, run in {"bootkube": loop, "kubelet": mended, "crio": hostile}.items():
        host.file(f"/var/log/openshift/{service}.json", b"".join(each.to_line() for each in run))
    host.program("journalctl", JOURNALCTL)

    result = run_collector(host, failed_runs, "invocations/")

    assert result.bundle.paths == [f"invocations/bootkube-{second}.log"]
    asked = result.data(result.bundle.paths[0]).decode().split()
    assert f"_SYSTEMD_INVOCATION_ID={second} + INVOCATION_ID={second}" in " ".join(asked)
    assert "--lines=1000" in asked
    assert not [argument for argument in asked if argument.startswith("--boot")]


def test_failed_runs_without_a_journal_are_absent(host: Host) -> None:
    host.file("/var/log/openshift/a.json", b"".join(each.to_line() for each in failed_run()))
    host.program("journalctl", "echo 'No journal files were found.' >&2; exit 1")

    assert run_collector(host, failed_runs, "invocations/").only.status is GatherStatus.ABSENT


def test_number_of_failed_runs_is_limited(host: Host) -> None:
    assert run_collector(host, failed_runs, "invocations/").only.status is GatherStatus.ABSENT
    for number in range(21):
        host.file(f"/var/log/openshift/{number}.json", b"".join(each.to_line() for each in failed_run()))
    host.program("journalctl", JOURNALCTL)

    result = run_collector(host, failed_runs, "invocations/")

    assert (result.only.status, result.only.reason) == (GatherStatus.CUT, "20 of 21 failed runs")
    assert len(result.bundle.paths) == 20


def listed_by_crictl() -> str:
    """Newest last, one of them with an id that crictl would take for an option."""
    known = (
        ("c1a", "etcd", 3),
        ("c2b", "kube-apiserver", 1),
        ("--evil", "x", 0),
        ("c3c", "kube-apiserver", 2),
    )
    return json.dumps(
        {
            "containers": [
                {
                    "id": each,
                    "metadata": {"name": name},
                    "state": "CONTAINER_RUNNING" if name == "etcd" else "CONTAINER_EXITED",
                    "createdAt": f"178000000000000000{created}",
                }
                for each, name, created in known
            ]
        }
    )


CRICTL = f"""
    if [[ $1 == ps ]]; then
      echo '{listed_by_crictl()}'
    elif [[ ${{@: -1}} == c3c ]]; then
      echo 'container not found' >&2; exit 1
    else
      echo "out of ${{@: -1}}"; echo "error of ${{@: -1}}" >&2
    fi
"""


def test_ended_containers_come_first(host: Host) -> None:
    host.program("crictl", CRICTL)

    result = run_collector(host, ContainerLogs("crictl"), "containers/")

    names = ("kube-apiserver-c3c", "kube-apiserver-c2b", "etcd-c1a")
    assert result.bundle.paths == [f"containers/{name}.log" for name in names]
    assert result.data("containers/etcd-c1a.log") == b"out of c1a\nerror of c1a\n"
    assert result.only.status is GatherStatus.FAILED
    assert str(result.only.reason).startswith("kube-apiserver: exit status 1")


def test_long_container_log_does_not_end_the_others(host: Host) -> None:
    endless = "exec yes"
    host.program("crictl", CRICTL.replace("echo 'container not found' >&2; exit 1", endless))

    result = run_collector(host, ContainerLogs("crictl"), "containers/", size=10_000)

    assert len(result.bundle.paths) == 3
    assert result.data("containers/etcd-c1a.log") == b"out of c1a\nerror of c1a\n"
    assert result.only.status is GatherStatus.CUT
    assert str(result.only.reason).startswith("kube-apiserver: stopped after")


def test_podman_container_list_is_parsed(host: Host) -> None:
    listed = '[{"Id": "f00d", "Names": ["bootkube-render"], "State": "exited", "Created": 1780000000}]'
    host.program("podman", f"[[ $1 == ps ]] && echo '{listed}' || echo said")

    result = run_collector(host, ContainerLogs("podman"), "pods/")

    assert result.bundle.paths == ["pods/bootkube-render-f00d.log"]


@pytest.mark.parametrize("listed", ["no json", "{}", "[7, null, {}]", '{"containers": null}', ""])
def test_invalid_container_list_raises_nothing(host: Host, listed: str) -> None:
    host.program("crictl", f"echo '{listed}'")

    result = run_collector(host, ContainerLogs("crictl"), "containers/")

    assert result.only.status in {GatherStatus.EMPTY, GatherStatus.FAILED}


def test_failing_container_runtime_fails_the_row(host: Host) -> None:
    host.program("crictl", "echo 'connect: connection refused' >&2; exit 1")

    result = run_collector(host, ContainerLogs("crictl"), "containers/")

    assert (result.only.status, result.only.reason) == (
        GatherStatus.FAILED,
        "exit status 1: connect: connection refused",
    )
