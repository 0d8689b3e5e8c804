"""A disk that loses power while services record on it: what a file system on a block device has left of them.

Nothing reaches the device before the kernel writes it back or is told to sync. So a copy of the device, taken
at any moment, is what a loss of power in that moment leaves; the file system mends itself when the copy is
mounted. As root, with a loop device: `python -m tests.torture.device LAYOUT OPTIONS SECONDS DIRECTORY`, which
is run in a mount namespace of its own.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from service_record.record.entry import Entry
from service_record.record.layout import read_entries
from tests.shell.scripts import ROOT
from tests.shell.writers import acknowledged, failures, prepare, writers
from tests.torture.tally import Tally, Until

LAYOUTS: Final = ("lines", "array")
OPTIONS: Final = ("data=ordered", "data=writeback")
"""Of ext4: in the second, a file may have got longer by what was not written yet."""
_SIZE: Final = 24 << 20
_WRITERS: Final = 4
_ENTRIES: Final = 300
_LONGEST: Final = 2500
_NAME: Final = "service.json"


@dataclass(frozen=True, slots=True)
class Copy:
    """The device at some moment, and what has to be on it: what was acknowledged before the last sync, and
    where services sync their failures themselves, those.
    """

    image: Path
    synced: frozenset[str]


@cache
def cannot_mount() -> str | None:
    """Return why there is no file system on a block device to be had here; None where there is."""
    with tempfile.TemporaryDirectory() as place:
        tried = subprocess.run(
            ["unshare", "-m", "sh", "-ec", f"{_MAKE} {_MOUNT % 'data=ordered'} umount records"],
            cwd=place,
            capture_output=True,
            check=False,
        )
    return None if tried.returncode == 0 else "no ext4 on a loop device"


_MAKE: Final = f"truncate -s {_SIZE} disk; mkfs.ext4 -q -F -b 1024 disk; mkdir -p records;"
_MOUNT: Final = "mount -o loop,commit=1,%s disk records;"


@contextmanager
def mounted(image: Path, place: Path, options: str = "loop") -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", options, image, place], check=True)
    try:
        yield place
    finally:
        unmount(place)


def unmount(place: Path, tries: int = 50) -> None:
    """Unmount a file system that a program which was just killed may still hold for a moment."""
    for _ in range(tries):
        if subprocess.run(["umount", place], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    subprocess.run(["umount", place], check=True)


def lost_in(
    directory: Path, layout: str, options: str, chance: random.Random, until: Until, *, is_lasting: bool
) -> tuple[int, list[str]]:
    """Have services record on a new disk; how often it lost its power, and what was wrong."""
    subprocess.run(["sh", "-ec", _MAKE], cwd=directory, check=True)
    prepare(directory)
    names = [f"w{number}" for number in range(_WRITERS)]
    with mounted(directory / "disk", directory / "records", f"loop,commit=1,{options}") as live:
        sync = "ends" if is_lasting else ""
        with writers(directory, names, _ENTRIES, layout, _LONGEST, sync=sync) as running:
            copies = list[Copy]()
            synced = frozenset[str]()
            while any(process.poll() is None for process in running) and not (copies and until.is_over):
                time.sleep(chance.uniform(0, 0.3))  # the moment is what is drawn
                if chance.random() < 0.3:
                    synced = frozenset(acknowledged(directory))
                    _sync(live)
                lasting = failures(acknowledged(directory)) if is_lasting else set()
                copy = _copied(directory, len(copies), synced | lasting)
                if copy is not None:
                    copies.append(copy)
        final = {each.to_line() for each in _entries(live / _NAME)}
    findings = [wrong for copy in copies for wrong in _judged(directory, copy, final)]
    return len(copies), findings


def _sync(live: Path) -> None:
    subprocess.run(["sync", "--file-system", live], check=True)


def _copied(directory: Path, number: int, synced: frozenset[str]) -> Copy | None:
    """A copy of the device; none where it was written to meanwhile, so that it would be of no one moment."""
    once, again = directory / f"copy-{number}", directory / "again"
    for target in (once, again):
        subprocess.run(["cp", "--sparse=always", directory / "disk", target], check=True)
    if subprocess.run(["cmp", "--quiet", once, again], check=False).returncode == 0:
        return Copy(once, synced)
    once.unlink()
    return None


def _judged(directory: Path, copy: Copy, final: set[bytes]) -> list[str]:
    with mounted(copy.image, directory / "after") as after:
        record = after / _NAME
        entries = _entries(record) if record.exists() else []
    copy.image.unlink()
    wrong = []
    lines = [each.to_line() for each in entries]
    if not final.issuperset(lines) or len(lines) != len(set(lines)):
        wrong.append("an entry that nobody wrote, or one twice")
    found = {f"{each.stage} {each.phase.split()[1]}" for each in entries}
    if not copy.synced <= found:
        wrong.append(f"{len(copy.synced - found)} entries are gone that were on the disk")
    return wrong


def _entries(record: Path) -> list[Entry]:
    with record.open("rb") as stream:
        return [piece for piece in read_entries(stream) if isinstance(piece, Entry)]


def tortured(layout: str, options: str, seconds: float) -> Tally:
    """Losses of power for so many seconds, in a mount namespace that ends with them."""
    scratch = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # memory: disks are slow
    with tempfile.TemporaryDirectory(dir=scratch) as place:
        done = subprocess.run(
            ["unshare", "-m", sys.executable, "-m", __spec__.name, layout, options, str(seconds), place],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    cases, findings = json.loads(done.stdout)
    target = f"power loss on ext4, {options}: {layout}"
    findings = tuple(f"{target}: {each}" for each in findings)
    return Tally(target=target, cases=cases, all_cases=cases, findings=findings)


def main(layout: str, options: str, seconds: str, place: str) -> None:
    """Print how often power was lost, and what was found, as JSON."""
    chance, until = random.Random(20261121), Until.after(float(seconds))
    cases, findings = 0, list[str]()
    for number in range(1_000_000):
        directory = Path(place) / str(number)
        directory.mkdir()
        more, wrong = lost_in(directory, layout, options, chance, until, is_lasting=number % 2 == 0)
        cases, findings = cases + more, findings + wrong
        if until.is_over:
            break
    print(json.dumps([cases, findings]))


if __name__ == "__main__":
    main(*sys.argv[1:])
