"""The systems of docs/single-node.md: the live system, with records in memory, and the installed one.

The commands of the page create both configs, which are written onto the root directories as Ignition does.
bootkube (with our shim instead of upstream's), the kubelet and `oc` are replaced by small programs.
"""

import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from json import loads
from pathlib import Path

import pytest

from service_record.collector.domain.access import TokenKind
from testing.machine import BASH_HEAD, REPOSITORY, Machine, python_to_lend
from tests.assisted_installation import LOCAL_IGNITION, Host
from tests.assisted_rules import AssistedRules
from tests.assisted_server import AssistedServer
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector
from tests.command_line import Answer, service_record
from tests.docs.single_node_page import REPORTER_TOKEN, USER_TOKEN, Desk
from tests.running_server import QuietHandler, serve
from tests.system.ignition_disk import apply_config
from tests.system.reporter_host import KUBELET, MACHINE_SETTINGS, PROGRAM
from tests.system.unix_relay import relay

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed"),
]

# The sockets to the test's servers are this machine's network: they stop after the units that use them.
NETWORK = "[Unit]\nBefore=network-online.target\n"
SOCKET = "[Socket]\nListenStream=127.0.0.1:{port}\n"
PROXY = "[Service]\nExecStart=/lib/systemd/systemd-socket-proxyd /observed/{name}.socket\n"
BOOTKUBE = f"""{BASH_HEAD}\
record_service_stage_start cvo-bootstrap
if [[ ! -e /run/tried ]]; then
  touch /run/tried
  echo 'Error: pinging container registry registry.example.net: Get "https://registry.example.net/v2/":' \\
    'dial tcp: lookup registry.example.net on 192.0.2.53:53: no such host' >&2
  (exit 125)
fi
until [[ -e /observed/repaired ]]; do sleep 0.1; done
record_service_stage_success
record_service_stage_start wait-for-ceo
record_service_stage_success
"""
# The first start fails, like that of a kubelet whose configuration is missing.
KUBELET_STARTS = """\
#!/bin/sh
[ -e /run/tried ] || { touch /run/tried; exit 1; }
systemd-notify --ready
exec /usr/local/bin/kubelet-stand-in
"""
OC = """\
#!/bin/sh
what="wait --for=condition=Ready node/$(uname -n)"
[ "$*" = "--kubeconfig /var/lib/kubelet/kubeconfig $what --timeout=60s" ]
"""
LIVE = """
stat --file-system --format=%T /var/log/openshift
until [[ -e /observed/discovered ]]; do sleep 0.1; done
start bootkube
until [[ -e /observed/repaired ]]; do sleep 0.1; done
rest bootkube
"""
FAILS = """
until [[ -e /observed/discovered ]]; do sleep 0.1; done
start bootkube
until [[ -e /observed/seen ]]; do sleep 0.1; done
power_loss
"""
FROM_DISK = """
start kubelet
until [[ -e /observed/seen ]]; do sleep 0.1; done
rest node-joined boot-reporter
"""


class Node(Machine):
    """A machine with a replaceable root: its /etc and /usr/local/bin, and on a disk its /var."""

    root: Path
    is_on_disk = False

    def replace_root(self, root: Path, *, is_on_disk: bool) -> None:
        """Replace the root by a new one with the files of every image."""
        self.root, self.is_on_disk = root, is_on_disk
        for name in ("etc", "usr/local/bin", "var/lib", "var/log/openshift"):
            (root / name).mkdir(parents=True)
        (root / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
        for program in python_to_lend():
            shutil.copy(program, root / "usr/local/bin")

    def add_program(self, name: str, text: str) -> None:
        """Add a program of the image, which no config contains."""
        path = self.root / "usr/local/bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def settings(self, unit: str, *lines: str) -> None:
        """Add a drop-in below /run for a unit."""
        (self._units / f"{unit}.d").mkdir()
        (self._units / f"{unit}.d/machine.conf").write_text("\n".join([*lines, ""]))

    def _system(self) -> Iterator[str]:
        yield from ("--directory=/", "--volatile=yes")
        yield from (f"--bind-ro={REPOSITORY}:/src", f"--bind-ro={sys.prefix}:/venv")
        if not sys.base_prefix.startswith("/usr"):
            yield f"--bind-ro={sys.base_prefix}"
        for name in (
            "etc",
            "usr/local/bin",
            "usr/local/share",
            *(("var/lib", "var/log") if self.is_on_disk else ()),
        ):
            yield f"--bind={self.root / name}:/{name}"


class _Files(QuietHandler):
    """Serves the executable."""

    def do_GET(self) -> None:
        data = PROGRAM.encode() if self.path == "/service-record" else b""
        self.respond(200 if data else 404, data)


class SingleNode:
    """The machine, and the servers that it uses."""

    def __init__(
        self, directory: Path, collector: RunningCollector, service: AssistedServer, files_port: int
    ) -> None:
        self.collector, self.service = collector, service
        urls = {"https://files.example.com": f"http://127.0.0.1:{files_port}"}
        infra_env = service.rules.add_infra_env(single_node=True)
        self.desk = Desk(directory / "desk", collector, service, infra_env, PROGRAM.encode(), urls)
        (directory / "machine").mkdir()
        self.ports = {"collector": int(collector.url.rpartition(":")[2]), "assisted": service.port}
        self.ports["files"] = files_port
        sockets = tuple(f"{name}.socket" for name in self.ports)
        self.machine = Node(
            directory / "machine", is_its_own_clock=True, wants=("multi-user.target", *sockets)
        )
        for name, port in self.ports.items():
            self.machine.write_unit(f"{name}.socket", NETWORK + SOCKET.format(port=port))
            self.machine.write_unit(f"{name}.service", NETWORK + PROXY.format(name=name))
        self.reader = collector.client(TokenKind.READER)
        self.token_file = directory / "reader"
        self.token_file.write_text(self.reader.token)

    def make_live(self, root: Path, *settings: str) -> None:
        """Give the machine the live system of the page; `settings` are those of bootkube.service."""
        self.desk.follow("Required files")
        self.desk.follow("Into the discovery image")
        self.machine.replace_root(root, is_on_disk=False)
        apply_config(loads(self.desk.infra_env.ignition_config_override), root)
        self.machine.add_program("bootkube.sh", BOOTKUBE)
        bootkube = ("ExecStart=/usr/local/bin/bootkube.sh", "Environment=SERVICE_RECORDS_LAYOUT=array")
        self.machine.unit("bootkube", *bootkube, *settings)

    @contextmanager
    def boot(self, scenario: str) -> Iterator[Callable[[str], None]]:
        """Boot in the background and wait for the end of the boot after the block. Yields a function that
        creates a file in /observed.
        """
        with ExitStack() as stack:
            for name, port in self.ports.items():
                stack.enter_context(relay(self.machine.observed / f"{name}.socket", port))
            pool = stack.enter_context(ThreadPoolExecutor(1))
            boot_result = pool.submit(self.machine.boot, scenario, seconds=100)
            ended = threading.Event()
            boot_result.add_done_callback(lambda _: ended.set())
            self._ended = ended
            yield lambda name: (self.machine.observed / name).touch()
            self.output = boot_result.result()

    def wait_for(self, condition: Callable[[], bool], description: str) -> None:
        """Wait until a condition holds, at most a minute and while the machine runs."""
        until = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < until, f"{description}: not within a minute"
            assert not self._ended.is_set(), f"{description}: the machine ended before"
            time.sleep(0.2)

    def read_record(self, service: str) -> str:
        """Return the collector's copy of a service's record."""
        answer = self.reader.get(f"/api/v1/hosts/sno1/records/{service}")
        return answer.body.decode() if answer.status == 200 else ""

    def read(self, *arguments: str) -> Answer:
        """Run a reading verb on the host's records at the collector."""
        place = f"collector+http://127.0.0.1:{self.ports['collector']}/sno1"
        return service_record(*arguments, "--from", place, SERVICE_RECORD_TOKEN_FILE=str(self.token_file))

    def read_verdict(self) -> str:
        """Return the collector's verdict on the host."""
        self.collector.settle()
        return str(self.reader.get("/api/v1/hosts/sno1").json["summary"]["verdict"])


@pytest.fixture
def journey(tmp_path: Path) -> Iterator[SingleNode]:
    rules = AssistedRules(auth_type="rhsso")
    rules.user_key, rules.pull_secret_auth = USER_TOKEN, REPORTER_TOKEN
    with (
        run_collector(make_collector_settings(tmp_path / "collector")) as collector,
        AssistedServer(rules) as service,
        serve(_Files) as port,
    ):
        yield SingleNode(tmp_path, collector, service, port)


def register_host(journey: SingleNode) -> Host:
    """Register the host, as the agent of the live system does."""
    service = journey.service
    return service.rules.register(journey.desk.infra_env, role="master", status="known", stage="")


def test_single_node_is_seen_in_both_boots(journey: SingleNode, tmp_path: Path) -> None:
    desk, machine = journey.desk, journey.machine
    journey.make_live(tmp_path / "live", "Restart=on-failure", "RestartSec=200ms")
    with journey.boot(LIVE) as create_file:
        host = register_host(journey)
        desk.follow("Onto the disk")
        create_file("discovered")
        journey.wait_for(
            lambda: journey.read_record("bootkube").count("service start") == 2, "the second attempt"
        )
        failed = journey.read("show")
        assert "cvo-bootstrap" in failed.out
        assert "no such host" in failed.out
        assert "attempt 2; before: failed in stage" in journey.read("analyze").out
        create_file("repaired")
    assert journey.output.split()[0] == "tmpfs", "the records were not in memory"
    assert journey.read_record("bootkube").count('"service end"') == 2

    host.stage, host.status = "Rebooting", "installing-in-progress"
    disk = tmp_path / "disk"
    machine.replace_root(disk, is_on_disk=True)
    apply_config(loads(host.ignition_config_overrides), disk)
    machine.add_program("kubelet-stand-in", KUBELET)
    machine.add_program("kubelet.sh", KUBELET_STARTS)
    machine.add_program("oc", OC)
    kubelet = ("Type=notify", "NotifyAccess=all", "ExecStart=/usr/local/bin/kubelet.sh")
    machine.unit("kubelet", *kubelet, "Restart=always", "RestartSec=200ms")
    machine.settings("boot-reporter.service", *MACHINE_SETTINGS)
    with journey.boot(FROM_DISK) as create_file:
        journey.wait_for(lambda: '"service end"' in journey.read_record("node-joined"), "the node")
        journey.wait_for(lambda: '"post-command end"' in journey.read_record("kubelet"), "the kubelet")
        journey.wait_for(lambda: bool(host.info), "the reporter")
        shown, live_boot = journey.read("show"), journey.read("show", "--boot", "1")
        analyzed = journey.read("analyze")
        journey.wait_for(lambda: journey.read_verdict() == "done", "the collector's verdict")
        create_file("seen")

    assert shown.out.startswith("3 services: 3 succeeded\n")
    assert "2 boots" in shown.out
    assert "attempt 2, last entry" in shown.out, "the second start of the kubelet is missing"
    assert "bootkube succeeded" in live_boot.out
    assert "node-joined" not in live_boot.out
    assert analyzed.status == 0
    assert host.info.startswith(LOCAL_IGNITION)  # and that the kubelet failed once
    assert (disk / "var/lib/node-joined").exists(), "both services would run in later boots"


def test_cause_survives_power_loss_of_live_system(journey: SingleNode, tmp_path: Path) -> None:
    journey.make_live(tmp_path / "live")
    with journey.boot(FAILS) as create_file:
        create_file("discovered")
        journey.wait_for(lambda: '"service end"' in journey.read_record("bootkube"), "the failure")
        create_file("seen")
    analyzed = journey.read("analyze")
    assert analyzed.status == 1
    assert "bootkube in stage cvo-bootstrap" in analyzed.out
    assert "dns-no-such-name" in analyzed.out
    assert journey.read_verdict() == "failed"
