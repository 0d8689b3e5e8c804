"""Read the files of a host once and collect the evidence: lines that rules match, own lines, and facts.

A single RE2 search finds the lines that can match a rule, however many rules there are. Only those lines are
parsed. Pure.
"""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, TypeVar

import msgspec

from service_record.diagnosis.evidence.error_lines import NOTABLE, NotableLines, list_notable_patterns
from service_record.diagnosis.evidence.facts import MAX_FACT_BYTES, KnownFact, KnownFacts, read_facts
from service_record.diagnosis.evidence.host_evidence import Evidence, Looked
from service_record.diagnosis.evidence.journal_forms import Read, convert_to_lines, prepend
from service_record.diagnosis.evidence.line_patterns import LineSet, Pattern, end_of_line
from service_record.diagnosis.evidence.log_lines import (
    CONTAINERS,
    FACTS,
    INSTALLER,
    JOURNAL,
    KERNEL,
    OTHER,
    SYSTEMD,
    Era,
    LinePlace,
    LogLine,
    LogStream,
    classify_file,
    find_home,
    find_path_on_host,
    find_top,
    log_line,
    program_names,
    split_sections,
)
from service_record.diagnosis.evidence.named_things import list_working_patterns
from service_record.diagnosis.evidence.stated_facts import StatedFacts, is_stated, list_stated_patterns
from service_record.diagnosis.evidence.text_times import find_eras
from service_record.diagnosis.evidence.unit_logs import LOGGED, find_start, read_logs
from service_record.record.recognition import HEAD_BYTES

_BLOCK_BYTES: Final = 1 << 18
_MAX_LINE_BYTES: Final = 1 << 14
_MAX_TOTAL_FACT_BYTES: Final = 8 << 20
"""Limit for all fact files together."""
_MAX_JOINED_BYTES: Final = 1 << 20
"""Only the beginning of a file that joins many facts is read for them."""
_FIRST_KEPT: Final = 8
_LAST_KEPT: Final = 24
"""The number of first and last matches kept for each test in each file."""
_OWN_KEPT: Final = 400
"""The number of latest lines kept for each service in each file."""
_BOOT: Final = -50
"""The number of the test, in a `LineSet`, for lines that begin a boot."""
_BOOT_PATTERN: Final = Pattern(
    r"(?-i:^-- (?:Boot [0-9a-f]{32}|Reboot) --$|^\S+ [^\s;]+;[^\s;]*;[0-7]?;boot "  # see journal_forms
    r"|(?:kernel: |\] |>)Linux version [0-9])",
    needles=("-- boot ", "-- reboot", ";boot ", "linux version "),
)
_PROGRAM_NAME: Final = rb"\s([A-Za-z][\w.@-]{1,40})\[\d{1,10}\]: "
_MAX_VERSION_BYTES: Final = 400
_MAX_STATED: Final = 100
"""The number of latest lines kept for each word of lines that state a fact of the host."""
_MAX_UNIT_LINES: Final = 20_000
"""The number of latest lines of systemd about units that are kept."""

_UNIT_LISTINGS: Final = frozenset(
    {
        "failed-units",
        "list_units",
        "systemctl_list-units",
        "systemctl_list-units_--failed",
        "systemctl_list-units_--all",
    }
)
"""Names of fact files that list the failed units."""

_WITH_UNITS: Final = frozenset({JOURNAL, INSTALLER, KERNEL, OTHER})
"""Kinds of files that can have lines of systemd about units. Consoles have them as well."""

_FAILED: Final = (
    rb"(?i)systemd\[1\]: (?P<unit>[\w:.\\@-]+\.(?:service|mount|swap)): "
    rb"(?:\w+ process exited, code=(?!exited, status=0)|Failed with result|Unit entered failed)"
)
"""Lines of systemd about the end of a failed run."""
_NOT_STARTED: Final = (
    rb"systemd\[1\]: Failed to (?:start|mount|activate swap) (?P<description>[^\n]{1,200}?)\.?\r?$"
)
"""The line with the description of a unit that systemd logs after a line in `_FAILED`."""
_DESCRIBED_START: Final = (
    rb"(?i)systemd\[1\]: Start(?:ing|ed) (?!\S+\.\w+(?: - |\.{0,3}\r?\n))([^\n]*\b(?:%b))\b"
)
"""A start of a service that systemd logs without the name of the unit."""
_MAX_RUN_BYTES: Final = 1 << 14
"""The lines that other programs logged during a failed run are searched this far before its end."""
_STARTED_SERVICE: Final = rb"systemd\[1\]: Start(?:ing|ed) ([\w:.\\@-]+)\.service\b"
_SERVICE_NAME: Final = rb"([\w:.\\@-]+)\.service"
_PROGRAM_LINE: Final = rb"(?m)^[^\n;]{0,80}? (?P<program>[A-Za-z][\w.@()-]{0,40})\[(?P<pid>\d{1,10})\]: "

_Tag = TypeVar("_Tag")


def list_evidence_patterns() -> Iterator[tuple[int, Pattern]]:
    """Yield the patterns of lines that a scanner keeps for any rules, with the numbers of their tests."""
    yield from list_notable_patterns()
    yield from list_working_patterns()
    yield from list_stated_patterns()
    yield _BOOT, _BOOT_PATTERN


class _FirstAndLastLines:
    """The first and the last lines of a long sequence."""

    __slots__ = ("first", "last")

    def __init__(self) -> None:
        self.first: list[tuple[int, bytes]] = []
        self.last: deque[tuple[int, bytes]] = deque(maxlen=_LAST_KEPT)

    def add(self, number: int, raw: bytes) -> None:
        if len(self.first) < _FIRST_KEPT:
            self.first.append((number, raw))
        else:
            self.last.append((number, raw))

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        yield from self.first
        yield from self.last


class Scanner:
    """Reads the files of one host, one after another, and collects the evidence in them.

    A `LineSet` searches for the patterns of all rules. Two more searches cannot be part of it, because it is
    compiled once for many hosts, and matches single lines: the lines of the host's own services depend on
    their names and pids, and a unit in the output of `systemctl status` takes two lines.
    """

    def __init__(self, lines: LineSet, own: Mapping[str, Sequence[int]], era: Era) -> None:
        """Search for the patterns in `lines` and for the own lines of services.

        `own` maps each service to the pids of its latest runs. Lines with a time far outside `era` lose their
        time.
        """
        import re2  # slow import, needed only if there are files

        self._set = lines
        self._services = frozenset(own)
        self._pids = {b"%d" % pid: service for service, pids in own.items() for pid in pids}
        options = re2.Options()
        options.log_errors = False
        options.encoding = re2.Options.Encoding.LATIN1  # lines and names may have any bytes
        pids = b"|".join(sorted(self._pids)) or b"none"
        escaped = [re.escape(name).encode(errors="surrogateescape") for name in sorted(self._services)]
        names = b"|".join(escaped) or b"none"
        writer = (
            rb"\[(%b)\]: "  # the pid of a run
            rb"|(?m:^| )(%b)(?:\.sh|\.service)?\[\d+\]: "  # the name of its program
            rb"| [^\s;]+;(%b)(?:\.service)?;[0-7]?(?:;boot)? "  # its unit, see journal_forms
            rb"| (?:systemd\[1\]|\([^\s()]{1,20}\)\[\d+\]): (%b)(?:\.service)?: "  # systemd about its unit
            # Before systemd 254, the forked process of a service logs `systemd[PID]: NAME.service: Failed at
            # step EXEC`. Other lines with such a pid are from user managers, with services of users.
            rb"| systemd\[\d+\]: (%b)\.service: Failed (?:at step|to) "
        )
        self._writer: Any = re2.compile(writer % (pids, names, names, names, names), options)
        self._unit_lines: deque[tuple[LogStream, int, bytes]] = deque(maxlen=_MAX_UNIT_LINES)
        self._meanwhile: dict[str, dict[tuple[LogStream, int], bytes]] = {}
        """Service -> file and number -> a line that another program logged during a failed run."""
        self._has_systemd = False
        self._kernel: tuple[KnownFact, ...] = ()
        self._logged: Any = re2.compile(LOGGED, options)
        self._stated: dict[int, deque[tuple[LogStream, int, bytes]]] = {}
        """Number of a test -> lines that state a fact. Apart, because renewed leases would replace others."""
        self._boots: dict[LogStream, int] = {}
        """File -> number of the line that begins its latest boot. Lines before it are from earlier boots."""
        self._era = era
        self._kept: dict[LogStream, dict[int, _FirstAndLastLines]] = {}
        self._own: dict[tuple[str, LogStream], deque[tuple[int, bytes]]] = {}
        self._ends: dict[LogStream, tuple[int, bytes]] = {}
        self._texts: list[tuple[str, str, str]] = []
        self._fact_bytes = 0
        self._paths: set[str] = set()
        self._homes: set[str] = set()
        """Folders with records. Facts in other folders belong to other hosts."""
        self._notable = NotableLines()
        self._programs: set[bytes] = set()
        self._lines = 0
        self._before = b""
        """The end of the block before the current one."""
        self._kinds: set[str] = set()

    def read(self, path: str, read: Read) -> None:
        """Read one file. `read(n)` returns at most `n` bytes, and no bytes at the end of the file."""
        if (on_host := find_path_on_host(path)) is not None:
            self._paths.add(on_host)
        home = find_home(path)
        if home is not None:
            self._homes.add(home)
            return
        head = read(HEAD_BYTES)
        stream = classify_file(path, head)
        if stream is None:
            return
        read = prepend(head, read)
        joined = bytearray()
        if b"#==[ " in head and not stream.host:
            read = _copy_beginning(read, joined)
        if stream.kind == FACTS:
            self._read_facts(stream, read)
            return
        self._kinds.add(stream.kind)
        read = convert_to_lines(stream.form, read)
        rest, number, last = b"", 0, b""
        self._before = b""
        while chunk := read(_BLOCK_BYTES):
            block = rest + chunk
            end = block.rfind(b"\n") + 1
            if not end:
                rest = block[:_MAX_LINE_BYTES]
                continue
            rest, block = block[end:], block[:end]
            number = self._search_block(stream, block, number)
            last = block
            self._before = block[-_MAX_RUN_BYTES:]
        if rest:
            number = self._search_block(stream, rest, number)
            last = rest
        if last:
            self._ends[stream] = number, last.rstrip(b"\n").rpartition(b"\n")[2][:_MAX_LINE_BYTES]
        self._lines += number
        self._texts += ((path, name, text) for name, text in split_sections(bytes(joined)))

    def _read_facts(self, stream: LogStream, read: Read) -> None:
        if stream.host:
            return  # facts of another host
        data = bytearray()
        while len(data) < MAX_FACT_BYTES and (chunk := read(MAX_FACT_BYTES - len(data))):
            data += chunk
        del data[MAX_FACT_BYTES:]
        self._fact_bytes += len(data)
        if self._fact_bytes <= _MAX_TOTAL_FACT_BYTES:
            self._texts.append((stream.path, stream.name, data.decode(errors="replace")))

    def _search_block(self, stream: LogStream, block: bytes, number: int) -> int:
        """Search a block of whole lines after line `number`; return the number of its last line."""
        for line, raw, tests in _number_lines(block, number + 1, self._set.lines(block, _MAX_LINE_BYTES)):
            self._keep(stream, line, raw, tests)
        if not number and not stream.host:  # the first block names most programs
            self._programs.update(re.findall(_PROGRAM_NAME, block))
        for line, raw, service in _number_lines(block, number + 1, self._find_own_lines(stream, block)):
            own = self._own.get((service, stream))
            if own is None:
                own = self._own[service, stream] = deque(maxlen=_OWN_KEPT)
            own.append((line, raw))
        for line, raw, start in _number_lines(block, number + 1, self._find_systemd_lines(stream, block)):
            self._unit_lines.append((stream, line, raw))
            failed, described = re.search(_FAILED, raw), re.search(_NOT_STARTED, raw)
            if failed is None and described is None:
                continue
            before = (self._before + block[max(0, start - _MAX_RUN_BYTES) : start])[-_MAX_RUN_BYTES:]
            if failed is not None:
                self._keep_lines_of_run(stream, failed["unit"], failed["unit"], before, line)
            elif described is not None and (unit := _find_unit_before(before)):
                # Before version 249, systemd starts a unit with its description alone.
                self._keep_lines_of_run(stream, unit, described["description"], before, line)
        return number + block.count(b"\n") + (not block.endswith(b"\n"))

    def _keep(self, stream: LogStream, line: int, raw: bytes, tests: set[int]) -> None:
        """Keep a line for each of its tests."""
        kept = self._kept.setdefault(stream, {})
        for test in tests:
            if test == NOTABLE:
                self._notable.add(stream, line, raw)
            elif test == _BOOT:
                self._keep_boot(stream, line, raw)
            elif is_stated(test):
                if not stream.host:
                    self._stated.setdefault(test, deque(maxlen=_MAX_STATED)).append((stream, line, raw))
            else:
                if (collected := kept.get(test)) is None:
                    collected = kept[test] = _FirstAndLastLines()
                collected.add(line, raw)

    def _keep_boot(self, stream: LogStream, line: int, raw: bytes) -> None:
        """Keep the number of a line that begins a boot, and the version of its kernel."""
        self._boots[stream] = line
        version = raw.partition(b"Linux version ")[2][:_MAX_VERSION_BYTES]
        if version and not stream.host:
            place = LinePlace(stream.path, line)
            self._kernel = (KnownFact(version.decode(errors="replace"), place),)

    def _find_own_lines(self, stream: LogStream, block: bytes) -> Iterator[tuple[int, int, str]]:
        """Yield the start, the end and the service of each line that a service logged."""
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

    def _keep_lines_of_run(
        self, stream: LogStream, unit: bytes, label: bytes, before: bytes, number: int
    ) -> None:
        """Keep the lines that new processes logged during a failed run of a unit.

        systemd logged the start of the run with `label`, the name or the description of the unit, and its end
        in line `number`; `before` is the text before that line. A process is new if it logged nothing before
        the run started. In a journal without units, it probably belongs to the unit.
        """
        begin = find_start(label, before)
        if begin is None and (description := _find_description(unit, before)):
            begin = find_start(description, before)
        if begin is None and _begins_within_run(unit, before, number):
            begin, before = 0, b"\n" + before
        if begin is None:
            return
        earlier = set(re.findall(_PROGRAM_LINE, before[:begin]))
        lines = before[begin:].split(b"\n")[1:-1]
        service = unit.removesuffix(b".service").decode(errors="replace")
        kept = self._meanwhile.setdefault(service, {})
        for at, text in enumerate(lines, number - len(lines)):
            program = re.match(_PROGRAM_LINE, text)
            if program is not None and program.groups() not in earlier:
                kept[stream, at] = text
        while len(kept) > _OWN_KEPT:
            del kept[next(iter(kept))]

    def _find_systemd_lines(self, stream: LogStream, block: bytes) -> Iterator[tuple[int, int, int]]:
        """Yield start, end, and start again, of lines of systemd about units, in files of the latest boot."""
        if stream.kind not in _WITH_UNITS or stream.host or stream.is_earlier_boot:
            return
        # systemd before version 249 logs "Starting DESCRIPTION" without the unit. Such a line only proves
        # that lines of systemd were read.
        self._has_systemd = self._has_systemd or b"systemd[1]: Start" in block
        at = 0
        while match := self._logged.search(block, at):
            start, end = block.rfind(b"\n", 0, match.start()) + 1, end_of_line(block, match.end())
            yield start, end, start
            at = end + 1

    def _find_own_texts(self) -> Iterator[tuple[str, str, str]]:
        """Return this host's fact files: in the folder of its records, or above it as in agent-gather."""
        homes = tuple(self._homes) or self._guess_home()
        return (
            text
            for text in self._texts
            if text[0].startswith(homes) or any(home.startswith(find_top(text[0])) for home in homes)
        )

    def _guess_home(self) -> tuple[str, ...]:
        """Return the folder with the most fact files, if there is no record to show the host's folder."""
        tops = [find_top(path) for path, _, _ in self._texts]
        folders = dict.fromkeys(tops)
        return (max(folders, key=lambda home: sum(top.startswith(home) for top in tops), default=""),)

    def _make_container_facts(self) -> tuple[KnownFact, ...]:
        names = {
            stream.name: stream for stream in self._ends if stream.kind == CONTAINERS and not stream.host
        }
        return tuple(KnownFact(name, LinePlace(stream.path)) for name, stream in names.items())

    def _add_stated(self, facts: KnownFacts) -> KnownFacts:
        """Add the facts that lines of the latest boot state, unless a file has them."""
        stated = StatedFacts()
        lines = (self._parse_line(*one) for kept in self._stated.values() for one in kept)
        for line in sorted((one for one in lines if not one.is_earlier_boot), key=_sort_key):
            stated.add(line)
        # A file that lists the interfaces lists all addresses as well.
        has_addresses = bool(facts.all("link"))
        for name, found in stated.facts().values.items():
            if not facts.all(name) and not (name == "address" and has_addresses):
                facts = facts.with_facts(name, found)
        return facts

    def _list_program_names(self) -> Iterator[str]:
        """Yield the programs that log, and the units with their own journal file."""
        yield from (name.decode() for name in self._programs)
        yield from (stream.name for stream in self._ends if stream.kind == JOURNAL and not stream.host)

    def _parse_line(self, stream: LogStream, number: int, raw: bytes) -> LogLine:
        if number < self._boots.get(stream, 0):
            stream = msgspec.structs.replace(stream, is_earlier_boot=True)
        return log_line(stream, number, raw, self._find_era(stream.path, number))

    def _find_era(self, path: str, number: int) -> Era:
        """Return the era from which a line's time gets its year, if it has none."""
        eras = self._eras.get(path)
        if not eras:
            return self._era
        return eras[max(bisect_right(eras, number, key=itemgetter(0)) - 1, 0)][1]

    @cached_property
    def _eras(self) -> dict[str, list[tuple[int, Era]]]:
        """Return path -> first lines and eras, by the lines of systemd. Call it when all files are read."""
        lines: dict[str, list[tuple[int, bytes]]] = {}
        for stream, number, raw in self._unit_lines:
            lines.setdefault(stream.path, []).append((number, raw))
        return {path: find_eras(numbered, self._era) for path, numbered in lines.items()}

    def _parse_meanwhile(self) -> dict[str, tuple[LogLine, ...]]:
        """Return service -> the lines that programs of no known unit logged during its failed runs."""
        units = {unit for _, _, raw in self._unit_lines for unit in re.findall(_SERVICE_NAME, raw)}
        programs = {name for unit in units for name in program_names(unit.decode(errors="replace"))}
        return {
            service: tuple(
                line
                for line in _sort_lines(self._parse_line(*place, raw) for place, raw in kept.items())
                if line.kind not in {SYSTEMD, KERNEL}
                and not line.unit
                and not line.services
                and line.name not in programs
            )
            for service, kept in self._meanwhile.items()
        }

    def evidence(self) -> Evidence:
        """Parse the collected lines and return all evidence."""
        lines: dict[int, list[LogLine]] = {}
        for stream, tests in self._kept.items():
            for test, collected in tests.items():
                lines.setdefault(test, []).extend(self._parse_line(stream, *one) for one in collected)
        own: dict[str, list[LogLine]] = {}
        for (service, stream), own_lines in self._own.items():
            own.setdefault(service, []).extend(self._parse_line(stream, *one) for one in own_lines)
        return Evidence(
            lines={test: _sort_lines(groups) for test, groups in lines.items()},
            own={service: _sort_lines(groups) for service, groups in own.items()},
            ends={
                stream.path: (count, self._parse_line(stream, count, last))
                for stream, (count, last) in self._ends.items()
            },
            meanwhile=self._parse_meanwhile(),
            started=frozenset(
                match[1].decode(errors="replace")
                for _, _, raw in self._unit_lines
                if (match := re.search(_STARTED_SERVICE, raw)) is not None
            ),
            unit_logs=read_logs(_sort_lines(self._parse_line(*one) for one in self._unit_lines)),
            paths=frozenset(self._paths),
            programs=frozenset(self._list_program_names()),
            facts=self._add_stated(read_facts(self._find_own_texts()))
            .with_facts("container", self._make_container_facts())
            .with_facts("kernel", self._kernel),
            has_systemd=self._has_systemd or bool(self._unit_lines),
            has_unit_listing=any(name in _UNIT_LISTINGS for _, name, _ in self._texts),
            notable=tuple(self._notable.lines(self._parse_line)),
            looked=Looked(len(self._ends) + len(self._texts), self._lines, frozenset(self._kinds)),
        )


def _find_unit_before(before: bytes) -> bytes:
    """Return the unit whose failure is in the last line of systemd in a text; empty for another line."""
    begin = before.rfind(b"systemd[1]: ")
    failed = re.match(_FAILED, before[begin:]) if begin >= 0 else None
    return failed["unit"] if failed is not None else b""


def _find_description(unit: bytes, before: bytes) -> bytes:
    """Return the beginning of the description in the latest start of a unit; empty if it is not found.

    Before version 249, systemd logs the start with the description, which is not known for a simple service.
    Most descriptions have a word of the unit's name: `Started Quay Container.` for `quay-app.service`.
    """
    words = [re.escape(word) for word in re.findall(rb"[^\W\d_]{3,}", unit.rpartition(b".")[0])]
    found = re.findall(_DESCRIBED_START % b"|".join(words), before) if words else []
    return found[-1] if found else b""


def _begins_within_run(unit: bytes, before: bytes, number: int) -> bool:
    """Return True if a file begins within the run of a unit that failed in line `number`.

    `journalctl --unit` and people who cut a fragment leave out the start. The lines are those of the run only
    if systemd logged nothing about another unit before the failure, and one program logged all the others.
    """
    if before.count(b"\n") != number - 1:
        return False
    programs = {match["program"] for match in re.finditer(_PROGRAM_LINE, before)} - {b"systemd"}
    return len(programs) == 1 and re.search(rb"systemd\[1\]: (?!%b)" % re.escape(unit), before) is None


def _number_lines(
    block: bytes, number: int, lines: Iterable[tuple[int, int, _Tag]]
) -> Iterator[tuple[int, bytes, _Tag]]:
    """Yield the number, the text (cut to the limit) and the tag of each line.

    `lines` has start, end and tag of each line, in order. `number` is the number of the block's first line.
    """
    at = 0
    for start, end, of in lines:
        number += block.count(b"\n", at, start)
        yield number, block[start : min(end, start + _MAX_LINE_BYTES)], of
        at = start


def _copy_beginning(read: Read, copy: bytearray) -> Read:
    """Return a read function that also adds the beginning of the file to `copy`."""

    def read_and_copy(size: int) -> bytes:
        data = read(size)
        copy.extend(data[: _MAX_JOINED_BYTES - len(copy)])
        return data

    return read_and_copy


def _sort_lines(lines: Iterable[LogLine]) -> tuple[LogLine, ...]:
    """Sort lines by time, without copies from a second file. Lines without a time come first."""
    files: dict[object, str] = {}
    unique = [line for line in lines if files.setdefault(line.identity, line.place.path) == line.place.path]
    return tuple(sorted(unique, key=_sort_key))


def _sort_key(line: LogLine) -> tuple[float, LinePlace]:
    return (line.time.timestamp() if line.time else 0.0), LinePlace(line.place.path, line.place.line or 0)
