"""Opens bundles of anybody in a process of its own, which may take so much memory and time, and no more."""

import os
import resource
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from service_record.bundle.limits import Limits
from service_record.bundle.opening import open_bundle
from service_record.collector.looking import MOST_SERVICES, Look, look

_MIB: Final = 1 << 20
_LIMITS: Final = Limits(
    read_bytes=1024 * _MIB,
    members=50_000,
    records=MOST_SERVICES,
    record_bytes=32 * _MIB,
    kept_bytes=64 * _MIB,
    decoder_bytes=128 * _MIB,
)
"""What the bundles of the boot reporter, at most 12 MiB, are far below."""
_LOOK: Final = 0.2
"""Seconds between two looks whether it is to stop."""
_PACKED_ONLY: Final = "it is no archive: there are no records with names in it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What opening one bundle may take."""

    memory: int = 1024 * _MIB
    """Bytes, the interpreter's own included."""
    seconds: int = 60
    """Of a processor; three times as many of the clock."""


class Stopped(Exception):  # noqa: N818  # what was asked for
    """It was to stop before it had read a bundle."""


def look_into(
    bundle: Path, allowed: Allowed | None = None, is_stopped: threading.Event | None = None
) -> Look:
    """What is in a bundle; where it could not be read, why is what was left out. Raises OSError, Stopped."""
    allowed = allowed or Allowed()
    command = (sys.executable, "-m", __name__, str(allowed.memory), str(allowed.seconds))
    with bundle.open("rb") as stream:
        child = subprocess.Popen(
            command, stdin=stream, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", env=_environment()
        )
    with child:
        told = _told_by(child, 3.0 * allowed.seconds, is_stopped or threading.Event())
    if told is None:
        return _not_read(f"it takes more than {3 * allowed.seconds} s")
    out, error = told
    if child.returncode == 0:
        return msgspec.json.decode(out, type=Look)
    if child.returncode < 0:
        return _not_read(f"it takes more than {allowed.seconds} s of a processor, or too much memory")
    last = (error.decode(errors="replace").strip().splitlines() or ["no reason"])[-1]
    return _not_read(f"the reading of it failed: {last[:200]}")


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
            raise Stopped
        return None


def _environment() -> dict[str, str]:
    """What Python needs to find this module again, and nothing of what the collector was told."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"}


def _not_read(reason: str) -> Look:
    return Look(left_out=(f"not read: {reason}",))


def _main(memory: int, seconds: int) -> None:
    """Look at the bundle on standard input, and print what is in it as JSON."""
    for limit, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(limit, (most, most))
    try:
        with os.fdopen(sys.stdin.fileno(), "rb", closefd=False) as stream:
            bundle = open_bundle(stream, _LIMITS)
        left_out = [str(part) for part in bundle.left_out]
        if bundle.unpacked is not None:
            left_out.append(_PACKED_ONLY)
        records = [(service, record.stretches()) for service, record in bundle.records.items()]
        found = look(records, left_out)
    except MemoryError:
        found = _not_read(f"it takes more than {memory // _MIB} MiB of memory")
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
