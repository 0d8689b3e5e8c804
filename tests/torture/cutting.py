"""Truncate writes to a record at each byte of an appended entry.

The kernel does it: beyond the limit of file size, which is set while the service runs (see setrlimit(2)), it
writes only the bytes that fit, and nothing of later writes. The service has to meet the same promises as
after other faults.
"""

import re
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final

from tests.array_writers import damaged_path, record_path
from tests.torture.appending import (
    EARLIER_ENTRIES,
    EXPECTED,
    LIFT_VARIABLE,
    Append,
    check_result,
    list_phases,
    read_record,
    remove_here_documents,
)
from tests.torture.tally import Deadline, Tally, judge_in_parallel, shuffle, sum_verdicts

_LIMIT_ERROR: Final = re.compile(r"EFBIG")
_OPTIONS: Final = ("-e", "trace=?newfstatat,?access,?faccessat2,?stat,write,pwrite64,pwritev2")
_TORN: Final = b'\n{"timestamp":"2026-11-21T01:05:20.000Z","stage":"to'
_EARLIER_COPY: Final = b"kept earlier\n" * 1024
"""Earlier content of the copy of damaged data. With it the copy grows beyond the record, so the limit
truncates only the copy.
"""
_MAX_PADDING: Final = 2048
"""Maximum growth of an array by an entry, beyond the entry itself."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A limit of file size, in bytes after the offset at which the next append begins."""

    bytes: int
    is_lifted: bool
    """True when the limit is lifted after that append."""
    is_of_copy: bool = False
    """True when the limit applies to the copy of damaged data. The record then ends in a torn entry."""

    def __str__(self) -> str:
        file = "the damaged copy" if self.is_of_copy else "the record"
        return f"{file} cut at byte {self.bytes}{' once' if self.is_lifted else ''}"


@dataclass(slots=True)
class _Limit:
    """Sets the limit of a service once it is ready."""

    directory: Path
    cut: Cut

    def __call__(self, process: int) -> None:
        record = record_path(self.directory)
        if self.cut.is_of_copy:
            damaged_path(self.directory).write_bytes(_EARLIER_COPY)
            with record.open("ab") as stream:
                stream.write(_TORN)
            offset = len(_EARLIER_COPY)
        else:
            offset = _find_next_offset(record.read_bytes())
        resource.prlimit(process, resource.RLIMIT_FSIZE, (offset + self.cut.bytes, resource.RLIM_INFINITY))


def _find_next_offset(content: bytes) -> int:
    """Return the offset at which the next entry is written."""
    if not content.startswith(b"["):
        return len(content)
    return len(content.rstrip(b" \n").removesuffix(b"]").rstrip(b" \n"))


def describe(append: Append) -> str:
    """Return the name of this part of the torture."""
    return f"writes cut short: {append.writer}, {append.layout}"


def measure_entry(append: Append) -> tuple[int, int]:
    """Return the size of the entry under test with separator and newline, and the number of bytes from its
    beginning to the end of the record, measured in a run without a limit.
    """
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        append.prepare(directory)
        offsets = list[int]()
        append.run(
            directory,
            when_ready=lambda _: offsets.append(_find_next_offset(record_path(directory).read_bytes())),
        )
        assert list_phases(read_record(directory)[len(EARLIER_ENTRIES) :]) == list(EXPECTED)
        content = record_path(directory).read_bytes()[offsets[0] :]
    return content.index(b"\n", 2) + 1, len(content)


def list_cuts(append: Append) -> list[Cut]:
    """Return all cuts: those within the entry first, each group shuffled."""
    entry, length = measure_entry(append)
    within = [Cut(size, is_lifted) for size in range(entry + 1) for is_lifted in (False, True)]
    if append.layout == "lines":
        later = [Cut(size, is_lifted=False) for size in range(entry + 1, length)]
        return [*shuffle(within), *shuffle(later)]
    later = [
        Cut(size, is_lifted) for size in range(entry + 1, entry + _MAX_PADDING) for is_lifted in (False, True)
    ]
    copies = [
        Cut(size, is_lifted, is_of_copy=True) for size in range(_MAX_PADDING) for is_lifted in (False, True)
    ]
    return [*shuffle(within), *shuffle([*later, *copies])]


def judge(append: Append, cut: Cut) -> tuple[bool, list[str]]:
    """Return whether a write was truncated, and the findings."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        append.prepare(directory)
        variables = {LIFT_VARIABLE: "1"} if cut.is_lifted else {}
        try:
            result = append.run(directory, _OPTIONS, _Limit(directory, cut), **variables)
        except TimeoutExpired:
            return True, [f"{append}, {cut}: the service hangs"]
        was_truncated = list_phases(read_record(directory)[len(EARLIER_ENTRIES) :]) != list(EXPECTED) or bool(
            _LIMIT_ERROR.search((directory / "trace").read_text())
        )
        findings = [*check_result(append, directory, result), *_check_damaged_copy(directory, cut)]
        return was_truncated, [f"{append}, {cut}: {each}" for each in findings]


def _check_damaged_copy(directory: Path, cut: Cut) -> Iterator[str]:
    """Yield the findings about the copy of a torn entry after the exit helper has repaired the array."""
    if not cut.is_of_copy:
        return
    copy = damaged_path(directory).read_bytes()
    if not copy.startswith(_EARLIER_COPY):
        yield "earlier damaged data has changed"
    if _TORN not in copy:
        yield f"the torn entry was not kept whole: {copy[len(_EARLIER_COPY) :]!r}"


def torture(append: Append, limit: int | None = None, deadline: Deadline | None = None) -> Tally:
    """Try every cut, at most `limit` of them, until the deadline."""
    cuts = list_cuts(append)
    start = time.time()
    cases, findings = sum_verdicts(judge_in_parallel(partial(judge, append), cuts[:limit], deadline))
    remove_here_documents(start)
    return Tally(target=describe(append), cases=cases, all_cases=len(cuts), findings=findings)
