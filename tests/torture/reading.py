"""The reader, before every truncation and every flip of one bit of a record of twenty entries.

Whatever was done to one place, every entry outside of it is found, in its order; at most one other stands in
the place of the entry that was hit; nothing is raised; and no byte is left out without a word.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

from service_record.record.entry import Entry, Malformed, Phase, Result
from service_record.record.layout import read_entries
from tests.builders import array, entry, our_array
from tests.torture.tally import Tally, Until, sample, while_time_lasts

ENTRIES = 20
_BITS = 8


def twenty() -> list[Entry]:
    """Runs as they are recorded, with texts that look like the end of an entry, or of an array."""
    found = []
    for run in range(ENTRIES // 4):
        stage = ("pull", 'say "hi" \\', "é…😀", 'a }] {"timestamp":"x"}', "b\nc")[run]
        failure = {"result": Result.FAILURE, "error_line": "12 main /a b.sh", "error_message": "x\n]}\n"}
        end = failure if run % 2 else {"exit_code": 0}
        found += [
            entry(Phase.SERVICE_START, run, recorder="bash/0.1.0"),
            entry(Phase.STAGE_START, run, stage=stage),
            entry(Phase.STAGE_END, run, stage=stage, **end),
            entry(Phase.SERVICE_END, run, **end),
        ]
    return found


@dataclass(frozen=True, slots=True)
class Record:
    """A whole record, and where in it each entry stands."""

    name: str
    content: bytes
    entries: tuple[Entry, ...]
    places: tuple[tuple[int, int], ...]

    def untouched(self, begin: int, end: int) -> list[int]:
        """The numbers of the entries with no byte in that stretch."""
        return [n for n, (first, last) in enumerate(self.places) if last <= begin or first >= end]


def records() -> list[Record]:
    """In both layouts of ours, and as jq prints an array."""
    entries = twenty()
    lines = [each.to_line().rstrip() for each in entries]
    ours, jq = our_array(*entries), array(*entries)
    indented = [array(each).removeprefix(b"[\n  ").removesuffix(b"\n]\n") for each in entries]
    return [
        _record("lines", b"".join(line + b"\n" for line in lines), entries, lines),
        _record("array", ours, entries, lines),
        _record("array of jq", jq, entries, indented),
    ]


def _record(name: str, content: bytes, entries: list[Entry], texts: list[bytes]) -> Record:
    places, end = [], 0
    for text in texts:
        begin = content.index(text, end)
        end = begin + len(text)
        places.append((begin, end))
    return Record(name, content, tuple(entries), tuple(places))


@dataclass(frozen=True, slots=True, order=True)
class Flip:
    """One bit that is other than it was written."""

    offset: int
    bit: int

    def applied(self, content: bytes) -> bytes:
        changed = bytearray(content)
        changed[self.offset] ^= 1 << self.bit
        return bytes(changed)

    @property
    def stretch(self) -> tuple[int, int]:
        return self.offset, self.offset + 1


@dataclass(frozen=True, slots=True, order=True)
class Truncation:
    """All from an offset on is gone."""

    offset: int

    def applied(self, content: bytes) -> bytes:
        return content[: self.offset]

    @property
    def stretch(self) -> tuple[int, int]:
        return self.offset, 1 << 60


def flips(record: Record) -> list[Flip]:
    return [Flip(offset, bit) for offset in range(len(record.content)) for bit in range(_BITS)]


def truncations(record: Record) -> list[Truncation]:
    return [Truncation(offset) for offset in range(len(record.content))]


def judged(record: Record, case: Flip | Truncation) -> str | None:
    """Return the fault of the reader's result; None where there is none."""
    content = case.applied(record.content)
    try:
        pieces = list(read_entries(BytesIO(content)))
    except Exception as error:  # noqa: BLE001  # which is just what must not happen
        return f"{record.name}, {case}: raised {type(error).__name__}"
    found = [piece for piece in pieces if isinstance(piece, Entry)]
    faults = [*_lost(record, case, found), *_invented(record, case, found), *_swallowed(record, case, pieces)]
    return f"{record.name}, {case}: {'; '.join(faults)}" if faults else None


def _lost(record: Record, case: Flip | Truncation, found: list[Entry]) -> Iterator[str]:
    left = iter(found)
    for number in record.untouched(*case.stretch):
        if not any(each == record.entries[number] for each in left):  # in their order: `left` goes on
            yield f"entry {number} is lost"
            return


def _invented(record: Record, case: Flip | Truncation, found: list[Entry]) -> Iterator[str]:
    """An entry that nobody wrote. A flip in a text the reader cannot know: that entry is in its place."""
    known = list(record.entries)
    others = [each for each in found if each not in known]
    hit = len(record.entries) - len(record.untouched(*case.stretch))
    if isinstance(case, Truncation) and others:
        yield "an entry was invented"
    if len(others) > hit or len(found) > len(record.entries):
        yield f"{len(others)} entries that nobody wrote"


def _swallowed(record: Record, case: Flip | Truncation, pieces: list[Entry | Malformed]) -> Iterator[str]:
    """Yield the entries that are none any more and have to be reported as damaged."""
    if any(isinstance(piece, Malformed) for piece in pieces):
        return
    if isinstance(case, Truncation):
        if any(begin < case.offset < end for begin, end in record.places):
            yield "what was left of an entry is left out in silence"
    elif len(pieces) < len(record.entries):
        yield "an entry is left out in silence"


def tortured(record: Record, most: int | None = None, until: Until | None = None) -> Tally:
    """Every case of a record, or so many of them, the same in every run, or as many as there is time for."""
    cases: list[Flip | Truncation] = [*truncations(record), *flips(record)]
    tried, findings = 0, list[str]()
    for case in while_time_lasts(sample(cases, most), until):
        tried += 1
        findings += filter(None, [judged(record, case)])
    target = f"reader: {record.name}, damaged"
    return Tally(target=target, cases=tried, all_cases=len(cases), findings=tuple(findings))
