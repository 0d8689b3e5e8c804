"""Records in the forms that other programs read: from entries to the bytes of a file. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from service_record.entry import Entry
from service_record.export.array import to_array
from service_record.export.jsonl import to_jsonl

FORMS: Final[Mapping[str, Callable[[Iterable[Entry]], Iterator[bytes]]]] = {
    "array": to_array,
    "jsonl": to_jsonl,
}
"""Name of a form -> what makes it of entries, as they are read. Nothing of an entry is lost."""
