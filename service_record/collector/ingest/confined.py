"""Reads bundles and records of anybody in a process that may take so much memory and time, and no more."""

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MIB: Final = 1 << 20
_LOOK: Final = 0.2
"""Seconds between two looks whether it is to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What reading one file may take."""

    memory: int = 1024 * _MIB
    """Bytes, the interpreter's own included."""
    seconds: int = 60
    """Of a processor; three times as many of the clock."""


class ReadingStopped(Exception):  # noqa: N818  # what was asked for
    """It was to stop before it had read a file."""


class NotRead(Exception):  # noqa: N818  # what is told of a file, not a fault of ours
    """Why a file could not be read, in one line."""


def run_confined(
    module: str,
    file: Path,
    allowed: Allowed | None = None,
    is_stopped: threading.Event | None = None,
    arguments: Sequence[str] = (),
) -> bytes:
    """What a module prints that is run with a file as its standard input, and calls `confine` first.

    It has `arguments` from `sys.argv[3]` on. Raises OSError, Stopped, NotRead.
    """
    allowed = allowed or Allowed()
    command = (sys.executable, "-m", module, str(allowed.memory), str(allowed.seconds), *arguments)
    with file.open("rb") as stream:
        child = subprocess.Popen(
            command, stdin=stream, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", env=_environment()
        )
    with child:
        told = _told_by(child, 3.0 * allowed.seconds, is_stopped or threading.Event())
    if told is None:
        raise NotRead(f"it takes more than {3 * allowed.seconds} s")
    out, error = told
    if child.returncode < 0:
        raise NotRead(f"it takes more than {allowed.seconds} s of a processor, or too much memory")
    if child.returncode > 0:
        last = (error.decode(errors="replace").strip().splitlines() or ["no reason"])[-1]
        raise NotRead(f"the reading of it failed: {last[:200]}")
    return out


def confine(arguments: list[str]) -> int:
    """Bound the process by the arguments that `run_confined` gives it; the bytes of memory that it has."""
    memory, seconds = map(int, arguments[1:3])
    for limit, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(limit, (most, most))
    return memory


def too_much_memory(memory: int) -> str:
    """Why a file was not read for which the memory did not suffice."""
    return f"it takes more than {memory // _MIB} MiB of memory"


def _told_by(
    child: subprocess.Popen[bytes], seconds: float, is_stopped: threading.Event
) -> tuple[bytes, bytes] | None:
    """What it has written when it has ended; None when that takes too long. Raises Stopped."""
    until = time.monotonic() + seconds
    while True:
        try:
            return child.communicate(timeout=_LOOK)
        except subprocess.TimeoutExpired:
            if not is_stopped.is_set() and time.monotonic() < until:
                continue
        child.kill()
        child.communicate()
        if is_stopped.is_set():
            raise ReadingStopped
        return None


def _environment() -> dict[str, str]:
    """What Python needs to find our modules again, and nothing of what the collector was told."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"}
