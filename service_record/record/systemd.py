"""Get facts about this process and this host from systemd and the kernel.

No function raises an exception. Unknown facts are None or empty.
"""

from __future__ import annotations

import os
import stat
import time

from service_record.record import is_foreign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime
    from typing import Final

_ID_DIGITS: Final = 32
_HEXADECIMAL: Final = frozenset("0123456789abcdef")
_SERVICE: Final = ".service"
_SCOPE: Final = ".scope"
_UNIT_NAME: Final = r"(?a:[\w:.\\@-]+)"
_MAX_OUTPUT_BYTES: Final = 4 << 20  # of journalctl or systemctl, from the end

_DROP_IN: Final = "10-service-record.conf"
_UNIT_DIRECTORIES: Final = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system")
_PROPERTIES: Final = (
    *("Id", "InvocationID", "ActiveState", "MainPID", "ControlPID", "ExecMainStartTimestampMonotonic"),
    *("InactiveExitTimestampMonotonic", "DropInPaths"),
)


class RunningService:
    """A running service whose end systemd will record."""

    __slots__ = ("invocation_id", "pid", "started", "unit", "uptime")

    def __init__(
        self, unit: str, invocation_id: str, pid: int | None, started: datetime, uptime: float
    ) -> None:
        """`pid` is that of the main process; None while only a pre-command runs.

        `started` is the time of its start, and `uptime` the same in seconds since the boot.
        """
        self.unit = unit
        self.invocation_id = invocation_id
        self.pid = pid
        self.started = started
        self.uptime = uptime


_REUSE_SLACK_SECONDS: Final = 1.0  # a program starts before it records, but these times are inexact


def unit_of_process(pid: int | None = None, user: int | None = None) -> str | None:
    """Return the systemd service of a process, with its suffix: `bootkube.service`.

    The default is this process. With `user`, returns None if the process belongs to another user.
    """
    directory = f"/proc/{'self' if pid is None else pid}"
    try:
        if user is not None and os.stat(directory).st_uid != user:  # noqa: PTH116  # pathlib costs too much
            return None
    except OSError as error:
        if is_foreign(error):
            raise
        return None
    return unit_of_cgroup(_read(f"{directory}/cgroup") or "")


def unit_of_cgroup(lines: str) -> str | None:
    """Return the service that owns a cgroup, from the lines of /proc/PID/cgroup; see cgroups(7).

    The innermost unit decides: a process in a scope (a login, a container) is not part of the service around.
    """
    for line in lines.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers not in {"", "name=systemd"}:
            continue
        units = [name for name in path.split("/") if name.endswith((_SERVICE, _SCOPE))]
        if units:
            return units[-1] if units[-1].endswith(_SERVICE) else None
    return None


def invocation_id() -> str | None:
    """Return $INVOCATION_ID if it has 32 hexadecimal digits, as systemd sets it; see systemd.exec(5)."""
    identity = os.environ.get("INVOCATION_ID", "")
    return identity if _is_id(identity) else None


def _is_id(text: str) -> bool:
    return len(text) == _ID_DIGITS and _HEXADECIMAL.issuperset(text)


def boot_id() -> str | None:
    """Return the id of this boot as journalctl prints it: 32 hexadecimal digits without dashes."""
    identity = (_read("/proc/sys/kernel/random/boot_id") or "").strip().replace("-", "")
    return identity if _is_id(identity) else None


def host_id() -> str | None:
    """Return an id of this host that does not reveal the machine id, as machine-id(5) requires."""
    machine = _read("/etc/machine-id")
    if not machine or not _is_id(machine.strip()):
        return None
    from hashlib import blake2b  # recorders do not need it

    return blake2b(b"service-record", digest_size=16, key=machine.strip().encode()).hexdigest()


def uptime() -> float | None:
    """Return seconds since boot, suspended time included, to a hundredth."""
    return None if _BOOT_CLOCK is None else time.clock_gettime_ns(_BOOT_CLOCK) // 10**7 / 100


def uptime_text() -> str:
    """Return the uptime as text; empty if it is unknown.

    Do not format a float: this is called for each entry, and rounding would take twice as long.
    """
    if _BOOT_CLOCK is None:
        return ""
    return "%d.%02d" % divmod(time.clock_gettime_ns(_BOOT_CLOCK) // 10**7, 100)  # noqa: UP031  # faster


def _find_boot_clock() -> int | None:
    try:
        time.clock_gettime(time.CLOCK_BOOTTIME)
    except OSError as error:
        if is_foreign(error):
            raise
        return None
    return time.CLOCK_BOOTTIME


_BOOT_CLOCK: Final = _find_boot_clock()  # once, because `uptime` is called for each entry


def failed_units(timeout: float = 5.0) -> tuple[str, ...]:
    """Return the failed units; empty if systemd does not answer within `timeout` seconds."""
    ask = ["systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--no-pager", "--full"]
    lines = (_output_of(ask, timeout) or "").splitlines()
    return tuple(line.split()[0] for line in lines if line.strip())


def running_services(timeout: float = 2.0) -> tuple[RunningService, ...]:
    """Return the running services with our drop-in; empty if systemd does not answer in `timeout` seconds."""
    from pathlib import Path  # recorders do not need it

    if not any(next(Path(place).glob(f"*service.d/{_DROP_IN}"), None) for place in _UNIT_DIRECTORIES):
        return ()
    ask = ["systemctl", "show", f"*{_SERVICE}", f"--property={','.join(_PROPERTIES)}", "--no-pager"]
    return tuple(_running_in(_output_of(ask, timeout) or ""))


def _running_in(output: str) -> Iterator[RunningService]:
    """Yield the running services in the output of `systemctl show`."""
    from datetime import UTC, datetime, timedelta  # recorders do not need it

    now, monotonic = datetime.now(UTC), time.clock_gettime(time.CLOCK_MONOTONIC)
    for paragraph in output.split("\n\n"):
        unit = dict(line.partition("=")[::2] for line in paragraph.splitlines())
        pid, command = unit.get("MainPID", "0"), unit.get("ControlPID", "0")
        is_running = pid != "0" or (command != "0" and unit.get("ActiveState") == "activating")
        if not is_running or f"/{_DROP_IN}" not in unit.get("DropInPaths", ""):
            continue
        began = "InactiveExitTimestampMonotonic" if pid == "0" else "ExecMainStartTimestampMonotonic"
        uptime = int(unit[began]) / 1_000_000
        started = now - timedelta(seconds=monotonic - uptime)
        yield RunningService(unit["Id"], unit["InvocationID"], int(pid) or None, started, round(uptime, 2))


def is_alive(pid: int, uptime: float | None) -> bool | None:
    """Return True if the process with this pid at this uptime is still running; None if /proc is hidden.

    A process that started later has the same number by chance; see proc_pid_stat(5).
    """
    stat_line = _read(f"/proc/{pid}/stat")
    if stat_line is None:
        is_told = os.path.exists("/proc/self/stat") and not os.path.exists(f"/proc/{pid}/stat")  # noqa: PTH110
        return False if is_told else None
    fields = stat_line.rpartition(")")[2].split()
    state, started = fields[0], int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return state not in {"Z", "X"} and (uptime is None or started <= uptime + _REUSE_SLACK_SECONDS)


def is_running() -> bool:
    """Return True if systemd is the init system of this host; see sd_booted(3)."""
    try:
        return stat.S_ISDIR(os.lstat("/run/systemd/system").st_mode)
    except OSError:
        return False


def unit_properties(
    units: Iterable[str], properties: Iterable[str], timeout: float = 2.0, *, with_failed: bool = True
) -> str | None:
    """Return the output of `systemctl show` for these units and, by default, for all failed units.

    None if it does not answer within `timeout` seconds. Invalid names of units are left out.
    """
    import re  # recorders do not need it

    names = [unit for unit in units if re.fullmatch(_UNIT_NAME, unit)]
    ask = ["systemctl", "show", "--no-pager", f"--property={','.join(properties)}"]
    if with_failed:
        ask.append("--state=failed")
        names.append("*")
    return _output_of([*ask, "--", *names], timeout) if names else ""


def booted() -> float:
    """Return the zero of systemd's monotonic timestamps, in seconds since 1970."""
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)


def unit_file(unit: str, timeout: float = 2.0) -> str:
    """Return a unit's file with its drop-ins; empty if there is none, or without an answer in time."""
    return _output_of(["systemctl", "cat", "--no-pager", "--", unit], timeout) or ""


def messages_about(units: Iterable[str], lines: int, timeout: float = 2.0) -> str:
    """Return the last messages of systemd about these units in this boot, one in each line."""
    matches = [f"UNIT={unit}" for unit in units]
    options = ["--quiet", "--no-pager", "--boot", "--output=cat", f"--lines={lines}"]
    return _output_of(["journalctl", *options, "_PID=1", *matches], timeout) or ""


def journal_tail(invocation: str | None, lines: int = 3, timeout: float = 2.0) -> str | None:
    """Return the last journal lines of one invocation, oldest first; None if there are none in time.

    They include lines of this process that journald could not assign to the invocation. The last lines may
    not be in the journal's files yet, so half of the time is for `journalctl --sync`. Not every user may call
    it, and a hanging journald does not answer.
    """
    if invocation is None:
        return None
    deadline = time.monotonic() + timeout
    _output_of(["journalctl", "--sync"], timeout / 2)
    boot = boot_id()
    own = ["+", f"_BOOT_ID={boot}", f"_PID={os.getpid()}"] if boot else []
    options = ["--quiet", "--no-pager", "--output=cat", f"--lines={lines}"]
    ask = ["journalctl", *options, f"_SYSTEMD_INVOCATION_ID={invocation}", *own]
    return (_output_of(ask, deadline - time.monotonic()) or "").rstrip("\n") or None


def journal_lines(invocation: str, since: float, lines: int, timeout: float = 2.0) -> list[str]:
    """Return the last journal lines of one invocation since a time in seconds since 1970, oldest first.

    There are none if journalctl does not answer within `timeout` seconds. Unlike in `journal_tail`, journald
    is not asked to write its files first: it would have to every few seconds.
    """
    options = ["--quiet", "--no-pager", "--output=cat", f"--lines={lines}", f"--since=@{since:.6f}"]
    printed = _output_of(["journalctl", *options, f"_SYSTEMD_INVOCATION_ID={invocation}"], timeout)
    return (printed or "").splitlines()[-lines:]


def _output_of(command: list[str], timeout: float) -> str | None:
    try:
        # Imported here, because it takes longer to load than the rest of a recorder.
        from service_record.record.programs import Deadline, ProgramError, run
    except ImportError:  # after a chroot, in which there is no systemctl either
        return None
    try:
        status, output, _ = run(command, os.environ, Deadline(timeout), _MAX_OUTPUT_BYTES, keeps_end=True)
    except (ProgramError, OSError) as error:
        if is_foreign(error):
            raise
        return None
    return output.decode(errors="replace") if status == 0 else None


def _read(path: str) -> str | None:
    opened: list[int] = []
    closing = map(os.close, opened)
    try:
        # In one step: a signal handler of the service that raises must not leave a descriptor open.
        opened.extend(map(os.open, (path,), (os.O_RDONLY | os.O_CLOEXEC,)))
        content = os.read(opened[0], 1 << 16)
    except OSError as error:
        if is_foreign(error):
            raise
        return None
    finally:
        for _ in closing:  # see appending.open_into
            pass
    return content.decode(errors="replace")
