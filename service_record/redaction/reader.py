"""Find unknown secrets in a line: by the name and syntax around a value, or by the shape of a token. Pure.

docs/redaction.md, "How a line is read", describes the steps.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate, chain, compress, count, repeat
from operator import add
from typing import Any, Final, TypeAlias

from service_record.redaction import encodings, ordinary_words, types
from service_record.redaction.over_lines import TRIGGER
from service_record.redaction.secrets import SecretShape, expand_parts, shapes
from service_record.redaction.syntax import (
    SQL_TRIGGER,
    Document,
    Text,
    ValueSpan,
    break_end,
    clip_to_strings,
    directive_values,
    find_documents,
    list_values,
    prefix_end,
    prose_values,
    quoted_parts,
    sql_values,
    table_values,
    unnamed_sql_values,
    xml_values,
)
from service_record.redaction.types import (
    MASK_BEGIN,
    ZEROS_FOR_DIGITS,
    Found,
    UnescapedText,
    mask_end,
    unescape,
)

MAX_DEPTH: Final = 6
"""The limit of nesting: escapes in escapes, JSON in JSON, base64 in base64."""
_MIN_TEXT_BYTES: Final = 6
"""A shorter string cannot hold a name with a value."""
_MAX_MASK_BYTES: Final = 64
_MAX_NAME_BYTES: Final = 64
_NAME_BYTES: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_QUOTES: Final = (b'"', b"'", b"`")
_PUBLIC_NAME: Final = re.compile(
    rb"(?i:(?:(?:public|pub|host|known|authorized|verification|verify"
    rb"|cache|partition|primary|foreign|sort|group|object|row|record|lock|map|index|dedup|routing|registry|idempotency)"
    rb"[ _.-]?keys?|(?:token|key)[_.-]?id)"
    rb"""(?:["'`>\]\s:=?,({-]|string|base64)*$)"""
)
"""Matches names whose values are not secret although they end in `key` or `id`: `public_key`, `token_id`."""
_NAME_OF_KEY: Final = re.compile(
    rb"(?i:(?:passwords?|passwd|passphrase|token|credentials?)[_.-]?keys?)[\"'`]?\Z"
)
"""Matches names whose value mostly names a key in a Secret, as in values of Helm: `passwordKey`.

A name such as `secretKey` is not among them: its value is a key itself.
"""
_MIN_APART_BYTES: Final = 4
_MIN_REPEATED_BYTES: Final = 12
"""A shorter value may occur elsewhere in its line by chance."""
_NESTED: Final = frozenset(b"([")
"""A pattern with one of these bytes is not split at `|`, which may be inside a group or a class."""
_WORD_BEFORE: Final = re.compile(rb"(?<=[A-Za-z] )")
_WORD_AFTER: Final = re.compile(rb"[ \t]+(?![A-Za-z_][A-Za-z0-9_.-]*=)[^\s#|<>&;\"'}\])]")
_FAILURE: Final = re.compile(
    rb"(?i:\b(?:fail(?:ed|ure|s)?|errors?|cannot|can't|could not|couldn't|unable|invalid)\b[^:=\"']*\Z)"
)
"""Matches the text before a name in an error message. The reason follows the colon there, not a value."""
_LOCATION: Final = re.compile(rb"[A-Za-z0-9_./-]+:\d+(?::\d+)?[\]:]*")
_PROGRAM: Final = re.compile(rb"[A-Za-z0-9_./@-]+(?:\[[0-9]+\])?")
"""Matches the name of a program in an error message, with its process ID."""
_LABEL: Final = re.compile(rb"[A-Za-z][A-Za-z0-9_.@\[\]-]*:")
_IDENTIFIER: Final = re.compile(rb"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)+:")
"""Matches a name of several words, as in a file of settings: `vpn.secrets.password:x`."""
_SETTING: Final = re.compile(
    rb"[ \t+]*[A-Za-z0-9_.-]+(?<!auth)(?<!AUTH)[ \t]+=[ \t]+([\"']?)"
    rb"(?![^\s]*(?:secret|token|key|cred|auth|pass|cert|bundle|config|tls|admin|service|name|store))"
    rb"[a-z][a-z-]{7,}\1;?[ \t\r]*"
)
"""Matches a line of a file of settings whose value is in small letters: `secret = "ribbon-pencil"`.

The name of an object or of a variable mostly says what it is: `token = next_token`, `kubernetes-ca-bundle`.
"""
_ADDRESS: Final = re.compile(rb"[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_IDS: Final = re.compile(rb"[0-9]+:[0-9]+:")
"""Matches the user and group after a password in lines as of passwd(5)."""
_IN_COLUMN, _IN_LIST, _IN_PROSE = range(3)
"""Where a value is whose name is not directly before it. A value in a column is never prose."""
_URL: Final = re.compile(rb"[a-z][a-z0-9+.-]*://|[a-z][a-z_]{2,}=(?![=>])|[A-Za-z_][A-Za-z0-9_.-]*=\"")
"""Matches a URL or the next field of logfmt. Neither is a password."""
_SQL_ROWS: Final = types.Finder(rb"(?i:values)[\s\v]*\(")
_CHANGE: Final = re.compile(rb"[\"']?[ \t]+[-=]>[ \t]+[\"']([^\"'\n]+)[\"']")
"""Matches the new value after an old one, as a plan of terraform has it: `password = "old" -> "new"`."""
_BLANKS: Final = re.compile(rb"[ \t]*(?:(?:&[A-Za-z][A-Za-z0-9_-]*|!!?[a-z]+)[ \t]+(?=\S))?")
"""Matches blanks, and an anchor or a tag of YAML."""
_WORD: Final = re.compile(rb"""[^\s"'\\,;]+""")
Suspect: TypeAlias = tuple[int, int, bytes, int]
"""A line that may contain a secret: start, end, the line with zeros for its digits, its groups of shapes."""
_ReadText: TypeAlias = tuple[UnescapedText, Sequence[Document], int]
"""A text, its JSON documents, and a bit mask of the groups of shapes that it may contain."""


_PROSE_TRIGGER: Final = expand_parts(
    rb"(?i:<<PASSWORDS>>|<<TOKENS>>)<<SUFFIX>>\\*[\"'`]?[ \t]+"
    rb"(?:to|from|is|was|has|now|set|reset|changed|updated)[ \t]"
    rb"|(?:[_.-](?i:pass(?:word|wd|phrase)?|pw|psk|authtok|token|secret|api_?key)|[A-Z]PASS(?:WORD|WD|PHRASE)?"
    rb"|[a-z](?:Pass(?:word|phrase)?|Token|Secret|ApiKey)"
    rb"|requirepass|bindpw|masterauth)[ \t]+[^\s\"'\\]+;?[ \t]*(?:\r?$|[\\\"'`<])"
)
"""Matches a name and the beginning of an assignment in a sentence, or an identifier and a last word."""
_MAY_BE_PROSE: Final = types.Finder(b"(?m)" + _PROSE_TRIGGER)


NAMES, WORDS, TOKENS, RUNS, ENCODED = 1, 2, 4, 8, 16
"""Groups of shapes, as bits. Each group has one automaton that searches for its triggers.

- NAMES: names whose values are secret.
- WORDS: other words, such as commands and headers.
- TOKENS: shapes that depend on certain digits; most are prefixes of tokens.
- RUNS: runs of letters and digits that may be random.
- ENCODED: runs that may encode a text.

A single automaton would need a state for each combination of partial matches. An ordinary log leads to
thousands of these states, and building them takes longer than the search.
"""
GROUPS: Final = (NAMES, WORDS, TOKENS, RUNS, ENCODED)
EXACT: Final = TOKENS | ENCODED
"""Each digit matters in lines with shapes of these groups."""
_ANY_DIGIT: Final = re.compile(rb"0-9|\{[0-9,]+\}")
_LITERAL_DIGIT: Final = re.compile(rb"[0-9]")
_TOKEN_KINDS: Final = frozenset({"service-token", "private-key", "encoded-secret"})
_DIGIT_CHECKS: Final = (ordinary_words.is_credential, ordinary_words.is_registry_auth)
"""These checks decode base64, so each digit affects their result."""


@dataclass(frozen=True, slots=True)
class _Group:
    trigger: types.Finder
    filter: Any
    """An RE2 filter that returns the indexes of the `shapes` in a text."""
    shapes: Sequence[tuple[int, SecretShape, bytes]]
    """The position of each shape among all shapes, the shape, and its pattern."""


class Patterns:
    """The compiled patterns of all shapes."""

    def __init__(self, every: Sequence[SecretShape]) -> None:
        self.names = [shape for shape in every if shape.named]
        named = b"|".join(shape.named for shape in self.names)
        self.scanner = types.Finder(expand_parts(b"(?i:(" + named + b"))<<IS>>"), groups=True)
        self._bare = [types.Finder(b"(?i:" + shape.named + b")$") for shape in self.names]
        others = {
            ENCODED: encodings.TRIGGER,
            WORDS: b"|".join((TRIGGER, SQL_TRIGGER, _PROSE_TRIGGER)),
            TOKENS: encodings.ESCAPED,
            RUNS: _SCRAMBLED + rb"|" + _SIGNED,
        }
        self._all = _make_search(every, others)
        self._without_scrambled = types.Finder(
            _join_triggers(shape.trigger for shape in every if shape.is_run),
        )
        certain = [shape for shape in every if shape.is_certain]
        self._certain = _make_search(certain, {ENCODED: encodings.TRIGGER})
        self.block_trigger = types.Finder(encodings.TRIGGER)

    def groups_in(self, text: bytes, *, certain: bool = False) -> int:
        """Return the groups of shapes that a text may contain, as a bit mask."""
        found = 0
        for number, group in (self._certain if certain else self._all).groups.items():
            if group.trigger.find(text) is not None:
                found |= number
        return found

    def trigger_spans(self, text: bytes, start: int, end: int, *, certain: bool) -> list[tuple[int, int]]:
        """Return the sorted spans of the triggers of shapes between `start` and `end`."""
        found: list[tuple[int, int]] = []
        for group in (self._certain if certain else self._all).groups.values():
            position = start
            while (hit := group.trigger.find(text, position, end)) is not None:
                found.append(hit)
                position = max(hit[1], hit[0] + 1)
        return sorted(found)

    def find_suspects(
        self, text: bytes, *, certain: bool = False, harmless: Container[bytes] = frozenset()
    ) -> list[Suspect]:
        """Return each line that may contain a secret, in order.

        Leaves out the lines that become one of `harmless` with zeros for their digits, unless they may
        contain tokens or encoded texts.

        The bits of TOKENS and ENCODED are exact: in such a line each digit matters, so it is not read from a
        cache. Other bits may be set without a match.

        Most lines of a log repeat a few messages and differ only in digits, so each form of a line, with
        zeros for its digits, is searched once.
        """
        search = self._certain if certain else self._all
        forms = text.translate(ZEROS_FOR_DIGITS).split(b"\n")
        possible = {
            form: numbers
            for form, numbers in search.possible_groups(set(forms)).items()
            if form not in harmless or numbers & EXACT
        }
        if not possible:
            return []
        # Iterators of C only: this is the hot path for logs without secrets.
        every = zip(forms, accumulate(map(len, forms)), count())
        lines = [
            (end - len(form) + newlines, end + newlines, form)
            for form, end, newlines in compress(every, map(possible.__contains__, forms))
        ]
        groups = [possible[form] for _, _, form in lines]
        for number in (TOKENS, ENCODED):
            _keep_exact(text, lines, groups, number, search.groups[number].trigger)
        if not certain:
            by_run = [at for at, numbers in enumerate(groups) if numbers == RUNS]
            for at in self._ordinary_words(text, lines, by_run):
                groups[at] = 0
        return [(*line, numbers) for line, numbers in zip(lines, groups, strict=True) if numbers]

    def _ordinary_words(
        self, text: bytes, lines: Sequence[tuple[int, int, bytes]], by_run: Sequence[int]
    ) -> set[int]:
        """Return those of the indexes `by_run` whose lines have no trigger but a word that is not random.

        Reading such a line takes ten times as long as this, and there is one in a hundred ordinary lines.
        """
        if not by_run:
            return set()
        texts = [text[lines[at][0] : lines[at][1]] for at in by_run]
        joined, starts = _join_lines(texts)
        kept = _find_in_lines(self._without_scrambled, joined, starts)
        kept |= _find_possible_credentials(texts, joined, starts)
        return {at for order, at in enumerate(by_run) if order not in kept}

    def matching_shapes(
        self, text: bytes, groups: int, *, certain: bool
    ) -> Iterator[tuple[int, SecretShape, types.Finder]]:
        """Yield the position, the shape and the pattern of each shape of `groups` that a text contains."""
        for number, group in (self._certain if certain else self._all).groups.items():
            if groups & number:
                for index in group.filter.Match(text) or ():
                    order, shape, pattern = group.shapes[index]
                    yield order, shape, _compile_shape(pattern)

    @lru_cache(maxsize=4096)  # noqa: B019 - `patterns` makes one object for the process
    def shapes_named(self, name: bytes) -> tuple[SecretShape, ...]:
        """Return the shapes whose names match `name`; none if the name is that of a public key or an ID."""
        if _PUBLIC_NAME.search(name):
            return ()
        named = (shape for shape, pattern in zip(self.names, self._bare, strict=True) if pattern.find(name))
        if _NAME_OF_KEY.search(name):
            named = (replace(shape, check=ordinary_words.is_no_name) for shape in named)
        return tuple(named)


def _join_lines(lines: Iterable[bytes]) -> tuple[bytes, list[int]]:
    """Return the lines with line breaks around them, and the offset of each."""
    pieces = [b"", *lines, b""]
    starts = map(add, accumulate(map(len, pieces[1:-1]), initial=1), count())
    return b"\n".join(pieces), list(starts)


def _find_in_lines(trigger: types.Finder, joined: bytes, starts: Sequence[int]) -> set[int]:
    """Return the indexes of the lines of `_join_lines` in which a trigger matches."""
    return {bisect_right(starts, place) - 1 for place, _ in trigger.lines(joined)}


@cache
def _compile_shape(pattern: bytes) -> types.Finder:
    """Compile the pattern of a shape when it is first needed. Most never are, and compiling all is slow."""
    return types.Finder(pattern, groups=True)


class _Pass:
    """Searches lines for several groups of shapes at once."""

    def __init__(self, triggers: Mapping[int, Sequence[bytes]]) -> None:
        """Take the triggers of each group, or of several groups that need not be told apart."""

        def finder(each: Iterable[bytes]) -> types.Finder:
            return types.Finder(_ignore_digits(_join_triggers(each)))

        self._any = finder(chain.from_iterable(triggers.values()))
        self._groups = {numbers: finder(each) for numbers, each in triggers.items() if each}

    def groups_in(
        self, lines: Sequence[bytes], joined: bytes, starts: Sequence[int]
    ) -> Iterator[tuple[bytes, int]]:
        """Yield the lines that may contain shapes, and each of their groups. Takes them joined as well."""
        matching = [lines[at] for at in sorted(_find_in_lines(self._any, joined, starts))]
        if len(self._groups) == 1:
            yield from zip(matching, repeat(*self._groups))
        elif matching:
            joined, starts = _join_lines(matching)
            for numbers, trigger in self._groups.items():
                for at in _find_in_lines(trigger, joined, starts):
                    yield matching[at], numbers


class _Search:
    """Finds the groups of shapes that lines may contain, and remembers them for equal lines."""

    def __init__(self, groups: Mapping[int, _Group], triggers: Mapping[int, Sequence[bytes]]) -> None:
        self.groups = groups
        # RE2 builds a state for each combination of partial matches, which takes far longer than a step. A
        # trigger that counts the letters of a value has many, so names and words share no pass with these.
        words = [*triggers[NAMES], *(each for each in triggers[WORDS] if not _COUNTS_LETTERS.search(each))]
        counts = [each for each in triggers[WORDS] if _COUNTS_LETTERS.search(each)]
        self._word_passes = (
            _Pass({NAMES | WORDS: words}),
            _Pass({NAMES | WORDS: counts, RUNS: triggers[RUNS]}),
        )
        self._exact_passes = (_Pass({TOKENS: triggers[TOKENS]}), _Pass({ENCODED: triggers[ENCODED]}))
        self._without: set[bytes] = set()
        """Remembered lines that contain no shape."""
        self._possible: dict[bytes, int] = {}
        """Remembered lines that may contain some, and their groups."""
        self._size = 0

    def possible_groups(self, forms: set[bytes]) -> dict[bytes, int]:
        """Return the groups of each line that may contain shapes, given lines with zeros for digits."""
        if self._size > _MAX_REMEMBERED_BYTES:
            # Not emptied, because another thread may be using them.
            self._without, self._possible, self._size = set(), {}, 0
        without, possible = self._without, self._possible
        # Sets do this without a step of Python for each line: it is the hot path for logs without secrets.
        # Two calls, because `difference(without, possible)` would look at each line in `possible`.
        new = forms.difference(without).difference(possible)
        if new:
            found = self._search(list(new))
            possible.update(found)
            without |= new.difference(found)
            self._size += sum(map(len, new))
        return {form: possible[form] for form in possible.keys() & forms}

    def _search(self, forms: Sequence[bytes]) -> dict[bytes, int]:
        found: dict[bytes, int] = {}
        # The words in base64 are random, and lead RE2 to a new state at nearly every byte.
        in_words = [form for form in forms if encodings.ONLY_BASE64.fullmatch(form) is None]
        for passes, lines in ((self._word_passes, in_words), (self._exact_passes, forms)):
            joined, starts = _join_lines(lines)
            for each in passes:
                for form, numbers in each.groups_in(lines, joined, starts):
                    found[form] = found.get(form, 0) | numbers
        return found


_COUNTS_LETTERS: Final = re.compile(rb"a-z[^\]]*\]\{")
"""Matches a trigger that counts the letters of a value."""
_MAX_REMEMBERED_BYTES: Final = 1 << 22
_DIGIT: Final = re.compile(rb"(\\x[0-9A-Fa-f]{2}|\\.|\{[0-9,]+\})|[0-9]")
"""Matches a digit. Its group matches escapes and counts, whose digits stand for something else."""


def _ignore_digits(pattern: bytes) -> bytes:
    """Return a pattern that matches wherever `pattern` does, in a text with zeros for its digits."""
    return _DIGIT.sub(lambda match: match[1] or b"0", pattern)


def _keep_exact(
    text: bytes,
    lines: Sequence[tuple[int, int, bytes]],
    groups: list[int],
    number: int,
    trigger: types.Finder,
) -> None:
    """Remove a group from the lines in which its trigger does not match with their digits."""
    possible = [at for at, numbers in enumerate(groups) if numbers & number]
    if not possible:
        return
    # Search all of these lines at once, with the line breaks around them: a trigger may begin or end with
    # one. A search of each line would take several times as long.
    joined, starts = _join_lines(text[lines[at][0] : lines[at][1]] for at in possible)
    matching = _find_in_lines(trigger, joined, starts)
    for order, at in enumerate(possible):
        if order not in matching:
            groups[at] &= ~number


def _make_search(every: Sequence[SecretShape], others: Mapping[int, bytes]) -> _Search:
    """Return the search for these shapes. `others` has one more trigger for some groups."""
    named = {shape.trigger for shape in every if shape.named}
    groups: dict[int, _Group] = {}
    triggers: dict[int, list[bytes]] = {}
    for number in GROUPS:
        own = [(order, shape) for order, shape in enumerate(every) if _group_number(shape, named) == number]
        triggers[number] = [shape.trigger for _, shape in own]
        triggers[number] += [others[number]] if number in others else []
        patterns = [(order, shape, b"(?m)" + shape.pattern) for order, shape in own if not shape.named]
        groups[number] = _Group(
            types.Finder(_join_triggers(triggers[number])),
            types.make_filter(pattern for _, _, pattern in patterns),
            patterns,
        )
    return _Search(groups, triggers)


def _group_number(shape: SecretShape, named: Container[bytes]) -> int:
    if shape.is_run:
        return RUNS
    if shape.trigger in named:
        return NAMES
    # A class with only some digits, such as [13], counts as a literal digit.
    digits = _LITERAL_DIGIT.search(_ANY_DIGIT.sub(b"", shape.pattern))
    return TOKENS if digits or shape.kind in _TOKEN_KINDS or shape.check in _DIGIT_CHECKS else WORDS


@cache
def patterns() -> Patterns:
    return Patterns(shapes())


def forget_texts() -> None:
    """Empty the caches of decoded texts, which serve only the line that is being read.

    A text in which each character is escaped leaves tens of megabytes there. They would stay in memory, and
    the next text would take the time to free them.
    """
    find_documents.cache_clear()
    types.decode_escapes.cache_clear()


class LineReader:
    """Finds the secrets in one line and in the texts that are encoded in it."""

    def __init__(
        self,
        known: Callable[[bytes], list[Found]],
        decode: Callable[[bytes, int], list[Found]],
        *,
        certain: bool = False,
    ) -> None:
        """Take two functions: `known` finds the known secrets in a text, and `decode` finds all secrets in a
        decoded text, given its nesting depth.
        """
        self._known = known
        self._secrets_in = decode
        self._certain = certain
        self._patterns = patterns()

    def secrets(self, line: bytes, depth: int = 0) -> list[Found]:
        """Return the secrets of one line or of several lines, in any order. They may overlap."""
        found: list[Found] = []
        texts: list[_ReadText] = []
        self._explore(UnescapedText(line, [], []), depth, found, texts)
        self._find_shapes(texts, found)
        return found

    def _explore(  # noqa: C901, PLR0912 - the steps of reading a text, in order
        self,
        view: UnescapedText,
        depth: int,
        found: list[Found],
        texts: list[_ReadText],
        *,
        is_command: bool = False,
    ) -> None:
        """Split a text into lines, JSON strings, quoted parts and unescaped text, and explore each of them.

        Append secrets to `found`, and the texts to search for shapes to `texts`. `is_command`: the text is
        the arguments of a command.
        """
        text = view.text
        if b"\n" in text:
            found += [
                (view.place(start), view.place(end), kind)
                for start, end, kind in self._secrets_in(text, depth + 1)
            ]
            return
        groups = self._patterns.groups_in(text, certain=self._certain)
        if not groups:
            return
        start = prefix_end(text)
        if start:
            is_command |= text.endswith(_TRACE, 0, start)
            view = view.part(start, len(text))
            text = view.text
        command = encodings.audit_command(view) if groups & ENCODED and depth < MAX_DEPTH else None
        if command is not None:
            self._decode_runs(view, depth, found)
            self._explore(command, depth + 1, found, texts, is_command=True)
            return
        if groups & (NAMES | WORDS | RUNS) and depth < MAX_DEPTH:
            for listed in encodings.listed_commands(view):
                self._explore(listed, depth + 1, found, texts, is_command=True)
        documents = find_documents(text, 0)
        texts.append((view, documents, groups))
        if documents:
            for document in documents:
                self._read_document(view, document, depth, found, texts)
            # Keep JSON that ends within the line: it may be quoted text with escapes of its own.
            ended = (each for each in documents if each.is_complete or each.end == len(text))
            text = _blank_out(text, [(each.start, each.end) for each in ended])
            if not text.strip(b"\x02 \t\r,"):
                return
            view = UnescapedText(text, [0], [0], view)
        if groups & (NAMES | WORDS) and not self._certain:
            assigned = chain(self._find_apart(text), self._find_assigned(text))
            for start, end, kind in _add_repeats(text, assigned):
                found.append((view.place(start), view.place(end), kind))
        if groups & RUNS and not self._certain:
            for start, end, kind in _add_repeats(text, _find_scrambled_words(text, is_command=is_command)):
                found.append((view.place(start), view.place(end), kind))
        if depth < MAX_DEPTH:
            if groups & ENCODED:
                self._decode_runs(view, depth, found)
            for inner in quoted_parts(view):
                self._explore(inner, depth + 1, found, texts)
            finer = unescape(view)
            if finer is not None:
                self._find_known(finer, found)
                self._explore(finer, depth + 1, found, texts)

    def _read_document(
        self, view: UnescapedText, document: Document, depth: int, found: list[Found], texts: list[_ReadText]
    ) -> None:
        text = view.text
        hits = self._patterns.trigger_spans(text, document.start, document.end, certain=self._certain)
        hits.reverse()
        is_setting = len(document.leaves) == _LEAVES_OF_SETTING
        for leaf in document.leaves:
            while hits and hits[-1][1] <= leaf.start:
                hits.pop()
            if leaf.is_key or leaf.start == leaf.end:
                continue
            if leaf.name and (leaf.is_string or not leaf.is_item) and not self._certain:
                value = text[leaf.start : leaf.end]
                shapes_ = (
                    shape
                    for shape in self._patterns.shapes_named(leaf.name)
                    if _is_secret(shape, value, is_quoted=True)
                )
                is_message = leaf.is_item and ordinary_words.is_sentence(value)
                shape = next(shapes_, None) if not is_message else None
                if shape is not None or _is_credential(leaf.name, value, is_setting=is_setting):
                    kind = shape.kind if shape is not None else _CREDENTIAL
                    found.append((view.place(leaf.start), view.place(leaf.end), kind))
                    continue
            if leaf.is_string and leaf.end - leaf.start >= _MIN_TEXT_BYTES and depth < MAX_DEPTH:
                inside = view.part(leaf.start, leaf.end)
                if hits and hits[-1][0] <= leaf.end:
                    plain = unescape(inside, is_quoted=True)
                    if plain is not None:
                        self._find_known(plain, found)
                    self._explore(plain or inside, depth + 1, found, texts)

    def _find_apart(self, text: bytes) -> Iterator[Found]:
        """Yield the secret values of XML, SQL and lists, whose names may be far away."""
        has_rows = _SQL_ROWS.find(text) is not None
        xml = xml_values(text) if b"</" in text or b"/>" in text else ()
        sql = sql_values(text) if has_rows else ()
        lists = list_values(text) if b"[" in text else ()
        is_prose = _MAY_BE_PROSE.find(text) is not None
        prose = chain(prose_values(text), directive_values(text)) if is_prose else ()
        values = chain(
            zip(repeat(_IN_COLUMN), chain(xml, sql, table_values(text))),
            zip(repeat(_IN_LIST), lists),
            zip(repeat(_IN_PROSE), prose),
        )
        for place, (name, start, end) in values:
            is_quoted = place is _IN_COLUMN or text[start - 1 : start] in _QUOTES
            for shape in self._patterns.shapes_named(name):
                value = text[start:end]
                if end - start >= _MIN_APART_BYTES and _is_secret(shape, value, is_quoted=is_quoted):
                    is_sure = (
                        is_quoted or place is _IN_PROSE or ordinary_words.is_password_without_separator(value)
                    )
                    if is_sure and not ordinary_words.is_sentence(value):
                        yield start, end, shape.kind
                        break
        for start, end in unnamed_sql_values(text) if has_rows else ():
            value = text[start:end]
            if _ADDRESS.fullmatch(value) is None and ordinary_words.is_password_without_separator(value):
                yield start, end, "password"

    def _find_assigned(self, text: bytes) -> Iterator[Found]:
        """Yield the secret values after names in a text that is not JSON."""
        quotes = Text(text)
        position = 0
        while (match := self._patterns.scanner.groups(text, position)) is not None:
            name, behind = match[1]
            name += text[name] not in _NAME_BYTES  # some patterns of names match one byte before the name
            start = _BLANKS.match(text, match[0][1]).end()  # type: ignore[union-attr]
            position = max(start, position + 1)
            # An escaped line break usually ends an empty value, but a password may begin with a backslash.
            first = break_end(text, start)
            if (first and not _is_scrambled(text, first)) or _is_in_mask(text, start):
                continue
            first = first or start
            head = text[max(0, name - _MAX_NAME_BYTES) : name]
            name -= len(head) - len(head.rstrip(_NAME_BYTES))
            # In `/etc/passwd: Permission denied` the name belongs to a path, and an error follows.
            is_path = text[name - 1 : name] == b"/" and b":" in text[behind:start]
            values: dict[bool, ValueSpan] = {}
            for shape in self._patterns.shapes_named(text[name:behind]):
                has_blanks = shape.check is ordinary_words.is_password
                value = values.get(has_blanks)
                if value is None:
                    value = values[has_blanks] = quotes.value(name, first, has_blanks=has_blanks)
                if is_path and not ordinary_words.is_shuffled(_value_head(text, value)):
                    continue
                if (change := _CHANGE.match(text, value.end)) is not None and _is_secret(
                    shape, change[1], is_quoted=True
                ):
                    yield *change.span(1), shape.kind
                if _is_value(shape, quotes, name, value):
                    yield start if first > start else value.start, value.end, shape.kind
                    position = max(position, value.end)
                    break

    def _find_known(self, view: UnescapedText, found: list[Found]) -> None:
        """Find known secrets in an unescaped text.

        The search of the line misses them if their escapes are not one of the known forms.
        """
        found.extend(
            (view.place(start), view.place(end), kind) for start, end, kind in self._known(view.text)
        )

    def _decode_runs(self, view: UnescapedText, depth: int, found: list[Found]) -> None:
        """Decode base64 and hexadecimal. If a run contains a secret, all of the run is masked."""
        if self._patterns.block_trigger.find(view.text) is None:
            return
        for start, end, plain in encodings.decode_runs(view.text):
            for _, _, kind in self._secrets_in(plain, depth + 1)[:1]:
                found.append((view.place(start), view.place(end), kind))

    def _find_shapes(self, texts: Sequence[_ReadText], found: list[Found]) -> None:
        matching = [
            (order, shape, pattern, view, documents)
            for view, documents, groups in texts
            for order, shape, pattern in self._patterns.matching_shapes(
                view.text, groups, certain=self._certain
            )
        ]
        matching.sort(key=lambda each: each[0])
        for _, shape, pattern, view, documents in matching:
            for start, end, kind in _add_repeats(view.text, _find_matches(shape, pattern, view.text)):
                last = _end_in_leaf(documents, start, end)
                if start < last:
                    found.append((view.place(start), view.place(last), kind))


def _is_value(  # noqa: C901, PLR0911 - one return for each reason
    shape: SecretShape, line: Text, name: int, value: ValueSpan
) -> bool:
    """Return True if the value after a name is a secret. Prose, error messages and URLs are not."""
    text = line.data
    secret = _value_head(text, value)
    if value.end - value.start < shape.least or mask_end(secret):
        return False
    if shape.kind == "token" and _PUBLIC_NAME.search(text[max(0, name - 16) : value.start]):
        return False
    if not _is_secret(shape, secret, is_quoted=value.is_quoted):
        is_first = name <= _MAX_NAME_BYTES and shape.check is ordinary_words.is_token
        return is_first and _SETTING.fullmatch(text) is not None and ordinary_words.is_password(secret)
    is_colon = b":" in text[max(0, value.start - _MAX_NAME_BYTES) : value.start].rstrip(b" \t")[-3:]
    if value.is_quoted:
        is_message = is_colon and _WORD_BEFORE.match(text, name)
        return not (is_message and ordinary_words.is_sentence(secret))
    if not is_colon:
        return not ordinary_words.is_error(secret)
    if text[value.start - 1 : value.start] == b":" and _IDS.match(secret):
        return False
    if _URL.match(secret) or ordinary_words.is_sentence(secret):
        return False
    if value.is_line:
        return _LABEL.fullmatch(secret) is None
    is_failure = _FAILURE.search(text, max(0, name - _MAX_NAME_BYTES), name) is not None
    if text[value.end : value.end + 1] == b":":  # the prefix of an error message, or a value in a sentence
        is_error = is_failure or ordinary_words.is_error(text[value.end + 1 :].lstrip())
        is_word = secret.isalnum() or _PROGRAM.fullmatch(secret) is None
        is_sure = (shape.kind == "password" and is_word) or ordinary_words.is_shuffled(secret)
        return not is_error and is_sure and ordinary_words.is_password_without_separator(secret)
    if is_failure:
        is_log = secret.startswith(b"{") or _LOCATION.fullmatch(secret) is not None
        return not is_log and ordinary_words.is_random_value(secret)
    # In a message, the text after a colon is more often prose than a value.
    is_joined = text[value.start - 1 : value.start] == b":"
    is_setting = text[value.end : value.end + 1] in (b"", b"\r") and _IDENTIFIER.fullmatch(
        text, name, value.start
    )
    is_field = is_joined and (line.has_structure(name) or bool(is_setting))
    is_prose = is_joined or _WORD_AFTER.match(text, value.end) is not None
    return is_field or not is_prose or ordinary_words.is_password_without_separator(secret)


def _is_scrambled(text: bytes, start: int) -> bool:
    """Return True if the word at `start` has letters of both cases and digits, and is not the next name."""
    word = _WORD.match(text, start, start + _MAX_CHECKED_BYTES)
    return (
        word is not None
        and ordinary_words.is_random(word[0])
        and ordinary_words.is_password_without_separator(word[0])
        and _URL.match(word[0]) is None
        and _LABEL.match(word[0]) is None
    )


def _value_head(text: bytes, value: ValueSpan) -> bytes:
    """Return the beginning of a value, for the checks.

    Values of nested names overlap, so checking whole values would take quadratic time.
    """
    return text[value.start : min(value.end, value.start + _MAX_CHECKED_BYTES)]


_MAX_CHECKED_BYTES: Final = 512


def _is_secret(shape: SecretShape, value: bytes, *, is_quoted: bool) -> bool:
    check = _IN_QUOTES.get(shape.check, shape.check) if is_quoted else shape.check
    return len(value) >= shape.least and check(value)


_IN_QUOTES: Final[Mapping[Callable[[bytes], bool], Callable[[bytes], bool]]] = {
    ordinary_words.is_password: ordinary_words.is_value,
    ordinary_words.is_flag_value: ordinary_words.is_quoted_flag_value,
}
"""The checks to use for a value in quotes, which is seldom prose."""


_CREDENTIAL: Final = "credential"
"""The kind of a random word near a word about credentials."""
_MIX: Final = (
    rb"(?:[a-z][0-9]{1,4}[A-Z]|[A-Z][0-9]{1,4}[a-z]|[0-9][a-z]{1,4}[A-Z]|[0-9][A-Z]{1,4}[a-z]"
    rb"|[a-z][A-Z]{1,4}[0-9]|[A-Z][a-z]{1,4}[0-9])"
)
_SCRAMBLED: Final = _MIX + rb"[A-Za-z0-9]{4}|[A-Za-z0-9]{4}" + _MIX
"""Matches in 99 % of all random words of 12 letters and digits, and in one of a hundred lines of logs."""
_SIGNED: Final = rb"[0-9][!#$^*?]+(?:[\s\"'`,;)\\<&%]|$)|[a-z][!#$^*?][0-9]"
"""Matches in passwords that people make up of a word, a number and a sign, and seldom in logs."""
_SIGNED_WORD: Final = re.compile(
    rb"""(?:^|(?<=[\s"'`=:,(%]))[A-Za-z0-9!#$^*?+~_.@-]{8,}(?=[\s"'`,;)\\<&]|\Z)"""
)
_HAS_SIGNED: Final = types.Finder(b"(?m)" + _SIGNED)
_ABOUT: Final = (
    rb"(?i:pass|pwd|phrase|secret|token|cred|log[io]n|auth|cookie|psk|unseal|salt|crypt(?:[^o]|$)|private|user"
    rb"|account|enrol|ticket|license|community|radius|tacacs|chap|vpn|wpa|wifi|cifs|ldap|ftp|imap|pop3|smtp|vnc"
    rb"|ipmi|drac|key(?:[^bfmw]|$)|sudo|kinit|connection[ _-]?string|obscur|proxy"
    rb"|(?:^|[^a-z])(?:pw|otp|smb|rdp|bmc|bind|join)"
    rb"|(?:^|[^a-z])(?:admin|attach|connect|connecting|inline_string)(?:[^a-z0-9-]|$)|(?:^|[^a-z])eap[^a-z]|getconnection|sign\(|[a-z]:(?:host|server|dbname)="
    rb"|-api[\"']?:)|Exec[A-Z][A-Za-z]+=|COMMAND=|\bCMD \(|\bRUN "
    rb"|(?:^|[\s\"'])(?:--?[A-Za-z]|/(?:p|w|k|a|u|rp|pw|P|W|K|A|U)(?:[\s:=]|$))"
)
_ABOUT_CREDENTIALS: Final = types.Finder(_ABOUT)
_SCRAMBLED_WORD: Final = re.compile(
    rb"""(?:^|(?<=[\0-\x20"'`=:,%>(\[{|@;/]))[A-Za-z0-9!#$%^*+~?][A-Za-z0-9!#$%^*+~?_./-]{6,}[A-Za-z0-9!#$%^*+~?]={0,2}"""
    rb"""(?=[\0-\x20"'`,;)\]}<&@|\\]|/>|[.]?(?:\s|\Z))"""
)
_LOOK_AHEAD_BYTES: Final = 4
"""At most `==` and `. ` follow a word."""
_EVIDENCE_NAME: Final = re.compile(
    rb"(?:(?<![A-Za-z])(?i:hash|digest|fingerprint|thumbprint|sha[0-9]*|md[0-9]|(?:check)?sum|u?u?id|etag|commit|rev"
    rb"|revision|serial|model|version|build|trace|span|request|message|image|cipher|algorithm)"
    rb"|(?<=[a-z])(?:Hash|Digest|Fingerprint|Thumbprint|Sha[0-9]*|Sum|I[dD]|Revision|Version))"
    rb"s?[\"'`)\]]*(?:[ \t]*[=:][ \t]*|[ \t]+)[\"'`]?\Z"
)
"""Matches the name of a random value that is evidence, such as a digest."""
_ENDS_OF_WORDS: Final = re.compile(rb"""[\0-\x20"'`=,(\[{|;<>]""")
_BEFORE: Final = (
    rb"""(?:[\s"']\*[\"']?[ \t]+[\"']?"""  # chap-secrets: CLIENT * SECRET
    rb"""|(?:=["']?[a-z][a-z0-9_.-]*:|[\s"'=][a-z][a-z0-9_.-]{2,}/)"""  # NAME=USER:PASSWORD, USER/PASSWORD
    rb"""|^[\s\"']*\"[a-z][a-z0-9_.-]*\"[ \t]+\""""  # userlist.txt: "USER" "PASSWORD"
    rb"""|\b(?:echo|printf)[ \t]+(?:-[neE]+[ \t]+)?["']?"""  # echo PASSWORD | COMMAND
    # HOST USER PASSWORD
    rb"""|(?:(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?::[0-9]+)?|[a-z]+://[^\s/"']+/?)[ \t]+"""
    rb"""(?:[^\s="':]+[ \t]+){0,2})"""
)
_BEFORE_CREDENTIAL: Final = re.compile(_BEFORE + rb"\Z")
_TRACE: Final = b"+ "
"""The end of the prefix of a command that a shell traces."""
_PLACE: Final = (
    _ABOUT + rb"|" + _BEFORE + rb"|[A-Za-z0-9_.-][\"']?(?:[ \t]*[:=][ \t]*|[ \t])[^\s]+[ \t\r]*$|>[^\s<>]+</"
    rb"|(?:^|[ \t=])\++ |\"[ \t]+\"|[:/%][A-Za-z0-9!#$%^*+~?_/=-]+@|" + MASK_BEGIN
)
"""Matches in each line in which `_find_scrambled_words` finds something.

It removes masks, and what remains may speak of credentials. Two words in quotes may follow a logger's prefix.
"""
_PARTS: Final = (
    rb"[\\%\x1b]|\"'\"|&(?:#|[a-z]{2,5};)|#(?:0[0-3][0-7]|177)|\^[\[IMJ]"
    rb"|[?&][A-Za-z0-9_.\[\]-]+=[^\s&\"'<>#]*\+|[\[{][ \t]*[\"'{\[]|EXECVE"
)
"""Matches in each line with escapes, JSON or texts that `quoted_parts` finds."""
_HAS_PARTS: Final = types.Finder(_PARTS)
_HAS_SIGN: Final = types.Finder(rb"(?m)" + _PLACE + rb"|" + _PARTS + rb"|(?:^|[ \t])[\"}\]]")
"""Matches in each line that `_may_have_credential` accepts. The rest of JSON may follow a logger's prefix."""
_REST_OF_JSON: Final = (b'"', b"}", b"]")
"""The first character of a line that continues the JSON of the lines above."""
_ANY_MASK: Final = re.compile(MASK_BEGIN + rb"[a-z0-9-]*>")
_USER: Final = re.compile(rb"[a-z][a-z0-9_.-]{2,31}/(?![^/]*[/+=])")
_AFTER_CREDENTIAL: Final = re.compile(rb"""["']?(?:[ \t]+[0-9*]{1,4})?[ \t]*['"]?(?:[|<\\"'\s;)]|>|\Z)""")


_MIN_BASE64_BYTES: Final = 24
"""A word of this size after a slash is base64 that begins with it. A shorter one is a path."""


def _find_possible_credentials(texts: Sequence[bytes], joined: bytes, starts: Sequence[int]) -> set[int]:
    """Return the indexes of the lines that may have a random word in the place of a credential.

    Most lines with random words, such as those of certificates, have no sign of a credential. One search of
    all lines drops them in a twentieth of the time that it takes to look at each.
    """
    signs = _find_in_lines(_HAS_SIGN, joined, starts)
    return {at for at in signs if _may_have_credential(texts[at])}


def _may_have_credential(line: bytes) -> bool:
    """Return False if a line certainly has no random word in the place of a credential.

    Escapes and JSON contain texts of their own, which only reading the line finds.
    """
    if not ordinary_words.possible_scrambled_words(line) and _HAS_SIGNED.find(line) is None:
        return False
    start = prefix_end(line)
    text = line[start:]
    if _HAS_PARTS.find(line) is not None or text.lstrip(b" \t").startswith(_REST_OF_JSON):
        return True
    return next(_find_scrambled_words(text, is_command=line.endswith(_TRACE, 0, start)), None) is not None


def _find_scrambled_words(text: bytes, *, is_command: bool) -> Iterator[Found]:
    """Yield the random words of a command or of a line that speaks of credentials, and those in the place of
    a password.

    Programs without number take passwords, and most of their options and files are in no list. But words of
    random letters are rare in logs, except digests and the like, whose names say so.
    """
    words = [
        span
        for first, last in ordinary_words.possible_scrambled_words(text)
        # Not the rest of the line, but as much of it as the pattern looks ahead.
        for word in _SCRAMBLED_WORD.finditer(text, first, last + _LOOK_AHEAD_BYTES)
        for span in _without_user(word)
    ]
    if _HAS_SIGNED.find(text) is not None:
        signed = (word for word in _SIGNED_WORD.finditer(text) if ordinary_words.is_password_like(word[0]))
        words += [word.span() for word in signed if _ADDRESS.fullmatch(word[0]) is None]
        words.sort()
    if not words:
        return
    # Neither a random word nor the kind in a mask speaks of credentials.
    is_about = is_command or _ABOUT_CREDENTIALS.find(_ANY_MASK.sub(b"", _blank_out(text, words))) is not None
    for start, end in words:
        before = text[max(0, start - _MAX_NAME_BYTES) : start]
        # `user:Ab1cD2eF@host`, but not the id of a message, `1234.Ab1cD2eF@host`.
        is_userinfo = (
            before.endswith((b":", b"/", b"%"))
            and text.startswith(b"@", end)
            and text.find(b".", start, end) < 0
        )
        if not (
            is_about
            or is_userinfo
            or _is_sole_value(text, start, end)
            or (_BEFORE_CREDENTIAL.search(before) and _AFTER_CREDENTIAL.match(text, end))
        ):
            continue
        head = _ENDS_OF_WORDS.split(before)[-1]
        is_path = not head.endswith(b":") and (
            (head.startswith((b"/", b".", b"~")) and (len(head) > 1 or end - start < _MIN_BASE64_BYTES))
            or head.count(b"/") > 1
        )
        is_evidence = _EVIDENCE_NAME.search(before) or _PUBLIC_NAME.search(before)
        if not (is_path or _is_in_mask(text, start) or is_evidence):
            yield start, end, _CREDENTIAL


def _is_sole_value(text: bytes, start: int, end: int) -> bool:
    """Return True if a line is only a name and this value, as in YAML, INI and the headers of mail.

    Random words in such places are credentials much more often than in messages.
    """
    return (
        start <= _MAX_NAME_BYTES
        and end - start <= _MAX_SOLE_BYTES
        and _END_OF_SETTING.match(text, end) is not None
        and (not text[end - 1 : end].isalnum() or ordinary_words.is_scrambled(text[start:end]))
        and (before := _BEFORE_SETTING.fullmatch(text, 0, start)) is not None
        and _NAMED_THING.search(before[before.lastindex or 0]) is None
    )


_MAX_SOLE_BYTES: Final = 128
"""A longer value is a signature, a certificate or an encoded file rather than a key."""
_BEFORE_SETTING: Final = re.compile(
    rb"[ \t#;>-]*(?:<([A-Za-z_][A-Za-z0-9_.:-]*)>"
    rb"|[\"']?([A-Za-z_][A-Za-z0-9_.-]*)[\"']?(?:[ \t]*[:=][ \t]*|[ \t]+)[\"']?(?:[a-z][a-z0-9_.-]*:)?)"
)
_END_OF_SETTING: Final = re.compile(rb"(?:[\"',;]{0,2}|</[^<>]*>)[ \t\r]*\Z")
_NAMED_THING: Final = re.compile(
    rb"(?i:name|host|file|path|dir|type|class|title|label|ref|public|pub|peer|(?:cipher|digest|signature)value)\Z"
)
"""Matches names of settings whose values are names, public keys, digests or encrypted."""


def _without_user(word: re.Match[bytes]) -> list[tuple[int, int]]:
    """Return the span of a random word, without the user in `USER/PASSWORD`; no span for other words."""
    user = _USER.match(word[0])
    if user is not None and ordinary_words.is_scrambled(word[0][user.end() :]):
        return [(word.start() + user.end(), word.end())]
    return [word.span()] if ordinary_words.is_scrambled(word[0]) else []


_LEAVES_OF_SETTING: Final = 2
"""A key and its value, alone in a line as in a file of settings. Messages mostly have several."""


def _is_credential(name: bytes, value: bytes, *, is_setting: bool) -> bool:
    """Return True if a value in JSON is a random word, and its name speaks of credentials or is a setting."""
    return (
        _SCRAMBLED_WORD.fullmatch(value) is not None
        and ordinary_words.is_scrambled(value)
        and (
            _ABOUT_CREDENTIALS.find(name) is not None
            or (is_setting and len(value) <= _MAX_SOLE_BYTES and _NAMED_THING.search(name) is None)
        )
        and _EVIDENCE_NAME.search(name + b"=") is None
        and _PUBLIC_NAME.search(name) is None
    )


def _iterate_matches(
    shape: SecretShape, pattern: types.Finder, text: bytes
) -> Iterator[list[tuple[int, int]]]:
    """Yield the matches of a shape. After a match in a command, yield the further options of that command."""
    again = _compile_shape(b"(?m)" + shape.again) if shape.again else None
    match = pattern.groups(text)
    if again is None:
        while match is not None:
            yield match
            begin, end = match[0]
            match = pattern.groups(text, end + (begin == end))
        return
    while match is not None:
        position, is_more = match[0][0] + 1, False  # behind the character before the program
        while match is not None:
            value = next((span for span in match[1:] if span[0] >= 0), match[0])
            end = _COMMAND.match(text, position, value[0]).end()  # type: ignore[union-attr]  # it may be empty
            if end < value[0]:
                position = position if is_more else end
                break
            # A port is an option of another program in the same command: `sshpass -p … ssh -p 22`.
            if not (is_more and _PORT.fullmatch(text, *value)):
                yield match
            end = match[0][1]
            position = end + (text[end : end + 1] in _QUOTES)
            match, is_more = again.groups(text, end), True
        match = pattern.groups(text, position)


_COMMAND: Final = re.compile(rb"""(?:"[^"\n]*"|'[^'\n]*'|[^;|&\n]|[;|&](?![;|&\s]))*""")
"""A command and its arguments. A `&` in a word belongs to an address; audit logs arguments without quotes."""
_PORT: Final = re.compile(rb"[0-9]{1,5}")


def _find_matches(shape: SecretShape, pattern: types.Finder, text: bytes) -> Iterator[Found]:
    """Yield the spans of a shape's groups that pass its check."""
    quotes: Text | None = None
    for match in _iterate_matches(shape, pattern, text):
        begin = match[0][0]
        if text.startswith(MASK_BEGIN, begin) and mask_end(text, begin) and shape.kind != "private-key":
            continue  # a mask looks like an XML element
        for first, last in match[1:]:
            start, end = first, last
            if start < 0:
                continue
            check = shape.check
            if shape.is_word:
                quotes = quotes or Text(text)
                value = quotes.word(start - (text[start - 1 : start] in _QUOTES))
                start, end = value.start, max(value.end, value.start)
            if text[start - 1 : start] in _QUOTES:
                check = _IN_QUOTES.get(check, check)
            if end - start < shape.least or _is_in_mask(text, start):
                continue
            if shape.kind == "token" and _PUBLIC_NAME.search(text[max(0, start - _MAX_NAME_BYTES) : start]):
                continue
            if check(text[start:end]):
                yield start, end, shape.kind


def _add_repeats(line: bytes, secrets: Iterable[Found]) -> Iterator[Found]:
    """Yield each secret, and the other places in the line where its value occurs without a name."""
    values: set[bytes] = set()
    for start, end, kind in secrets:
        value = line[start:end] if end - start >= _MIN_REPEATED_BYTES else b""
        if value in values:
            continue
        yield start, end, kind
        if not value or len(values) == _MAX_REPEATED_VALUES:
            continue
        if not ordinary_words.is_token(value[:_MAX_CHECKED_BYTES]):
            continue
        values.add(value)
        place = line.find(value)
        while place >= 0:
            yield place, place + len(value), kind
            place = line.find(value, place + len(value))


_MAX_REPEATED_VALUES: Final = 100
"""The limit of values that are searched for in the rest of their line. Each search reads the whole line."""


def _end_in_leaf(documents: Sequence[Document], start: int, end: int) -> int:
    """Return the end of a secret, but not beyond the JSON string in which it begins.

    Returns `start` if the secret begins in a document but not in a string or number. A
    secret that begins in a number is an array of bytes, and goes on after it.
    """
    at = bisect_right(documents, start, key=lambda document: document.start) - 1
    if at < 0 or start >= documents[at].end:
        return end
    leaves = documents[at].leaves
    at = bisect_right(leaves, start, key=lambda leaf: leaf.start) - 1
    if at < 0 or start >= leaves[at].end:
        return start
    return min(end, leaves[at].end) if leaves[at].is_string else end


def _blank_out(text: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """Return the text with each byte of the spans replaced by a neutral one."""
    pieces: list[bytes] = []
    position = 0
    for start, end in spans:
        pieces += [text[position:start], b"\x02" * (end - start)]
        position = end
    return b"".join((*pieces, text[position:]))


def _is_in_mask(line: bytes, position: int) -> bool:
    begin = line.rfind(MASK_BEGIN, max(0, position - _MAX_MASK_BYTES), position + len(MASK_BEGIN))
    return begin >= 0 and position < mask_end(line, begin)


def _join_triggers(triggers: Iterable[bytes]) -> bytes:
    """Return one pattern of all triggers. They are sorted so that RE2 merges common prefixes."""
    alternatives = {
        each for trigger in triggers for each in _split_trigger(trigger.replace(rb"[ \t]", _SPACE))
    }
    return b"(?m)" + b"|".join(sorted(alternatives))


_SPACE: Final = rb"(?:[ \t+]|%(?:20|09)|\\+(?:(?:u00|x)(?:20|09)|t)|\\*[\"'], ?\\*[\"'])"
"""A blank in a trigger also matches an escaped blank, and what separates the words of a list."""


def _split_trigger(trigger: bytes) -> list[bytes]:
    """Split a trigger at `|`; return it whole, as a group, if it has groups or classes."""
    return [b"(?:" + trigger + b")"] if _NESTED & set(trigger) else trigger.split(b"|")


# --- Replacing ---

_NUMBER: Final = b"0123456789.eE+-"


def clip_and_merge(line: bytes, found: Iterable[Found]) -> list[Found]:
    """Return the spans to mask in a line, sorted and disjoint, clipped so that JSON stays valid.

    Overlapping secrets become one span with the kind of the first. Of equal ones, a kind that a rule names
    says more than that of a random word.
    """
    start = prefix_end(line)
    documents = [document for document in find_documents(line, start) if document.is_complete]
    parts = sorted(
        (
            (first, last, kind)
            for begin, end, kind in found
            for first, last in clip_to_strings(line, documents, begin, end)
        ),
        key=lambda each: (each[0], -each[1], each[2] == _CREDENTIAL),
    )
    in_order: list[Found] = []
    for first, last, kind in parts:
        if in_order and first < in_order[-1][1]:
            in_order[-1] = (in_order[-1][0], max(last, in_order[-1][1]), in_order[-1][2])
        elif first < last:
            in_order.append((first, last, kind))
    return in_order


def number_quote(line: bytes, start: int, end: int) -> bytes:
    """Return the quote to put around a mask that replaces a JSON number: the quote around the number's key.

    Returns an empty string if the value is not a number, true, false or null in JSON.
    """
    if line[start:end].strip(_NUMBER) and line[start:end] not in (b"true", b"false", b"null"):
        return b""
    head = line[max(0, start - 64) : start].rstrip(b" \t")
    if head.endswith(b'":'):
        name = head[:-2]
        return name[len(name.rstrip(b"\\")) :] + b'"'
    is_item = head.endswith((b"[", b",")) and line[end : end + 1] in (b",", b"]")
    return b'"' if is_item else b""
