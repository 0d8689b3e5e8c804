"""A real systemd and journald in about a second: systemd-nspawn boots the host's own /usr with an empty root.

systemd-nspawn(1), systemd.unit(5) for SuccessAction=, cgroups(7) for what a boot needs of the host.
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from service_record.history import build_history
from service_record.history.outcome import Run
from service_record.record.directory import Records
from service_record.record.entry import Entry
from testing import cgroup

REPOSITORY = Path(__file__).resolve().parents[1]
SHIM = REPOSITORY / "shell" / "bootstrap-service-record.sh"
FINDER = REPOSITORY / "shell" / "service-record-failure.sh"
EXIT_HELPER = REPOSITORY / "shell" / "service-record-exit.sh"
CLOSE_HELPER = REPOSITORY / "shell" / "service-record-close.sh"
TMPFILES = REPOSITORY / "units" / "tmpfiles.d" / "service-record.conf"
DROP_IN = REPOSITORY / "units" / "10-service-record.conf"
DROP_IN_OF_USERS = REPOSITORY / "units" / "10-service-record-user-manager.conf"
ENTER = 'for group in $GROUPS; do echo 0 >"$group/cgroup.procs" || exit; done; exec "$@"'
UNIT_SETTINGS = ("StartLimit", "Condition", "Description")

FINISH = """\
[Unit]
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/bash /observed/scenario
StandardOutput=file:/observed/output
StandardError=inherit
"""

# `rest` returns when none of the units runs any more or is about to.
PRELUDE = """\
start() { systemctl start "$@" || :; }
rest() {
  local unit
  for unit; do
    until [[ $(systemctl show --property=ActiveState --value "$unit") == @(inactive|failed) ]]; do
      sleep 0.05
    done
  done
}
power_loss() { touch /observed/power-loss; sleep infinity; }
"""

BASH_HEAD = """\
#!/usr/bin/env bash
set -euoE pipefail
. /usr/local/bin/bootstrap-service-record.sh
"""

PYTHON_HEAD = """\
#!/venv/bin/python
import service_record
"""


def why_not() -> str | None:
    """Say why no machine can be booted here; None when one can be."""
    if os.geteuid() != 0:
        return "not root"
    if shutil.which("systemd-nspawn") is None:
        return "systemd-nspawn is not installed"
    namespaces = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "true"], check=False, capture_output=True
    )
    if namespaces.returncode != 0 or not all(os.access(path, os.W_OK) for path in cgroup.systemd()):
        return "this root may make no namespaces or control groups, so no machine can be had here"
    return None


class BootError(Exception):
    """The machine did not come up, or its scenario did not end; the text is what its console said."""


class Machine:
    """One machine, booted as often as needed: its units, programs and records stay, its boot id does not."""

    def __init__(self, root: Path, *, is_its_own_clock: bool = False, wants: tuple[str, ...] = ()) -> None:
        """Make the machine's directories in ROOT. With a clock of its own its uptime begins with its boot.

        Its boots start these units, beside what every boot does.
        """
        self.records = Records(root / "records")
        self._is_its_own_clock = is_its_own_clock
        self._units = root / "units"
        self._programs = root / "programs"
        self._observed = root / "observed"
        self._console = self._observed / "console"
        self._binds: list[str] = []
        for directory in (self.records.directory, self._units, self._programs, self._observed):
            directory.mkdir()
        # systemd 252 that has just read its units again may, at its shutdown, wait for this one for ever.
        (self._units / "swap.target").symlink_to("/dev/null")
        # It fails where the machine has no terminal or no credentials, whatever the kernel's argument says.
        (self._units / "systemd-firstboot.service").symlink_to("/dev/null")
        started = f"[Unit]\nWants={' '.join(wants)}"
        (self._units / "finish.service").write_text(FINISH.replace("[Unit]", started, 1))
        for program in (SHIM, FINDER, EXIT_HELPER, CLOSE_HELPER, *python_to_lend()):
            shutil.copy(program, self._programs)

    def unit(self, name: str, *settings: str) -> None:
        """Add NAME.service with these lines in its [Service] section, or in [Unit] where they belong."""
        unit = [setting for setting in settings if setting.startswith(UNIT_SETTINGS)]
        service = [setting for setting in settings if setting not in unit]
        self.write_unit(f"{name}.service", "\n".join(["[Unit]", *unit, "[Service]", *service, ""]))

    def write_unit(self, name: str, text: str) -> None:
        """Add a unit of any kind, under its full name."""
        (self._units / name).write_text(text)

    def program(self, name: str, text: str) -> None:
        """Add the executable /usr/local/bin/NAME."""
        path = self._programs / name
        path.write_text(text)
        path.chmod(0o755)

    def bash_service(self, name: str, body: str, *settings: str) -> None:
        """Add a service with a script that the shim records, NAME.sh; BODY begins in line 4."""
        self.program(f"{name}.sh", BASH_HEAD + textwrap.dedent(body))
        self.unit(name, f"ExecStart=/usr/local/bin/{name}.sh", *settings)

    def python_service(self, name: str, body: str, *settings: str) -> None:
        """Add a service with a program that imports the library, NAME.py."""
        self.program(f"{name}.py", PYTHON_HEAD + textwrap.dedent(body))
        self.unit(name, f"ExecStart=/usr/local/bin/{name}.py", *settings)

    def drop_in(self, unit: str = "") -> None:
        """Install the drop-in for one unit, or for every service of the machine."""
        directory = self._units / f"{unit}.service.d" if unit else self._units / "service.d"
        directory.mkdir()
        shutil.copy(DROP_IN, directory)
        if not unit:
            managers = self._units / "user@.service.d"
            managers.mkdir()
            shutil.copy(DROP_IN_OF_USERS, managers / DROP_IN.name)

    def replace_path(self, unit: str, path: str) -> None:
        """Let the exit helper of a unit find its programs in PATH. It does not use the PATH of the unit."""
        text, count = re.subn("(?m)^PATH=.*$", f"PATH={path}", EXIT_HELPER.read_text())
        assert count == 1
        self.program(f"exit-{unit}.sh", text)
        directory = self._units / f"{unit}.service.d"
        directory.mkdir(exist_ok=True)
        command = f"-+/usr/bin/timeout --signal=KILL 10 /usr/local/bin/exit-{unit}.sh"
        (directory / "20-path.conf").write_text(f"[Service]\nExecStopPost=\nExecStopPost={command}\n")

    def tmpfiles(self) -> None:
        """Have each boot make the inbox and the copy of the uptime, as a host does where we are installed."""
        self._binds.append(f"--bind-ro={TMPFILES}:/run/tmpfiles.d/{TMPFILES.name}")

    def bind(self, host: Path, inside: str) -> None:
        """Give the machine a directory of the host, writable."""
        self._binds.append(f"--bind={host}:{inside}")

    def boot(self, scenario: str, *, seconds: float = 180, uptime: float = 0) -> str:
        """Boot, run the scenario, power off; return what the scenario printed.

        A machine with a clock of its own may begin with so many seconds of uptime.

        The scenario is bash, with the functions of PRELUDE. After `power_loss` every process is gone at once;
        nothing shuts down.
        """
        output = self._observed / "output"
        output.unlink(missing_ok=True)
        (self._observed / "power-loss").unlink(missing_ok=True)
        (self._observed / "scenario").write_text(PRELUDE + scenario)
        with cgroup.groups(cgroup.systemd()) as groups:
            self._run(groups, seconds, uptime)
        if not output.exists():
            raise BootError(self._console.read_text(errors="replace"))
        return output.read_text()

    def _run(self, groups: list[Path], seconds: float, uptime: float) -> None:
        environment = {"GROUPS": " ".join(map(str, groups)), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
        with (
            self._console.open("wb") as console,
            subprocess.Popen(
                ["sh", "-c", ENTER, "sh", *self._nspawn(uptime)],
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} | environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            deadline = time.monotonic() + seconds
            while process.poll() is None and not self._power_is_lost() and time.monotonic() < deadline:
                time.sleep(0.02)
            in_time = process.poll() is not None or self._power_is_lost()
            busy = "" if in_time else "\n".join((cgroup.processes(groups), _jobs(groups)))
            cgroup.pull_the_plug(groups)
        if not in_time:
            raise BootError(f"its scenario did not end within {seconds} s\n{busy}\n{self._output()}")

    def _output(self) -> str:
        files = [self._observed / name for name in ("output", "console")]
        texts = {path.name: path.read_text(errors="replace") for path in files if path.exists()}
        return "\n".join(f"-- {name}:\n{text}" for name, text in texts.items())

    def _power_is_lost(self) -> bool:
        return (self._observed / "power-loss").exists()

    def _nspawn(self, uptime: float) -> Iterator[str]:
        if self._is_its_own_clock:  # time_namespaces(7)
            up, awake = int(time.clock_gettime(time.CLOCK_BOOTTIME)), int(time.monotonic())
            began = [
                f"--{name}={int(uptime) - now}" for name, now in (("boottime", up), ("monotonic", awake))
            ]
            yield from ("unshare", "--time", "--fork", *began)
        yield from ("systemd-nspawn", "--quiet", "--boot")
        yield from ("--register=no", "--keep-unit", "--private-network", "--console=pipe")
        yield f"--machine=service-record-{uuid.uuid4().hex[:12]}"
        yield f"--bind-ro={self._units}:/run/systemd/system"
        yield f"--bind={self._observed}:/observed"
        yield from self._system()
        yield from self._binds
        yield from ("systemd.firstboot=off", "systemd.unit=finish.service", "systemd.show_status=no")
        yield "systemd.setenv=PYTHONPATH=/src"

    def _system(self) -> Iterator[str]:
        """Provide its programs and its disk: here those of the host, read-only, and an empty root."""
        yield from ("--directory=/", "--volatile=yes")
        yield f"--bind-ro={self._programs}:/usr/local/bin"
        yield f"--bind={self.records.directory}:/var/log/openshift"
        yield f"--bind-ro={REPOSITORY}:/src"
        yield f"--bind-ro={sys.prefix}:/venv"
        if not sys.base_prefix.startswith("/usr"):
            yield f"--bind-ro={sys.base_prefix}"

    def entries(self, service: str) -> list[Entry]:
        """Return every entry of a service, in order; damage fails the test."""
        pieces = list(self.records.read(service))
        assert not [piece for piece in pieces if not isinstance(piece, Entry)]
        return [piece for piece in pieces if isinstance(piece, Entry)]

    def phases(self, service: str) -> list[str]:
        """Return the marks of a service's entries, in order, with the names of stages and commands."""
        return [" ".join(filter(None, (entry.phase, _name(entry)))) for entry in self.entries(service)]

    def runs(self, service: str) -> tuple[Run, ...]:
        """Return the runs in the record of a service."""
        return tuple(build_history([(service, self.records.read(service))]).services[0].runs)

    def attempts(self, service: str) -> tuple[Run, ...]:
        """Return the runs that stand for each attempt."""
        return tuple(build_history([(service, self.records.read(service))]).services[0].attempts)

    def show(self, *arguments: str) -> str:
        """Return the output of `service-record show` for this machine's records, read on the host."""
        return self._read("show", *arguments)

    def analyze(self, *arguments: str, status: int = 0) -> str:
        """Return the output of `service-record analyze` for them; it has to exit with this status."""
        return self._read("analyze", *arguments, status=status)

    def _read(self, verb: str, *arguments: str, status: int = 0) -> str:
        program = Path(sys.executable).with_name("service-record")
        command = [str(program), verb, "--from", str(self.records.directory), *arguments]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        assert done.returncode == status, done.stdout
        return done.stdout

    @property
    def observed(self) -> Path:
        """Return the machine's directory /observed, for what a scenario leaves there."""
        return self._observed


def _jobs(groups: list[Path]) -> str:
    """Return the jobs that the systemd in these groups waits for."""
    systemd = next((pid for pid, name in cgroup.names(groups) if name == "systemd"), None)
    if systemd is None:
        return "no systemd"
    command = ["nsenter", f"--target={systemd}", "--all", "timeout", "10", "systemctl", "list-jobs", "--full"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def python_to_lend() -> list[Path]:
    """Return the interpreter's directories that the machine's programs would hide."""
    interpreter = Path(sys.executable).resolve()
    return [interpreter] if interpreter.parent == Path("/usr/local/bin") else []


def _name(entry: Entry) -> str | None:
    return entry.stage or entry.pre_command or entry.post_command
