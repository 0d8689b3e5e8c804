"""Many writers of one record, bash and Python, lose nothing; a killed one tears at most its last entry."""

import os
import random
import re
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from service_record.record.entry import Entry, Malformed
from service_record.record.layout import read_entries
from tests.shell.scripts import Bash, bashes, read_record, run_script
from tests.shell.services import needs_strace
from tests.shell.writers import acknowledged, await_first_entry, prepare, writers

WRITERS = 32
ENTRIES = 500
KILLS = 100
AT_ONCE = 8
SMALL_BLOCKS = """
truncate -s 8M disk
mkfs.ext4 -q -F -b 1024 disk
mkdir records
mount -o loop disk records
"""
"""As mkfs.ext4 makes them of less than 512 MiB."""
TRACED = 'exec strace -f -qq -y -s 1 -e trace=write -e signal=none -o trace "$0" "$@"'
WRITTEN = re.compile(r"write\(\d+<[^>]*/records/service\.json>.* = (\d+)$", re.MULTILINE)


def record_of(directory: Path) -> Path:
    return directory / "records" / "service.json"


def stages_of(entries: list[Entry]) -> Counter[str]:
    """Count what the entries say of stages, as the writers say it: `STAGE start`, `STAGE end`."""
    return Counter(
        f"{entry.stage} {entry.phase.split()[1]}" for entry in entries if entry.phase.startswith("stage")
    )


@pytest.mark.slow
def test_concurrent_writers_lose_no_entry(tmp_path: Path) -> None:
    prepare(tmp_path)

    with writers(tmp_path, [f"w{n}" for n in range(WRITERS)], ENTRIES) as running:
        assert [process.wait() for process in running] == [0] * WRITERS

    entries, damaged = read_record(record_of(tmp_path))
    stages = Counter(f"{entry['stage']} {entry['phase'].split()[1]}" for entry in entries if "stage" in entry)
    lengths = [len(line) for line in record_of(tmp_path).read_bytes().split(b"\n") if line]
    assert not damaged
    assert not any("dropped" in entry for entry in entries)
    assert stages == Counter(acknowledged(tmp_path))
    assert stages.total() == WRITERS * ENTRIES
    assert min(lengths) < 300
    assert 3500 < max(lengths) < 4096


@pytest.mark.slow
def test_killed_writers_tear_at_most_one_entry(tmp_path: Path) -> None:
    prepare(tmp_path)
    chance = random.Random(20261121)

    for batch in range(KILLS // AT_ONCE):
        names = [f"b{batch}w{n}" for n in range(AT_ONCE)]
        with writers(tmp_path, names, 1_000_000) as running:
            for name, process in zip(names, running, strict=True):
                await_first_entry(tmp_path / f"{name}.done")
                time.sleep(chance.uniform(0, 0.02))
                process.kill()

    with record_of(tmp_path).open("rb") as stream:
        pieces = list(read_entries(stream))
    entries = [piece for piece in pieces if isinstance(piece, Entry)]
    torn = [piece for piece in pieces if isinstance(piece, Malformed)]
    stages = stages_of(entries)
    assert len(torn) <= KILLS
    assert all(piece.text.startswith('{"timestamp":'[: len(piece.text)]) for piece in torn)
    assert acknowledged(tmp_path) <= stages.keys()
    assert set(stages.values()) == {1}


@needs_strace
@pytest.mark.parametrize("bash", bashes(), ids=str)
def test_long_entry_is_one_write(bash: Bash, tmp_path: Path) -> None:
    """In more than one, another writer's may come between."""
    (tmp_path / "tried").mkdir()
    tried = ["unshare", "--mount", "sh", "-ec", SMALL_BLOCKS]
    if subprocess.run(tried, cwd=tmp_path / "tried", capture_output=True, check=False).returncode:
        pytest.skip("cannot be had here: ext4 on a loop device")
    journalctl = tmp_path / "journalctl"
    journalctl.write_text(f"#!/bin/sh\necho {'j' * 3000}\n")
    journalctl.chmod(0o755)

    run_script(
        bash,
        ". $SHIM\nrecord_service_stage_start some\nset -e\nfalse\n",
        tmp_path,
        {"PATH": f"{tmp_path}:{os.environ['PATH']}", "INVOCATION_ID": "a" * 32},
        wrapper=("unshare", "--mount", "sh", "-ec", SMALL_BLOCKS + TRACED),
    )

    lengths = [int(length) for length in WRITTEN.findall(tmp_path.joinpath("trace").read_text())]
    assert len(lengths) == len(["service start", "stage start", "stage end", "service end"])
    assert max(lengths) > 3000
