"""Medians of rounds: in each round everything is measured once, so that a busy moment hits all alike."""

import resource
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import TypeVar

ROUNDS = 5
Key = TypeVar("Key")


def medians(measures: Mapping[Key, Callable[[], float]], rounds: int = ROUNDS) -> dict[Key, float]:
    """Call each measure once per round; return the median of what each returned."""
    results: dict[Key, list[float]] = {key: [] for key in measures}
    for _ in range(rounds):
        for key, measure in measures.items():
            results[key].append(measure())
    return {key: median(values) for key, values in results.items()}


def processor(*command: object) -> float:
    """Seconds of processor time that a command takes, what the kernel does for it included."""
    before = processor_of(resource.RUSAGE_CHILDREN)
    wall(*command)
    return processor_of(resource.RUSAGE_CHILDREN) - before


def processor_of(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def wall(*command: object, environment: Mapping[str, str] | None = None, is_checked: bool = True) -> float:
    """Seconds until a command has ended, with success if that is checked; what it prints is thrown away."""
    begun = time.perf_counter()
    subprocess.run(list(map(str, command)), check=is_checked, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - begun


def resident(process: int) -> int:
    """Return the peak memory of a process, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
