"""Find passwords in commands of several lines: pipelines in a trace, continued lines, and lists. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from service_record.redaction import types
from service_record.redaction.command_words import Word, split_shell
from service_record.redaction.commands import find_secrets
from service_record.redaction.prefixes import prefix_end
from service_record.redaction.types import ZEROS_FOR_DIGITS, Found, line_end

TRIGGER: Final = (
    rb"""-[ \t]["']?--?[a-z0-9-]*(?:pass(?:word|wd|phrase)?|token|secret|psk|key)["']?(?:[\\&%#]|\r?$)"""
    rb"""|(?i:command|cmd|args|argv|entrypoint)["'\\]*[ \t]*[:=][ \t]*\[?[ \t]*(?:\\|\r?$)"""
)
"""Matches in lines after which the arguments of a command may follow in a list."""


class CommandFollower:
    """Reads the lines of a command as one."""

    def __init__(self) -> None:
        self._words: list[Word] = []
        """The words of the command so far; of a long command, the first ones and the last one."""
        self._depth: int | None = None
        """The indentation of a list; None for lines that end in a backslash."""
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

    def begin(self, log: bytes, start: int, end: int) -> list[Found]:
        """Return the secrets of a command that begins in a line for which `begins_in` is True."""
        line = log[start:end]
        head = prefix_end(line)
        self._depth = None
        if _CONTINUED.search(line) is not None:
            self._words = list(split_shell(line, head, _NOWHERE))
            self.is_open = True
        elif (arguments := _ARGUMENTS.fullmatch(line, head)) is not None:
            self._words = [Word(arguments[3], _NOWHERE)] if arguments[3] else []
            self._depth = len(arguments[1]) + len(arguments[2] or b"")
            self.is_open = True
        return list(_find_in_pipeline(log, start, end)) + self.join(log, end + 1)

    def join(self, log: bytes, position: int) -> list[Found]:
        """Return the secrets in the next lines of the command, from the line at `position` on.

        Sets `end`. At the end of the log, the command stays open.
        """
        found: list[Found] = []
        while self.is_open and position < len(log):
            end = line_end(log, position)
            words = self._split_line(log[position:end], position)
            if words is None:
                self.is_open = False
                break
            self._words += words
            position = end + 1
            if len(self._words) >= _MAX_WORDS:
                found += self._take_secrets()
        self.end = position
        return found + self._take_secrets()

    def _take_secrets(self) -> list[Found]:
        """Return the secrets in the words so far, and keep only the words that the next ones need."""
        found = [secret for secret in find_secrets(self._words) if secret[0] >= 0]
        kept = self._words[:_KEPT_WORDS] + self._words[_KEPT_WORDS:][-1:]
        self._words = [word._replace(start=_NOWHERE) for word in kept]
        return found

    def _split_line(self, line: bytes, place: int) -> list[Word] | None:
        """Return the words of the command in a line, or None if the command has ended."""
        head = prefix_end(line)
        if self._depth is None:
            self.is_open = _CONTINUED.search(line) is not None
            return list(split_shell(line, head, place))
        item = _ARGUMENT.groups(line[head:])
        if item is None:
            return None
        (_, depth), (mark, _), *values = item[1:]
        first, last = max(values)
        is_inside = depth > self._depth or (depth == self._depth and mark >= 0)
        return [Word(line[head + first : head + last], place + head + first)] if is_inside else None


TRACED_OUTPUT: Final = re.compile(rb"\+ (?:\S+: )?(?:echo|printf) (?:(?:-[neE]+|'?%s(?:\\n)?'?) )?\S+\s*\Z")
"""Matches an output of one word. Several words are mostly a message: `echo 'Unlocking the disk'`."""


def _find_in_pipeline(log: bytes, start: int, end: int) -> Iterator[Found]:
    """Yield the secret that a line prints for the command in the next line, if they are a pipeline.

    `set -x` of a shell prints the commands of a pipeline on lines of their own. The command that reads the
    output tells whether it is a password.
    """
    line = log[start:end]
    if (output := TRACED_OUTPUT.search(line)) is None:
        return
    prefix, plus, reader = log[end + 1 : line_end(log, end + 1)].partition(b"+ ")
    # There is one `+` for each level of subshells, which may differ.
    prefixes = {each.rstrip(b"+").translate(ZEROS_FOR_DIGITS) for each in (prefix, line[: output.start()])}
    if plus and len(prefixes) == 1:
        yield from find_secrets(split_shell(line + b" | " + reader, output.start(), start))


_MAY_CONTINUE: Final = (b"\\", b":", b"[", b"\r")
_CONTINUED: Final = re.compile(rb"(?<!\\)\\\r?\Z")
_ARGUMENTS: Final = re.compile(
    rb"""([ \t]*)(?:((?:-[ \t]+)?)["']?\w*(?i:command|cmd|args|argv|entrypoint)["']?[ \t]*[:=][ \t]*\[?"""
    rb"""|-[ \t]+["']?(--?[A-Za-z][A-Za-z0-9-]*)["']?,?)[ \t\r]*"""
)
"""Matches a name of arguments, or an argument that is an option, with the indentation before it."""
_ARGUMENT: Final = types.Finder(
    rb"""^([ \t]*)(-[ \t]+)*"""
    rb"""(?:"([^\n]*)"|'([^\n]*)'|([^\s"'\]}][^\n]*?|[\]}]+[^\s,\]}][^\n]*?|["'][^\n]+?)),?[ \t\r]*$""",
    groups=True,
)
_MAX_WORDS: Final = 1 << 8
"""A longer command is read in parts."""
_KEPT_WORDS: Final = 8
"""Each part begins with the first words of the command, and with the last one, which may be an option."""
_NOWHERE: Final = -(1 << 40)
"""The place of words that were read before."""
