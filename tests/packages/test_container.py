"""The container of the boot reporter: its Quadlet and its Containerfile say what the documents promise."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from service_record.cli.collector import serve_command
from service_record.reporter.paths import Places
from tests.programs import REPOSITORY

QUADLET = REPOSITORY / "packages/container/boot-reporter.container"
QUADLET_PROGRAM = "usr/libexec/podman/quadlet"
KEYS_OF_4_4 = {
    *("AddCapability", "DropCapability", "Exec", "Image", "Network", "NoNewPrivileges", "PodmanArgs"),
    *("ReadOnly", "SecurityLabelDisable", "Volume"),
}
"""Of [Container], those that are used here and that podman 4.4, the first with Quadlet, knows."""
IN_COMMON = (
    *("SuccessExitStatus", "LogLevelMax", "RuntimeMaxSec", "Nice", "CPUWeight"),
    *("OOMScoreAdjust", "LimitCORE"),
)


def values(unit: Path, section: str) -> list[tuple[str, str]]:
    (text,) = re.findall(rf"^\[{section}\]\n(.*?)(?=^\[|\Z)", unit.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


def mounts() -> dict[str, str]:
    """Path on the host -> `ro` or `rw`; it is the same path in the container."""
    found = {}
    for name, value in values(QUADLET, "Container"):
        if name == "Volume":
            host, inside, *options = value.split(":")
            assert host == inside
            found[host] = options[0] if options else "rw"
    return found


def test_first_podman_with_quadlet_knows_each_key() -> None:
    assert {name for name, _ in values(QUADLET, "Container")} <= KEYS_OF_4_4


def test_records_and_journal_are_mounted_read_only() -> None:
    assert {path for path, mode in mounts().items() if mode == "rw"} == {
        "/etc",
        str(Places().state_directory),
    }
    assert mounts()["/var"] == mounts()["/run/log"] == "ro"
    assert Places().records.is_relative_to("/var")
    assert ("ReadOnly", "true") in values(QUADLET, "Container")


def test_container_has_the_priority_of_the_unit() -> None:
    ours = dict(values(QUADLET, "Service"))
    unit = dict(values(REPOSITORY / "units/boot-reporter.service", "Service"))
    assert {name: ours[name] for name in IN_COMMON} == {name: unit[name] for name in IN_COMMON}


def test_container_has_capabilities_and_command_of_unit() -> None:
    container = dict(values(QUADLET, "Container"))
    unit = dict(values(REPOSITORY / "units/boot-reporter.service", "Service"))
    assert container["DropCapability"] == "all"
    assert container["AddCapability"] == unit["CapabilityBoundingSet"]
    assert unit["ExecStart"] == f"-/usr/local/bin/service-record {container['Exec']}"


def test_container_does_nothing_beside_the_executable() -> None:
    assert ("ConditionPathExists", "!/usr/local/bin/service-record") in values(QUADLET, "Unit")
    unit = dict(values(REPOSITORY / "units/boot-reporter.service", "Unit"))
    assert unit["ConditionFileIsExecutable"] == "/usr/local/bin/service-record"


def test_containerfile_builds_the_image_of_the_quadlet() -> None:
    text = (REPOSITORY / "Containerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert all(base == "scratch" or base.startswith("registry.access.redhat.com/ubi9/") for base in bases)
    (image,) = [value for name, value in values(QUADLET, "Container") if name == "Image"]
    assert f"podman build -t {image.removesuffix(':latest')} ." in text
    assert "packages.standalone" in text


@pytest.fixture
def generator(tmp_path: Path) -> Path:
    """The program that makes units of Quadlets: this machine's, or else Debian 13's, not installed."""
    installed = Path("/", QUADLET_PROGRAM)
    if installed.exists():
        return installed
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("no podman with Quadlet, and no apt-get to fetch it: it cannot be had here")
    for directory in ("lists/partial", "cache/archives/partial"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "sources.list").write_text("deb http://deb.debian.org/debian trixie main\n")
    places = {"Etc::sourcelist": "sources.list", "State::lists": "lists", "Cache": "cache"}
    apt = ["apt-get", "-qq", "-oDir::Etc::sourceparts=/dev/null", "-oAPT::Sandbox::User=root"]
    apt += [f"-oDir::{name}={tmp_path / place}" for name, place in places.items()]
    for arguments in (["update"], ["download", "podman"]):
        if subprocess.run([*apt, *arguments], cwd=tmp_path, check=False).returncode:
            pytest.skip("no podman with Quadlet, and Debian does not answer: it cannot be had here")
    (package,) = tmp_path.glob("podman_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, tmp_path / "podman"], check=True)
    return tmp_path / "podman" / QUADLET_PROGRAM


@pytest.mark.slow
def test_quadlet_generates_a_service(generator: Path, tmp_path: Path) -> None:
    units = tmp_path / "units"
    units.mkdir()
    shutil.copy(QUADLET, units)
    done = subprocess.run(
        [generator, "-dryrun"],
        env=os.environ | {"QUADLET_UNIT_DIRS": str(units)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ExecStart=/usr/bin/podman run" in done.stdout


def test_compose_collector_has_database_and_objects() -> None:
    composed = yaml.safe_load((REPOSITORY / "packages/container/compose.yaml").read_text())["services"]
    text = (REPOSITORY / "Containerfile").read_text()
    page = (REPOSITORY / "docs/collector-operation.md").read_text()
    for name in ("collector", "collector-2"):
        service = composed[name]
        assert f"--target collector -t {service['image'].removesuffix(':latest')} ." in text
        parameters = serve_command.make_context("serve", service["command"][1:]).params
        assert (parameters["host"], parameters["objects"]) == ("0.0.0.0", "s3://bundles/collector")
        assert str(parameters["data"]) in service["volumes"][0]
        named = {each for each in service["environment"] if each.startswith("AWS_")}
        assert all(f"`{each}`" in page for each in named)
        assert "@database/" in service["environment"]["SERVICE_RECORD_DATABASE"]
