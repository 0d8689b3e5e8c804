"""Find unknown secrets in a line: by the name and syntax around a value, or by the shape of a token. Pure.

docs/redaction.md, "How a line is read", describes the steps.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from service_record.redaction import commands, encodings, ordinary_words, random_words, secret_names, types
from service_record.redaction.command_words import join_words, split_audit
from service_record.redaction.first_pass import (
    ENCODED,
    NAMES,
    RUNS,
    WORDS,
    patterns,
)
from service_record.redaction.json_documents import Document, Leaf, find_documents
from service_record.redaction.named_values import ValuePlace, find_named_values
from service_record.redaction.prefixes import prefix_end
from service_record.redaction.secret_names import Name, find_name
from service_record.redaction.shapes import SecretShape
from service_record.redaction.types import (
    MASK_BEGIN,
    Found,
    UnescapedText,
    blank_out,
    is_in_mask,
    mask_end,
)
from service_record.redaction.values import Text, ValueSpan, break_end, quoted_parts
from service_record.redaction.values_below import MAPS_OF_SECRETS, SECRET_VALUE

MAX_DEPTH: Final = 6
"""The limit of nesting: escapes in escapes, JSON in JSON, base64 in base64."""
_MIN_TEXT_BYTES: Final = 6
"""A shorter string cannot hold a name with a value."""
_MAX_NAME_BYTES: Final = 64
_NAME_BYTES: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_QUOTES: Final = (b'"', b"'", b"`")
_MIN_APART_BYTES: Final = 4
_MIN_REPEATED_BYTES: Final = 12
"""A shorter value may occur elsewhere in its line by chance."""
_WORD_BEFORE: Final = re.compile(rb"(?<=[A-Za-z] )")
_WORD_AFTER: Final = re.compile(rb"[ \t]+(?![A-Za-z_][A-Za-z0-9_.-]*=)[^\s#|<>&;\"'}\])]")
_FAILURE: Final = re.compile(
    rb"(?i:\b(?:fail(?:ed|ure|s)?|errors?|cannot|can't|could not|couldn't|unable|invalid)\b[^:=\"']*\Z)"
)
"""Matches the text before a name in an error message. The reason follows the colon there, not a value."""
_LABEL: Final = re.compile(rb"[A-Za-z][A-Za-z0-9_.@\[\]-]*:")
_SETTING: Final = re.compile(
    rb"[ \t+]*[A-Za-z0-9_.-]+(?<!auth)(?<!AUTH)[ \t]+=[ \t]+([\"']?)[^\s\"']+\1;?[ \t\r]*"
)
"""Matches a line of a file of settings: `secret = "ribbon-pencil"`."""
_NO_VALUE: Final = re.compile(
    rb"[a-z][a-z0-9+.-]*://|[a-z][a-z_]{2,}=(?![=>])|[A-Za-z_][A-Za-z0-9_.-]*=\""  # a URL, or the next field
    rb"|[A-Za-z0-9_./-]*[a-z]:\d+(?::\d+)?[\]:]*(?:\s|\Z)"  # a position in a file
    rb"|[A-Za-z0-9_./@-]+\[[A-Za-z0-9]+\]:"  # a program with its process ID or a level
    rb"|\[?\d{4}-\d\d-\d\d"  # a time
    rb"|[0-9]+:[0-9]+:"  # the user and group after a password in lines as of passwd(5)
)
"""Matches the text after a colon that is not a value."""
_CHANGE: Final = re.compile(rb"[\"']?[ \t]+[-=]>[ \t]+[\"']([^\"'\n]+)[\"']")
"""Matches the new value after an old one, as a plan of terraform has it: `password = "old" -> "new"`."""
_EMPTY_OPTION: Final = re.compile(rb"--?[A-Za-z0-9_.-]+=[ \t]")
_BLANKS: Final = re.compile(rb"[ \t]*(?:(?<=:[ \t])(?:&[A-Za-z][A-Za-z0-9_-]*|!!?[a-z]+)[ \t]+(?=\S))?")
"""Matches blanks, and an anchor or a tag of YAML."""
_WORD: Final = re.compile(rb"""[^\s"'\\,;]+""")
_ReadText: TypeAlias = tuple[UnescapedText, Sequence[Document], int]
"""A text, its JSON documents, and a bit mask of the groups of shapes that it may contain."""


def forget_texts() -> None:
    """Empty the caches of decoded texts, which serve only the line that is being read.

    A text in which each character is escaped leaves tens of megabytes there. They would stay in memory, and
    the next text would take the time to free them.
    """
    find_documents.cache_clear()
    encodings.decode_escapes.cache_clear()


class LineReader:
    """Finds the secrets in one line and in the texts that are encoded in it."""

    def __init__(
        self,
        decode: Callable[[bytes, int], list[Found]],
        *,
        certain: bool = False,
    ) -> None:
        """Take a function that finds the secrets in a decoded text, given its nesting depth."""
        self._secrets_in = decode
        self._certain = certain
        self._patterns = patterns()

    def secrets(self, line: bytes, depth: int = 0, groups: int = 0) -> list[Found]:
        """Return the secrets of one line or of several lines, in any order. They may overlap.

        `groups` are those that the first pass has found, if it has searched the line.
        """
        found: list[Found] = []
        texts: list[_ReadText] = []
        self._explore(UnescapedText(line, [], []), depth, found, texts, groups=groups)
        self._find_shapes(texts, found)
        return found

    def find_kind(self, name: bytes, value: bytes, place: ValuePlace, *, is_quoted: bool) -> str | None:
        """Return the kind of a secret by its name and place; None if the value is not a secret."""
        named = find_name(name)
        return (
            named.kind if named is not None and _is_secret(named, value, place, is_quoted=is_quoted) else None
        )

    def _named_values(self, text: bytes) -> Iterator[Found]:
        """Yield the secret values of the names in a text of one line that is neither JSON nor encoded."""
        yield from self._find_apart(text)
        yield from self._find_assigned(text)

    def _explore(  # noqa: C901, PLR0912 - the steps of reading a text, in order
        self,
        view: UnescapedText,
        depth: int,
        found: list[Found],
        texts: list[_ReadText],
        *,
        groups: int = 0,
        is_evidence: bool = False,
    ) -> None:
        """Split a text into lines, JSON strings, quoted parts and unescaped text, and explore each of them.

        Append secrets to `found`, and the texts to search for shapes to `texts`. `is_evidence`: a random
        word in the text is not a secret.
        """
        text = view.text
        if b"\n" in text:
            found += [
                (view.place(start), view.place(end), kind)
                for start, end, kind in self._secrets_in(text, depth + 1)
            ]
            return
        groups = groups or self._patterns.find_groups(text, certain=self._certain)
        if not groups:
            return
        start = prefix_end(text)
        if start:
            view = view.part(start, len(text))
            text = view.text
        arguments = split_audit(text) if groups & ENCODED and depth < MAX_DEPTH else ()
        if arguments:
            self._decode_runs(view, depth, found)
            self._find_in_commands(view, commands.find_secrets(arguments), found)
            joined = join_words(view, arguments)
            self._explore(joined, depth + 1, found, texts)
            return
        documents = find_documents(text)
        texts.append((view, documents, groups))
        if documents:
            for document in documents:
                self._find_in_commands(view, commands.find_in_lists(text, document), found)
                self._read_document(view, document, depth, found, texts)
            # Keep JSON that ends within the line: it may be quoted text with escapes of its own.
            ended = (each for each in documents if each.is_complete or each.end == len(text))
            text = blank_out(text, [(each.start, each.end) for each in ended])
            if not text.strip(b"\x02 \t\r,"):
                return
            view = UnescapedText(text, [0], [0], view)
        if groups & WORDS:
            self._find_in_commands(view, commands.find_passwords(text), found)
        if groups & (NAMES | WORDS) and not self._certain:
            for start, end, kind in _add_repeats(text, self._named_values(text)):
                found.append((view.place(start), view.place(end), kind))
        if groups & RUNS and not self._certain and not is_evidence:
            for start, end, kind in _add_repeats(text, random_words.find_random_words(text)):
                found.append((view.place(start), view.place(end), kind))
        if depth < MAX_DEPTH:
            if groups & ENCODED:
                self._decode_runs(view, depth, found)
            for inner in quoted_parts(view):
                self._explore(inner, depth + 1, found, texts)
            finer = encodings.unescape(view)
            if finer is not None:
                self._explore(finer, depth + 1, found, texts)

    def _find_in_commands(self, view: UnescapedText, secrets: Iterable[Found], found: list[Found]) -> None:
        if not self._certain:
            for start, end, kind in _add_repeats(view.text, secrets):
                found.append((view.place(start), view.place(end), kind))

    def _read_document(
        self, view: UnescapedText, document: Document, depth: int, found: list[Found], texts: list[_ReadText]
    ) -> None:
        text = view.text
        hits = self._patterns.find_triggers(text, document.start, document.end, certain=self._certain)
        hits.reverse()
        for leaf in document.leaves:
            while hits and hits[-1][1] <= leaf.start:
                hits.pop()
            if leaf.is_key or leaf.start == leaf.end:
                continue
            if leaf.name and (leaf.is_string or not leaf.is_item) and not self._certain:
                value = text[leaf.start : leaf.end]
                kind = self._leaf_kind(leaf, value)
                if kind is not None:
                    found.append((view.place(leaf.start), view.place(leaf.end), kind))
                    continue
            if leaf.is_string and leaf.end - leaf.start >= _MIN_TEXT_BYTES and depth < MAX_DEPTH:
                inside = view.part(leaf.start, leaf.end)
                if hits and hits[-1][0] <= leaf.end:
                    plain = encodings.unescape(inside, is_quoted=True)
                    is_word = b" " not in inside.text
                    is_evidence = is_word and secret_names.is_evidence(leaf.name, is_assigned=True)
                    self._explore(plain or inside, depth + 1, found, texts, is_evidence=is_evidence)

    def _leaf_kind(self, leaf: Leaf, value: bytes) -> str | None:
        """Return the kind of a value in JSON by its name and its object, or None if it is not a secret."""
        place = ValuePlace.MESSAGE if leaf.is_item else ValuePlace.SURE
        kind = self.find_kind(leaf.name, value, place, is_quoted=True)
        is_in_secret = MAPS_OF_SECRETS.get(leaf.parent)
        if kind is None and is_in_secret is not None and is_in_secret(value):
            kind = SECRET_VALUE
        if kind is None and random_words.is_credential(leaf.name, value):
            kind = random_words.CREDENTIAL
        return kind

    def _find_apart(self, text: bytes) -> Iterator[Found]:
        """Yield the secret values whose names are not directly before them, as in XML and lists."""
        for name, start, end, place in find_named_values(text):
            value = text[start:end]
            is_quoted = text[start - 1 : start] in _QUOTES
            if end - start >= _MIN_APART_BYTES:
                kind = self.find_kind(name, value, place, is_quoted=is_quoted)
                if kind is not None:
                    yield start, end, kind

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
            if (first and not _is_scrambled(text, first)) or is_in_mask(text, start):
                continue
            first = first or start
            head = text[max(0, name - _MAX_NAME_BYTES) : name]
            name -= len(head) - len(head.rstrip(_NAME_BYTES))
            # In `/etc/passwd: Permission denied` the name belongs to a path, and an error follows.
            is_path = text[name - 1 : name] == b"/" and b":" in text[behind:start]
            named = find_name(text[name:behind])
            if named is None or _EMPTY_OPTION.match(text, name, first):
                continue
            value = quotes.value(name, first, has_blanks=named.check is ordinary_words.PASSWORD)
            if is_path and not ordinary_words.RANDOM(_value_head(text, value)):
                continue
            change = _CHANGE.match(text, value.end)
            if change is not None and _is_secret(named, change[1], ValuePlace.SURE, is_quoted=True):
                yield *change.span(1), named.kind
            if _is_value(named, quotes, name, value):
                yield start if first > start else value.start, value.end, named.kind
                position = max(position, value.end)

    def _decode_runs(self, view: UnescapedText, depth: int, found: list[Found]) -> None:
        """Decode base64 and hexadecimal. If a run contains a secret, all of the run is masked."""
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


def _is_value(named: Name, line: Text, name: int, value: ValueSpan) -> bool:
    """Return True if the value after a name in a line is a secret."""
    text = line.data
    secret = _value_head(text, value)
    if mask_end(secret):
        return False
    is_setting = name <= _MAX_NAME_BYTES and named.kind == "token"
    if is_setting and ordinary_words.is_small_words(secret) and _SETTING.fullmatch(text):
        return True
    place = _find_place(line, name, value)
    return place is not None and _is_secret(named, secret, place, is_quoted=value.is_quoted)


def _find_place(line: Text, name: int, value: ValueSpan) -> ValuePlace | None:
    """Return how sure it is that a text after a name is its value; None if it is something else."""
    text = line.data
    if b":" not in text[max(0, value.start - _MAX_NAME_BYTES) : value.start].rstrip(b" \t")[-3:]:
        return ValuePlace.SURE
    if value.is_quoted:
        return ValuePlace.MESSAGE if _WORD_BEFORE.match(text, name) else ValuePlace.SURE
    is_failure = _FAILURE.search(text, max(0, name - _MAX_NAME_BYTES), name) is not None
    is_label = b":" in text[value.end - 1 : value.end + 1]
    if _NO_VALUE.match(text, value.start) or (is_failure and is_label):
        return None
    is_joined = text[value.start - 1 : value.start] == b":"
    is_setting = text.find(b".", name, value.start) >= 0 and value.end == len(text)
    if value.is_line or (is_joined and (line.has_structure(name) or is_setting)):
        return ValuePlace.MESSAGE
    # In a message, the text after a colon is more often prose than a value.
    is_prose = is_failure or is_label or is_joined or _WORD_AFTER.match(text, value.end) is not None
    return ValuePlace.PROSE if is_prose else ValuePlace.MESSAGE


def _is_scrambled(text: bytes, start: int) -> bool:
    """Return True if the word at `start` has letters of both cases and digits, and is not the next name."""
    word = _WORD.match(text, start, start + _MAX_CHECKED_BYTES)
    return (
        word is not None
        and ordinary_words.is_random(word[0])
        and ordinary_words.WORD(word[0])
        and _NO_VALUE.match(word[0]) is None
        and _LABEL.match(word[0]) is None
    )


def _value_head(text: bytes, value: ValueSpan) -> bytes:
    """Return the beginning of a value, for the checks.

    Values of nested names overlap, so checking whole values would take quadratic time.
    """
    return text[value.start : min(value.end, value.start + _MAX_CHECKED_BYTES)]


_MAX_CHECKED_BYTES: Final = 512


def _is_secret(named: Name, value: bytes, place: ValuePlace, *, is_quoted: bool) -> bool:
    """Return True if a value of this place is a secret, given the kind of its name."""
    check = ordinary_words.IN_QUOTES.get(named.check, named.check) if is_quoted else named.check
    if not value or not check(value):
        return False
    if place is ValuePlace.SURE:
        return True
    if ordinary_words.is_sentence(value):
        return False
    if place is ValuePlace.PROSE and random_words.ADDRESS.fullmatch(value) is not None:
        return False
    return place is ValuePlace.MESSAGE or ordinary_words.WORD(value)


def _find_matches(shape: SecretShape, pattern: types.Finder, text: bytes) -> Iterator[Found]:
    """Yield the spans of a shape's groups that pass its check."""
    quotes: Text | None = None
    position = 0
    while (match := pattern.groups(text, position)) is not None:
        begin, end = match[0]
        position = end + (begin == end)
        if text.startswith(MASK_BEGIN, begin) and mask_end(text, begin) and shape.kind != "private-key":
            continue  # a mask looks like an XML element
        for first, last in match[1:]:
            start, end = first, last
            if start < 0:
                continue
            check = shape.check
            quotes = quotes or Text(text)
            if shape.is_word:
                value = quotes.word(start - (text[start - 1 : start] in _QUOTES))
                start, end = value.start, max(value.end, value.start)
            else:
                end = quotes.clip(start, end)
            if text[start - 1 : start] in _QUOTES:
                check = ordinary_words.IN_QUOTES.get(check, check)
            if end - start < shape.least or is_in_mask(text, start):
                continue
            if shape.kind == "token" and _is_after_public_name(text, start):
                continue
            if check(text[start:end]):
                yield start, end, shape.kind


def _is_after_public_name(text: bytes, start: int) -> bool:
    before = text[max(0, start - _MAX_NAME_BYTES) : start]
    return secret_names.is_public(before.rstrip(random_words.BEFORE_VALUES))


def _add_repeats(line: bytes, secrets: Iterable[Found]) -> Iterator[Found]:
    """Yield each secret, and the other places in the line where its value occurs without a name."""
    repeated: set[bytes] = set()
    searches = 0
    for start, end, kind in secrets:
        value = line[start:end] if end - start >= _MIN_REPEATED_BYTES else b""
        if value in repeated:
            continue
        yield start, end, kind
        if not value or searches == _MAX_REPEATED_VALUES:
            continue
        searches += 1
        if line.count(value) == 1 or not ordinary_words.TOKEN(value):
            continue
        repeated.add(value)
        place = line.find(value)
        while place >= 0:
            yield place, place + len(value), kind
            place = line.find(value, place + len(value))


_MAX_REPEATED_VALUES: Final = 100
"""The limit of values that are searched for in the rest of their line. Each search reads the whole line."""


def _end_in_leaf(documents: Sequence[Document], start: int, end: int) -> int:
    """Return the end of a secret, but not beyond the JSON string in which it begins.

    Returns `start` if the secret begins in a document but not in a string or number. A secret that begins in
    a number may be an array of bytes, so it may go on in the numbers after it.
    """
    at = bisect_right(documents, start, key=lambda document: document.start) - 1
    if at < 0 or start >= documents[at].end:
        return end
    leaves = documents[at].leaves
    at = bisect_right(leaves, start, key=lambda leaf: leaf.start) - 1
    if at < 0 or start >= leaves[at].end:
        return start
    if not leaves[at].is_string:
        while at + 1 < len(leaves) and leaves[at + 1].start < end and not leaves[at + 1].is_string:
            at += 1
    return min(end, leaves[at].end)
