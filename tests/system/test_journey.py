"""From `service-record ignition` to the verdict on a laptop: a host boots twice, its reporter the executable.

The machine has what the config names, written by an applier here, and systemd boots it; its /usr is this
host's. That the executable needs no Python is for tests/test_standalone.py.
"""

import base64
import gzip
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest

from service_record.history.outcome import Outcome
from tests.assisted_installation import CONTROL_PLANE_IGNITION, LOCAL_IGNITION, Claim, Host
from tests.assisted_rules import AssistedRules
from tests.assisted_server import AssistedServer
from tests.command_line import service_record
from tests.standalone import can_be_built
from tests.system.reporter_host import TOKEN, URL, ReporterHost
from tests.system.unix_relay import relay

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not can_be_built(), reason="no gcc, Python.h or shared libpython: it cannot be had here"
    ),
]
POINTER = "ignition-machine-config-encapsulated.json"
BOOTKUBE = f"""
    record_service_stage_start etcd-bootstrap
    record_service_stage_success
    record_service_stage_start cvo-bootstrap
    if [[ -e /etc/{POINTER} ]]; then
      echo 'Error: pinging container registry registry.example.net: Get "https://registry.example.net/v2/":' \
        'dial tcp: lookup registry.example.net on 192.0.2.53:53: no such host' >&2
      (exit 125)
    fi
    record_service_stage_success
"""


def config(directory: Path, host: Host, executable: Path) -> dict[str, dict[str, list[dict[str, object]]]]:
    """What the installer team gets."""
    token = directory / "token.txt"
    token.write_text(TOKEN)
    made = service_record(
        *("ignition", "--role", "worker", "--url", URL, "--token-file", token, "--executable", executable),
        *("--cluster-id", host.cluster_id, "--infra-env-id", host.infra_env_id, "--host-id", host.id),
    )
    assert made.status == 0, made.err
    document: dict[str, dict[str, list[dict[str, object]]]] = json.loads(made.out)
    return document


def decoded(contents: dict[str, str]) -> bytes:
    kind, _, text = contents["source"].partition(",")
    data = base64.b64decode(text) if kind.endswith(";base64") else unquote_to_bytes(text)
    return gzip.decompress(data) if contents.get("compression") == "gzip" else data


def apply(document: dict[str, dict[str, list[dict[str, object]]]], places: dict[str, Path]) -> None:
    """Write files and units as Ignition would, below the directories that are the machine's."""
    for file in document["storage"]["files"]:
        path = place_of(str(file["path"]), places)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(decoded(file["contents"]))  # type: ignore[arg-type]  # of JSON
        path.chmod(int(str(file["mode"])))
    units = places["/etc/"] / "systemd/system"
    for unit in document["systemd"]["units"]:
        name = str(unit["name"])
        (units / name).write_text(str(unit["contents"]))
        if unit.get("enabled"):
            (units / "timers.target.wants").mkdir(exist_ok=True)
            (units / "timers.target.wants" / name).symlink_to(f"../{name}")


def place_of(path: str, places: dict[str, Path]) -> Path:
    for top, directory in places.items():
        if path.startswith(top):
            return directory / path.removeprefix(top)
    raise AssertionError(f"{path}: the machine has no such directory")


@contextmanager
def assisted() -> Iterator[tuple[AssistedServer, Host]]:
    with AssistedServer(AssistedRules(auth_type="local")) as server:
        host = server.rules.add_host(stage="Rebooting")
        server.rules.tokens[TOKEN] = Claim(host.infra_env_id)
        yield server, host


def bare(directory: Path, host: Host) -> ReporterHost:
    """The machine of the reporter's tests without the reporter, but for the drop-ins that a machine needs."""
    machine = ReporterHost(directory, host)
    shutil.rmtree(machine.etc / "service-record")
    shutil.rmtree(machine.etc / "systemd/system/timers.target.wants")
    for name in ("boot-reporter.service", "boot-reporter.timer"):
        (machine.etc / "systemd/system" / name).unlink()
    for program in ("service-record", "bootstrap-service-record.sh", "service-record-exit.sh"):
        (directory / "programs" / program).unlink()
    return machine


def test_what_ignition_brings_reports_both_boots_and_the_laptop_names_the_cause_of_the_first(
    tmp_path: Path, executable: Path
) -> None:
    root = tmp_path / "host"
    root.mkdir()
    with assisted() as (server, installed):
        host = bare(root, installed)
        host.machine.bash_service("bootkube", BOOTKUBE)
        shared = root / "share"
        apply(
            config(tmp_path, installed, executable),
            {"/etc/": host.etc, "/usr/local/bin/": root / "programs", "/usr/local/": shared},
        )
        host.leave(POINTER, "{}")
        with relay(host.observed / "assisted.socket", server.port):
            host.boot("start bootkube; rest bootkube; round")
            assert installed.info == LOCAL_IGNITION
            (uploaded,) = server.rules.objects.values()

            (host.etc / POINTER).rename(host.etc / f"{POINTER}.bak")
            host.leave("machine-config-daemon/currentconfig", "{}")
            host.boot("start bootkube; rest bootkube; round")
            assert installed.info == CONTROL_PLANE_IGNITION

            host.boot("""
                start kubelet
                until [[ ! -e /etc/systemd/system/boot-reporter.service ]]; do sleep 0.1; done
                rest boot-reporter
            """)
    assert [run.outcome for run in host.machine.runs("bootkube")] == [Outcome.FAILURE, Outcome.SUCCESS]
    assert not host.holds_the_token()
    assert not (host.etc / "service-record/reporter.toml").exists()

    bundle = tmp_path / "upload.tar.gz"
    bundle.write_bytes(uploaded)
    answer = service_record("analyze", "--from", bundle)
    assert answer.status == 1, answer.err
    assert "bootkube in stage cvo-bootstrap" in answer.out
    assert "dns-no-such-name" in answer.out
    assert TOKEN.encode() not in uploaded
