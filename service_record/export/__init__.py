"""Convert records to other formats, and send traces to a backend.

JSON Lines and arrays are here; every other format has its own module.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from service_record.display.machine import encode_document
from service_record.record.entry import Entry


def to_array(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield the entries as one JSON array with an entry on each line, upstream's fields first."""
    before = "[\n"
    for entry in entries:
        yield (before + encode_document(entry.to_json())).encode()
        before = ",\n"
    yield b"[]\n" if before == "[\n" else b"\n]\n"


def to_jsonl(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield each entry as a line. Lines of other writers may exceed our limit; they are not shortened."""
    for entry in entries:
        yield f"{encode_document(entry.to_json())}\n".encode()


FORMS: Final[Mapping[str, Callable[[Iterable[Entry]], Iterator[bytes]]]] = {
    "array": to_array,
    "jsonl": to_jsonl,
}
"""Format name -> converter. Converters keep all fields of an entry."""
