"""Join the lines of a command: a pipeline in a trace, continued lines, and arguments in a list. Pure."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from service_record.redaction import types
from service_record.redaction.argument_lists import write_word
from service_record.redaction.prefixes import prefix_end
from service_record.redaction.types import ZEROS_FOR_DIGITS, Found, line_end

TRIGGER: Final = (
    rb"""-[ \t]["']?--?[a-z0-9-]*(?:pass(?:word|wd|phrase)?|token|secret|psk|key)["']?(?:[\\&%#]|\r?$)"""
    rb"""|(?i:command|cmd|args|argv|entrypoint)["'\\]*[ \t]*[:=][ \t]*\[?[ \t]*(?:\\|\r?$)"""
)
"""Matches in lines after which the arguments of a command may follow in a list."""


class CommandText(NamedTuple):
    """The lines of a command as one text, written as a shell traces it."""

    text: bytes
    parts: Sequence[tuple[int, int, int]]
    """The parts of the text that come from lines: offset in the text, offset in the log, size."""

    def places(self, secrets: Iterable[Found]) -> Iterator[Found]:
        """Yield the secrets in the text by their offsets in the log. A secret in two lines has two places."""
        ends = [offset + size for offset, _, size in self.parts]
        for start, end, kind in secrets:
            mark = ""
            for offset, place, size in self.parts[bisect_right(ends, start) :]:
                if offset >= end:
                    break
                yield place + max(start - offset, 0), place + min(end - offset, size), mark + kind
                mark = "+"


class CommandFollower:
    """Joins the lines of a command: a pipeline in a trace, lines that backslashes continue, and arguments in
    a list.
    """

    def __init__(self) -> None:
        self._head = b""
        """The beginning of the command, from lines that were read."""
        self._depth: int | None = None
        """The indentation of a list; None for lines that end in a backslash."""
        self._lines = 0
        self.is_open = False
        """True if the next line may belong to the command."""
        self.end = 0
        """Where the line after the command begins."""

    def begins_in(self, line: bytes) -> bool:
        """Return True if a command begins in a line and may continue in the next one."""
        if b"+ " in line and TRACED_OUTPUT.search(line) is not None:
            return True
        return (b"- " in line or line.endswith(_MAY_CONTINUE)) and (
            _CONTINUED.search(line) is not None or _ARGUMENTS.fullmatch(line, prefix_end(line)) is not None
        )

    def begin(self, log: bytes, start: int, end: int) -> list[CommandText]:
        """Begin a command with a line for which `begins_in` is True. Return its texts, like `join`."""
        line = log[start:end]
        texts = _join_pipeline(log, line, start, end)
        head = prefix_end(line)
        self._lines, self._depth = 0, None
        if _CONTINUED.search(line) is not None:
            self._head = line[head:].rstrip(b"\\\r")
            self.is_open = True
        elif (arguments := _ARGUMENTS.fullmatch(line, head)) is not None:
            self._head = arguments[3] or b""
            self._depth = len(arguments[1]) + len(arguments[2] or b"")
            self.is_open = True
        return texts + self.join(log, end + 1)

    def join(self, log: bytes, position: int) -> list[CommandText]:
        """Return the texts of the next lines of the command, from the line at `position` on.

        Sets `end`. At the end of the log, the command stays open. A long command is several texts that begin
        with its program: each line is read once.
        """
        texts: list[CommandText] = []
        while self.is_open and position < len(log):
            pieces = [b"+ ", _shorten(self._head)]
            size = sum(map(len, pieces))
            parts: list[tuple[int, int, int]] = []
            while self.is_open and position < len(log) and size < _MAX_JOINED_BYTES:
                end = line_end(log, position)
                line = log[position:end]
                part = self._find_part(line, prefix_end(line))
                if part is None or self._lines > _MAX_ARGUMENTS:
                    self.is_open = False
                    break
                first, last = part
                word = line[first:last] if self._depth is None else write_word(line[first:last])
                parts.append((size + 1, position + first, last - first))
                pieces += (b" ", word)
                size += 1 + len(word)
                self._lines += 1
                position = end + 1
                if self._depth is None and _CONTINUED.search(line) is None:
                    self.is_open = False
            text = b"".join(pieces)
            self._head = text[2:]
            if parts:
                texts.append(CommandText(text, parts))
        self.end = position
        return texts

    def _find_part(self, line: bytes, start: int) -> tuple[int, int] | None:
        """Return the span of the part of the command in a line, or None if the command has ended."""
        if self._depth is None:
            return start, len(line.rstrip(b"\\\r"))
        item = _ARGUMENT.groups(line[start:])
        if item is None:
            return None
        (_, depth), (mark, _), *values = item[1:]
        first, last = max(values)
        is_inside = depth > self._depth or (depth == self._depth and mark >= 0)
        return (start + first, start + last) if is_inside else None


TRACED_OUTPUT: Final = re.compile(rb"\+ (?:\S+: )?(?:echo|printf) (?:(?:-[neE]+|'?%s(?:\\n)?'?) )?\S+\s*\Z")
"""Matches an output of one word. Several words are mostly a message: `echo 'Unlocking the disk'`."""


def _join_pipeline(log: bytes, line: bytes, start: int, end: int) -> list[CommandText]:
    """Return a line, a pipe, and the command in the next line as one text; none if they are no pipeline.

    `set -x` of a shell prints the commands of a pipeline on lines of their own. The command that reads the
    output tells whether it is a password.
    """
    if (output := TRACED_OUTPUT.search(line)) is None:
        return []
    prefix, plus, reader = log[end + 1 : line_end(log, end + 1)].partition(b"+ ")
    # There is one `+` for each level of subshells, which may differ.
    prefixes = {each.rstrip(b"+").translate(ZEROS_FOR_DIGITS) for each in (prefix, line[: output.start()])}
    if not plus or len(prefixes) > 1:
        return []
    return [CommandText(line + b" | " + reader, [(0, start, len(line))])]


_MAY_CONTINUE: Final = (b"\\", b":", b"[", b"\r")
_CONTINUED: Final = re.compile(rb"(?<!\\)\\\r?\Z")
_ARGUMENTS: Final = re.compile(
    rb"""([ \t]*)(?:((?:-[ \t]+)?)["']?\w*(?i:command|cmd|args|argv|entrypoint)["']?[ \t]*[:=][ \t]*\[?"""
    rb"""|-[ \t]+["']?(--?[A-Za-z][A-Za-z0-9-]*)["']?,?)[ \t\r]*"""
)
"""Matches a name of arguments, or an argument that is an option, with the indentation before it."""
_ARGUMENT: Final = types.Finder(
    rb"""^([ \t]*)(-[ \t]+)*(?:"([^\n]*)"|'([^\n]*)'|([^\s"'\]}][^\n]*?)),?[ \t\r]*$""", groups=True
)
_MAX_ARGUMENTS: Final = 200
_MAX_JOINED_BYTES: Final = 1 << 12
_MAX_COMMAND_BYTES: Final = 1 << 8
"""Each text of a long command begins with this part of the text before it."""


def _shorten(command: bytes) -> bytes:
    """Return the first and the last words of a long command: its program, and the option of the next word."""
    if len(command) <= _MAX_COMMAND_BYTES:
        return command
    half = _MAX_COMMAND_BYTES // 2
    return command[:half].rpartition(b" ")[0] + b" " + command[-half:].partition(b" ")[2]
