"""docs/single-node.md booted twice: the live system, whose records are in memory, then the disk.

The page's own commands make both systems' configs, which are written onto their roots as Ignition would.
Stand-ins are bootkube, with our shim in the place of upstream's, the kubelet, and `oc`.
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
from tests.collector.serving import Served, served, settings_in
from tests.command_line import Answer, service_record
from tests.docs.single_node_page import REPORTER_TOKEN, USER_TOKEN, Desk
from tests.running_server import QuietHandler, serve
from tests.system.applying import apply
from tests.system.reporter_host import IN_A_MACHINE, KUBELET, PROGRAM
from tests.system.unix_relay import relay

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed"),
]

# The way to the test's servers is this machine's network: it is there until its users have stopped.
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
# Its first start comes too early, as while a kubelet's configuration is not there.
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
    """A machine that boots from the root it is given: its /etc and /usr/local/bin, and on a disk its /var."""

    root: Path
    is_on_disk = False

    def new_root(self, root: Path, *, is_on_disk: bool) -> None:
        """Give it another root, with what every image has."""
        self.root, self.is_on_disk = root, is_on_disk
        for name in ("etc", "usr/local/bin", "var/lib", "var/log/openshift"):
            (root / name).mkdir(parents=True)
        (root / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
        for program in python_to_lend():
            shutil.copy(program, root / "usr/local/bin")

    def add_program(self, name: str, text: str) -> None:
        """Add what the image has, and nobody's config."""
        path = self.root / "usr/local/bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def settings(self, unit: str, *lines: str) -> None:
        """Add a drop-in for the machine, in /run."""
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
    """The web server with the executable."""

    def do_GET(self) -> None:
        data = PROGRAM.encode() if self.path == "/service-record" else b""
        self.respond(200 if data else 404, data)


class Journey:
    """The machine, and what it talks to."""

    def __init__(self, directory: Path, collector: Served, service: AssistedServer, files_port: int) -> None:
        self.collector, self.service = collector, service
        here = {"https://files.example.com": f"http://127.0.0.1:{files_port}"}
        infra_env = service.rules.add_infra_env(single_node=True)
        self.desk = Desk(directory / "desk", collector, service, infra_env, PROGRAM.encode(), here)
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
        """Give the machine the live system of the page; bootkube.service has these settings."""
        self.desk.follow("Required files")
        self.desk.follow("Into the discovery image")
        self.machine.new_root(root, is_on_disk=False)
        apply(loads(self.desk.infra_env.ignition_config_override), root)
        self.machine.add_program("bootkube.sh", BOOTKUBE)
        bootkube = ("ExecStart=/usr/local/bin/bootkube.sh", "Environment=SERVICE_RECORDS_LAYOUT=array")
        self.machine.unit("bootkube", *bootkube, *settings)

    @contextmanager
    def booting(self, scenario: str) -> Iterator[Callable[[str], None]]:
        """Boot in the background, until the end of the block; what it yields leaves a file in /observed."""
        with ExitStack() as stack:
            for name, port in self.ports.items():
                stack.enter_context(relay(self.machine.observed / f"{name}.socket", port))
            pool = stack.enter_context(ThreadPoolExecutor(1))
            booted = pool.submit(self.machine.boot, scenario, seconds=100)
            ended = threading.Event()
            booted.add_done_callback(lambda _: ended.set())
            self._ended = ended
            yield lambda name: (self.machine.observed / name).touch()
            self.output = booted.result()

    def wait_for(self, is_there: Callable[[], bool], what: str) -> None:
        """Wait until it is so, as long as the machine runs."""
        until = time.monotonic() + 60
        while not is_there():
            assert time.monotonic() < until, f"{what}: not within a minute"
            assert not self._ended.is_set(), f"{what}: the machine is off before"
            time.sleep(0.2)

    def held(self, service: str) -> str:
        """Return the collector's copy of a service's record."""
        answer = self.reader.get(f"/api/v1/hosts/sno1/records/{service}")
        return answer.body.decode() if answer.status == 200 else ""

    def read(self, *arguments: str) -> Answer:
        """Return the output of a verb about the host, run on somebody's laptop."""
        place = f"collector+http://127.0.0.1:{self.ports['collector']}/sno1"
        return service_record(*arguments, "--from", place, SERVICE_RECORD_TOKEN_FILE=str(self.token_file))

    def verdict(self) -> str:
        """The collector's own verdict on the records of the host."""
        self.collector.settle()
        return str(self.reader.get("/api/v1/hosts/sno1").json["summary"]["verdict"])


@pytest.fixture
def journey(tmp_path: Path) -> Iterator[Journey]:
    rules = AssistedRules(auth_type="rhsso")
    rules.user_key, rules.pull_secret_auth = USER_TOKEN, REPORTER_TOKEN
    with (
        served(settings_in(tmp_path / "collector")) as collector,
        AssistedServer(rules) as service,
        serve(_Files) as port,
    ):
        yield Journey(tmp_path, collector, service, port)


def registered(journey: Journey) -> Host:
    """The host, as the agent of the live system has made it known."""
    service = journey.service
    return service.rules.register(journey.desk.infra_env, role="master", status="known", stage="")


def test_single_node_is_seen_in_both_boots(journey: Journey, tmp_path: Path) -> None:
    desk, machine = journey.desk, journey.machine
    journey.make_live(tmp_path / "live", "Restart=on-failure", "RestartSec=200ms")
    with journey.booting(LIVE) as leave:
        host = registered(journey)
        desk.follow("Onto the disk")
        leave("discovered")
        journey.wait_for(lambda: journey.held("bootkube").count("service start") == 2, "the second attempt")
        failed = journey.read("show")
        assert "cvo-bootstrap" in failed.out
        assert "no such host" in failed.out
        assert "attempt 2; before: failed in stage" in journey.read("analyze").out
        leave("repaired")
    assert journey.output.split()[0] == "tmpfs", "the records were in memory, and are gone"
    assert journey.held("bootkube").count('"service end"') == 2

    host.stage, host.status = "Rebooting", "installing-in-progress"
    disk = tmp_path / "disk"
    machine.new_root(disk, is_on_disk=True)
    apply(loads(host.ignition_config_overrides), disk)
    machine.add_program("kubelet-stand-in", KUBELET)
    machine.add_program("kubelet.sh", KUBELET_STARTS)
    machine.add_program("oc", OC)
    kubelet = ("Type=notify", "NotifyAccess=all", "ExecStart=/usr/local/bin/kubelet.sh")
    machine.unit("kubelet", *kubelet, "Restart=always", "RestartSec=200ms")
    machine.settings("boot-reporter.service", *IN_A_MACHINE)
    with journey.booting(FROM_DISK) as leave:
        journey.wait_for(lambda: '"service end"' in journey.held("node-joined"), "the node")
        journey.wait_for(lambda: '"post-command end"' in journey.held("kubelet"), "the kubelet")
        journey.wait_for(lambda: bool(host.info), "the reporter")
        shown, live_boot = journey.read("show"), journey.read("show", "--boot", "1")
        analyzed = journey.read("analyze")
        journey.wait_for(lambda: journey.verdict() == "done", "the collector's verdict")
        leave("seen")

    assert shown.out.startswith("3 services: 3 succeeded\n")
    assert "2 boots" in shown.out
    assert "attempt 2, last entry" in shown.out, "the kubelet failed once, and was started again"
    assert "bootkube succeeded" in live_boot.out
    assert "node-joined" not in live_boot.out
    assert analyzed.status == 0
    assert host.info.startswith(LOCAL_IGNITION)  # and that the kubelet failed once
    assert (disk / "var/lib/node-joined").exists(), "later boots have neither of the two services"


def test_cause_survives_power_loss_of_live_system(journey: Journey, tmp_path: Path) -> None:
    journey.make_live(tmp_path / "live")
    with journey.booting(FAILS) as leave:
        leave("discovered")
        journey.wait_for(lambda: '"service end"' in journey.held("bootkube"), "the failure")
        leave("seen")
    analyzed = journey.read("analyze")
    assert analyzed.status == 1
    assert "bootkube in stage cvo-bootstrap" in analyzed.out
    assert "dns-no-such-name" in analyzed.out
    assert journey.verdict() == "failed"
