"""Collect error lines from all logs: one line of each kind, with its number of repetitions. Pure."""
# ruff: noqa: E501  # a list of words is easier to read in long lines

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from service_record.diagnosis.evidence.log_lines import LogLine, LogStream
from service_record.diagnosis.line_patterns import Pattern

_MAX_LINE_BYTES: Final = 4096
_MAX_TEMPLATES: Final = 4000
"""The most kinds of lines that are returned for all files together."""
_MAX_OF_FILE: Final = 600
"""The most kinds of lines that are kept for one file."""
_EXPLANATION: Final = ("░░ ".encode(), b"-- ")
"""The beginnings of the lines in which `journalctl -x` explains a message."""
NOTABLE: Final = -1
"""The number of the test for these lines in a `LineSet`."""
_WORDS: Final = (
    "error|fatal|fail|panic|denied|refuse|cannot|can't|could not|couldn't|unable|no such|not found|timed out|timeout|time-out"
    "|invalid|unauthorized|unauthorised|forbidden|no space|not enough|killed|not permitted|not allowed|unreachable|exception"
    "|expired|BUG: |oops|corrupt|reject|duplicate|not supported|unsupported|missing|does not exist|doesn't exist|conflict"
    "|command: [|too quickly|cant find|malformed|critical|deleted to break|mismatch|unknown|illegal|segfault|segmentation fault|violat|broken|exceed|out of memory|in use|held by|substitution"
    "|bad |wrong|incorrect|not available|unexpected|must |abort|did not|not known|not a |warning"
)
_PHRASE: Final = r"no \S+ (?:\S+ )?available"


def notable_patterns() -> Iterator[tuple[int, Pattern]]:
    """Yield the patterns of error lines, numbered NOTABLE."""
    for word in _WORDS.split("|"):
        yield NOTABLE, Pattern(re.escape(word), needles=(word.lower(),), is_word=True)
    yield NOTABLE, Pattern(_PHRASE, needles=(" available",))


_DIGITS: Final = b"0123456789abcdefx"
"""Characters of numbers and identifiers, which the key of a kind leaves out. `re.sub` takes ten times as long."""
_KEY_BYTES: Final = 220


class NotableLine(msgspec.Struct, frozen=True):
    """An error line, and how often lines of its kind occur in the file."""

    line: LogLine
    """The last line of the kind in the file."""
    count: int
    template: str
    last_time: datetime | None = None


class _Kind:
    __slots__ = ("count", "number", "raw")

    def __init__(self, number: int, raw: bytes) -> None:
        self.count, self.number, self.raw = 0, number, raw


class NotableLines:
    """Collects error lines by kind: the line without its numbers."""

    def __init__(self) -> None:
        self._kinds: dict[LogStream, dict[bytes, _Kind]] = {}

    def add(self, stream: LogStream, number: int, raw: bytes) -> None:
        """Add a line that has one of the patterns. The explanations of `journalctl -x` are left out."""
        if raw.startswith(_EXPLANATION):
            return
        kinds = self._kinds.setdefault(stream, {})
        key = raw[:_KEY_BYTES].translate(None, _DIGITS)
        kind = kinds.get(key)
        if kind is None:
            if len(kinds) >= _MAX_OF_FILE:
                # The latest lines matter most: drop the kind that was not seen for the longest time.
                del kinds[next(iter(kinds))]
            kind = kinds[key] = _Kind(number, raw[:_MAX_LINE_BYTES])
        elif kind.number != number:
            kind.number, kind.raw = number, raw[:_MAX_LINE_BYTES]
        kind.count += 1

    def lines(self, log_line: Callable[[LogStream, int, bytes], LogLine]) -> Iterator[NotableLine]:
        """Yield the last line of each kind, parsed by `log_line`."""
        left = _MAX_TEMPLATES
        seen: set[tuple[str, str, float | None]] = set()
        for stream, kinds in self._kinds.items():
            for kind in kinds.values():
                line = log_line(stream, kind.number, kind.raw)
                # The journal file of a unit repeats lines of the whole journal.
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
    """Return the line with `#` for numbers, paths and quoted names, which differ from host to host."""
    return re.sub(r"#[#\s]*#|#", "#", re.sub(_QUOTED, "#", text[:400].lower()))[:120]
