"""Patterns of lines, and one pass over the files of a host: what rules ask for, its runs' lines, its facts.

Patterns are RE2's, in time linear in the text whatever the pattern: messages come from anywhere, and rules
from whoever wrote them. To compile all of them takes longer than all else that a small bundle needs. So a
short text is first searched for the words that a pattern cannot match without; only what is left is compiled.

For the files of a host all patterns of all rules are one set, which reads a block of text once whatever their
number. Lines are taken apart only where one of them matched. Pure.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import chain
from re import _parser  # undocumented; used only where rules are made from YAML
from typing import Any, Final, Self

import msgspec

from service_record.diagnosis.evidence.known_facts import KnownFact, KnownFacts, facts_of
from service_record.diagnosis.evidence.log_lines import (
    CONTAINERS,
    FACTS,
    JOURNAL,
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
from service_record.diagnosis.trouble_facts import Looked

_GROUP: Final = re.compile(r"\(\?P?<([A-Za-z_]\w*)>")
_NAMED_CLASS: Final = re.compile(r"\[:\^?[a-z]+:\]")
"""Of RE2; Python reads it as something else."""
_LEAST_NEEDLE: Final = 3
_MOST_NEEDLES: Final = 12
_SET_BYTES: Final = 64 << 20
_FEW_BYTES: Final = 1 << 14
"""In so much text, words are found in less time than a set of all patterns takes to compile."""
_BYTES_OF_A_CALL: Final = 1 << 8
"""One look at a text costs as much as so many bytes of it."""


class Pattern(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """A pattern of RE2, without regard to case; compiled when it is first searched for."""

    text: str
    names: tuple[str, ...] = ()
    """Its groups."""
    needles: tuple[str, ...] = ()
    """Words in small letters: each text that it matches has one of them. Empty where none is certain."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the pattern that is written so, compiled or not valid."""
        return cls(text, tuple(_GROUP.findall(text)), needles_of(text))

    @cached_property
    def compiled(self) -> Any:
        """Compile the pattern with RE2. Raises re2.error where it is not valid."""
        import re2  # noqa: PLC0415  # only where a text is looked at

        options = re2.Options()
        options.case_sensitive = False
        options.log_errors = False
        return re2.compile(self.text.encode(), options)

    def search(self, text: bytes) -> Any:
        """Return the first match in a text, or None."""
        return self.compiled.search(text)

    def may_match(self, folded: str) -> bool:
        """Return False where a text in small letters certainly does not match."""
        return not self.needles or any(needle in folded for needle in self.needles)


class LineSet:
    """Patterns that are looked for all at once, each with the number of the test that it belongs to."""

    def __init__(self, patterns: Iterable[tuple[int, Pattern]]) -> None:
        self._patterns = tuple(patterns)
        self._looked = 0

    def tests(self, text: bytes) -> set[int]:
        """Return the numbers of the tests of which a pattern is in the text."""
        self._looked += _BYTES_OF_A_CALL + len(text)
        return self.tests_by_words(text) if self._looked <= _FEW_BYTES else self.tests_by_set(text)

    def tests_by_words(self, text: bytes) -> set[int]:
        """Return the same, and compile only patterns whose words are in the text."""
        folded = text.decode(errors="replace").casefold()
        return {test for test, one in self._patterns if one.may_match(folded) and one.search(text)}

    def tests_by_set(self, text: bytes) -> set[int]:
        """Return the same, and read the text once whatever the number of patterns."""
        return (
            {self._patterns[index][0] for index in self._set.Match(text) or ()} if self._patterns else set()
        )

    @cached_property
    def _set(self) -> Any:
        import re2  # noqa: PLC0415  # as above

        options = re2.Options()
        options.case_sensitive = False
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _SET_BYTES
        patterns = re2.Set.SearchSet(options)
        for _, pattern in self._patterns:
            patterns.Add(pattern.text.encode())
        patterns.Compile()
        return patterns


def needles_of(pattern: str) -> tuple[str, ...]:
    """Return words in small letters of which each match has one; none where that is not certain."""
    if _NAMED_CLASS.search(pattern):
        return ()
    try:
        parts = _parser.parse(pattern)
    except (re.error, OverflowError):  # a form of RE2 only, or not valid
        return ()
    return max(_needles(parts), key=_worth, default=())


def _worth(needles: Sequence[str]) -> int:
    return min(map(len, needles))


def _needles(parts: Any) -> Iterator[tuple[str, ...]]:
    """Yield each choice of words that there is: one of each choice is in every match."""
    run = ""
    for kind, value in [*_flattened(parts), (None, None)]:
        if kind is _parser.LITERAL and chr(value).isascii():
            run += chr(value).lower()
            continue
        if kind is _parser.AT:  # has no width
            continue
        if len(run) >= _LEAST_NEEDLE:
            yield (run,)
        run = ""
        if kind is _parser.BRANCH:
            best = [max(_needles(branch), key=_worth, default=()) for branch in value[1]]
            choice = tuple(dict.fromkeys(needle for needles in best for needle in needles))
            if all(best) and len(choice) <= _MOST_NEEDLES:
                yield choice
        elif kind in {_parser.MAX_REPEAT, _parser.MIN_REPEAT} and value[0] >= 1:
            yield from _needles(value[2])


def _flattened(parts: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the parts of a pattern, those of its groups in their places."""
    for kind, value in parts:
        if kind is _parser.SUBPATTERN:
            yield from _flattened(value[3])
        else:
            yield kind, value


_BLOCK_BYTES: Final = 1 << 18
_MAX_LINE_BYTES: Final = 1 << 14
_MAX_FACT_BYTES: Final = 1 << 18
_MAX_FACTS_BYTES: Final = 8 << 20
"""Of all files of facts together."""
_FIRST: Final = 8
_LAST: Final = 24
"""Of the lines that one pattern knows in one file, so many of the first and of the last are kept."""
_OWN: Final = 400
"""Lines kept of one service in one file: its latest."""
_NEAR_END_LINES: Final = 50
_EXPORTED: Final = b"__CURSOR="
"""How a journal in systemd's export format begins."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found in the files of a host beside its records."""

    lines: Mapping[int, tuple[LogLine, ...]] = msgspec.field(default_factory=dict)
    """Number of a test of lines -> the lines that fit it, the earliest first."""
    own: Mapping[str, tuple[LogLine, ...]] = msgspec.field(default_factory=dict)
    """Service -> its own lines in the journal, the earliest first."""
    ends: Mapping[str, tuple[int, LogLine | None]] = msgspec.field(default_factory=dict)
    """File -> how many lines it has, and the last."""
    facts: KnownFacts = msgspec.field(default_factory=KnownFacts)
    looked: Looked = msgspec.field(default_factory=Looked)

    @property
    def is_of_host(self) -> bool:
        """Return whether anything was read that only a host has: not merely files of unknown kinds."""
        return bool(self.facts.values) or bool(self.looked.kinds - {OTHER})

    def is_current(self, line: LogLine) -> bool:
        """Return whether a line stands near the end of its file, so that nothing shows it to be over."""
        count, _ = self.ends.get(line.place.path, (0, None))
        return line.place.line is None or count - line.place.line <= _NEAR_END_LINES

    def last_time(self, line: LogLine) -> datetime | None:
        """Return the time of the last line of the file that a line is in."""
        _, last = self.ends.get(line.place.path, (0, None))
        return last.time if last is not None else None


NO_EVIDENCE: Final = Evidence()


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
        import re2  # noqa: PLC0415  # only where texts are looked at

        self._set = lines
        self._services = frozenset(own)
        self._pids = {b"%d" % pid: service for service, pids in own.items() for pid in pids}
        options = re2.Options()
        options.log_errors = False
        pids = b"|".join(sorted(self._pids)) or b"none"
        names = b"|".join(re.escape(name).encode() for name in sorted(self._services)) or b"none"
        self._writer: Any = re2.compile(
            rb"\[("
            + pids
            + rb")\]: | ("
            + names
            + rb")(?:\.sh)?\[\d+\]: | systemd\[1\]: ("
            + names
            + rb")\.service: ",
            options,
        )
        self._era = era
        self._kept: dict[tuple[int, LogStream], _CollectedLines] = {}
        self._own: dict[tuple[str, LogStream], deque[tuple[int, bytes]]] = {}
        self._ends: dict[LogStream, tuple[int, bytes]] = {}
        self._texts: list[tuple[str, str, str]] = []
        self._fact_bytes = 0
        self._homes: set[str] = set()
        """Folders in which records lie: facts elsewhere are of other hosts."""
        self._lines = 0
        self._kinds: set[str] = set()

    def read(self, path: str, read: Callable[[int], bytes]) -> None:
        """Take one file; `read` returns at most so many bytes, and none at its end."""
        stream = stream_of(path)
        if stream is None:
            home = home_of(path)
            if home is not None:
                self._homes.add(home)
            return
        if stream.kind == FACTS:
            self._facts(stream, read)
            return
        self._kinds.add(stream.kind)
        rest, number, last = b"", 0, b""
        head = read(_BLOCK_BYTES)
        read = _after(head, read)
        if head.startswith(_EXPORTED):
            from service_record.diagnosis.evidence.journal_export import export_lines  # noqa: PLC0415  # seldom

            read = export_lines(read)
        while chunk := read(_BLOCK_BYTES):
            if number == 0 and b"\0" in chunk[:4096]:
                return
            block = rest + chunk
            end = block.rfind(b"\n") + 1
            if not end and len(block) < _BLOCK_BYTES * 4:
                rest = block
                continue
            rest, block = block[end:], block[: end or None]
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
        while len(data) < _MAX_FACT_BYTES and (chunk := read(_MAX_FACT_BYTES - len(data))):
            data += chunk
        self._fact_bytes += len(data)
        if not stream.host and self._fact_bytes <= _MAX_FACTS_BYTES:
            self._texts.append((stream.path, stream.name, data.decode(errors="replace")))

    def _block(self, stream: LogStream, block: bytes, number: int) -> int:
        """Take whole lines; return the number of the last."""
        is_asked = bool(self._set.tests(block))
        service = stream.name if stream.kind == JOURNAL and stream.name in self._services else None
        has_own = service is not None or (stream.kind == JOURNAL and self._writer.search(block) is not None)
        if not is_asked and not has_own:
            return number + block.count(b"\n") + (not block.endswith(b"\n"))
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        for raw in lines:
            number += 1
            raw = raw[:_MAX_LINE_BYTES]  # noqa: PLW2901  # a line as far as it is looked at
            if is_asked:
                for test in self._set.tests(raw):
                    self._kept.setdefault((test, stream), _CollectedLines()).add(number, raw)
            if has_own and (owner := service or self._owner(raw)):
                own = self._own.get((owner, stream))
                if own is None:
                    own = self._own[owner, stream] = deque(maxlen=_OWN)
                own.append((number, raw))
        return number

    def _owner(self, raw: bytes) -> str | None:
        match = self._writer.search(raw)
        if not match:
            return None
        name = match[2] or match[3]
        return name.decode() if name else self._pids.get(match[1])

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

    def evidence(self) -> Evidence:
        """Return all that was found."""
        lines: dict[int, list[LogLine]] = {}
        for (test, stream), collected in self._kept.items():
            lines.setdefault(test, []).extend(log_line(stream, *one, self._era) for one in collected)
        own: dict[str, list[LogLine]] = {}
        for (service, stream), own_lines in self._own.items():
            own.setdefault(service, []).extend(log_line(stream, *one, self._era) for one in own_lines)
        return Evidence(
            lines={test: _in_order(groups) for test, groups in lines.items()},
            own={service: _in_order(groups) for service, groups in own.items()},
            ends={
                stream.path: (count, log_line(stream, count, last, self._era))
                for stream, (count, last) in self._ends.items()
            },
            facts=facts_of(self._texts_at_home()).having("container", self._containers()),
            looked=Looked(len(self._ends) + len(self._texts), self._lines, frozenset(self._kinds)),
        )


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
