"""Writes of a record that are cut short, at each byte of what an append writes.

The kernel does it: beyond a limit of file size that is set while the service runs, see setrlimit(2), it
writes what fits, and nothing of the next write. The service has to do as well as with any other fault.
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
from tests.torture.appending import BEFORE, LIFTED, STORY, Append, read, story, sweep, wrong_after
from tests.torture.tally import Tally, Until, at_once, shuffled, summed

_FULL: Final = re.compile(r"EFBIG")
_OPTIONS: Final = ("-e", "trace=?newfstatat,?access,?faccessat2,?stat,write,pwrite64,pwritev2")
_TORN: Final = b'\n{"timestamp":"2026-11-21T01:05:20.000Z","stage":"to'
_KEPT_EARLIER: Final = b"kept earlier\n" * 1024
"""In the copy of what is damaged, so that its end is beyond that of the record, which is not cut then."""
_ROOM: Final = 2048
"""As much as an array grows by an entry, at most, beyond the entry."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Bytes that can be written from where the next append begins to write."""

    bytes: int
    is_lifted: bool
    """True when the limit is gone behind that append."""
    is_of_copy: bool = False
    """True when the copy of the damage is cut: there is a torn entry then."""

    def __str__(self) -> str:
        what = "the damaged copy" if self.is_of_copy else "the record"
        return f"{what} cut at byte {self.bytes}{' once' if self.is_lifted else ''}"


@dataclass(slots=True)
class _Limit:
    """Sets the limit of a service that is ready."""

    directory: Path
    cut: Cut

    def __call__(self, process: int) -> None:
        record = record_path(self.directory)
        if self.cut.is_of_copy:
            damaged_path(self.directory).write_bytes(_KEPT_EARLIER)
            with record.open("ab") as stream:
                stream.write(_TORN)
            begin = len(_KEPT_EARLIER)
        else:
            begin = _next_place(record.read_bytes())
        resource.prlimit(process, resource.RLIMIT_FSIZE, (begin + self.cut.bytes, resource.RLIM_INFINITY))


def _next_place(content: bytes) -> int:
    """Return where the next entry is written."""
    if not content.startswith(b"["):
        return len(content)
    return len(content.rstrip(b" \n").removesuffix(b"]").rstrip(b" \n"))


def name(append: Append) -> str:
    """Of this part of the torture."""
    return f"writes cut short: {append.writer}, {append.layout}"


def extent(append: Append) -> tuple[int, int]:
    """Return how many bytes the entry has that is cut, with what stands before it and its newline; and how
    many the record has from its beginning on, in a run in which nothing is cut.
    """
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        append.prepare(directory)
        begins = list[int]()
        append.run(
            directory, when_ready=lambda _: begins.append(_next_place(record_path(directory).read_bytes()))
        )
        assert story(read(directory)[len(BEFORE) :]) == list(STORY)
        content = record_path(directory).read_bytes()[begins[0] :]
    return content.index(b"\n", 2) + 1, len(content)


def cuts_of(append: Append) -> list[Cut]:
    """All there are: those within the entry first, each in an order of their own."""
    entry, rest = extent(append)
    within = [Cut(size, lifted) for size in range(entry + 1) for lifted in (False, True)]
    if append.layout == "lines":
        behind = [Cut(size, is_lifted=False) for size in range(entry + 1, rest)]
        return [*shuffled(within), *shuffled(behind)]
    behind = [Cut(size, lifted) for size in range(entry + 1, entry + _ROOM) for lifted in (False, True)]
    copies = [Cut(size, lifted, is_of_copy=True) for size in range(_ROOM) for lifted in (False, True)]
    return [*shuffled(within), *shuffled([*behind, *copies])]


def judged(append: Append, cut: Cut) -> tuple[bool, list[str]]:
    """Return whether anything was cut, and what is wrong after it."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        append.prepare(directory)
        more = {LIFTED: "1"} if cut.is_lifted else {}
        try:
            ended = append.run(directory, _OPTIONS, _Limit(directory, cut), **more)
        except TimeoutExpired:
            return True, [f"{append}, {cut}: the service hangs"]
        was_cut = story(read(directory)[len(BEFORE) :]) != list(STORY) or bool(
            _FULL.search((directory / "trace").read_text())
        )
        wrong = [*wrong_after(append, directory, ended), *_lost(directory, cut)]
        return was_cut, [f"{append}, {cut}: {each}" for each in wrong]


def _lost(directory: Path, cut: Cut) -> Iterator[str]:
    """Yield the parts of a torn entry that are lost after the exit helper has repaired the array."""
    if not cut.is_of_copy:
        return
    copy = damaged_path(directory).read_bytes()
    if not copy.startswith(_KEPT_EARLIER):
        yield "what was kept earlier has changed"
    if _TORN not in copy:
        yield f"what was damaged was not kept whole: {copy[len(_KEPT_EARLIER) :]!r}"


def tortured(append: Append, most: int | None = None, until: Until | None = None) -> Tally:
    """Every cut, or as many of them as asked for, or as there is time for."""
    cuts = cuts_of(append)
    began = time.time()
    cases, findings = summed(at_once(partial(judged, append), cuts[:most], until))
    sweep(began)
    return Tally(target=name(append), cases=cases, all_cases=len(cuts), findings=findings)
