"""One pass over the files of a host: the lines that rules ask for, the lines of its runs, and its facts.

One search of RE2 finds the lines that may have a pattern of a rule, however many patterns there are. Only
lines with a match are taken apart. Pure.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec

from service_record.diagnosis.evidence.fact_files import MAX_FACT_BYTES, facts_of
from service_record.diagnosis.evidence.journal_forms import as_lines
from service_record.diagnosis.evidence.known_facts import KnownFact
from service_record.diagnosis.evidence.log_lines import (
    CONTAINERS,
    FACTS,
    INSTALLER,
    JOURNAL,
    KERNEL,
    OTHER,
    Era,
    LinePlace,
    LogLine,
    LogStream,
    home_of,
    log_line,
    stream_of,
    top_of,
)
from service_record.diagnosis.evidence.notable import NOTABLE, NotableLines
from service_record.diagnosis.line_patterns import LineSet, end_of_line
from service_record.diagnosis.trouble_facts import Evidence, Looked
from service_record.diagnosis.units import LOGGED, read_logs
from service_record.record.recognition import HEAD_BYTES

_BLOCK_BYTES: Final = 1 << 18
_MAX_LINE_BYTES: Final = 1 << 14
_MAX_FACTS_BYTES: Final = 8 << 20
"""Of all files of facts together."""
_FIRST: Final = 8
_LAST: Final = 24
"""Of the lines that one pattern knows in one file, so many of the first and of the last are kept."""
_OWN: Final = 400
"""Lines kept of one service in one file: its latest."""
_BOOTED: Final = (
    rb"(?m)^-- (?:Boot [0-9a-f]{32}|Reboot) --$|^\S+ [^\s;]+;[^\s;]*;[0-7]?;boot "
    rb"|(?:kernel: |\] |>)Linux version [0-9]"
)
"""Pattern of RE2 for lines with which a boot begins in a file: what is before them is of an earlier boot."""
_PROGRAM: Final = rb"\s([A-Za-z][\w.@-]{1,40})\[\d{1,10}\]: "
_MAX_VERSION_BYTES: Final = 400
_MAX_UNIT_LINES: Final = 20_000
"""Lines of systemd about units that are kept: the latest."""

_UNIT_LISTINGS: Final = frozenset(
    {
        "failed-units",
        "list_units",
        "systemctl_list-units",
        "systemctl_list-units_--failed",
        "systemctl_list-units_--all",
    }
)
"""Names of files that list the failed units."""

_WITH_UNITS: Final = frozenset({JOURNAL, INSTALLER, KERNEL, OTHER})
"""Kinds of files in which systemd may log about units; consoles and captured terminals do, too."""

_Of = TypeVar("_Of")


class _CollectedLines:
    """The first and the last of many lines."""

    __slots__ = ("first", "last")

    def __init__(self) -> None:
        self.first: list[tuple[int, bytes]] = []
        self.last: deque[tuple[int, bytes]] = deque(maxlen=_LAST)

    def add(self, number: int, raw: bytes) -> None:
        if len(self.first) < _FIRST:
            self.first.append((number, raw))
        else:
            self.last.append((number, raw))

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        yield from self.first
        yield from self.last


class Scanner:
    """Reads the files of a host, one after another."""

    def __init__(self, lines: LineSet, own: Mapping[str, Sequence[int]], era: Era) -> None:
        """Look for these lines, and for those of these services, by their processes.

        `own` maps a service to the pids of its latest runs.
        """
        import re2  # only where texts are looked at

        self._set = lines
        self._services = frozenset(own)
        self._pids = {b"%d" % pid: service for service, pids in own.items() for pid in pids}
        options = re2.Options()
        options.log_errors = False
        options.encoding = re2.Options.Encoding.LATIN1  # bytes: neither lines nor names need be UTF-8
        pids = b"|".join(sorted(self._pids)) or b"none"
        escaped = [re.escape(name).encode(errors="surrogateescape") for name in sorted(self._services)]
        names = b"|".join(escaped) or b"none"
        self._writer: Any = re2.compile(
            rb"\[("
            + pids
            + rb")\]: |(?m:^| )("
            + names
            + rb")(?:\.sh|\.service)?\[\d+\]: | [^\s;]+;("  # see journal_forms
            + names
            + rb")\.service;[0-7]?(?:;boot)? | (?:systemd\[1\]|\([^\s()]{1,20}\)\[\d+\]): ("
            + names
            # A process that systemd made to execute a service, before systemd 254. Other lines of such pids
            # are of user managers, whose services are not the host's.
            + rb")\.service: | systemd\[\d+\]: ("
            + names
            + rb")\.service: Failed (?:at step|to) ",
            options,
        )
        self._unit_lines: deque[tuple[LogStream, int, bytes]] = deque(maxlen=_MAX_UNIT_LINES)
        self._has_systemd = False
        self._kernel: tuple[KnownFact, ...] = ()
        self._logged: Any = re2.compile(LOGGED, options)
        self._booted: Any = re2.compile(_BOOTED, options)
        self._boots: dict[LogStream, int] = {}
        """The line with which the latest boot begins in a file of several."""
        self._era = era
        self._kept: dict[tuple[int, LogStream], _CollectedLines] = {}
        self._own: dict[tuple[str, LogStream], deque[tuple[int, bytes]]] = {}
        self._ends: dict[LogStream, tuple[int, bytes]] = {}
        self._texts: list[tuple[str, str, str]] = []
        self._fact_bytes = 0
        self._homes: set[str] = set()
        """Folders in which records lie: facts elsewhere are of other hosts."""
        self._notable = NotableLines()
        self._programs: set[bytes] = set()
        self._lines = 0
        self._kinds: set[str] = set()

    def read(self, path: str, read: Callable[[int], bytes]) -> None:
        """Take one file; `read` returns at most so many bytes, and none at its end."""
        home = home_of(path)
        if home is not None:
            self._homes.add(home)
            return
        head = read(HEAD_BYTES)
        stream = stream_of(path, head)
        if stream is None:
            return
        read = _after(head, read)
        if stream.kind == FACTS:
            self._facts(stream, read)
            return
        self._kinds.add(stream.kind)
        read = as_lines(stream.form, read)
        rest, number, last = b"", 0, b""
        while chunk := read(_BLOCK_BYTES):
            block = rest + chunk
            end = block.rfind(b"\n") + 1
            if not end:
                rest = block[:_MAX_LINE_BYTES]
                continue
            rest, block = block[end:], block[:end]
            number = self._block(stream, block, number)
            last = block
        if rest:
            number = self._block(stream, rest, number)
            last = rest
        if last:
            self._ends[stream] = number, last.rstrip(b"\n").rpartition(b"\n")[2][:_MAX_LINE_BYTES]
        self._lines += number

    def _facts(self, stream: LogStream, read: Callable[[int], bytes]) -> None:
        data = bytearray()
        while len(data) < MAX_FACT_BYTES and (chunk := read(MAX_FACT_BYTES - len(data))):
            data += chunk
        del data[MAX_FACT_BYTES:]
        self._fact_bytes += len(data)
        if not stream.host and self._fact_bytes <= _MAX_FACTS_BYTES:
            self._texts.append((stream.path, stream.name, data.decode(errors="replace")))

    def _block(self, stream: LogStream, block: bytes, number: int) -> int:
        """Take whole lines; return the number of the last."""
        for line, raw, tests in _numbered(block, number + 1, self._set.lines(block, _MAX_LINE_BYTES)):
            if NOTABLE in tests:
                tests.discard(NOTABLE)
                self._notable.add(stream, line, raw)
            for test in tests:
                self._kept.setdefault((test, stream), _CollectedLines()).add(line, raw)
        if not number and not stream.host:  # the beginning of a log has most of the programs of a host
            self._programs.update(re.findall(_PROGRAM, block))
        for match in self._booted.finditer(block):
            self._boots[stream] = number + 1 + block.count(b"\n", 0, match.start())
            version = block[match.start() : end_of_line(block, match.start())].partition(b"Linux version ")[2]
            if version and not stream.host:
                place = LinePlace(stream.path, self._boots[stream])
                self._kernel = (KnownFact(version[:_MAX_VERSION_BYTES].decode(errors="replace"), place),)
        for line, raw, service in _numbered(block, number + 1, self._own_lines(stream, block)):
            own = self._own.get((service, stream))
            if own is None:
                own = self._own[service, stream] = deque(maxlen=_OWN)
            own.append((line, raw))
        for line, raw, _ in _numbered(block, number + 1, self._systemd_lines(stream, block)):
            self._unit_lines.append((stream, line, raw))
        return number + block.count(b"\n") + (not block.endswith(b"\n"))

    def _own_lines(self, stream: LogStream, block: bytes) -> Iterator[tuple[int, int, str]]:
        """Yield where each line of a service begins and ends, and which service it is of."""
        at = 0
        own = (stream.name,) if stream.kind == JOURNAL else stream.services
        if recorded := [each for each in own if each in self._services]:
            while at < len(block):
                end = end_of_line(block, at)
                for each in recorded:
                    yield at, end, each
                at = end + 1
            return
        if stream.kind not in {JOURNAL, OTHER}:
            return
        while match := self._writer.search(block, at):
            start, end = block.rfind(b"\n", 0, match.start()) + 1, end_of_line(block, match.end())
            name = match[2] or match[3] or match[4] or match[5]
            service = name.decode() if name else self._pids.get(match[1])
            if service is not None and match.end() <= start + _MAX_LINE_BYTES:
                yield start, end, service
            at = end + 1

    def _systemd_lines(self, stream: LogStream, block: bytes) -> Iterator[tuple[int, int, None]]:
        """Yield the bounds of each line that systemd logged about a unit, in this boot of this host."""
        if stream.kind not in _WITH_UNITS or stream.host or stream.is_earlier_boot:
            return
        # systemd before version 249 logs the start of a unit without its name: nothing else is read of it.
        self._has_systemd = self._has_systemd or b"systemd[1]: Start" in block
        at = 0
        while match := self._logged.search(block, at):
            start, end = block.rfind(b"\n", 0, match.start()) + 1, end_of_line(block, match.end())
            yield start, end, None
            at = end + 1

    def _texts_at_home(self) -> Iterator[tuple[str, str, str]]:
        """Return the files of the host of the records: below its folder, or around it, as in agent-gather."""
        homes = tuple(self._homes) or self._only_home()
        return (
            text
            for text in self._texts
            if text[0].startswith(homes) or any(home.startswith(top_of(text[0])) for home in homes)
        )

    def _only_home(self) -> tuple[str, ...]:
        """Return the folder of one host, where no record says which: the one with most facts."""
        tops = [top_of(path) for path, _, _ in self._texts]
        folders = dict.fromkeys(tops)
        return (max(folders, key=lambda home: sum(top.startswith(home) for top in tops), default=""),)

    def _containers(self) -> tuple[KnownFact, ...]:
        names = {
            stream.name: stream for stream in self._ends if stream.kind == CONTAINERS and not stream.host
        }
        return tuple(KnownFact(name, LinePlace(stream.path)) for name, stream in names.items())

    def _program_names(self) -> Iterator[str]:
        """Yield the programs that log, and the units that have a journal of their own."""
        yield from (name.decode() for name in self._programs)
        yield from (stream.name for stream in self._ends if stream.kind == JOURNAL and not stream.host)

    def _log_line(self, stream: LogStream, number: int, raw: bytes) -> LogLine:
        if number < self._boots.get(stream, 0):
            stream = msgspec.structs.replace(stream, is_earlier_boot=True)
        return log_line(stream, number, raw, self._era)

    def evidence(self) -> Evidence:
        """Return all that was found."""
        lines: dict[int, list[LogLine]] = {}
        for (test, stream), collected in self._kept.items():
            lines.setdefault(test, []).extend(self._log_line(stream, *one) for one in collected)
        own: dict[str, list[LogLine]] = {}
        for (service, stream), own_lines in self._own.items():
            own.setdefault(service, []).extend(self._log_line(stream, *one) for one in own_lines)
        return Evidence(
            lines={test: _in_order(groups) for test, groups in lines.items()},
            own={service: _in_order(groups) for service, groups in own.items()},
            ends={
                stream.path: (count, log_line(stream, count, last, self._era))
                for stream, (count, last) in self._ends.items()
            },
            unit_logs=read_logs(_in_order(log_line(*one, self._era) for one in self._unit_lines)),
            programs=frozenset(self._program_names()),
            facts=facts_of(self._texts_at_home())
            .having("container", self._containers())
            .having("kernel", self._kernel),
            has_systemd=self._has_systemd or bool(self._unit_lines),
            has_unit_listing=any(name in _UNIT_LISTINGS for _, name, _ in self._texts),
            notable=tuple(self._notable.lines(self._log_line)),
            looked=Looked(len(self._ends) + len(self._texts), self._lines, frozenset(self._kinds)),
        )


def _numbered(
    block: bytes, number: int, lines: Iterable[tuple[int, int, _Of]]
) -> Iterator[tuple[int, bytes, _Of]]:
    """Yield the number of each line, what is looked at of it, and what it is of.

    `number` is that of the first line of the block.
    """
    at = 0
    for start, end, of in lines:
        number += block.count(b"\n", at, start)
        yield number, block[start : min(end, start + _MAX_LINE_BYTES)], of
        at = start


def _after(head: bytes, read: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Return what reads a file from its beginning, of which the head was read."""
    blocks = chain([head], iter(lambda: read(_BLOCK_BYTES), b""))
    return lambda _: next(blocks, b"")


def _in_order(lines: Iterable[LogLine]) -> tuple[LogLine, ...]:
    """Return lines by time, without those that another file has too; those without a time come first."""
    files: dict[object, str] = {}
    first_told = [
        line for line in lines if files.setdefault(line.is_told_twice_by, line.place.path) == line.place.path
    ]
    return tuple(sorted(first_told, key=_moment))


def _moment(line: LogLine) -> tuple[float, LinePlace]:
    return (line.time.timestamp() if line.time else 0.0), LinePlace(line.place.path, line.place.line or 0)
