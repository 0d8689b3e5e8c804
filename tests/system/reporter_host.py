"""A host with the boot reporter that boots from its disk and reaches an assisted-service."""

import shutil
import subprocess
import uuid
from collections.abc import Iterable
from pathlib import Path

from testing.machine import REPOSITORY, Machine
from tests.assisted_installation import Host

UNITS = REPOSITORY / "units"
PORT = 8090
URL = f"http://127.0.0.1:{PORT}"
TOKEN = "canary-6b1f0a-of-this-very-host"

PROGRAM = """\
#!/bin/sh
exec /venv/bin/python -B /venv/bin/service-record "$@"
"""

# systemd-socket-proxyd(8): the machine has no network but its loopback.
SOCKET = f"""\
[Socket]
ListenStream=127.0.0.1:{PORT}
"""
PROXY = "ExecStart=/lib/systemd/systemd-socket-proxyd /observed/assisted.socket"

KUBELET = """\
#!/venv/bin/python
from http.server import BaseHTTPRequestHandler, HTTPServer

class Healthz(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

HTTPServer(("127.0.0.1", 10248), Healthz).serve_forever()
"""

# systemd-nspawn mounts the machine's own boot id over the kernel's; the sandbox would undo that.
MACHINE_SETTINGS = ("[Service]", "ProtectKernelTunables=no", "ProtectControlGroups=no")
# Each start is a round, and the timer starts one a second after the last has ended.
EAGER_SERVICE = ("[Service]", "ExecStart=", "ExecStart=/usr/local/bin/service-record report")
EAGER_TIMER = ("[Timer]", "OnUnitInactiveSec=1s", "AccuracySec=100ms")

HELPERS = """
leaks() { grep -rlaF "$(rev <<<"{reversed}")" /etc /root /run /tmp /var 2>/dev/null || :; }
round() { rest boot-reporter; start boot-reporter; rest boot-reporter; }
"""


class ReporterHost:
    """The machine. Its /etc and /var/lib persist over boots."""

    def __init__(
        self,
        root: Path,
        host: Host,
        *,
        url: str = URL,
        settings: str = "",
        eager: bool = True,
        wants: tuple[str, ...] = (),
    ) -> None:
        """Install the host below `root`. If `eager`, each start of the reporter is a round, and the timer
        starts one each second.
        """
        wants = ("timers.target", "assisted.socket", *wants)
        self.machine = Machine(root, is_its_own_clock=True, wants=wants)
        self.observed = root / "observed"
        self.etc, self.lib = root / "etc", root / "lib"
        for directory, target in ((self.etc, "/etc"), (self.lib, "/var/lib")):
            directory.mkdir()
            self.machine.bind(directory, target)
        self.machine.program("service-record", PROGRAM)
        self.machine.program("kubelet", KUBELET)
        self.machine.unit("kubelet", "ExecStart=/usr/local/bin/kubelet")
        self.machine.unit("assisted", PROXY)
        self.machine.write_unit("assisted.socket", SOCKET)
        self.write_file(
            "machine-id", f"{uuid.uuid4().hex}\n"
        )  # an installed host: systemd does not apply presets
        self._enable_reporter(eager=eager)
        self._configure(host, url, settings)

    def _enable_reporter(self, *, eager: bool) -> None:
        units = self.etc / "systemd/system"
        (units / "timers.target.wants").mkdir(parents=True)
        for name in ("boot-reporter.service", "boot-reporter.timer"):
            shutil.copy(UNITS / name, units)
        (units / "timers.target.wants/boot-reporter.timer").symlink_to("../boot-reporter.timer")
        self._drop_in("boot-reporter.service.d/machine.conf", MACHINE_SETTINGS)
        if eager:
            self._drop_in("boot-reporter.service.d/eager.conf", EAGER_SERVICE)
            self._drop_in("boot-reporter.timer.d/eager.conf", EAGER_TIMER)

    def _drop_in(self, name: str, lines: Iterable[str]) -> None:
        self.write_file(f"systemd/system/{name}", "\n".join([*lines, ""]))

    def _configure(self, host: Host, url: str, settings: str) -> None:
        directory = self.etc / "service-record"
        directory.mkdir()
        (directory / "token").write_text(f"{TOKEN}\n")
        (directory / "token").chmod(0o600)
        (directory / "reporter.toml").write_text(f"""
{settings}
[assisted_service]
url = "{url}"
cluster_id = "{host.cluster_id}"
infra_env_id = "{host.infra_env_id}"
host_id = "{host.id}"
""")

    def boot(self, scenario: str, *, uptime: float = 0) -> str:
        """Boot and run a scenario. It can use `round` (run one more round to its end) and `leaks` (list files
        with the token).
        """
        helpers = HELPERS.replace("{reversed}", TOKEN[::-1])
        return self.machine.boot(helpers + scenario, uptime=uptime, seconds=180)

    def write_file(self, path: str, text: str = "") -> None:
        """Write a file below the machine's /etc."""
        place = self.etc / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def list_reporter_files(self) -> set[str]:
        """Return the paths of the reporter's files on the machine's disk."""
        names = ("*boot-reporter*", "*service-record*", "*reporter.*")
        found = {path for root in (self.etc, self.lib) for name in names for path in root.rglob(name)}
        return {str(path.relative_to(self.etc.parent)) for path in found}

    def contains_token(self) -> bool:
        """Return whether any directory that the machine can write to contains the token."""
        places = [self.etc, self.lib, self.machine.records.directory, self.observed]
        found = subprocess.run(["grep", "-raF", TOKEN, *places], check=False, stdout=subprocess.DEVNULL)
        return found.returncode == 0
