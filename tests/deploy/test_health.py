"""`service-record doctor`: every fault of the recorder on a host has a line that says how to mend it."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service_record.deploy.delivered import CLOSING, Option
from service_record.deploy.installing import install
from service_record.deploy.root import Root
from tests.command_line import service_record

SHIM = "usr/local/bin/bootstrap-service-record.sh"
SETTINGS = """\
[assisted_service]
url = "http://192.0.2.1:8090"
cluster_id = "4a2d0e1c-5a3f-4f30-9c70-111111111111"
infra_env_id = "4a2d0e1c-5a3f-4f30-9c70-222222222222"
host_id = "4a2d0e1c-5a3f-4f30-9c70-333333333333"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "root"
    directory.mkdir()
    return directory


def examined(root: Path | str, **environment: Any) -> dict[str, tuple[str, str, str]]:
    """Return state, detail and advice of each check."""
    answer = service_record("doctor", "--root", root, "--output", "json", **environment)
    document = json.loads(answer.out)
    assert answer.status == int(document["failed"]), answer.err
    return {
        each["check"]: (each["state"], each["detail"], each["advice"] or "") for each in document["checks"]
    }


def install_on(root: Path, *options: Option) -> None:
    install(Root(root), options, ())


def test_host_without_recorder_gets_install_command(root: Path) -> None:
    checks = examined(root)

    assert checks["files"][0] == checks["drop-ins"][0] == "failed"
    assert "service-record install" in checks["files"][2]
    assert "--all-services" in checks["drop-ins"][2]
    assert checks["boot reporter"][0] == checks["records"][0] == "not checked"


def test_installed_recorder_has_no_faults(root: Path) -> None:
    install_on(root, Option.ALL_SERVICES)
    (root / "var/log/journal/5f").mkdir(parents=True)
    (root / "var/log/journal/5f/system.journal").touch()

    checks = examined(root)

    assert {check: state for check, (state, _, _) in checks.items() if state == "failed"} == {}
    assert checks["drop-ins"][1].endswith("all services")
    assert checks["journal"][0] == "passed"


def test_services_with_own_drop_in_are_named(root: Path) -> None:
    install_on(root)
    for directory in ("etc/systemd/system/kubelet.service.d", "usr/lib/systemd/system/crio.service.d"):
        (root / directory).mkdir(parents=True)
        (root / directory / CLOSING).touch()

    assert examined(root)["drop-ins"][:2] == ("passed", "systemd records the end of crio, kubelet")


@pytest.mark.parametrize(
    ("change", "detail", "advice"),
    [
        (lambda path: path.unlink(), "not installed", "service-record install"),
        (lambda path: path.write_text("# mine\n"), "edited", "--replace"),
    ],
)
def test_missing_or_edited_shim_is_a_fault(
    root: Path, change: Callable[[Path], object], detail: str, advice: str
) -> None:
    install_on(root, Option.ALL_SERVICES)
    change(root / SHIM)

    state, message, mend = examined(root)["files"]

    assert (state, detail in message, advice in mend) == ("failed", True, True)


def test_missing_part_of_the_shim_is_counted(root: Path) -> None:
    install_on(root)
    (root / "usr/local/share/service-record/service-record-close.sh").unlink()

    assert examined(root)["files"][:2] == ("failed", "1 missing")


def test_package_has_the_files(root: Path) -> None:
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/bootstrap-service-record.sh").symlink_to("../share/service-record/x")

    assert examined(root)["files"][0] == "passed"


def test_journal_in_memory_is_a_fault(root: Path) -> None:
    (root / "run/log/journal").mkdir(parents=True)

    state, _, advice = examined(root)["journal"]

    assert (state, "/var/log/journal" in advice) == ("failed", True)


def test_world_writable_records_are_a_fault(root: Path) -> None:
    directory = root / "var/log/openshift"
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    state, detail, advice = examined(root)["records"]
    assert (state, "0777" in detail) == ("failed", True)

    directory.chmod(0o750)
    assert f"chmod 0750 {directory}" in advice
    assert examined(root)["records"][0] == "passed"


def test_records_in_memory_are_a_fault(root: Path, tmp_path: Path) -> None:
    memory = Path("/dev/shm") / f"doctor-{tmp_path.name}-{tmp_path.parent.name}"
    memory.mkdir()
    try:
        state, detail, _ = examined("/", SERVICE_RECORDS_DIR=str(memory))["records"]
    finally:
        memory.rmdir()

    assert (state, "tmpfs" in detail) == ("failed", True)


def test_reporter_needs_settings(root: Path) -> None:
    install_on(root, Option.REPORTER)
    (root / "usr/local/bin").mkdir(parents=True)
    (root / "usr/local/bin/service-record").touch()

    assert examined(root)["boot reporter"][0] == "failed"
    (root / "etc/service-record").mkdir(parents=True)
    (root / "etc/service-record/reporter.toml").write_text(SETTINGS)
    (root / "etc/service-record/token").write_text("abc.def.ghi\n")
    (root / "etc/service-record/token").chmod(0o600)
    assert examined(root)["boot reporter"][0] == "passed"


def test_finished_reporter_is_no_fault(root: Path) -> None:
    (root / "var/lib/service-record").mkdir(parents=True)
    (root / "var/lib/service-record/reporter.stopped").touch()

    state, detail, _ = examined(root)["boot reporter"]

    assert (state, "finished" in detail) == ("passed", True)


def test_collector_connection_is_tested() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        reached = examined("/", SERVICE_RECORD_COLLECTOR=url)[url]
    refused = examined("/", SERVICE_RECORD_COLLECTOR=url)[url]

    assert reached[0] == "passed"
    assert (refused[0], refused[1]) == ("failed", "Connection refused")


def test_output_is_readable(root: Path) -> None:
    answer = service_record("doctor", "--root", root)

    assert answer.out.splitlines()[0].startswith("✗ files: ")
    assert answer.out.splitlines()[-1].endswith("not checked")
