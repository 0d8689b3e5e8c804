"""Many writers of one array, bash and Python, lose nothing, and readers see an array meanwhile."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import pytest

from service_record.record.entry import Entry
from service_record.record.layout import read_entries
from tests.array_readers import ENTRIES, MAX_MESSAGE_BYTES, read_at_once, read_while
from tests.array_writers import (
    Json,
    damaged_path,
    read_after_exit_helper,
    read_elements,
    record_path,
    run_exit_helper,
)
from tests.shell.writers import acknowledged, await_first_entry, prepare, writers

WRITERS = 8
KILLS = 100
AT_ONCE = 8


def stages_of(entries: Iterable[Json]) -> Counter[str]:
    """Count what the entries say of stages, as the writers say it: `STAGE start`, `STAGE end`."""
    return Counter(f"{entry['stage']} {entry['phase'].split()[1]}" for entry in entries if "stage" in entry)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_concurrent_writers_always_leave_one_array(tmp_path: Path) -> None:
    """But for a read in the midst of a write(2), of which a busy machine has more. An array that is open
    between two writes would be seen so by every other read.
    """
    prepare(tmp_path)
    names = [f"w{number}" for number in range(WRITERS)]

    with writers(tmp_path, names, ENTRIES, "array", MAX_MESSAGE_BYTES) as running:
        seen = read_while(running, record_path(tmp_path), read_at_once)
        assert [process.wait() for process in running] == [0] * WRITERS

    entries = read_elements(record_path(tmp_path).read_bytes())
    stages = stages_of(entries)
    assert stages == Counter(acknowledged(tmp_path))
    assert stages.total() == WRITERS * ENTRIES
    assert not any("dropped" in entry for entry in entries)
    assert not damaged_path(tmp_path).exists()
    assert seen.invalid <= max(5, seen.reads // 20), seen
    assert seen.shrunk == 0, seen


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_writers_lose_nothing_that_they_acknowledged(tmp_path: Path) -> None:
    """Kill writers alone, when a program that a shell has started may go on, or with their whole group."""
    prepare(tmp_path)
    chance = random.Random(20261121)

    for batch in range(KILLS // AT_ONCE):
        names = [f"b{batch}w{number}" for number in range(AT_ONCE)]
        with writers(tmp_path, names, 1_000_000, "array", MAX_MESSAGE_BYTES) as running:
            for name, process in zip(names, running, strict=True):
                await_first_entry(tmp_path / f"{name}.done")
                time.sleep(chance.uniform(0, 0.02))
                chance.choice([os.kill, os.killpg])(process.pid, signal.SIGKILL)
        run_exit_helper(tmp_path)  # as systemd does whenever a service has ended

    stages = stages_of(read_after_exit_helper(tmp_path))
    copy = damaged_path(tmp_path).read_bytes() if damaged_path(tmp_path).exists() else b""
    torn = [piece for piece in read_entries(BytesIO(copy)) if not isinstance(piece, Entry)]
    assert acknowledged(tmp_path) <= stages.keys()
    assert set(stages.values()) == {1}
    assert len(torn) <= KILLS
