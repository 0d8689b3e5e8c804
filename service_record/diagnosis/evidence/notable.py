"""Collect the log lines that speak of an error: one line of each kind, with its repetitions. Pure."""
# ruff: noqa: E501  # a list of words is easier to read in long lines

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from service_record.diagnosis.evidence.log_lines import FACTS, LogLine, LogStream

_MAX_LINE_BYTES: Final = 4096
_MAX_TEMPLATES: Final = 4000
"""Kinds of lines kept of all files together."""
_MAX_OF_FILE: Final = 600
_WORDS: Final = (
    rb"(?i)error|fatal|fail|panic|denied|refuse|cannot|can't|could not|unable|no such|not found|timed out|time-?out"
    rb"|invalid|unauthori[sz]ed|forbidden|no space|not enough|killed|not permitted|not allowed|unreachable|exception"
    rb"|expired|\bBUG: |oops|corrupt|reject|duplicate|not supported|unsupported|missing|does(?: not|n't) exist|conflict"
    rb"|deleted to break|mismatch|unknown|illegal|segfault|violat|broken|exceed|out of memory|in use|held by|substitution"
    rb"|bad |wrong|incorrect|no \S+ (?:\S+ )?available|not available|unexpected|must |abort|did not|not known|not a |warning"
)
_HEAD: Final = rb"(?s)(?:\S{10,40} \S+ |[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? \S+ )?"
_NUMBERS: Final = re.compile(rb"0x[0-9a-fA-F]+|[0-9a-f]{7,}|\d+")
_KEY_BYTES: Final = 220


class NotableLine(msgspec.Struct, frozen=True):
    """A line that speaks of an error, and its repetitions."""

    line: LogLine
    """The last one in its file."""
    count: int
    template: str
    last_time: datetime | None = None


class _Kind:
    __slots__ = ("count", "number", "raw")

    def __init__(self, number: int, raw: bytes) -> None:
        self.count, self.number, self.raw = 0, number, raw


class NotableLines:
    """Collects such lines, block by block."""

    def __init__(self) -> None:
        import re2  # only where texts are read

        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        self._words: Any = re2.compile(_WORDS, options)
        self._kinds: dict[LogStream, dict[bytes, _Kind]] = {}

    def add(self, stream: LogStream, block: bytes, number: int) -> None:
        """Take whole lines; `number` is that of the first."""
        if stream.kind == FACTS:
            return
        kinds = self._kinds.setdefault(stream, {})
        search, at, counted = self._words.search, 0, 0
        while match := search(block, at):
            begin = block.rfind(b"\n", 0, match.start()) + 1
            end = block.find(b"\n", match.end())
            end = len(block) if end < 0 else end
            number += block.count(b"\n", counted, begin)
            counted, at = begin, end
            raw = block[begin : min(end, begin + _MAX_LINE_BYTES)]
            key = _NUMBERS.sub(b"#", raw[:_KEY_BYTES])
            kind = kinds.get(key)
            if kind is None:
                if len(kinds) >= _MAX_OF_FILE:
                    # The latest lines matter most: drop the kind that was not seen for the longest time.
                    del kinds[next(iter(kinds))]
                kind = kinds[key] = _Kind(number, raw)
            elif kind.number != number:
                kind.number, kind.raw = number, raw
            kind.count += 1

    def lines(self, log_line: Callable[[LogStream, int, bytes], LogLine]) -> Iterator[NotableLine]:
        """Yield one line of each kind, which `log_line` takes apart."""
        left = _MAX_TEMPLATES
        seen: set[tuple[str, str, float | None]] = set()
        for stream, kinds in self._kinds.items():
            for kind in kinds.values():
                line = log_line(stream, kind.number, kind.raw)
                # The journal of a unit repeats lines of the whole journal.
                identity = line.name, line.text, line.time.timestamp() if line.time else None
                if identity in seen or left <= 0:
                    continue
                seen.add(identity)
                left -= 1
                yield NotableLine(
                    line, kind.count, line_template(f"{line.name}: {line.text.strip()}"), line.time
                )


_QUOTED: Final = r"""(?xa) \\?"[^"\s]{0,200}" | '[^'\s]{0,200}' | (?:/[\w.+@:~-]+)+/? | \b[0-9a-f]{7,}\b | (?:\d+[.:/-]?)+"""


def line_template(text: str) -> str:
    """Return the line without its numbers, paths and quoted names, which differ from host to host."""
    return re.sub(r"#[#\s]*#|#", "#", re.sub(_QUOTED, "#", text[:400].lower()))[:120]
