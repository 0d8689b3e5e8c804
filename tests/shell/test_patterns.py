"""Scripts that use the shim as each of upstream's does, and what upstream's readers say of their records."""

import io
import json
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from service_record.record.entry import Entry
from tests.archives import extract_all
from tests.bootstrap_host import (
    LAYOUTS,
    PATTERNS,
    BootstrapHost,
    export_arrays,
    make_bundle,
    read_as_upstream,
)
from tests.builders import array, require, upstream_entry
from tests.programs import summarize_entries
from tests.shell.scripts import Bash, bashes
from tests.upstream_reader import Judgement, UpstreamReader

SUCCEEDED = Judgement(starts=1, successful=True)
FAILED = 125
"""Exit status with which a program's stand-in fails."""
USER = 65534
"""Nobody in particular."""
EVERYTHING = (
    ("release-image", "release-image-download"),
    ("crio-configure", "crio-configure"),
    ("kubelet", "kubelet-pause-image"),
    ("kubelet", "kubelet"),
    ("approve-csr", "approve-csr"),
    ("progress", "report-progress"),
    ("bootkube", "bootkube"),
    ("chown-gatewayd-key", "chown-gatewayd-key"),
    ("install-to-disk", "install-to-disk"),
)
"""A bootstrap: each unit and its script."""


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=bashes(), ids=str)
def bash(request: pytest.FixtureRequest) -> Bash:
    found: Bash = request.param
    return found


@pytest.fixture
def host(tmp_path: Path, bash: Bash, layout: str) -> BootstrapHost:
    return BootstrapHost(tmp_path, bash, layout)


def line_of(script: str, text: str) -> int:
    """The number of the one line of a script that holds the text."""
    lines = (PATTERNS / f"{script}.sh").read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return number


def place(entry: Entry) -> tuple[int, str, str]:
    """Line, function and script of a failure."""
    line, function, path = require(entry.error_line).split(" ", 2)
    return int(line), function, Path(path).stem


def test_bootkube_sourcing_twice_is_one_attempt(host: BootstrapHost) -> None:
    assert host.run("bootkube") == 0

    assert summarize_entries(host.entries("bootkube")) == [
        "service start",
        *("stage start etcd-bootstrap", "stage end etcd-bootstrap success"),
        *("stage start api-bootstrap", "stage end api-bootstrap success"),
        *("stage start check-api_url", "stage end check-api_url success"),
        *("stage start check-api_int_url", "stage end check-api_int_url success"),
        *("stage start cluster-bootstrap", "stage end cluster-bootstrap success"),
        "service end success",
    ]
    upstream = host.read_as_upstream()
    assert upstream.judge("bootkube") == SUCCEEDED
    assert upstream.count_attempts("bootkube") == 1


def test_bootkube_failure_has_stage_and_line(host: BootstrapHost) -> None:
    assert host.run("bootkube", FAIL_AT="render-api") == FAILED

    judgement = host.read_as_upstream().judge("bootkube")
    assert (judgement.successful, judgement.failing_stage) == (False, "api-bootstrap")
    assert judgement.last_error.splitlines()[-1] == "podman: error: render-api failed"
    assert place(host.entries("bootkube")[-1]) == (line_of("bootkube", "render-$1"), "render", "bootkube")


def test_second_bootkube_attempt_skips_done_stages(host: BootstrapHost) -> None:
    host.run("bootkube", FAIL_AT="render-api")
    time.sleep(1)  # as systemd waits before a restart: bash 4.4 records whole seconds

    assert host.run("bootkube") == 0

    assert summarize_entries(host.entries("bootkube")).count("stage start etcd-bootstrap") == 1
    upstream = host.read_as_upstream()
    judgement = upstream.judge("bootkube")
    assert (judgement.starts, judgement.successful) == (2, True)
    assert upstream.count_attempts("bootkube") == 2


def test_stage_left_open_fails_with_the_script(
    host: BootstrapHost,
) -> None:
    """And its message is what was said last: what the script gathers before it exits."""
    assert host.run("bootkube", FAIL_AT="start-cluster") == FAILED

    assert summarize_entries(host.entries("bootkube"))[-3:] == [
        "stage start cluster-bootstrap",
        "stage end cluster-bootstrap failure",
        "service end failure",
    ]
    judgement = host.read_as_upstream().judge("bootkube")
    assert judgement.failing_stage == "cluster-bootstrap"
    assert judgement.last_error.splitlines()[-1] == "podman rm etcd"
    assert place(host.entries("bootkube")[-1]) == (line_of("bootkube", "exit "), "main", "bootkube")


def test_handled_stage_failure_keeps_service_success(
    host: BootstrapHost,
) -> None:
    assert host.run("bootkube", FAIL_AT="API_URL") == 0

    (failed,) = [entry for entry in host.entries("bootkube") if entry.result == "failure"]
    assert failed.stage == "check-api_url"
    called = line_of("verify-api-server-urls", "record_service_stage_failure")
    assert place(failed) == (called, "verify_url", "verify-api-server-urls")
    judgement = host.read_as_upstream().judge("bootkube")
    assert (judgement.starts, judgement.successful) == (1, True)


def test_gathered_own_record_ends_in_open_stage(host: BootstrapHost, tmp_path: Path) -> None:
    """So upstream calls bootkube failed, and knows of no stage in which."""
    assert host.run("bootkube", IN_PLACE="yes") == 0

    gathered = read_as_upstream(tmp_path / "gathered", host.layout)
    assert gathered.entries("bootkube")[-1]["stage"] == "master-ignition"
    assert gathered.judge("bootkube") == Judgement(starts=1, successful=False)
    assert host.read_as_upstream().judge("bootkube") == SUCCEEDED


def test_retry_loop_has_a_stage_per_try(host: BootstrapHost) -> None:
    assert host.run("release-image", "release-image-download", FAIL_AT="pull", FAIL_TIMES="20") == 0

    summary = summarize_entries(host.entries("release-image"))
    assert summary.count("stage end pull-release-image failure") == 20
    assert summary.count("stage end pull-release-image success") == 1
    upstream = host.read_as_upstream()
    judgement = upstream.judge("release-image")
    assert (judgement.starts, judgement.successful) == (1, True)
    assert upstream.count_attempts("release-image") == 1


def test_upstream_blames_earlier_service_before_bootkube(host: BootstrapHost) -> None:
    assert host.run("release-image", "release-image-download", FAIL_AT="inspect") == FAILED

    upstream = host.read_as_upstream()
    assert upstream.judge("release-image").failing_stage == "inspect-release-image"
    assert upstream.find_failure() == "release-image failed"


def test_service_without_stages_has_an_end(host: BootstrapHost) -> None:
    assert host.run("crio-configure") == 0
    assert host.read_as_upstream().judge("crio-configure") == SUCCEEDED

    assert host.run("crio-configure", FAIL_AT="pause-image") == FAILED
    judgement = host.read_as_upstream().judge("crio-configure")
    assert (judgement.starts, judgement.successful, judgement.failing_stage) == (2, False, "")
    assert judgement.last_error.endswith("podman: error: pause-image failed")


def test_pre_command_and_service_share_a_record(host: BootstrapHost) -> None:
    assert host.run("kubelet", "kubelet-pause-image") == 0
    assert host.run("kubelet") == 0

    assert summarize_entries(host.entries("kubelet")) == [
        "pre-command start kubelet-pause-image",
        "pre-command end kubelet-pause-image success",
        "service start",
        "service end success",
    ]
    upstream = host.read_as_upstream()
    assert upstream.services == ["kubelet"]
    assert upstream.judge("kubelet") == SUCCEEDED


def test_failed_pre_command_is_the_service_error(host: BootstrapHost) -> None:
    assert host.run("kubelet", "kubelet-pause-image", FAIL_AT="pause-image") == FAILED

    upstream = host.read_as_upstream()
    judgement = upstream.judge("kubelet")
    assert (judgement.starts, judgement.successful) == (0, False)
    assert judgement.last_error.endswith("podman: error: pause-image failed")
    assert upstream.entries("kubelet")[-1]["precommand"] == "kubelet-pause-image"


def test_service_ends_like_its_foreground_child(host: BootstrapHost) -> None:
    assert host.run("kubelet", FAIL_AT="run-kubelet") == FAILED

    (_, end) = host.entries("kubelet")
    assert end.exit_code == FAILED
    assert place(end) == (line_of("kubelet", "run-kubelet"), "main", "kubelet")
    judgement = host.read_as_upstream().judge("kubelet")
    assert (judgement.starts, judgement.successful) == (1, False)


def test_ignored_failures_are_not_recorded(host: BootstrapHost) -> None:
    assert host.run("approve-csr", FAIL_AT="clusterversion", FAIL_TIMES="3") == 0

    assert summarize_entries(host.entries("approve-csr")) == ["service start", "service end success"]
    assert host.read_as_upstream().judge("approve-csr") == SUCCEEDED


def test_stages_within_functions_are_recorded(host: BootstrapHost) -> None:
    assert host.run("progress", "report-progress", FAIL_AT="get", FAIL_TIMES="5") == 0

    assert summarize_entries(host.entries("progress")) == [
        "service start",
        *("stage start wait-for-bootstrap-complete", "stage end wait-for-bootstrap-complete success"),
        *("stage start report-bootstrap-complete", "stage end report-bootstrap-complete success"),
        "service end success",
    ]
    assert host.read_as_upstream().judge("progress") == SUCCEEDED


@pytest.mark.parametrize(
    ("failing", "stage"),
    [
        pytest.param("bootkube", "wait-for-bootkube", id="a command"),
        pytest.param("coreos-installer", "write-image to disk", id="a pipeline in a stage with spaces"),
        pytest.param("--reboot", "reboot", id="the last stage"),
    ],
)
def test_any_installation_stage_can_fail(host: BootstrapHost, failing: str, stage: str) -> None:
    assert host.run("install-to-disk", FAIL_AT=failing) == FAILED

    judgement = host.read_as_upstream().judge("install-to-disk")
    assert (judgement.successful, judgement.failing_stage) == (False, stage)


def test_sh_command_of_a_unit_is_recorded(host: BootstrapHost) -> None:
    assert host.run("chown-gatewayd-key") == 0
    assert host.read_as_upstream().judge("chown-gatewayd-key") == SUCCEEDED

    assert host.run("chown-gatewayd-key", FAIL_AT="chown") == FAILED
    judgement = host.read_as_upstream().judge("chown-gatewayd-key")
    assert (judgement.starts, judgement.successful) == (2, False)
    assert judgement.last_error.endswith("podman: error: chown failed")


def test_upstream_reports_nothing_for_healthy_host(host: BootstrapHost) -> None:
    run_everything(host)

    assert host.read_as_upstream().find_failure() is None


def test_upstream_names_failed_bootkube_stage(host: BootstrapHost) -> None:
    host.run("release-image", "release-image-download")
    host.run("bootkube", FAIL_AT="start-cluster")

    assert host.read_as_upstream().find_failure() == 'bootkube failed at stage "cluster-bootstrap"'


def run_everything(host: BootstrapHost) -> None:
    """A bootstrap of which each service ends well."""
    for unit, script in EVERYTHING:
        assert host.run(unit, script) == 0, host.journal.read_text()


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")
def test_jq_reads_what_is_recorded_exported_and_packed(host: BootstrapHost, tmp_path: Path) -> None:
    run_everything(host)
    arrays = export_arrays(host.records)
    with tarfile.open(fileobj=io.BytesIO(make_bundle(host.records))) as bundle:
        extract_all(bundle, tmp_path)
    bundled = tmp_path.glob("log-bundle-*/bootstrap/services/*.json")

    for path in [*host.records.iterdir(), *arrays.iterdir(), *bundled]:
        printed = subprocess.run(["jq", "--compact-output", ".", path], capture_output=True, check=True)
        documents = [json.loads(line) for line in printed.stdout.splitlines()]
        entries = documents[0] if isinstance(documents[0], list) else documents
        assert entries == [entry.to_json() for entry in host.entries(path.stem)]


@pytest.mark.skipif(os.geteuid() != 0, reason="to be somebody else takes root")
def test_user_gathers_arrays_with_root_copy(bash: Bash) -> None:
    """As upstream does: user core looks for the records and packs the copies, root copies."""
    with TemporaryDirectory() as place:
        directory = Path(place)
        directory.chmod(0o755)
        host = BootstrapHost(directory, bash, "array")
        run_everything(host)

        found = as_user("sh", "-c", 'printf "%s\\n" "$1"/*', "sh", host.records).decode().split()
        services = directory / "artifacts" / "bootstrap" / "services"
        services.mkdir(parents=True)
        subprocess.run(["cp", "-r", *found, services], check=True)
        bundle = as_user("tar", "-cz", "-C", directory / "artifacts", ".")

    assert UpstreamReader.from_bundle(bundle).find_failure() is None


def as_user(*command: str | Path) -> bytes:
    """Return the output of the command when its user is not root, and in none of root's groups."""
    return subprocess.run(
        command, user=USER, group=USER, extra_groups=[], capture_output=True, check=True
    ).stdout


@pytest.mark.parametrize("begun", [array(upstream_entry()), b"[]\n"], ids=["with an entry", "empty"])
def test_array_begun_by_upstream_stays_an_array(bash: Bash, begun: bytes, tmp_path: Path) -> None:
    host = BootstrapHost(tmp_path, bash, "lines")
    host.records.mkdir()
    (host.records / "bootkube.json").write_bytes(begun)

    assert host.run("bootkube") == 0

    upstream = UpstreamReader.from_directory(host.records)
    assert upstream.judge("bootkube").successful
    assert upstream.judge("bootkube").starts == begun.count(b"service start") + 1
