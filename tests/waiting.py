"""Wait for a condition instead of a fixed time, which a slow machine may exceed."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

TIMEOUT_SECONDS: Final = 60.0


def wait_for(look: Callable[[], T | None]) -> T:
    """Call `look` until its result is true, and return the result. Fails after 60 seconds."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, f"not true within {TIMEOUT_SECONDS:.0f} seconds"
        time.sleep(0.01)
    return found


def run_in_threads(*targets: Callable[[], object]) -> None:
    """Call all functions at the same time, each in a thread, and wait for their ends."""
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def wait_until_gone(pid: int) -> None:
    """Wait until a process has ended. It may remain as a zombie."""
    wait_for(lambda: not _is_running(pid))


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False
