"""Waiting until something is so: never for a time that a slow machine would need more of."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

LONG: Final = 60.0
"""Seconds after which it never will be."""


def wait_for(look: Callable[[], T | None]) -> T:
    """Return what is found as soon as it holds, or is there; a failure of the test if it never does."""
    until = time.monotonic() + LONG
    while not (found := look()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return found


def side_by_side(*targets: Callable[[], object]) -> None:
    """Call all of them at once, each in a thread, and wait for them."""
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def wait_until_gone(pid: int) -> None:
    """Return when a process has ended, whether or not somebody has asked for its status."""
    wait_for(lambda: not _is_there(pid))


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False
