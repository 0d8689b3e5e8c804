"""Read and parse an array repeatedly while other processes write it, and count invalid reads.

`python -m tests.array_readers` prints the counts for two readers while 32 writers run: one reads the file
with one read(2), the other with several.
"""

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from tests.array_writers import record_path
from tests.shell.writers import prepare, writers

WRITERS = 32
ENTRIES = 200
MAX_MESSAGE_BYTES = 800
"""With this limit, most entries have 200 to 1000 bytes."""

AT_ONCE_BYTES = 64 << 20


@dataclass(slots=True)
class ReaderCounts:
    reads: int = 0
    invalid: int = 0
    """Reads that are not a valid array. Equal reads in a row count once: a write(2) may take long."""
    shrunk: int = 0
    """Reads with fewer entries than the read before."""
    entries: int = 0
    """The number of entries in the last valid read."""
    last_content: bytes = field(default=b"", repr=False)

    def add_read(self, content: bytes) -> None:
        self.reads += 1
        before, self.last_content = self.last_content, content
        try:
            found = len(json.loads(content))
        except ValueError:
            self.invalid += content != before
            return
        self.shrunk += found < self.entries
        self.entries = found


def read_at_once(record: Path) -> bytes:
    """Read the whole file with one read(2)."""
    descriptor = os.open(record, os.O_RDONLY)
    try:
        return os.read(descriptor, AT_ONCE_BYTES)
    finally:
        os.close(descriptor)


def read_while(running: list[Popen[bytes]], record: Path, read: Callable[[Path], bytes]) -> ReaderCounts:
    """Read the record until all the writers have ended."""
    counts = ReaderCounts()
    while any(process.poll() is None for process in running):
        if record.exists():
            counts.add_read(read(record))
    return counts


def main() -> None:
    for name, read in {"at once": read_at_once, "in several reads": Path.read_bytes}.items():
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place)
            prepare(directory)
            names = [f"w{number}" for number in range(WRITERS)]
            with writers(directory, names, ENTRIES, "array", MAX_MESSAGE_BYTES) as running:
                counts = read_while(running, record_path(directory), read)
        print(f"{name}: {counts.reads} reads, {counts.invalid} invalid, {counts.shrunk} with fewer entries")


if __name__ == "__main__":
    main()
