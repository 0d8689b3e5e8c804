"""Entries as nearly all of them are: many whole lines at once, with nothing unusual in them, read in C.

What is not plain is no damage yet: `layout` reads it line by line, and it comes to the same. A `Passage` is
lines that somebody may want again; most are never wanted, so not all are held in memory.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Final, Literal, Protocol, TypeAlias

import msgspec

from service_record.record import fields
from service_record.record.entry import Entry, Malformed, Phase, Result


class Rereadable(Protocol):
    """What a record is read from, when any part of it can be read once more."""

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes from there on. Raises `changed()` when they are there no more."""
        ...

    def changed(self) -> OSError:
        """That what was read first is no longer what is there."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class HeldLines:
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


Passage: TypeAlias = HeldLines | Reread
"""Whole lines of a record. `read` raises `changed()` when they are there no more."""


_Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Whole: TypeAlias = Annotated[int, msgspec.Meta(gt=-(2**53), lt=2**53)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e15)]  # which all encoders write alike
_PhaseWord: TypeAlias = Literal[
    "service start",
    "service end",
    "stage start",
    "stage end",
    "pre-command start",
    "pre-command end",
    "post-command start",
    "post-command end",
]
_ResultWord: TypeAlias = Literal["success", "failure"]

_CERTAIN_TIMES: Final = re.compile(
    r"""(?:( [1-8]\d{3}
             -(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)
             T(?:[01]\d|2[0-3]):[0-5]\d: )
           [0-5]\d(?:\.\d{1,15}+)?+Z\n
        (?:\1[0-5]\d(?:\.\d{1,15}+)?+Z\n)*+)*+  # mostly many of the same minute
    """,
    re.VERBOSE | re.ASCII,
)
"""Times, a line each, that need no look at a calendar: all but those of a leap day, or with an offset."""


class PlainEntry(
    msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False, rename="camel"
):
    """An `Entry` as it stands on its line, field by field in the order of writing."""

    service: str | msgspec.UnsetType = msgspec.UNSET
    """Whose it is, to whoever writes entries of several; none that is read has it."""
    timestamp: str
    pre_command: _Text | None = None
    post_command: _Text | None = None
    stage: _Text | None = None
    phase: _PhaseWord
    result: _ResultWord | None = None
    error_line: _Text | None = None
    error_message: _Text | None = None
    exit_code: _Whole | None = None
    signal: _Text | None = None
    command: _Text | None = None
    stack: tuple[str, ...] = ()
    error_line_approximate: bool = False
    truncated: bool = False
    boot_id: _Text | None = None
    invocation_id: _Text | None = None
    pid: _Whole | None = None
    uptime: _Seconds | None = None
    service_result: _Text | None = None
    stop_request: _Text | None = None
    dropped: _Whole = 0
    recorder: _Text | None = None
    stage_id: _Text | None = None
    parent: _Text | None = None

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(self.timestamp)


@dataclass(frozen=True, slots=True)
class Block:
    """Plain entries that follow each other in a record."""

    rows: list[PlainEntry]
    phases: str
    """Of each the letter of its phase, as in `LETTERS`."""
    passage: Passage
    """Their lines."""

    def entries(self) -> list[Entry]:
        return entries_of(self.rows)


Stretch: TypeAlias = Block | Entry | Malformed
"""A part of a record: many plain entries, or one piece that was read by itself."""

LETTERS: Final = dict(zip(Phase, "SEaeprqt", strict=True))
"""A letter for each phase, so that an expression finds what follows what."""

_DECODER: Final = msgspec.json.Decoder(PlainEntry)
_ENCODER: Final = msgspec.json.Encoder()
_BETWEEN: Final = b" \t\r\n,"
_COMMA: Final = b"},\n"
_PHASE_LETTERS: Final[dict[tuple[str, str | None, str | msgspec.UnsetType], str]] = {
    (phase.value, result, msgspec.UNSET): LETTERS[phase]
    for phase in Phase
    for result in (None, *(map(str, Result) if phase.is_end else ()))
}
"""What entries have for a phase, a result and a service of their own."""


def block_of(text: bytes, passage: Passage) -> Block | None:
    """The entries that these whole lines of a passage are; None when there is anything else in them.

    Between them there may be white space, or the commas of an array with an entry to a line.
    """
    try:
        rows = _decoded(text)
        phases = "".join([_PHASE_LETTERS[row.phase, row.result, row.service] for row in rows])
        is_whole = _ends_with_one_entry(text)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        return None
    if not is_whole or not _are_times([row.timestamp for row in rows]):
        return None
    return Block(rows, phases, passage)


def _ends_with_one_entry(text: bytes) -> bool:
    """Whether the last line is an entry. Others may hold two, or half of one, with what follows them."""
    end = len(text.rstrip(_BETWEEN))
    return len(_decoded(text[text.rfind(b"\n", 0, end) + 1 : end])) == 1


def lines_of(rows: list[PlainEntry]) -> bytes:
    """A line for each, all with their newline."""
    return _ENCODER.encode_lines(rows)


def _decoded(text: bytes) -> list[PlainEntry]:
    try:
        return _DECODER.decode_lines(text)
    except msgspec.DecodeError:
        if _COMMA not in text:
            raise
        return _DECODER.decode_lines(text.replace(_COMMA, b"}\n"))  # within a string there is no newline


def read_again(passage: Passage, first: int, count: int) -> list[Entry]:
    """So many of the entries in the passage of a block, from one of them on.

    Raises OSError when there are no plain entries any more.
    """
    return entries_of(_rows(passage)[first : first + count])


@lru_cache(maxsize=1)  # who asks for one run mostly asks for the next
def _rows(passage: Passage) -> list[PlainEntry]:
    text = passage.read().rstrip(b",\n")  # a comma takes the place of the last newline when an array grows
    try:
        return _decoded(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise passage.changed() from None


def entries_of(rows: list[PlainEntry]) -> list[Entry]:
    return msgspec.convert(rows, list[Entry], from_attributes=True)


def pieces_of(stretches: Iterable[Stretch]) -> Iterator[Entry | Malformed]:
    """Each piece by itself."""
    for stretch in stretches:
        if isinstance(stretch, Block):
            yield from stretch.entries()
        else:
            yield stretch


def _are_times(timestamps: list[str]) -> bool:
    together = "\n".join([*timestamps, ""])
    if together.count("\n") == len(timestamps) and _CERTAIN_TIMES.fullmatch(together):
        return True
    try:
        for timestamp in timestamps:
            fields.timestamp("timestamp", timestamp)
    except fields.EntryError:
        return False
    return True
