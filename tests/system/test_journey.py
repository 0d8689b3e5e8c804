"""A host from `service-record ignition` to the verdict on a laptop, over two boots, without Python on the
host.

The host is a Debian with its own disk and the standalone executable. Only the files of the Ignition config
are written onto the disk; other files of the test are below /run.
"""

import base64
import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service_record.history.outcome import Outcome
from testing.debian import DebianMachine, NoDebianError
from testing.machine import BASH_HEAD
from tests.assisted_installation import CONTROL_PLANE_IGNITION, LOCAL_IGNITION, Host
from tests.assisted_server import AssistedServer, create_server_with_tokens
from tests.command_line import service_record
from tests.standalone import can_be_built
from tests.system.ignition_disk import Config, apply_config
from tests.system.reporter_host import EAGER_SERVICE, EAGER_TIMER, MACHINE_SETTINGS, PROXY, SOCKET, TOKEN, URL
from tests.system.unix_relay import relay

pytestmark = [
    pytest.mark.xdist_group("executable"),
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        not can_be_built(), reason="no gcc, Python.h or shared libpython: it cannot be had here"
    ),
]

POINTER = "ignition-machine-config-encapsulated.json"
BOOTKUBE = f"""{BASH_HEAD}\
record_service_stage_start etcd-bootstrap
record_service_stage_success
record_service_stage_start cvo-bootstrap
if [[ -e /etc/{POINTER} ]]; then
  echo 'Error: pinging container registry registry.example.net: Get "https://registry.example.net/v2/":' \\
    'dial tcp: lookup registry.example.net on 192.0.2.53:53: no such host' >&2
  (exit 125)
fi
record_service_stage_success
record_service_stage_start wait-for-control-plane
record_service_stage_success
"""
BOOTKUBE_SERVICE = """\
[Unit]
Description=Bootstrap a Kubernetes cluster
[Service]
ExecStart=/usr/local/bin/bootkube.sh
[Install]
WantedBy=multi-user.target
"""
# A healthy kubelet answers like this. For Accept=, see systemd.socket(5).
KUBELET_SOCKET = """\
[Socket]
ListenStream=127.0.0.1:10248
Accept=yes
"""
KUBELET_SERVICE = """\
[Service]
ExecStart=/bin/bash /observed/kubelet
StandardInput=socket
"""
KUBELET = r"""
while read -r line && [[ $line != $'\r' ]]; do :; done
printf 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok'
"""
ROUND = "round() { rest boot-reporter; start boot-reporter; rest boot-reporter; }"
UNTIL_REMOVED = f"""
    {ROUND}; rest bootkube; round
    start kubelet.socket
    until [[ ! -e /etc/systemd/system/boot-reporter.service ]]; do sleep 0.05; done
    rest boot-reporter
"""
REPORTER_FILES = {
    "/etc/service-record/reporter.toml",
    "/etc/service-record/token",
    "/etc/systemd/system/boot-reporter.service",
    "/etc/systemd/system/boot-reporter.timer",
    "/etc/systemd/system/timers.target.wants/boot-reporter.timer",
    "/usr/local/bin/service-record",
}
TOMBSTONE = "/var/lib/service-record/reporter.stopped"


def data_url(text: str) -> str:
    return "data:;base64," + base64.b64encode(text.encode()).decode()


def make_installer_config() -> Config:
    """Return the installer's config before ours: with the bootstrap service and a file of a host during
    installation.
    """
    program = {
        "path": "/usr/local/bin/bootkube.sh",
        "mode": 0o755,
        "contents": {"source": data_url(BOOTKUBE)},
    }
    pointer = {"path": f"/etc/{POINTER}", "mode": 0o600, "contents": {"source": data_url("{}")}}
    unit = {"name": "bootkube.service", "enabled": True, "contents": BOOTKUBE_SERVICE}
    return {
        "ignition": {"version": "3.4.0"},
        "storage": {"files": [program, pointer]},
        "systemd": {"units": [unit]},
    }


def make_config(directory: Path, host: Host, executable: Path) -> Config:
    """Return the merged config for the installer."""
    token, base = directory / "token.txt", directory / "base.ign"
    token.write_text(TOKEN)
    base.write_text(json.dumps(make_installer_config()))
    result = service_record(
        *("ignition", "--role", "single-node", "--merge", base, "--close", "bootkube"),
        *("--url", URL, "--token-file", token, "--executable", executable),
        *("--cluster-id", host.cluster_id, "--infra-env-id", host.infra_env_id, "--host-id", host.id),
    )
    assert result.status == 0, result.err
    document: Config = json.loads(result.out)
    return document


@contextmanager
def serve_assisted() -> Iterator[tuple[AssistedServer, Host]]:
    with create_server_with_tokens() as server:
        yield server, server.rules.add_rebooting_host(TOKEN, single_node=True)


@pytest.fixture
def host(tmp_path: Path) -> DebianMachine:
    """Create an installed host without our files; units of the test are below /run/systemd/system."""
    root = tmp_path / "host"
    root.mkdir()
    try:
        machine = DebianMachine(root, wants=("multi-user.target", "assisted.socket"))
    except NoDebianError as error:
        pytest.skip(f"no host without Python: {error}")
    (machine.disk / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
    machine.write_unit("assisted.socket", SOCKET)
    machine.unit("assisted", PROXY)
    machine.write_unit("kubelet.socket", KUBELET_SOCKET)
    machine.write_unit("kubelet@.service", KUBELET_SERVICE)
    (machine.observed / "kubelet").write_text(KUBELET)
    machine.settings("boot-reporter.service", *MACHINE_SETTINGS, *EAGER_SERVICE)
    machine.settings("boot-reporter.timer", *EAGER_TIMER)
    return machine


def list_files(root: Path) -> set[str]:
    """Return the paths of all files and links on a disk, as the host sees them."""
    walk = ((Path("/", Path(at).relative_to(root)), names) for at, _, names in os.walk(root))
    return {str(at / name) for at, names in walk for name in names}


def disk_contains(root: Path, text: str) -> bool:
    found = subprocess.run(
        ["grep", "--recursive", "--text", "--quiet", "--fixed-strings", text, root], check=False
    )
    return found.returncode == 0


def test_host_has_no_python(host: DebianMachine) -> None:
    names = ("python*", "libpython*", "pypy*")
    found = {path for name in names for path in host.disk.rglob(name)}
    assert {path for path in found if path.is_file()} == set()
    assert host.boot("compgen -c python; compgen -c pypy; echo none") == "none\n"


def test_ignition_host_reports_both_boots(tmp_path: Path, executable: Path, host: DebianMachine) -> None:
    before = list_files(host.disk)
    with serve_assisted() as (server, installed):
        written = apply_config(make_config(tmp_path, installed, executable), host.disk)
        assert list_files(host.disk) - before == written
        with relay(host.observed / "assisted.socket", server.port):
            host.boot(f"{ROUND}; rest bootkube; round", seconds=300)
            assert installed.info.startswith(f"{LOCAL_IGNITION}. failed: bootkube")
            (uploaded,) = server.rules.objects.values()

            (host.disk / "etc" / POINTER).rename(host.disk / "etc" / f"{POINTER}.bak")
            host.boot(UNTIL_REMOVED, seconds=300)
            assert installed.info == CONTROL_PLANE_IGNITION
    assert [run.outcome for run in host.runs("bootkube")] == [Outcome.FAILURE, Outcome.SUCCESS]

    remaining = list_files(host.disk)
    assert written - remaining == {*REPORTER_FILES, f"/etc/{POINTER}"}
    assert {
        path for path in remaining - before - written if "report" in path or "service-record" in path
    } == {TOMBSTONE}
    assert not disk_contains(host.disk, TOKEN)

    bundle = tmp_path / "upload.tar.gz"
    bundle.write_bytes(uploaded)
    answer = service_record("analyze", "--from", bundle)
    assert answer.status == 1, answer.err
    assert "bootkube in stage cvo-bootstrap" in answer.out
    assert "dns-no-such-name" in answer.out
    assert TOKEN.encode() not in uploaded
