"""Records in the forms that other programs read: from entries to the bytes of a file. Pure.

JSON Lines and the closed array are here; forms with spans have a module each, by `trace`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from service_record.display.machine import encoded
from service_record.record.entry import Entry


def to_array(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield the entries as one array with an entry to a line, upstream's fields first in each."""
    before = "[\n"
    for entry in entries:
        yield (before + encoded(entry.to_json())).encode()
        before = ",\n"
    yield b"[]\n" if before == "[\n" else b"\n]\n"


def to_jsonl(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield each entry on a line of its own, uncut: an entry that others wrote may exceed our limit."""
    for entry in entries:
        yield f"{encoded(entry.to_json())}\n".encode()


FORMS: Final[Mapping[str, Callable[[Iterable[Entry]], Iterator[bytes]]]] = {
    "array": to_array,
    "jsonl": to_jsonl,
}
"""Name of a form -> what makes it of entries, as they are read. Nothing of an entry is lost."""
