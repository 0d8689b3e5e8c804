"""Give the reader every truncation and every flipped bit of a record of twenty entries.

Whatever is damaged in one place, all entries outside it are found in order; at most one other entry takes the
place of the damaged one; nothing is raised; and no byte is dropped silently.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

from service_record.record.entry import Entry, Malformed, Phase, Result
from service_record.record.layout import read_entries
from tests.builders import array, entry, our_array
from tests.torture.tally import Deadline, Tally, sample, take_in_time

ENTRIES = 20
_BITS = 8


def make_entries() -> list[Entry]:
    """Return runs whose texts contain what looks like the end of an entry or of an array."""
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
    """An undamaged record, and the span of each entry in it."""

    name: str
    content: bytes
    entries: tuple[Entry, ...]
    spans: tuple[tuple[int, int], ...]

    def list_untouched(self, begin: int, end: int) -> list[int]:
        """Return the numbers of the entries that have no byte in the span."""
        return [n for n, (first, last) in enumerate(self.spans) if last <= begin or first >= end]


def make_records() -> list[Record]:
    """Return the same record in each layout, and as an array printed by jq."""
    entries = make_entries()
    lines = [each.to_line().rstrip() for each in entries]
    ours, jq = our_array(*entries), array(*entries)
    indented = [array(each).removeprefix(b"[\n  ").removesuffix(b"\n]\n") for each in entries]
    return [
        _make_record("lines", b"".join(line + b"\n" for line in lines), entries, lines),
        _make_record("array", ours, entries, lines),
        _make_record("array of jq", jq, entries, indented),
    ]


def _make_record(name: str, content: bytes, entries: list[Entry], texts: list[bytes]) -> Record:
    spans, end = [], 0
    for text in texts:
        begin = content.index(text, end)
        end = begin + len(text)
        spans.append((begin, end))
    return Record(name, content, tuple(entries), tuple(spans))


@dataclass(frozen=True, slots=True, order=True)
class Flip:
    """One flipped bit."""

    offset: int
    bit: int

    def apply(self, content: bytes) -> bytes:
        changed = bytearray(content)
        changed[self.offset] ^= 1 << self.bit
        return bytes(changed)

    @property
    def span(self) -> tuple[int, int]:
        return self.offset, self.offset + 1


@dataclass(frozen=True, slots=True, order=True)
class Truncation:
    """The record ends at this offset."""

    offset: int

    def apply(self, content: bytes) -> bytes:
        return content[: self.offset]

    @property
    def span(self) -> tuple[int, int]:
        return self.offset, 1 << 60


def list_flips(record: Record) -> list[Flip]:
    return [Flip(offset, bit) for offset in range(len(record.content)) for bit in range(_BITS)]


def list_truncations(record: Record) -> list[Truncation]:
    return [Truncation(offset) for offset in range(len(record.content))]


def judge(record: Record, case: Flip | Truncation) -> str | None:
    """Return the findings about the reader's result; None where there are none."""
    content = case.apply(record.content)
    try:
        pieces = list(read_entries(BytesIO(content)))
    except Exception as error:  # noqa: BLE001  # the reader must not raise anything
        return f"{record.name}, {case}: raised {type(error).__name__}"
    found = [piece for piece in pieces if isinstance(piece, Entry)]
    faults = [
        *_find_lost(record, case, found),
        *_find_invented(record, case, found),
        *_find_unreported(record, case, pieces),
    ]
    return f"{record.name}, {case}: {'; '.join(faults)}" if faults else None


def _find_lost(record: Record, case: Flip | Truncation, found: list[Entry]) -> Iterator[str]:
    remaining = iter(found)
    for number in record.list_untouched(*case.span):
        if not any(each == record.entries[number] for each in remaining):  # in order: the iterator continues
            yield f"entry {number} is lost"
            return


def _find_invented(record: Record, case: Flip | Truncation, found: list[Entry]) -> Iterator[str]:
    """Yield entries that were not written. A flipped bit inside a text cannot be detected, so one changed
    entry may stand in place of the damaged one.
    """
    known = list(record.entries)
    foreign = [each for each in found if each not in known]
    damaged_count = len(record.entries) - len(record.list_untouched(*case.span))
    if isinstance(case, Truncation) and foreign:
        yield "an entry was invented"
    if len(foreign) > damaged_count or len(found) > len(record.entries):
        yield f"{len(foreign)} entries that were not written"


def _find_unreported(
    record: Record, case: Flip | Truncation, pieces: list[Entry | Malformed]
) -> Iterator[str]:
    """Yield damage that the reader did not report."""
    if any(isinstance(piece, Malformed) for piece in pieces):
        return
    if isinstance(case, Truncation):
        if any(begin < case.offset < end for begin, end in record.spans):
            yield "the rest of a truncated entry is dropped silently"
    elif len(pieces) < len(record.entries):
        yield "an entry is dropped silently"


def torture(record: Record, limit: int | None = None, deadline: Deadline | None = None) -> Tally:
    """Try every case of a record, at most `limit` of them, until the deadline. The same ones in each run."""
    cases: list[Flip | Truncation] = [*list_truncations(record), *list_flips(record)]
    tried, findings = 0, list[str]()
    for case in take_in_time(sample(cases, limit), deadline):
        tried += 1
        findings += filter(None, [judge(record, case)])
    target = f"reader: {record.name}, damaged"
    return Tally(target=target, cases=tried, all_cases=len(cases), findings=tuple(findings))
