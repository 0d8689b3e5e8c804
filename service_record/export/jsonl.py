"""JSON Lines: the layout that our own writers use."""

from collections.abc import Iterable, Iterator

from service_record.display.machine import encoded
from service_record.entry import Entry


def to_jsonl(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Each entry on a line of its own, as long as it is: an entry that others wrote may exceed our limit."""
    for entry in entries:
        yield f"{encoded(entry.to_json())}\n".encode()
