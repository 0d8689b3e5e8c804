"""One closed JSON array: what upstream's shim writes and what every reader of its records takes."""

from collections.abc import Iterable, Iterator

from service_record.display.machine import encoded
from service_record.entry import Entry


def to_array(entries: Iterable[Entry]) -> Iterator[bytes]:
    """The entries as one array with an entry to a line, upstream's fields first in each."""
    before = "[\n"
    for entry in entries:
        yield (before + encoded(entry.to_json())).encode()
        before = ",\n"
    yield b"[]\n" if before == "[\n" else b"\n]\n"
