"""Lines of a record that somebody may want again: most are never wanted, so not all need to be held. Pure."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias


class Rereadable(Protocol):
    """What a record is read from, when any part of it can be read once more."""

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes from there on. Raises `changed()` when they are there no more."""
        ...

    def changed(self) -> OSError:
        """That what was read first is no longer what is there."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Lines in memory."""

    text: bytes

    def read(self) -> bytes:
        return self.text

    def changed(self) -> OSError:
        return OSError("lines in memory have changed")


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """A `Rereadable` that is held as a whole, so that its lines need not be held once more."""

    data: bytes

    def read(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]

    def changed(self) -> OSError:
        return OSError("lines in memory have changed")


@dataclass(frozen=True, slots=True, eq=False)
class Reread:
    """Lines that are read again when they are wanted."""

    source: Rereadable
    offset: int
    size: int

    def read(self) -> bytes:
        return self.source.read(self.offset, self.size)

    def changed(self) -> OSError:
        return self.source.changed()


Passage: TypeAlias = Held | Reread
"""Whole lines of a record. `read` raises `changed()` when they are there no more."""
