"""Find the passwords in command lines. Pure.

commands.toml has the usages of programs. A program is known by its name alone, so it does not matter what is
before it: a path, `sudo`, `timeout 5`, or the words of a log. An option whose name says that its value is
secret, such as `--admin-password`, is read for every program.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final, NamedTuple, TypeAlias

from service_record.redaction import ordinary_words, types
from service_record.redaction.shapes import COMMANDS, expand_parts, rows
from service_record.redaction.types import Found, is_in_mask
from service_record.redaction.values import Text

_KIND: Final = "command-password"
_Check: TypeAlias = Callable[[bytes], bool]
_SECRETS: Final[Mapping[str, tuple[str, _Check]]] = {
    "PASSWORD": (_KIND, ordinary_words.is_flag_value),
    "ARGUMENT": (_KIND, ordinary_words.is_argument),
    "TOKEN": (_KIND, ordinary_words.is_token),
    "PHRASE": (_KIND, ordinary_words.is_disordered_or_phrase),
    "RANDOM": (_KIND, ordinary_words.is_disordered),
    "COOKIE": ("cookie", ordinary_words.is_cookie),
}
"""The words for secrets in a usage, their kinds, and the checks of their values."""
_WORD: Final = re.compile(rb"""((?:[^\s"'\\]|\\.|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|["'\\])+)""")
"""Matches a word as a shell splits them. A quote without a second one is an ordinary character."""
_LISTED_WORD: Final = re.compile(rb"""(?:,[ \t]*|[ \t]+)("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""")
"""Matches the next word of a list, as Python, JSON and Go write it."""
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
_ANY_PROGRAM: Final = "*"
_SECRET_NAME: Final = expand_parts(
    rb"[a-z0-9._-]*(?:<<PASSWORDS>>|token|secret|credentials?|[_-]pass|[a-z]pw|(?:\b|_)(?:pwd?|pin|puk|otp)"
    rb"|(?:api|access|auth|certificate|secret|setup)[_-]?key)[0-9]?"
)
"""Matches the name of an option whose value is secret."""
_FLAG: Final = re.compile(
    rb"--?(?:allow|ask|change|check|clear|copy|delete|disabled?|dont?|dump|empty|enable|force|gen|generate|init"
    rb"|initialize|install|load|no|null|offline|preserve|prompt|remove|require|retain|same|show|stdin|store|test"
    rb"|unblock|unlock|update|use|verify|with|[a-z-]*-prompt-for)-.*|--?(?:ask|no|read|stdin|use)p.*"
)
"""Matches an option that begins with a verb, such as `--ask-password`. The next word is not a secret."""
_ECHO: Final = (b"echo", b"printf")
_ECHO_TRIGGER: Final = rb"(?:echo|printf)[ \t]"
_HERE_STRING_TRIGGER: Final = rb"(?:^|[^<])<<<[ \t]*[^\s<]|&lt;&lt;&lt;|%3C%3C%3C|u003c"
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

    def find(self, value: _Word, lines: Text) -> Iterator[Found]:
        """Yield the span of the secret in a value, if the check accepts it."""
        match = self.pattern.fullmatch(value.text) if self.pattern.groups else None
        text, start = lines.data, value.start + (match.start(1) if match is not None else 0)
        if match is None or text.startswith((b'\\"', b"\\'"), start):
            return  # the text without its escapes is read as well
        while text[start : start + 1] in _QUOTES:
            start += 1
        is_quoted = text[start - 1 : start] in _QUOTES
        is_whole = match.end(1) == match.end()
        end = lines.word(start - is_quoted).end if is_whole else value.start + match.end(1)
        check = self.check
        if check is ordinary_words.is_flag_value and text[start - 1 : start].strip():
            # In quotes, or behind the beginning of its word, a value is no option.
            check = ordinary_words.is_quoted_flag_value if is_quoted else ordinary_words.is_value
        if start < end and not is_in_mask(text, start) and check(text[start:end]):
            yield start, end, self.kind


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


_PASSWORD: Final = _make_template("PASSWORD")


@dataclass(slots=True)
class _Usage:
    """One way to call a program."""

    subcommands: list[re.Pattern[bytes]] = field(default_factory=list)
    flags: frozenset[bytes] = frozenset()
    """Options of which one must be there, or else this usage does not apply."""
    options: dict[bytes, _Template] = field(default_factory=dict)
    """Options and their values, in the same word or in the next one."""
    words: list[_Template] = field(default_factory=list)
    """Words with a password after a fixed beginning: `-pPASSWORD`."""
    arguments: list[_Template] = field(default_factory=list)
    """The arguments after the subcommands, without options. Others may be between them."""
    standard_input: _Template | None = None
    is_prefix: bool = False
    """True if another command follows the options."""

    def values(self, words: Sequence[_Word], fed: _Word | None) -> Iterator[tuple[_Word, _Template]]:
        """Yield the values that have a template.

        Take the words after the program, and the word that is its standard input.
        """
        names, arguments = iter(self.subcommands), deque(self.arguments)
        name = next(names, None)
        has_flag = not self.flags
        following = iter(words)
        for word in following:
            value: _Word | None = word
            template, offset = self._option(word.text) if name is None else (None, 0)
            has_flag = has_flag or not self.flags.isdisjoint(_split_flags(word.text))
            if template is not None:
                is_last = offset == len(word.text)
                value = next(following, None) if is_last else _Word(word.start + offset, word.text[offset:])
            elif word.text.startswith(b"-"):
                continue
            elif name is not None:
                name = next(names, None) if name.fullmatch(word.text) else name
                continue
            elif self.is_prefix:
                return
            elif arguments and arguments[0].pattern.fullmatch(word.text):
                template = arguments.popleft()
            if template is not None and value is not None and has_flag:
                yield value, template
        if self.standard_input is not None and fed is not None and name is None and has_flag:
            yield fed, self.standard_input

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


def _split_flags(word: bytes) -> Sequence[bytes]:
    """Return the options that a word may consist of."""
    letters = (b"-%c" % letter for letter in word[1:]) if _BUNDLE.fullmatch(word) else ()
    return (word, *letters)


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
        elif word.startswith("("):
            usage.flags = frozenset(word[1:-1].encode().split(b"|"))
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
        usages = [_parse_usage(usage) for usage in self._usages.pop(_ANY_PROGRAM)]
        self._options = [
            (re.compile(_glob_pattern(name.decode())), template, usage.flags)
            for usage in usages
            for name, template in usage.options.items()
        ]
        self._any_input = next(usage.standard_input for usage in usages if usage.standard_input is not None)
        families = [program for program in self._usages if "*" in program]
        self._families = [(re.compile(_glob_pattern(program)), program) for program in families]
        programs = b"|".join((*map(_glob_pattern, self._usages), *_ECHO))
        self._scanner = types.Finder(
            rb"(?:^|[^A-Za-z0-9])(" + programs + b")(" + _EXTENSION + rb")(?:[\s\0\"',]|$)", groups=True
        )
        any_option = b"|".join(
            (*(pattern.pattern for pattern, *_ in self._options), b"(?i:--?" + _SECRET_NAME + b")")
        )
        self._option_scanner = types.Finder(
            rb"(?:^|[^A-Za-z0-9_.<-])(?:(" + any_option + rb")[\"']?(?:=|,[ \t]*|[ \t]+)|<<<[ \t]*)",
            groups=True,
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
        yield from self._known_programs(lines)
        yield from self._any_program(lines)

    def _known_programs(self, lines: Text) -> Iterator[Found]:
        text = lines.data
        echoed: _Word | None = None
        position = 0
        while (match := self._scanner.groups(text, position)) is not None:
            name = text[slice(*match[1])]
            start, end = match[1][0], match[2][1]
            if echoed is not None and _NEW_COMMAND.search(text, position, start):
                echoed = None
            command = self._split(_split_words(lines, start, end), end)
            position = max(command.next, end)
            if name in _ECHO:
                echoed = next((word for word in command.words if not _ECHO_OPTION.fullmatch(word.text)), None)
                if echoed is not None and command.is_piped and b" " not in echoed.text:
                    yield from self._any_input.find(echoed, lines)
            else:
                for usage in self._find_usages(name):
                    for value, template in usage.values(command.words, command.here_string or echoed):
                        yield from template.find(value, lines)
            if not command.is_piped:
                echoed = None

    def _any_program(self, lines: Text) -> Iterator[Found]:
        """Yield the values of the options of any program, and its here strings."""
        text = lines.data
        names: set[bytes] = set()
        position = 0
        while (match := self._option_scanner.groups(text, position)) is not None:
            start = position = match[0][1]
            name = text[slice(*match[1])]
            template, flags = self._find_option(name) if name else (self._any_input, None)
            is_joined = text[start - 1 : start] == b"="
            word = _WORD.match(text, start, lines.bounds(start)[1])
            if word is not None and (is_joined or not _FLAG.fullmatch(name)) and (not flags or names & flags):
                yield from template.find(_strip_word(word), lines)
            names.add(name)

    def _find_option(self, name: bytes) -> tuple[_Template, frozenset[bytes]]:
        """Return the template of the value of an option of any program, and the flags of its usage."""
        for pattern, template, flags in self._options:
            if pattern.fullmatch(name):
                return template, flags
        return _PASSWORD, frozenset()

    def _split(self, matches: Iterable[re.Match[bytes]], start: int) -> _Command:
        """Return the command whose words are matched after its program, which ends at `start`."""
        words: list[_Word] = []
        here_string: _Word | None = None
        end, inner = start, 0
        is_piped = False
        for match in matches:
            raw, end = match[1], match.end()
            word = _strip_word(match)
            if raw == b",":
                continue
            if raw[0] in _ENDS or word.text == b"|":
                is_piped = word.text[:1] == b"|" and raw != b"||"
                break
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


def _split_words(lines: Text, start: int, end: int) -> Iterator[re.Match[bytes]]:
    """Yield the words after a program, as a shell splits them.

    If the name of the program alone is in quotes, it is the first word of a list: `["app", "-p", "x"]`.
    """
    text = lines.data
    _, limit, is_quoted = lines.bounds(start)
    if not is_quoted or limit > end:
        yield from _WORD.finditer(text, end, limit)
        return
    end = limit + 1
    while (word := _LISTED_WORD.match(text, end)) is not None:
        yield word
        end = word.end()


def _strip_word(word: re.Match[bytes]) -> _Word:
    """Return a word without the quotes and brackets around it."""
    bare = word[1].lstrip(_OPENING)
    return _Word(word.end() - len(bare), bare.rstrip(_CLOSING))


def _glob_pattern(name: str) -> bytes:
    """Return the pattern of the name of a program or an option, in which `*` is any part of the name."""
    return re.escape(name).replace(r"\*", "[A-Za-z0-9_.-]*").encode()


@cache
def _table() -> _Table:
    return _Table()


def find_passwords(text: bytes) -> Iterator[Found]:
    """Yield the passwords in the commands of a text of one line."""
    return _table().secrets(text)


def make_trigger() -> bytes:
    """Return a pattern that matches wherever `find_passwords` finds something.

    Nearly all usages have an option of one letter, which is rare in logs.
    """
    triggers = {_FIRST_LINE, _ANY_LETTER_OPTION, _ECHO_TRIGGER, _HERE_STRING_TRIGGER}
    triggers.add(b"(?i:--" + _SECRET_NAME + rb")(?:[ \t]|\\*[\"']?[=,%&\\ ])")
    for row in rows(COMMANDS, "command"):
        for usage in row["usage"]:
            options = set(_OPTIONS.findall(usage))
            long_options = (option.encode() for option in options if option.startswith("--"))
            triggers |= {option + rb"(?:[ \t]|[=,]|%3D)" for option in long_options}
            if not options and "<" not in usage:
                triggers |= {_program_trigger(program, usage) for program in row["programs"]}
    return b"|".join(sorted(triggers))


def _program_trigger(program: str, usage: str) -> bytes:
    first, *_ = usage.split()
    is_subcommand = first[0].islower()
    after = rb"[ \t]+(?:" + first.encode() + b")" if is_subcommand else rb"(?:\.py)?[ \t]"
    return _glob_pattern(program) + after
