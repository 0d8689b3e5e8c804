"""Find the passwords in the command lines of programs whose usage is known. Pure.

commands.toml has the usages. A program is known by its name alone, so it does not matter what is before it: a
path, `sudo`, `timeout 5`, or the words of a log.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final, NamedTuple, TypeAlias

from service_record.redaction import ordinary_words, types
from service_record.redaction.secrets import COMMANDS, rows
from service_record.redaction.syntax import Text
from service_record.redaction.types import Found, is_in_mask

_KIND: Final = "command-password"
_Check: TypeAlias = Callable[[bytes], bool]
_SECRETS: Final[Mapping[str, tuple[str, _Check]]] = {
    "PASSWORD": (_KIND, ordinary_words.is_flag_value),
    "ARGUMENT": (_KIND, ordinary_words.is_argument),
    "TOKEN": (_KIND, ordinary_words.is_token),
    "COOKIE": ("cookie", ordinary_words.is_cookie),
}
"""The words for secrets in a usage, their kinds, and the checks of their values."""
_WORD: Final = re.compile(rb"""(?:[^\s"'\\]|\\.|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|["'\\])+""")
"""Matches a word as a shell splits them. A quote without a second one is an ordinary character."""
_OPENING: Final = b"\"'`[({,"
_CLOSING: Final = b"\"'`])},;\\"
_QUOTES: Final = (b'"', b"'", b"`")
_ENDS: Final = b";|&"
"""A word that begins with one of these ends a command. Inside a word, audit does not quote them."""
_REDIRECTION: Final = re.compile(rb"[0-9]?[<>](?!redacted:)")
_HERE_STRING: Final = b"<<<"
_PLACEHOLDER: Final = re.compile(r"[A-Z]{2,}")
_BUNDLE: Final = re.compile(rb"-[A-Za-z]{2,}")
"""Matches several options of one letter as one word. The last one may have a value."""
_LONG_OPTION: Final = re.compile(rb"-[a-z-]{2,}")
"""Matches an option such as `-kfile`, which begins with another option."""
_OPTIONS: Final = re.compile(r"(?:^|[ |])(-[A-Za-z]|--[A-Za-z0-9-]+)")
_ANY_LETTER_OPTION: Final = rb"[ \t]-[A-Za-z]"
_ANY_ARGUMENTS: Final = "..."
_LETTER_OPTION_BYTES: Final = 2
_EXTENSION: Final = rb"(?:\.exe|\.sh|\.py|\.bat)?"
_PROGRAM: Final = re.compile(rb"[$(`]*(?:[A-Za-z0-9_.~-]*/)*([A-Za-z0-9_.-]+?)" + _EXTENSION)
_MAX_PROGRAM_BYTES: Final = 128
"""The limit for a program with its path. Matching longer words would take quadratic time."""
_NEW_COMMAND: Final = re.compile(rb"[;&](?=[\s;&])")
_FIRST_LINE: Final = rb"[ \t]\\\r?$"
"""Matches the first line of a command of several lines, whose options may be in the next ones."""
_ECHO: Final = (b"echo", b"printf")
_ECHO_OPTION: Final = re.compile(rb"-[neE]+|%s(?:\\+n)?")


class _Word(NamedTuple):
    start: int
    text: bytes
    """The word without the quotes and brackets around it."""


@dataclass(frozen=True, slots=True)
class _Template:
    """A word of a usage, such as `USER:PASSWORD`."""

    pattern: re.Pattern[bytes]
    """Its group is the secret. Without a group, the value is no secret."""
    kind: str = ""
    check: _Check = ordinary_words.is_value

    def secret(self, word: _Word, offset: int = 0) -> tuple[int, int] | None:
        """Return the span of the secret in a value, which begins at an offset in a word.

        The end is 0 if the secret ends with the word.
        """
        match = self.pattern.fullmatch(word.text, offset) if self.pattern.groups else None
        if match is None:
            return None
        return word.start + match.start(1), word.start + match.end(1) if match.end(1) < match.end() else 0


def _make_template(text: str) -> _Template:
    """Compile a word of a usage. A placeholder takes all characters up to the literal after it."""
    pattern, position = "", 0
    secret: tuple[str, _Check] = ("", ordinary_words.is_value)
    for each in _PLACEHOLDER.finditer(text):
        pattern += _make_literal(text[position : each.start()])
        after = text[each.end() :].lstrip("[")
        characters = f"[^{re.escape(after[0])}]" if after and after[0] != "]" else "."
        if each[0] in _SECRETS:
            secret = _SECRETS[each[0]]
            pattern += f"({characters}+)"
        else:
            pattern += f"{characters}*"
        position = each.end()
    return _Template(re.compile((pattern + _make_literal(text[position:])).encode(), re.DOTALL), *secret)


def _make_literal(text: str) -> str:
    """Return the pattern of a literal in a usage. What is in brackets is optional."""
    return re.escape(text).replace(r"\[", "(?:").replace(r"\]", ")?").replace(r"\*", ".*").replace(r"\|", "|")


@dataclass(slots=True)
class _Usage:
    """One way to call a program."""

    subcommands: list[re.Pattern[bytes]] = field(default_factory=list)
    flags: list[bytes] = field(default_factory=list)
    """Options without which this usage does not apply."""
    options: dict[bytes, _Template] = field(default_factory=dict)
    """Options and their values, in the same word or in the next one."""
    words: list[_Template] = field(default_factory=list)
    """Words with a password after a fixed beginning: `-pPASSWORD`."""
    arguments: list[_Template] = field(default_factory=list)
    """The arguments after the subcommands, without options."""
    standard_input: _Template | None = None
    is_prefix: bool = False
    """True if another command follows the options."""

    def secrets(self, words: Sequence[_Word], fed: _Word | None) -> Iterator[tuple[int, int, _Template]]:
        """Yield the spans of the possible secrets, as `_Template.secret` returns them, with their templates.

        Take the words after the program, and the word that is its standard input.
        """
        names, arguments = iter(self.subcommands), iter(self.arguments)
        name = next(names, None)
        flags = set(self.flags)
        following = iter(words)
        for word in following:
            value: _Word | None = word
            template, offset = self._option(word.text) if name is None else (None, 0)
            if flags:
                flags.difference_update(option for option, _ in _split_option(word.text))
            if template is not None:
                value = next(following, None) if offset == len(word.text) else word
            elif word.text.startswith(b"-"):
                continue
            elif name is not None:
                name = next(names, None) if name.fullmatch(word.text) else name
                continue
            elif self.is_prefix:
                return
            else:
                template = next(arguments, None)
            if template is not None and value is not None:
                yield from self._read(template, value, offset if value is word else 0)
        if self.standard_input is not None and fed is not None and name is None and not flags:
            yield from self._read(self.standard_input, fed, 0)

    @staticmethod
    def _read(template: _Template, value: _Word, offset: int) -> Iterator[tuple[int, int, _Template]]:
        span = template.secret(value, offset)
        if span is not None:
            yield *span, template

    def _option(self, word: bytes) -> tuple[_Template | None, int]:
        """Return the template of an option's value and its offset in the word, which may be its end."""
        for template in self.words:
            if template.pattern.fullmatch(word):
                return template, 0
        for option, offset in _split_option(word):
            if option in self.options:
                return self.options[option], offset
        return None, 0


@lru_cache(maxsize=1024)
def _split_option(word: bytes) -> Sequence[tuple[bytes, int]]:
    """Return the options that a word may be or begin with, each with the offset of the value."""
    options = [(word, len(word))]
    option, separator, _ = word.partition(b"=")
    if separator:
        options.append((option, len(option) + 1))
    if word.startswith(b"-") and not word.startswith(b"--"):
        if not _LONG_OPTION.fullmatch(word):
            options.append((word[:_LETTER_OPTION_BYTES], _LETTER_OPTION_BYTES))
        if _BUNDLE.fullmatch(word):
            options.append((b"-" + word[-1:], len(word)))
    return options


@cache
def _parse_usage(text: str) -> _Usage:
    """Parse a usage of commands.toml."""
    usage = _Usage()
    before, _, standard_input = text.partition("<")
    if standard_input:
        usage.standard_input = _make_template(standard_input.strip())
    words = iter(before.split())
    for word in words:
        is_option = word.startswith(("-", "/"))
        if word == "COMMAND":
            usage.is_prefix = True
        elif word == _ANY_ARGUMENTS:
            pass  # only the trigger differs
        elif is_option and standard_input:
            usage.flags.append(word.encode())
        elif word.startswith("[-"):
            usage.options[word[1:].encode()] = _make_template(next(words)[:-1])
        elif is_option and not _PLACEHOLDER.search(word):
            template = _make_template(next(words))
            usage.options.update((option.encode(), template) for option in word.split("|"))
        elif _PLACEHOLDER.search(word):
            (usage.words if is_option else usage.arguments).append(_make_template(word))
        else:
            usage.subcommands.append(re.compile(_make_literal(word).encode()))
    return usage


class _Command(NamedTuple):
    """The words after a program, up to the end of the command or to the second program among them."""

    words: Sequence[_Word]
    here_string: _Word | None
    next: int
    """Where the next program may be. It may be among the words."""
    is_piped: bool
    """True if the input of this program may be that of the next one, or its output may be."""


class _Table:
    """The usages of all programs in commands.toml."""

    def __init__(self) -> None:
        self._usages: dict[str, list[str]] = {}
        for row in rows(COMMANDS, "command"):
            for program in row["programs"]:
                self._usages.setdefault(program, []).extend(row["usage"])
        families = [program for program in self._usages if "*" in program]
        self._families = [(re.compile(_program_pattern(program)), program) for program in families]
        programs = b"|".join((*map(_program_pattern, self._usages), *_ECHO))
        self._scanner = types.Finder(
            rb"(?:^|[^A-Za-z0-9])(" + programs + b")(" + _EXTENSION + rb")(?:[\s\0\"',]|$)", groups=True
        )

    @lru_cache(maxsize=1024)  # noqa: B019 - `_table` makes one object for the process
    def _find_usages(self, program: bytes) -> Sequence[_Usage]:
        """Return the usages of a program; none if it is unknown."""
        names = [family for pattern, family in self._families if pattern.fullmatch(program)]
        return [
            _parse_usage(usage)
            for name in (program.decode("latin-1"), *names)
            for usage in self._usages.get(name, ())
        ]

    def secrets(self, text: bytes) -> Iterator[Found]:
        """Yield the secrets in the commands of a text of one line."""
        lines = Text(text)
        echoed: _Word | None = None
        position = 0
        while (match := self._scanner.groups(text, position)) is not None:
            name = text[slice(*match[1])]
            start, end = match[1][0], match[2][1]
            if echoed is not None and _NEW_COMMAND.search(text, position, start):
                echoed = None
            limit = lines.bounds(start)[1]
            # The quotes around the name alone are those of a list of words.
            command = self._split(text, end, limit if limit > end else len(text))
            position = max(command.next, end)
            if name in _ECHO:
                echoed = next((word for word in command.words if not _ECHO_OPTION.fullmatch(word.text)), None)
            else:
                for usage in self._find_usages(name):
                    for first, last, template in usage.secrets(command.words, command.here_string or echoed):
                        yield from _check_secret(lines, first, last, template)
            if not command.is_piped:
                echoed = None

    def _split(self, text: bytes, start: int, limit: int) -> _Command:
        """Split a text into the words after a program."""
        words: list[_Word] = []
        here_string: _Word | None = None
        end, inner = start, 0
        is_piped = False
        for match in _WORD.finditer(text, start, limit):
            raw, end = match[0], match.end()
            if raw[0] in _ENDS:
                is_piped = raw[:1] == b"|" and raw != b"||"
                break
            bare = raw.lstrip(_OPENING)
            word = _Word(end - len(bare), bare.rstrip(_CLOSING))
            program = _PROGRAM.fullmatch(word.text[-_MAX_PROGRAM_BYTES:])
            if program is not None and self._find_usages(program[1]):
                if inner:
                    break
                inner = match.start() - 1
            if here_string is not None and not here_string.text:
                here_string = word
            elif word.text.startswith(_HERE_STRING):
                here_string = _Word(word.start + len(_HERE_STRING), word.text[len(_HERE_STRING) :])
            elif not _REDIRECTION.match(raw):
                words.append(word)
            if raw.endswith(b";"):
                break
        return _Command(words, here_string, inner or end, is_piped or inner > 0)


def _program_pattern(program: str) -> bytes:
    """Return the pattern of a program's name, in which `*` is any part of the name."""
    return re.escape(program).replace(r"\*", "[A-Za-z0-9_.-]*").encode()


def _check_secret(lines: Text, start: int, end: int, template: _Template) -> Iterator[Found]:
    """Yield the span of a secret if the check accepts its value. `end`: 0 for the end of the word."""
    text = lines.data
    if text.startswith((b'\\"', b"\\'"), start):
        return  # the text without its escapes is read as well
    while text[start : start + 1] in _QUOTES:
        start += 1
    is_quoted = text[start - 1 : start] in _QUOTES
    end = end or lines.word(start - is_quoted).end
    check = template.check
    if is_quoted and check is ordinary_words.is_flag_value:
        check = ordinary_words.is_quoted_flag_value
    if start < end and not is_in_mask(text, start) and check(text[start:end]):
        yield start, end, template.kind


@cache
def _table() -> _Table:
    return _Table()


def find_passwords(text: bytes) -> Iterator[Found]:
    """Yield the passwords in the commands of a text of one line."""
    return _table().secrets(text)


def make_trigger() -> bytes:
    """Return a pattern that matches wherever `find_passwords` finds something.

    Nearly all usages have an option of one letter, which is rare in logs. Standard input has its own shapes.
    """
    triggers = {_FIRST_LINE, _ANY_LETTER_OPTION}
    for row in rows(COMMANDS, "command"):
        for usage in row["usage"]:
            options = set(_OPTIONS.findall(usage))
            long_options = (option.encode() for option in options if option.startswith("--"))
            triggers |= {option + rb"(?:[ \t]|=|%3D)" for option in long_options}
            if not options and "<" not in usage:
                triggers |= {_program_trigger(program, usage) for program in row["programs"]}
    return b"|".join(sorted(triggers))


def _program_trigger(program: str, usage: str) -> bytes:
    first, *_ = usage.split()
    is_subcommand = first.islower() and first != _ANY_ARGUMENTS
    after = rb"[ \t]+(?:" + first.encode() + b")" if is_subcommand else rb"(?:\.py)?[ \t]"
    return _program_pattern(program) + after
