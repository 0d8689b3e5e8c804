"""The state of the host: its files, its kubelet, its records, and the fingerprint of its failures."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from service_record.diagnosis import Verdict
from service_record.record import systemd
from service_record.record.entry import Entry, Phase, Result
from service_record.reporter import host_state
from service_record.reporter.host_state import HostEvidence, is_healthy, observe
from service_record.reporter.log import Log, describe_verdict
from service_record.reporter.paths import Places
from service_record.reporter.round import Round
from service_record.reporter.settings import read_settings
from service_record.reporter.state import ReporterState
from tests.builders import BOOT_ID, PID, entry, failed_run, our_array, require, timestamp, write_lines
from tests.running_server import QuietHandler, serve

NOBODY = "http://127.0.0.1:1/healthz"
NEXT = "b1" * 16


def observed(
    root: Path,
    *,
    boot_id: str | None = BOOT_ID,
    uptime: float = 9000.0,
    units: tuple[str, ...] = (),
    files: tuple[tuple[str, bytes], ...] = (),
) -> HostEvidence:
    """Observe a host below a root whose systemd answers with these values, and with these live files."""
    with (
        patch.multiple(systemd, boot_id=lambda: boot_id, uptime=lambda: uptime, failed_units=lambda: units),
        patch.multiple(host_state, KUBELET=NOBODY, _read_live_files=lambda _: files),
    ):
        return observe(Places(root))


def test_cause_from_logs_does_not_change_the_fingerprint(tmp_path: Path) -> None:
    waited = "Error: error while checking pod status: timed out waiting for the condition"
    record(tmp_path, "bootkube", *failed_run(error_message=waited))
    kernel = b"Out of memory: Killed process 6214 (hyperkube) total-vm:1586752kB\n"
    found = observed(tmp_path, files=(("kernel.log", kernel),))
    plain = observed(tmp_path)
    assert found.diagnosis is not None
    assert found.diagnosis.root is not None
    assert require(found.diagnosis.root.cause).name == "out-of-memory"
    assert (found.verdict, found.fingerprint) == (plain.verdict, plain.fingerprint)


SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
FLANNEL = f'E1121 1 main.go:325] Error registering: node "{SECRET}" pod cidr not assigned'


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("containers/kube-flannel-1f2e.log", FLANNEL),
        ("journals/bootkube.log", f"{timestamp(5)} host job.sh[{PID}]: Error: no login with {SECRET}"),
    ],
    ids=["in a cause", "as the quoted line"],
)
def test_secrets_in_evidence_are_masked_on_the_console(tmp_path: Path, path: str, line: str) -> None:
    record(tmp_path, "bootkube", *failed_run(error_message="Use --help"))
    places = Places(tmp_path)
    a_round = Round(places, {}, Log(2, is_journal=False), read_settings(places, {}), ReporterState())
    a_round.evidence = observed(tmp_path, files=((path, f"{line}\n".encode()),))
    assert SECRET in describe_verdict(a_round.evidence)
    a_round.show_verdict("Log in: service-record analyze")
    shown = places.issue.read_text()
    assert "redacted" in shown
    assert SECRET not in shown


def record(root: Path, service: str, *entries: Entry) -> None:
    directory = Places(root).records
    directory.mkdir(parents=True, exist_ok=True)
    write_lines(directory / f"{service}.json", *entries)


def loop(times: int, error: str = "") -> list[Entry]:
    """Return the entries of `times` failed runs in one boot that differ only in times, ids and addresses."""
    return [
        found
        for number in range(times)
        for found in failed_run(
            at=number * 20,
            invocation_id=f"{number:032x}",
            error_message=f"{number}: dial tcp 10.0.0.{number}:6443: connection refused{error}",
        )
    ]  # fmt: skip


@contextmanager
def kubelet(status: int = 200, *, hangs: bool = False) -> Iterator[str]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.respond(status, b"ok")

    if hangs:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/healthz"
        return
    with serve(Handler) as port:
        yield f"http://127.0.0.1:{port}/healthz"


def test_kubelet_is_healthy_only_if_it_answers_200() -> None:
    with kubelet() as url:
        assert is_healthy(url)
    with kubelet(500) as url:
        assert not is_healthy(url)
    assert not is_healthy(url)


def test_hanging_kubelet_does_not_block() -> None:
    with kubelet(hangs=True) as url:
        begun = monotonic()
        assert not is_healthy(url)
        assert monotonic() - begun < 60


ENCAPSULATED = "/etc/ignition-machine-config-encapsulated.json"
CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"


@pytest.mark.parametrize(
    ("files", "traces"),
    [
        pytest.param([], (), id="none"),
        pytest.param([ENCAPSULATED], ("is_pending",), id="configuration pending"),
        pytest.param([f"{ENCAPSULATED}.bak"], ("is_applied",), id="configuration applied"),
        pytest.param([ENCAPSULATED, "/etc/machine-config-daemon/currentconfig"], ("is_applied",), id="both"),
        pytest.param([CERTIFICATE], ("has_kubelet",), id="kubelet has run"),
        pytest.param(["/etc/kubernetes/kubelet.conf"], (), id="kubelet is only configured"),
    ],
)
def test_files_show_how_far_the_host_came(tmp_path: Path, files: list[str], traces: tuple[str, ...]) -> None:
    for name in files:
        path = Places(tmp_path).at(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    found = observed(tmp_path)
    known = ("is_pending", "is_applied", "has_kubelet")
    assert tuple(name for name in known if getattr(found, name)) == traces


def test_host_without_records_has_no_verdict(tmp_path: Path) -> None:
    found = observed(tmp_path)
    assert (found.verdict, found.is_wrong) == (None, False)
    assert require(found.unread).startswith(f"{tmp_path}/var/log/openshift: no records; ")
    assert found.fingerprint


def test_failed_service_makes_the_host_wrong(tmp_path: Path) -> None:
    record(tmp_path, "bootkube", *failed_run())
    found = observed(tmp_path)
    assert found.verdict is Verdict.FAILED
    assert found.is_wrong
    assert not found.is_only_reboot


def test_failed_unit_alone_does_not_fail_host(tmp_path: Path) -> None:
    record(tmp_path, "bootkube", entry(), entry(Phase.SERVICE_END, 5))
    found = observed(tmp_path, units=("boot-reporter.service", "chronyd.service"))
    assert (found.verdict, found.is_wrong) == (Verdict.SUCCEEDED, False)
    says = "failed: chronyd.service: systemd's reason is not known; nothing is recorded of it"
    assert describe_verdict(found) == says
    assert describe_verdict(observed(tmp_path)) == "succeeded: nothing is wrong"


@pytest.mark.parametrize("layout", ["lines", "array"])
def test_end_of_a_huge_record_is_judged(tmp_path: Path, layout: str) -> None:
    entries = [*failed_run("long ago"), *loop(5000, error="x" * 2000)]
    data = b"".join(entry.to_line() for entry in entries) if layout == "lines" else our_array(*entries)
    assert len(data) > 16 << 20
    Places(tmp_path).records.mkdir(parents=True)
    (Places(tmp_path).records / "job.json").write_bytes(data)
    found = observed(tmp_path)
    assert found.verdict is Verdict.LOOPING
    (service,) = require(found.history).services
    assert not service.malformed
    assert 1000 < len(service.runs) < 5000


def test_damaged_records_change_the_fingerprint(tmp_path: Path) -> None:
    Places(tmp_path).records.mkdir(parents=True)
    (Places(tmp_path).records / "job.json").write_bytes(b"\0\xff{" * 99)
    assert observed(tmp_path).fingerprint != observed(tmp_path / "other").fingerprint


def test_lost_record_makes_the_host_wrong(tmp_path: Path) -> None:
    record(tmp_path, "job", entry(), entry(Phase.SERVICE_END, 5))
    assert not observed(tmp_path).is_wrong
    (Places(tmp_path).records / "bootkube.json").write_bytes(b"\0\xff{" * 99)
    found = observed(tmp_path)
    assert found.is_wrong
    assert "bootkube" in describe_verdict(found)
    (Places(tmp_path).records / "job.json").unlink()
    found = observed(tmp_path)
    assert (found.verdict, found.is_wrong) == (None, True)
    assert describe_verdict(found) == (
        "unknown: the record of bootkube is damaged, and no run in it can be read"
    )


def test_torn_entry_beside_a_run_is_not_wrong(tmp_path: Path) -> None:
    record(tmp_path, "job", entry(), entry(Phase.SERVICE_END, 5))
    with (Places(tmp_path).records / "job.json").open("ab") as file:
        file.write(b'{"timestamp": "20')
    assert not observed(tmp_path).is_wrong


def test_real_host_is_observed(tmp_path: Path) -> None:
    found = observe(Places(tmp_path))
    assert found.uptime > 0
    assert len(found.boot_id) == 32


def test_repeated_failure_keeps_its_fingerprint(tmp_path: Path) -> None:
    prints = set()
    for times in (3, 4, 30):
        record(tmp_path / str(times), "job", *loop(times))
        found = observed(tmp_path / str(times), uptime=9000.0 + times)
        assert found.verdict is Verdict.LOOPING
        prints.add(found.fingerprint)
    assert len(prints) == 1


def test_boot_loop_keeps_its_fingerprint(tmp_path: Path) -> None:
    prints = []
    for boots in range(1, 9):
        entries = [
            found
            for boot in range(boots)
            for found in failed_run(at=boot * 1200, boot_id=f"{boot:032x}", invocation_id=f"{boot:032x}")
        ]
        for number, found in enumerate(entries):
            entries[number] = replace(found, uptime=60.0 + number % 4)
        record(tmp_path, "job", *entries)
        prints.append(observed(tmp_path, boot_id=f"{boots - 1:032x}").fingerprint)
    assert len(set(prints)) == 2, "one before the loop is recognized, and one after"
    assert len(set(prints[3:])) == 1


OTHERS = {
    "another stage": lambda root: record(root, "job", *failed_run("third")),
    "another line": lambda root: record(root, "job", *failed_run(error_line="13 main /usr/local/bin/job.sh")),
    "another status": lambda root: record(root, "job", *failed_run(exit_code=2)),
    "another message": lambda root: record(root, "job", *failed_run(error_message="permission denied")),
    "a signal": lambda root: record(root, "job", *failed_run(signal="KILL")),
    "another service": lambda root: record(root, "other", entry(), entry(Phase.SERVICE_END)),
    "another verdict": lambda root: record(root, "job", *loop(3)),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_new_failure_has_a_new_fingerprint(tmp_path: Path, name: str) -> None:
    record(tmp_path, "job", *failed_run())
    before = observed(tmp_path).fingerprint
    OTHERS[name](tmp_path)
    assert observed(tmp_path).fingerprint != before


def test_failed_unit_changes_the_fingerprint_but_numbers_do_not(tmp_path: Path) -> None:
    def with_unit(*names: str) -> str:
        return observed(tmp_path, units=names).fingerprint

    assert with_unit("crio.service") != with_unit()
    assert with_unit("dump@1-200-0.service") == with_unit("dump@7-931-0.service")
    assert with_unit("boot-reporter.service") == with_unit()


def test_uptime_does_not_change_the_fingerprint(tmp_path: Path) -> None:
    record(tmp_path, "job", *failed_run())
    later = observed(tmp_path, uptime=20_000.0)
    assert later.fingerprint == observed(tmp_path).fingerprint


def test_wrong_clock_does_not_change_the_fingerprint(tmp_path: Path) -> None:
    record(tmp_path / "a", "job", *failed_run())
    record(tmp_path / "b", "job", *(replace(one, timestamp="1970-01-01T00:00:09Z") for one in failed_run()))
    assert observed(tmp_path / "a").fingerprint == observed(tmp_path / "b").fingerprint


def test_progress_of_a_running_service_keeps_the_fingerprint(tmp_path: Path) -> None:
    start = entry(Phase.SERVICE_START, pid=None)
    record(tmp_path, "job", start)
    before = observed(tmp_path, uptime=70.0)
    record(tmp_path, "job", start, entry(Phase.STAGE_START, 1, stage="next", pid=None))
    after = observed(tmp_path, uptime=75.0)
    assert (before.verdict, after.verdict) == (Verdict.RUNNING, Verdict.RUNNING)
    assert after.fingerprint == before.fingerprint


def test_interruption_by_a_reboot_only_is_recognized(tmp_path: Path) -> None:
    record(tmp_path, "job", entry(Phase.SERVICE_START), entry(Phase.STAGE_START, 1, stage="pull"))
    found = observed(tmp_path, boot_id=NEXT, uptime=30.0)
    assert (found.verdict, found.is_only_reboot) == (Verdict.INTERRUPTED, True)


def test_verdict_names_a_loss_of_power(tmp_path: Path) -> None:
    record(tmp_path, "install-to-disk", entry(), entry(Phase.STAGE_START, 1, stage="write-image"))

    found = observed(tmp_path, boot_id=NEXT, uptime=5)

    assert describe_verdict(found) == (
        "interrupted: install-to-disk in stage write-image: the host went down meanwhile"
    )


def test_unknown_boot_id_does_not_mean_another_boot(tmp_path: Path) -> None:
    record(tmp_path, "job", entry(pid=None))

    found = observed(tmp_path, boot_id=None, uptime=5.0)

    assert found.verdict is Verdict.RUNNING


def test_planned_reboot_is_not_wrong(tmp_path: Path) -> None:
    end = {
        "result": Result.FAILURE,
        "signal": "TERM",
        "service_result": "success",
        "stop_request": "shutdown",
    }
    record(tmp_path, "job", entry(), entry(Phase.SERVICE_END, 5, **end))

    found = observed(tmp_path, boot_id=NEXT, uptime=5)

    assert (found.verdict, found.is_wrong) == (Verdict.STOPPED, False)
    assert (
        describe_verdict(found)
        == "stopped: job, stopped by systemd for a shutdown (SIGTERM); nothing is wrong"
    )
