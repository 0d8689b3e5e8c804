"""Gather from a host with a real systemd and journald, without a network."""

import json
from typing import Any

import pytest

from service_record.diagnosis.causes import built_in_causes
from service_record.diagnosis.judgement import read_evidence
from service_record.history import build_history
from service_record.read.host_files import host_files
from service_record.read.source import liveness_for, open_source
from service_record.reporter.gather.collectors import COLLECTORS
from testing.machine import Machine

GATHER = """\
#!/venv/bin/python
import json
import os
import sys
from pathlib import Path

from service_record.reporter.gather.collectors import COLLECTORS
from service_record.reporter.gather.gathering import Context, gather, manifest
from service_record.reporter.gather.journal import newest_cursor
from service_record.record.systemd import boot_id
from tests.gathering import AT, DirectoryBundle

bundle, cursor = DirectoryBundle(Path(sys.argv[1])), sys.argv[2] if len(sys.argv) > 2 else None
urls = ("https://api.cluster.example:6443/readyz", "http://192.0.2.1/")
context = Context(environ=os.environ, boot_id=boot_id(), cursor=cursor, urls=urls)
print(newest_cursor(context))
gathered = gather(COLLECTORS, context, bundle)
document = manifest(gathered, at=AT, boot_id=context.boot_id, cursor=cursor)
bundle.add("manifest.json", json.dumps(document).encode())
"""


HELPER_OUTPUT = "Error: the moon is in the wrong phase"


class GatheredBundle:
    """The bundle of a machine."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.directory = machine.observed / name
        manifest = json.loads((self.directory / "manifest.json").read_text())
        self.collectors: dict[str, dict[str, Any]] = {each["name"]: each for each in manifest["collectors"]}

    def statuses(self, *names: str) -> set[str]:
        return {self.collectors[name]["status"] for name in names}

    def text(self, member: str) -> str:
        return (self.directory / member).read_text()


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    shared_machine.program("gather.py", GATHER)
    shared_machine.unit("kubelet", "ExecStart=sh -c 'echo the node has no address; exit 3'")
    shared_machine.bash_service("bootkube", "record_service_stage_start cvo-bootstrap\nls /no/such/file")
    # journald cannot assign the lines of a process that has already ended, so the helper waits for it.
    helper = f"systemd-cat --identifier=helper sh -c 'echo {HELPER_OUTPUT}; journalctl --sync'"
    shared_machine.bash_service("prepared", f"{helper}\nfalse")
    shared_machine.drop_in()
    shared_machine.boot("""
        start kubelet bootkube prepared
        rest kubelet bootkube prepared
        journalctl --sync
        cursor=$(gather.py /observed/full)
        echo written after the cursor | systemd-cat
        journalctl --sync
        gather.py /observed/newest "$cursor"
    """)
    return shared_machine


@pytest.fixture(scope="module")
def full(machine: Machine) -> GatheredBundle:
    return GatheredBundle(machine, "full")


@pytest.fixture(scope="module")
def newest(machine: Machine) -> GatheredBundle:
    return GatheredBundle(machine, "newest")


@pytest.mark.parametrize("name", ["full", "newest"])
def test_poor_host_causes_no_failure(machine: Machine, name: str) -> None:
    collectors = GatheredBundle(machine, name).collectors.values()

    assert len(collectors) == len(COLLECTORS)
    assert [each for each in collectors if each["status"] in {"failed", "timed-out", "cut"}] == []


def test_facts_of_any_host_are_gathered(full: GatheredBundle) -> None:
    systemd_facts = ("failed-units", "unit-status", "unit-properties", "jobs", "units", "unit-files", "boots")
    journal_facts = ("journal-bootkube", "journal-kubelet", "journal")
    network_facts = ("reachability", "ip-addr", "sockets")
    disk_facts = ("mounts", "block-devices", "disk-space", "inodes")
    others = ("service-records", "memory", "processes", "clocks", "os-release")

    assert full.statuses(*systemd_facts, *journal_facts, *network_facts, *disk_facts, *others) == {"given"}


def test_missing_facts_are_absent(full: GatheredBundle) -> None:
    names = (
        "crictl-ps",
        "container-logs",
        "pod-logs",
        "machine-config",
        "journal-ignition",
        "journal-boot-1",
    )

    assert full.statuses(*names) == {"absent"}
    assert full.statuses("journal-crio") == {"empty"}


def test_unfinished_boot_has_no_timings(full: GatheredBundle) -> None:
    assert full.statuses("startup", "blame", "critical-chain") == {"absent"}
    assert full.collectors["blame"]["reason"].startswith("Bootup is not yet finished")
    assert "Id=kubelet.service" in full.text("bootstrap/systemd/unit-times.txt")


def test_failed_unit_has_status_and_journal(full: GatheredBundle) -> None:
    assert "kubelet.service" in full.text("failed-units.txt")
    assert "status=3" in full.text("unit-status/kubelet.service.txt")
    assert "the node has no address" in full.text("unit-status/kubelet.service.log")
    assert "the node has no address" in full.text("bootstrap/journals/kubelet.log")
    assert "the node has no address" not in full.text("bootstrap/journals/bootkube.log")


def test_child_output_belongs_to_its_run(machine: Machine, full: GatheredBundle) -> None:
    (invocation,) = {one.invocation_id for one in machine.entries("prepared")}
    member = f"bootstrap/journals/invocations/prepared-{invocation}.log"
    assert f"]: {HELPER_OUTPUT}" in full.text(member)
    source = open_source([str(full.directory)])
    history = build_history(source.records, liveness_for(source))
    causes = read_evidence(built_in_causes(), history, (), host_files(source) or ())
    lines = [line for line in causes.evidence.own["prepared"] if line.text == HELPER_OUTPUT]
    assert [line.place.path for line in lines] == [member]


def test_bundle_has_the_records_of_the_host(machine: Machine, full: GatheredBundle) -> None:
    for service in ("bootkube", "kubelet"):
        gathered = json.loads(full.text(f"bootstrap/services/{service}.json"))
        assert gathered == [entry.to_json() for entry in machine.entries(service)]


def test_missing_network_is_reported(full: GatheredBundle) -> None:
    report = full.text("bootstrap/network/reachability.txt")

    assert "https://api.cluster.example:6443\n  name     " in report
    assert "  connect  192.0.2.1: Network is unreachable" in report


def test_only_entries_after_the_cursor_are_gathered(full: GatheredBundle, newest: GatheredBundle) -> None:
    assert "written after the cursor" not in full.text("bootstrap/journals/journal.log")
    assert "written after the cursor" in newest.text("bootstrap/journals/journal.log")
    assert "the node has no address" not in newest.text("bootstrap/journals/journal.log")
    assert newest.statuses("journal-kubelet", "journal-boot-1") == {"empty"}
    assert newest.statuses("service-records", "units") == {"given"}
