"""Measure in rounds, each of which measures everything once, so that other load affects all alike."""

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
    """Call each function once in each round. Return the median of its results."""
    results: dict[Key, list[float]] = {key: [] for key in measures}
    for _ in range(rounds):
        for key, measure in measures.items():
            results[key].append(measure())
    return {key: median(values) for key, values in results.items()}


def processor(*command: object) -> float:
    """Return the processor time of a command in seconds, including the kernel's."""
    before = processor_of(resource.RUSAGE_CHILDREN)
    wall(*command)
    return processor_of(resource.RUSAGE_CHILDREN) - before


def processor_of(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def wall(*command: object, environment: Mapping[str, str] | None = None, is_checked: bool = True) -> float:
    """Return the duration of a command in seconds. Its output is discarded.

    Raises CalledProcessError if it fails and `is_checked` is true.
    """
    begun = time.perf_counter()
    subprocess.run(list(map(str, command)), check=is_checked, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - begun


def resident(process: int) -> int:
    """Return the peak memory of a process, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
