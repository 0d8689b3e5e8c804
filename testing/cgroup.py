"""Control groups made for one test, so that several machines may run side by side; cgroups(7)."""

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path


def systemd() -> list[Path]:
    """Return the places where systemd sorts its processes: version 2, and version 1's named
    hierarchy if any.
    """
    return _mounted("cgroup2", "name=systemd")


def limiting(controller: str) -> list[Path]:
    """Return the places where version 1 has this controller and lets us use it; none with version 2."""
    return [path for path in _mounted(controller) if os.access(path, os.W_OK)]


def is_delegated(controller: str) -> bool:
    """Return whether version 2 delegates this controller to groups that we make."""
    switches = [path / "cgroup.subtree_control" for path in _mounted("cgroup2")]
    return any(controller in switch.read_text().split() for switch in switches)


def _mounted(*words: str) -> list[Path]:
    """Return the mount points of control groups whose filesystem type or options have one of these words."""
    paths = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, filesystem = line.partition(" - ")
        kind, _, options = filesystem.split(" ", 2)
        if kind.startswith("cgroup") and {kind, *options.split(",")} & set(words):
            paths.append(Path(mount.split(" ")[4]))
    return paths


@contextlib.contextmanager
def groups(hierarchies: list[Path]) -> Iterator[list[Path]]:
    """Make a new group in each of the hierarchies; end what is in it and remove it afterwards."""
    name = f"service-record-{uuid.uuid4().hex}"
    paths = [hierarchy / name for hierarchy in hierarchies]
    try:
        for path in paths:
            path.mkdir()
        yield paths
    finally:
        for path in paths:
            _remove(path)


def processes(groups: list[Path]) -> str:
    """List the processes of these groups and below, a line each: process, start, wait channel, command."""
    pids = ",".join(pid for pid, _ in names(groups))
    command = ["ps", "-o", "pid,ppid,etimes,stat,wchan:20,args", "-p", pids or "0"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def names(groups: list[Path]) -> list[tuple[str, str]]:
    """Process and its name, of all that run in these groups and below."""
    files = [file for group in groups for file in group.rglob("cgroup.procs")]
    pairs = []
    for pid in sorted({pid for file in files for pid in file.read_text().split()}, key=int):
        with contextlib.suppress(OSError):
            pairs.append((pid, Path(f"/proc/{pid}/comm").read_text().strip()))
    return pairs


def pull_the_plug(groups: list[Path]) -> None:
    """Kill every process of these groups and below: version 2 does so at once, version 1 one by one."""
    for path in groups:
        switch = path / "cgroup.kill"
        if switch.exists():
            switch.write_text("1")
            continue
        for processes in path.rglob("cgroup.procs"):
            for pid in processes.read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)


def _remove(path: Path) -> None:
    """Remove a group. It is busy until its last dead process is gone, some milliseconds after the kill."""
    pull_the_plug([path])
    deadline = time.monotonic() + 60
    while path.exists():
        try:
            for directory in sorted(path.rglob("*/"), reverse=True):
                directory.rmdir()
            path.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
