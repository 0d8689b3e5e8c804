"""Run rounds of the boot reporter, each in a process, on a host in a directory."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from service_record.reporter.paths import Places
from tests.assisted_installation import Host
from tests.builders import failed_run, write_lines
from tests.command_line import PROGRAM, Answer, run_command
from tests.fork_server import Command
from tests.programs import REPOSITORY

TOKEN = "canary-52d1ab-of-a-directory"
POINTER = "/etc/ignition-machine-config-encapsulated.json"
FULL_DISK = """
mount -t tmpfs -o size=64k tmpfs "$1" || exit 99
head --bytes=1M /dev/zero >"$1/filler" 2>/dev/null
shift; exec "$@"
"""
READ_ONLY_DISK = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 99; shift; exec "$@"'


class ReportingHost:
    """A host below `root` that has received its machine configuration but not applied it yet."""

    def __init__(self, root: Path, installed: Host, url: str, *settings: str) -> None:
        self.places = Places(root)
        self.installed = installed
        self.variables: dict[str, str] = {}
        """More environment variables for the rounds."""
        self.write("/etc/service-record/token", TOKEN).chmod(0o600)
        self.write(POINTER, "{}")
        self.places.records.mkdir(parents=True)
        self.write_settings(url, *settings)

    def write_settings(self, url: str, *settings: str) -> None:
        """Write the settings file: `settings` are lines before the service's section."""
        host = self.installed
        ids = {"cluster_id": host.cluster_id, "infra_env_id": host.infra_env_id, "host_id": host.id}
        rows = [*settings, "[assisted_service]", f'url = "{url}"', *(f'{k} = "{v}"' for k, v in ids.items())]
        self.write("/etc/service-record/reporter.toml", "\n".join(rows))

    def write(self, path: str, text: str | bytes = "") -> Path:
        place = self.places.at(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())
        return place

    def fail(self) -> None:
        """Write a record in which bootkube fails."""
        write_lines(self.places.records / "bootkube.json", *failed_run("pull-image"))

    def command(self, *arguments: str, uptime: int = 60) -> list[str]:
        """Return the command of a round `uptime` seconds after boot, which needs a new time namespace."""
        _skip_unless_root()
        up, awake = int(time.clock_gettime(time.CLOCK_BOOTTIME)), int(time.monotonic())
        clocks = [f"--boottime={uptime - up}", f"--monotonic={uptime - awake}"]
        report = [*PROGRAM, "report", "--root", str(self.places.root), *arguments]
        return ["unshare", "--time", "--fork", *clocks, *report]

    def environment(self) -> dict[str, str]:
        """Return the environment of a round. The host's own programs are first on PATH."""
        path = f"{self.places.at('/bin')}:{os.environ['PATH']}"
        return {"PATH": path, "PYTHONPATH": str(REPOSITORY)} | self.variables

    @contextmanager
    def start_report(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Start a round in the background, and kill it at the end of the block."""
        command = self.command()
        with subprocess.Popen(
            command, env=self.environment(), stderr=subprocess.PIPE, start_new_session=True
        ) as report:
            try:
                yield report
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(report.pid, signal.SIGKILL)

    def report(self, *arguments: str, uptime: int = 60, before: tuple[str, ...] = ()) -> Answer:
        """Run a round, with the words `before` in front of its command. Checks that no token is printed."""
        if before or any(name.startswith("PYTHON") for name in self.variables):
            command = [*before, *self.command(*arguments, uptime=uptime)]
            done = subprocess.run(
                command, env=self.environment(), capture_output=True, check=False, timeout=100
            )
            answer = Answer(done.returncode, done.stdout.decode(), done.stderr.decode())
        else:
            _skip_unless_root()
            words = ["report", "--root", str(self.places.root), *arguments]
            answer = run_command(Command(words, self.environment(), str(Path.cwd()), 0o022, uptime))
        assert TOKEN not in answer.out + answer.err
        return answer

    def files(self) -> set[str]:
        root = self.places.root
        return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}

    def list_spooled(self) -> list[Path]:
        return sorted(self.places.spool_directory.glob("[!.]*"))


def _skip_unless_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("a time namespace needs root rights")
