"""Find the passwords in command lines. Pure.

commands.toml has the usages of programs. A program is known by its name alone, so it does not matter what is
before it: a path, `sudo`, `timeout 5`, or the words of a log. Some usages are those of any program, such as
options whose name says that their value is secret.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import chain
from typing import Final, TypeAlias

from service_record.redaction import types
from service_record.redaction.command_words import Word, split_lists, split_shell
from service_record.redaction.json_documents import Document
from service_record.redaction.ordinary_words import IN_QUOTES, LEVELS, VALUE
from service_record.redaction.secret_names import find_name
from service_record.redaction.shapes import COMMANDS, expand_parts, rows
from service_record.redaction.types import Found, is_in_mask
from service_record.redaction.values import Text

_KIND: Final = "command-password"
_Check: TypeAlias = Callable[[bytes], bool]
_SECRETS: Final[Mapping[str, tuple[str, _Check]]] = {
    "PASSWORD": (_KIND, LEVELS["argument"]),
    "ARGUMENT": (_KIND, LEVELS["mixed argument"]),
    "TOKEN": (_KIND, LEVELS["token"]),
    "RANDOM": (_KIND, LEVELS["unusual, no digest"]),
    "COOKIE": ("cookie", LEVELS["value, no number"]),
}
"""The words for secrets in a usage, their kinds, and the checks of their values."""
_PLACEHOLDER: Final = re.compile(r"[A-Z]{2,}")
_BUNDLE: Final = re.compile(rb"-[A-Za-z]{2,}")
"""Matches several options of one letter as one word. The last one may have a value."""
_LONG_OPTION: Final = re.compile(rb"-[a-z-]{2,}")
"""Matches an option such as `-kfile`, which begins with another option."""
_OPTIONS: Final = re.compile(r"(?:^|[ |])(-[A-Za-z]|--[A-Za-z0-9-]+)")
_ANY_LETTER_OPTION: Final = rb"[ \t]-[A-Za-z]"
_OPTION_SIGNS: Final = (b"-", b"/")
_ANY_ARGUMENTS: Final = "..."
_LETTER_OPTION_BYTES: Final = 2
_EXTENSION: Final = rb"(?:\.exe|\.sh|\.py|\.bat)?"
_PROGRAM: Final = re.compile(
    rb"(?:[A-Za-z_]+=)?[$(`\[]*(?:[A-Za-z0-9_.~-]*/)*([A-Za-z0-9_.-]+?)" + _EXTENSION
)
_MAX_PROGRAM_BYTES: Final = 128
"""The limit for a program with its path. Matching longer words would take quadratic time."""
_FIRST_LINE: Final = rb"[ \t]\\\r?$"
"""Matches the first line of a command of several lines, whose options may be in the next ones."""
_ANY_PROGRAM: Final = b"*"
_SECRET_NAME: Final = expand_parts(rb"(?i:[a-z0-9._-]*(?:<<NAME>>)<<SUFFIX>>)")
"""Matches the name of an option whose value may be secret; `find_name` decides."""
_OPTION_NAME: Final = re.compile(rb"--?[A-Za-z0-9._-]+")
_NAMED_OPTION: Final = "--NAME"
"""Stands for these options in a usage."""
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
_HERE_STRING: Final = b"<<<"
_PIPES: Final = (b"|", b"|&")
_END: Final = Word(b";", 0, is_operator=True)


@dataclass(frozen=True, slots=True)
class _Template:
    """A word of a usage, such as `USER:PASSWORD`."""

    pattern: re.Pattern[bytes]
    """Its group is the secret. Without a group, the value is no secret."""
    kind: str = ""
    check: _Check = VALUE

    def find(self, value: Word) -> Found | None:
        """Return the span of the secret in a value, or None if the check rejects it."""
        match = self.pattern.fullmatch(value.text) if self.pattern.groups else None
        if match is None or is_in_mask(value.text, match.start(1)):
            return None
        is_whole = match.span(1) == match.span()
        secret = value if is_whole else value.part(*match.span(1))
        if not secret.is_exact and secret.text.startswith((b'\\"', b"\\'")):
            return None  # the text without its escapes is read as well
        check = self.check
        if secret.is_exact:
            check = IN_QUOTES.get(check, check)
        if not check(secret.text):
            return None
        return secret.start, secret.start + len(secret.text) * secret.width, self.kind


def _make_template(text: str) -> _Template:
    """Compile a word of a usage. A placeholder takes all characters up to the literal after it."""
    pattern, position = "", 0
    secret: tuple[str, _Check] = ("", VALUE)
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
    has_secret_names: bool = False
    """True if each option whose name says so has a secret."""

    def values(self, words: Sequence[Word], fed: Word | None) -> Iterator[tuple[Word, _Template]]:
        """Yield the values that have a template.

        Take the words after the program, and the word that is its standard input.
        """
        names, arguments = iter(self.subcommands), deque(self.arguments)
        name = next(names, None)
        has_flag = not self.flags
        following = iter(words)
        for word in following:
            value: Word | None = word
            is_option = word.text.startswith(_OPTION_SIGNS)
            template, offset = self._option(word.text) if is_option and name is None else (None, 0)
            has_flag = has_flag or not self.flags.isdisjoint(_split_flags(word.text))
            if template is not None:
                is_last = offset == len(word.text) and not word.text.endswith(b"=")
                value = next(following, None) if is_last else word.part(offset, len(word.text))
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
            if self.has_secret_names:
                named = _find_secret_option(option, is_joined=offset < len(word))
                if named is not None:
                    return named, offset
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


@lru_cache(maxsize=1024)
def _find_secret_option(option: bytes, *, is_joined: bool) -> _Template | None:
    """Return the template of an option's value; None if the option's name is not that of a secret."""
    named = find_name(option) if _OPTION_NAME.fullmatch(option) else None
    if named is None or (not is_joined and _FLAG.fullmatch(option)):
        return None
    return replace(_PASSWORD, check=named.check) if named.kind == "token" else _PASSWORD


def _parse_usage(text: str) -> _Usage:
    """Parse a usage of commands.toml."""
    usage = _Usage()
    before, _, standard_input = text.partition("<")
    if standard_input:
        usage.standard_input = _make_template(standard_input.strip())
    words = iter(before.split())
    for word in words:
        is_option = word.encode().startswith(_OPTION_SIGNS)
        if word == _NAMED_OPTION:
            usage.has_secret_names = True
            next(words)
        elif word == "COMMAND":
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


class _Table:
    """The usages of all programs in commands.toml."""

    def __init__(self) -> None:
        self._usages: dict[bytes, list[_Usage]] = {}
        for row in rows(COMMANDS, "command"):
            usages = [_parse_usage(usage) for usage in row["usage"]]
            for program in row["programs"]:
                self._usages.setdefault(program.encode(), []).extend(usages)
        self.any_program = self._usages.pop(_ANY_PROGRAM)
        self._families = [
            (re.compile(_make_program_pattern(program)), usages)
            for program, usages in self._usages.items()
            if b"*" in program
        ]
        programs = b"|".join((*map(_make_program_pattern, self._usages), *_ECHO))
        options = b"|".join(option for usage in self.any_program for option in usage.options)
        self.begin = types.Finder(
            rb"(?:^|[^A-Za-z0-9])((?:" + programs + b")" + _EXTENSION + rb"(?:[\s\0\"',]|$)|<<<)"
            rb"|(?:^|[^A-Za-z0-9_.<-])((?:" + options + b"|--?" + _SECRET_NAME + rb")[\"']?[=,\s])",
            groups=True,
        )
        """Finds where a command may begin: its program, or an option of any program."""

    @lru_cache(maxsize=1024)  # noqa: B019 - `_table` makes one object for the process
    def find_program(self, word: bytes) -> tuple[bytes, Sequence[_Usage]]:
        """Return the name of a program and its usages; none if the word is no known program."""
        match = _PROGRAM.fullmatch(word)
        if match is None:
            return b"", ()
        families = (usages for pattern, usages in self._families if pattern.fullmatch(match[1]))
        return match[1], [*self._usages.get(match[1], ()), *chain.from_iterable(families)]


def _make_program_pattern(name: bytes) -> bytes:
    """Return the pattern of a program's name. `*` in the name stands for any characters."""
    return re.escape(name).replace(rb"\*", b"[A-Za-z0-9_.-]*")


@cache
def _table() -> _Table:
    return _Table()


def find_passwords(text: bytes) -> Iterator[Found]:
    """Yield the passwords in the commands of a text of one line.

    A command in quotes is not among them: the text in the quotes is read by itself.
    """
    lines = Text(text)
    position = 0
    while (match := _table().begin.groups(text, position)) is not None:
        start = max(match[1:])[0]
        first, position, is_quoted = lines.bounds(start)
        if not is_quoted or text.find(b" ", first, position) < 0:
            yield from find_secrets(split_shell(text, first - 1 if is_quoted else start))
            return


def find_in_lists(text: bytes, document: Document) -> Iterator[Found]:
    """Yield the passwords in the lists of a JSON document, which may be commands with their arguments."""
    if _table().begin.find(text, document.start, document.end) is not None:
        for words in split_lists(text, document):
            yield from find_secrets(words)


def find_secrets(words: Iterable[Word]) -> Iterator[Found]:
    """Yield the secrets among the words of one or more commands."""
    command: list[Word] = []
    fed: Word | None = None
    is_fed_next = False
    for word in chain(words, (_END,)):
        if is_fed_next:
            fed = word
            is_fed_next = False
        elif not word.is_operator:
            command.append(word)
        elif word.text == _HERE_STRING:
            is_fed_next = True
        else:
            yield from _find_in_command(command, fed)
            fed = _find_echoed(command) or fed if word.text in _PIPES else None
            command = []


def _find_in_command(words: Sequence[Word], fed: Word | None) -> Iterator[Found]:
    """Yield the secrets in a command, given the word that is its standard input.

    An argument may be the name of a program, too, so the words of a program end at the second one after it.
    """
    programs = [(at, usages) for at, word in enumerate(words) if (usages := _find_program(word)[1])]
    ends = [at for at, _ in programs[2:]] + [len(words)] * 2
    found: set[int] = set()
    parts = [(usages, words[at + 1 : end]) for (at, usages), end in zip(programs, ends, strict=False)]
    for usages, part in (*parts, (_table().any_program, words)):
        for usage in usages:
            for value, template in usage.values(part, fed):
                secret = template.find(value) if value.start not in found else None
                if secret is not None:
                    found.add(value.start)
                    yield secret


def _find_program(word: Word) -> tuple[bytes, Sequence[_Usage]]:
    return _table().find_program(word.text[-_MAX_PROGRAM_BYTES:])


def _find_echoed(words: Sequence[Word]) -> Word | None:
    """Return the word that a command prints, or None."""
    for at, word in enumerate(words):
        if _find_program(word)[0] in _ECHO:
            return next((each for each in words[at + 1 :] if not _ECHO_OPTION.fullmatch(each.text)), None)
    return None


def make_trigger() -> bytes:
    """Return a pattern that matches wherever `find_passwords` finds something.

    Nearly all usages have an option of one letter, which is rare in logs.
    """
    triggers = {_FIRST_LINE, _ANY_LETTER_OPTION, _ECHO_TRIGGER, _HERE_STRING_TRIGGER}
    triggers.add(b"--" + _SECRET_NAME + rb"(?:[ \t]|\\*[\"']?[=,%&\\ ])")
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
    after = rb"[ \t]+(?:" + first.encode() + b")" if is_subcommand else _EXTENSION + rb"[ \t]"
    return _make_program_pattern(program.encode()) + after
