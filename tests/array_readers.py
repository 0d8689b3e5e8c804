"""Readers that parse an array again and again while it is written; how often it is none.

`python -m tests.array_readers` prints it for a reader that reads the file at once and for one that takes
several reads, beside 32 writers.
"""

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from tests.array_writers import record_of
from tests.shell.writers import prepare, writers

WRITERS = 32
ENTRIES = 200
LONGEST_MESSAGE = 800
"""Bytes; so that an entry typically has 200 to 1000."""

AT_ONCE_BYTES = 64 << 20


@dataclass(slots=True)
class Seen:
    """Counts of a reader: its reads, those of no valid array, and those with fewer entries than before."""

    reads: int = 0
    invalid: int = 0
    """The same one at several reads counts once: a writer may be held up in the midst of its write(2)."""
    shrunk: int = 0
    entries: int = 0
    latest: bytes = field(default=b"", repr=False)

    def look(self, content: bytes) -> None:
        self.reads += 1
        before, self.latest = self.latest, content
        try:
            found = len(json.loads(content))
        except ValueError:
            self.invalid += content != before
            return
        self.shrunk += found < self.entries
        self.entries = found


def read_at_once(record: Path) -> bytes:
    """All of a file with one read(2)."""
    descriptor = os.open(record, os.O_RDONLY)
    try:
        return os.read(descriptor, AT_ONCE_BYTES)
    finally:
        os.close(descriptor)


def read_while(running: list[Popen[bytes]], record: Path, read: Callable[[Path], bytes]) -> Seen:
    """Read the record until all the writers have ended."""
    seen = Seen()
    while any(process.poll() is None for process in running):
        if record.exists():
            seen.look(read(record))
    return seen


def main() -> None:
    for name, read in {"at once": read_at_once, "in several reads": Path.read_bytes}.items():
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place)
            prepare(directory)
            names = [f"w{number}" for number in range(WRITERS)]
            with writers(directory, names, ENTRIES, "array", LONGEST_MESSAGE) as running:
                seen = read_while(running, record_of(directory), read)
        print(f"{name}: {seen.reads} reads, {seen.invalid} no array, {seen.shrunk} with fewer entries")


if __name__ == "__main__":
    main()
