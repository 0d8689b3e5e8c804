"""Evidence beside the records: what is read from bundles of every form, and what `analyze` makes of it."""

import asyncio
import json
import tarfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from service_record.cli.mcp import Questions
from service_record.collector.ingest.opening_bundles import read_bundle
from service_record.diagnosis.evidence.error_lines import telling_line
from service_record.diagnosis.evidence.log_lines import Era, LogStream, log_line
from service_record.read.live_host import live_contents
from service_record.record.entry import Phase
from tests.builders import PID, entry, failed_run, require_type, timestamp, write_lines
from tests.command_line import service_record

OOM = "kernel: Out of memory: Killed process 6214 (hyperkube) total-vm:1586752kB"
WAITED = "Error: error while checking pod status: timed out waiting for the condition"


def bundle(folder: Path, files: Mapping[str, str], message: str = WAITED) -> Path:
    """An unpacked bundle whose bootkube failed after ten seconds, with this message."""
    top = folder / "log-bundle-1"
    (top / "bootstrap/services").mkdir(parents=True)
    write_lines(top / "bootstrap/services/bootkube.json", *failed_run(error_message=message))
    for path, text in files.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(f"{text}\n")
    return top


def packed(folder: Path) -> Path:
    path = folder.with_name(f"{folder.name}.tar.gz")
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, folder.name)
    return path


def root_of(place: Path) -> dict[str, Any]:
    return require_type(
        dict, json.loads(service_record("analyze", "--from", place, "-o", "json").out).get("root")
    )


def at(seconds: float, rest: str) -> str:
    return f"{timestamp(seconds)} host {rest}"


def test_line_of_another_file_is_the_cause(tmp_path: Path) -> None:
    kernel = "\n".join([at(1, "kernel: XFS (vda4): Ending clean mount"), at(5, OOM)])
    place = bundle(tmp_path, {"bootstrap/journals/kernel.log": kernel})
    for source, where in ((place, "bootstrap"), (packed(place), "log-bundle-1/bootstrap")):
        root = root_of(source)
        assert root["cause"]["name"] == "out-of-memory"
        assert root["cause"]["place"] == f"{where}/journals/kernel.log:2"
        assert "hyperkube was killed" in root["says"]


def test_collector_finds_the_same_cause(tmp_path: Path) -> None:
    seen = read_bundle(packed(bundle(tmp_path, {"bootstrap/journals/kernel.log": at(5, OOM)})))
    assert seen.look.why == "memory ran out, and hyperkube was killed"
    assert "journals/kernel.log:1" in seen.analysis.cause


def test_diff_shows_evidence_only_in_bad_host(tmp_path: Path) -> None:
    both = at(2, "kernel: XFS (vda4): Corruption detected")
    good = bundle(tmp_path / "good", {"bootstrap/journals/kernel.log": both})
    bad = bundle(tmp_path / "bad", {"bootstrap/journals/kernel.log": f"{both}\n{at(5, OOM)}"})
    answer = json.loads(service_record("diff", good, bad, "-o", "json").out)
    assert [(one["cause"], one["place"]) for one in answer["evidence"]] == [
        ("out-of-memory", "bootstrap/journals/kernel.log:2")
    ]
    page = service_record("diff", good, bad)
    assert page.status == 1
    assert "only in bad: memory ran out, and hyperkube was killed (out-of-memory)" in page.out
    assert service_record("diff", bad, bad).status == 0


def test_failed_unit_without_record_has_telling_line(tmp_path: Path) -> None:
    journal = [
        at(1, "prepared[77]: Error: the moon is in the wrong phase"),
        at(2, "prepared[77]: see --help"),
        at(3, "systemd[1]: prepared.service: Failed with result 'exit-code'."),
    ]
    files = {
        "failed-units.txt": "  UNIT LOAD ACTIVE SUB DESCRIPTION\n● prepared.service loaded failed failed x",
        "bootstrap/journals/journal.log": "\n".join(journal),
    }
    place = bundle(tmp_path, files)
    write_lines(place / "bootstrap/services/bootkube.json", entry(), entry(Phase.SERVICE_END, 5))
    root = root_of(place)
    assert root["service"] == "prepared"
    assert root["cause"]["line"] == "Error: the moon is in the wrong phase"
    assert "wrong phase; nothing is recorded" in service_record("analyze", "--from", place, COLUMNS="200").out


def test_archive_in_an_archive_is_read(tmp_path: Path) -> None:
    inner = packed(bundle(tmp_path / "inner", {"bootstrap/journals/kernel.log": at(5, OOM)}))
    outer = tmp_path / "outer.tar"
    with tarfile.open(outer, "w") as archive:
        archive.add(inner, "logs_host_1/log-bundle-1.tar.gz")
    assert root_of(outer)["cause"]["name"] == "out-of-memory"


def test_only_facts_of_the_recorded_host_count(tmp_path: Path) -> None:
    refused = "dial tcp: lookup quay.io on 192.0.2.53:53: read udp 192.0.2.20:1->192.0.2.53:53: i/o timeout"
    routes = "default via 192.0.2.1 dev ens3\n10.128.0.0/14 dev tun0"
    own = bundle(tmp_path / "own", {"bootstrap/network/ip-route.txt": routes}, message=f"Error: {refused}")
    other = tmp_path / "resolv.conf"
    other.write_text("nameserver 10.128.0.10\n")
    for place, cause in (
        ("logs_host_2/", "dns-unreachable"),
        ("logs_host_1/x.tar.gz/log-bundle-1/", "name-server-in-cluster-network"),
    ):
        whole = tmp_path / "cluster.tar"
        with tarfile.open(whole, "w") as archive:
            archive.add(packed(own), "logs_host_1/x.tar.gz")
            archive.add(other, f"{place}bootstrap/network/resolv.conf")
        assert root_of(whole)["cause"]["name"] == cause


def test_telling_line_is_from_the_whole_run(tmp_path: Path) -> None:
    journal = "\n".join(
        [
            at(-50, f"job.sh[{PID}]: Error: of an earlier day"),
            at(4, f"job.sh[{PID}]: Error: the moon is in the wrong phase"),
            at(6, "other[7]: Error: of another program"),
        ]
    )
    root = root_of(bundle(tmp_path, {"bootstrap/journals/journal.log": journal}, message="Use --help"))
    assert root["told"]["line"] == "Error: the moon is in the wrong phase"
    assert root["told"]["place"] == "bootstrap/journals/journal.log:2"


def test_child_process_belongs_to_run_by_invocation(tmp_path: Path) -> None:
    line = at(4, "helper[7]: Error: the moon is in the wrong phase")
    own = f"bootstrap/journals/invocations/bootkube-{'1f' * 16}.log"
    for number, (path, place) in enumerate({"bootstrap/journals/journal.log": None, own: f"{own}:1"}.items()):
        root = root_of(bundle(tmp_path / str(number), {path: line}, message="Use --help"))
        assert root.get("told", {}).get("place") == place


SECRET = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "line", "message", "shown"),
    [
        ("bootstrap/journals/kernel.log", at(5, f"{OOM} token={SECRET}"), WAITED, "Out of memory"),
        (
            "bootstrap/containers/kube-flannel-1f2e.log",
            f'E1121 01:05:15.1 1 main.go:325] Error registering: node "{SECRET}" pod cidr not assigned',
            WAITED,
            "the node ",
        ),
        (
            "bootstrap/journals/bootkube.log",
            at(5, f"job.sh[{PID}]: Error: no login with {SECRET}"),
            "Use --help",
            "no login",
        ),
    ],
)
def test_secret_in_evidence_is_masked_everywhere(
    tmp_path: Path, path: str, line: str, message: str, shown: str
) -> None:
    place = bundle(tmp_path, {path: line}, message)
    assert SECRET in service_record("analyze", "--from", place, "-o", "json").out
    page = service_record("analyze", "--from", place, "-o", "html").out
    service_record("triage", "--index", tmp_path / "index", packed(place))
    index = service_record("triage", "sql", "--index", tmp_path / "index", "select * from bundles").out
    collected = msgspec.json.encode(read_bundle(packed(place))).decode()
    asked = asyncio.run(Questions([str(place)]).ask("analyze", "--from", str(place), "-o", "json"))
    for text in (page, index, collected, json.dumps(asked)):
        assert shown in text
        assert SECRET not in text


def test_host_without_failed_service_can_have_cause(tmp_path: Path) -> None:
    place = bundle(tmp_path, {"bootstrap/journals/kernel.log": at(5, OOM)})
    write_lines(place / "bootstrap/services/bootkube.json", entry(Phase.SERVICE_START))
    analysis = service_record("analyze", "--from", place, "-o", "json")
    answer = json.loads(analysis.out)
    assert (answer["verdict"], answer["root"]["service"]) == ("running", "kernel")
    assert "memory ran out, and hyperkube was killed" in answer["says"]
    assert analysis.status == 1


def test_old_line_is_not_a_cause_on_working_host(tmp_path: Path) -> None:
    later = [at(10 + number, "kernel: all is well") for number in range(99)]
    place = bundle(tmp_path, {"bootstrap/journals/kernel.log": "\n".join([at(5, OOM), *later])})
    write_lines(place / "bootstrap/services/bootkube.json", entry(Phase.SERVICE_START))
    answer = service_record("analyze", "--from", place)
    assert (answer.status, "1 line stands out" in answer.out) == (0, True)
    assert "it has passed" in service_record("analyze", "--explain", "--from", place).out


def test_explain_shows_fitting_rules_and_why_others_lost(tmp_path: Path) -> None:
    place = bundle(tmp_path, {"bootstrap/journals/kernel.log": at(5, OOM)})
    answer = service_record("analyze", "--explain", "--from", place, COLUMNS="200")
    assert "out-of-memory (cause): named" in answer.out
    assert "bootstrap/journals/kernel.log:1: Out of memory" in answer.out
    assert "pods-not-ready (symptom): not named: a symptom, and out-of-memory is a cause" in answer.out


def program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def test_live_host_is_read_within_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "journalctl", "echo 'a line of the journal'")
    program(tmp_path, "lsblk", "exec sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    began = time.monotonic()
    found = dict(live_contents(seconds=1.5))
    assert time.monotonic() - began < 20  # lsblk would take a minute; the machine may be busy
    assert found["journalctl --boot"] == b"a line of the journal\n"
    assert "lsblk" not in found
    assert found["/proc/cmdline"] == Path("/proc/cmdline").read_bytes()


NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("raw", "name", "text", "time"),
    [
        ("2026-03-02T12:00:00.000000+00:00 h kernel: BUG", "kernel", "BUG", NOON),
        ("Mar 02 12:00:00 h kubelet[12]: E0302 x", "kubelet", "E0302 x", NOON),
        ("2026-03-02T12:00:00.0Z stderr F oops", "etcd", "oops", NOON),
        ("F0302 12:00:00.000  1 ovn.go:133] no", "etcd", "F0302 12:00:00.000  1 ovn.go:133] no", NOON),
        ('time="2026-03-02T12:00:00Z" level=error', "etcd", 'time="2026-03-02T12:00:00Z" level=error', NOON),
        ("2022-01-12 08:20:14.16 W | wal: slow", "etcd", "2022-01-12 08:20:14.16 W | wal: slow", None),
    ],
)  # fmt: skip
def test_lines_of_all_programs_are_parsed(raw: str, name: str, text: str, time: datetime | None) -> None:
    line = log_line(LogStream("x.log", "containers", "etcd"), 3, raw.encode(), Era(NOON, NOON))
    assert (line.name, line.text, line.time, str(line.place)) == (name, text, time, "x.log:3")


@pytest.mark.parametrize(
    "raw",
    [
        '{"level":"warn","ts":"2026-03-02T12:00:00.000Z","caller":"wal/wal.go:805","msg":"slow fdatasync"}',
        '{"level":"warn","ts":"2026-03-02T13:00:00.000+0100","caller":"wal/wal.go:805","msg":"slow"}',
        '{"level":"error","ts":1772452800.0,"logger":"controller","msg":"no"}',
        '{"level":"error","ts": 1772452800,"msg":"no"}',
        "2026/03/02 12:00:00 http: TLS handshake error from 192.0.2.7:1: EOF",
        "[Mon Mar  2 12:00:00 2026] Out of memory: Killed process 1 (a)",
        "Mon Mar  2 12:00:00 2026: (ingress) Entering BACKUP STATE",
        'time="02-03-2026 12:00:00" level=error msg="no disk"',
        "2026-03-02 12:00:00,000 - util.py[WARNING]: Failed",
    ],
    ids=[
        *("zap", "zap with a zone", "zap's seconds", "whole seconds", "go", "dmesg -T", "keepalived"),
        *("agent", "python"),
    ],
)
def test_time_written_by_a_program_is_parsed(raw: str) -> None:
    line = log_line(LogStream("x.log", "containers", "x"), 1, raw.encode(), Era(NOON, NOON))
    assert (line.text, line.time) == (raw, NOON)


NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("after", [-600, 600], ids=["records end before", "records end after"])
@pytest.mark.parametrize(
    ("raw", "seconds"),
    [
        ("Dec 31 23:59:30 h kubelet[1]: x", -30),
        ("Jan 01 00:00:30.500000 h kubelet[1]: x", 30.5),
        ("Jan  1 00:00:30 h kubelet[1]: x", 30),
        ("Jan  1 00:00:30.250000000 h kubelet[1]: x", 30.25),
        ("E1231 23:59:30.250000  1 a.go:1] x", -29.75),
        ("E0101 00:00:30.000000000  1 a.go:1] x", 30),
    ],
)
def test_line_without_year_gets_the_nearest_year(raw: str, seconds: float, after: float) -> None:
    end = NEW_YEAR + timedelta(seconds=after)
    line = log_line(
        LogStream("x.log", "containers", "x"), 1, raw.encode(), Era(end - timedelta(hours=1), end)
    )
    assert line.time == NEW_YEAR + timedelta(seconds=seconds)


@pytest.mark.parametrize("day", [b"Feb 30", b"Foo 02"])
def test_day_missing_in_near_years_is_not_a_time(day: bytes) -> None:
    raw = day + b" 12:00:00 h a[1]: x"
    line = log_line(LogStream("x.log", "journal", "x"), 1, raw, Era(NOON, NOON))
    assert (line.text, line.time) == ("x", None)


@pytest.mark.parametrize(
    ("of", "wrote", "kind"),
    [
        ("journal", "kernel", "kernel"),
        ("journal", "systemd[1]", "systemd"),
        ("journal", "next_step_runner[7]", "agent"),
        ("journal", "kubelet[7]", "journal"),
        ("kernel", "kubelet[7]", "journal"),
        ("installer", "kubelet[7]", "journal"),
        ("installer", "cloud-init", "installer"),
    ],
)
def test_journal_line_has_the_kind_of_its_writer(of: str, wrote: str, kind: str) -> None:
    raw = f"Mar 02 12:00:00 h {wrote}: x".encode()
    assert log_line(LogStream("x.log", of, "x"), 3, raw, Era(NOON, NOON)).kind == kind


def test_impossible_pid_is_ignored() -> None:
    for number, pid in (("7", 7), ("9" * 9, 999_999_999), ("9" * 5000, None)):
        raw = f"Mar 02 12:00:00 h a[{number}]: x".encode()
        assert log_line(LogStream("x.log", "journal", "x"), 1, raw, Era(NOON, NOON)).pid == pid


@pytest.mark.parametrize(
    "aside",
    [
        *("To see the stack trace of this error execute with --v=5 or higher", "goroutine 1 [running]:"),
        *("\tmain.go:42 +0x1d", '  File "/usr/bin/x", line 3, in <module>', "Usage: x [flags] error"),
        *("  -f, --fail   fail on error", "Run 'x --help' for usage on errors", ", error: exit status 1"),
    ],
)
def test_usage_frames_and_hints_are_not_telling(aside: str) -> None:
    assert telling_line(f"cannot open the disk\n{aside}") == "cannot open the disk"
    assert telling_line(aside) is None


NEVER_STARTED = ("--expect", "bootkube,approve-csr")
BOOTS = "\n".join(f" {n - 4} {n:032x} Sat 2026-11-21 00:{n * 12:02}:00 UTC" for n in range(5))
UNITS = "  UNIT LOAD ACTIVE SUB DESCRIPTION\n● chronyd.service loaded failed failed x"


@pytest.mark.parametrize(
    ("files", "options", "says"),
    [
        ({"failed-units.txt": UNITS}, (), "chronyd.service"),
        ({"bootstrap/journals/boots.txt": BOOTS}, (), "the host was booted 5 times in 48 minutes"),
        ({}, NEVER_STARTED, "approve-csr did not start"),
    ],
    ids=["a failed unit", "boots that repeat", "a service that did not start"],
)
def test_host_in_trouble_is_never_called_healthy(
    tmp_path: Path, files: dict[str, str], options: tuple[str, ...], says: str
) -> None:
    place = bundle(tmp_path, files)
    for ends in (
        [entry(Phase.SERVICE_END, 5)],
        *(() if options else ([],)),
    ):  # one that runs keeps the rest waiting
        write_lines(place / "bootstrap/services/bootkube.json", entry(), *ends)
        answer = service_record("analyze", "--from", place, *options, COLUMNS="200")
        assert (answer.status, says in answer.out, "nothing is wrong" in answer.out) == (1, True, False)


def test_boots_without_progress_are_reported_as_loop(tmp_path: Path) -> None:
    place = bundle(tmp_path, {})
    boots = [
        one
        for number in range(4)
        for one in (
            entry(at=300.0 * number, boot_id=f"{number:032x}"),
            entry(Phase.STAGE_START, 300.0 * number + 1, stage="up", boot_id=f"{number:032x}"),
        )
    ]
    write_lines(place / "bootstrap/services/bootkube.json", *boots)
    answer = service_record("analyze", "--from", place)
    assert (answer.status, "looping" in answer.out, "nothing is wrong" in answer.out) == (1, True, False)
