"""Finds the secrets that nobody told us in a line: by the syntax around a value, and by the shape of tokens.

docs/redaction.md tells how a line is read. Pure.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Final, TypeAlias

from service_record.redaction import encodings, ordinary_words, types
from service_record.redaction.over_lines import TRIGGER
from service_record.redaction.secrets import SecretShape, part, shapes
from service_record.redaction.syntax import (
    Document,
    Text,
    ValueSpan,
    clip_to_strings,
    find_documents,
    is_behind_words,
    prefix_end,
    quoted_parts,
)
from service_record.redaction.types import MASK_BEGIN, UnescapedText, line_end, unescape

Found: TypeAlias = tuple[int, int, str]
"""Beginning, end and kind of a secret."""

MAX_DEPTH: Final = 6
"""Texts in texts: escapes in escapes, JSON in JSON, what is encoded in what is encoded."""
_LEAST_TEXT: Final = 6
"""A shorter string holds no name with a value."""
_LONGEST_MASK: Final = 64
_LONGEST_NAME: Final = 64
_NAME_BYTES: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_QUOTES: Final = (b'"', b"'", b"`")
_PUBLIC_NAME: Final = re.compile(
    rb"(?i:(?:(?:public|pub|host|known|verification|verify"
    rb"|cache|partition|primary|foreign|sort|group|object|row|record|lock|map|index|dedup|routing|registry|idempotency)"
    rb"[ _.-]?keys?|(?:token|key)[_.-]?id)"
    rb"""(?:["'`>\]\s:=?,({-]|string|base64)*$)"""
)
"""Keys that are no secrets."""
_LEAST_REPEATED: Final = 12
"""A shorter value may stand elsewhere in its line as something else."""
_NESTED: Final = frozenset(b"([")
"""Signs in a pattern after which a `|` may not be between alternatives of the whole."""
_WORD_BEFORE: Final = re.compile(rb"[A-Za-z] \Z")
_WORD_AFTER: Final = re.compile(rb"[ \t]+(?![A-Za-z_][A-Za-z0-9_.-]*=)[^\s#|<>&;\"'}\])]")
_FAILURE: Final = re.compile(
    rb"(?i:\b(?:fail(?:ed|ure|s)?|errors?|cannot|can't|could not|couldn't|unable|invalid)\b[^:=\"']*\Z)"
)
"""Matches before a name in a message whose colon is followed by a reason."""
_LOCATION: Final = re.compile(rb"[A-Za-z0-9_./-]+:\d+(?::\d+)?[\]:]*")
_HALF_MASKED: Final = re.compile(rb"<redacted:[a-z0-9-]*>([^\s,;:.)}\]>|&<\"'`\\][^\s\"'<>]*)")
"""A value whose beginning is a known secret."""
_LABEL: Final = re.compile(rb"[A-Za-z][A-Za-z0-9_.@\[\]-]*:")
_URL: Final = re.compile(rb"[a-z][a-z0-9+.-]*://|[a-z][a-z_]{2,}=(?![=>])|[A-Za-z_][A-Za-z0-9_.-]*=\"")
"""Matches an address, and the next field of logfmt: neither is a password."""
_STRUCTURE: Final = re.compile(rb"[{\[]")


class Patterns:
    """The patterns of all shapes, compiled."""

    def __init__(self, every: Sequence[SecretShape]) -> None:
        self.names = [shape for shape in every if shape.named]
        named = b"|".join(b"(" + shape.named + b")" for shape in self.names)
        self.scanner = types.compiled(part(b"(?i:" + named + b")<<IS>>"))
        self._bare = [types.compiled(b"(?i:" + shape.named + b")$") for shape in self.names]
        self.shapes = [shape for shape in every if not shape.named]
        self._which = types.any_of(b"(?m)" + shape.pattern for shape in self.shapes)
        self._patterns = [self._which.re(number) for number in range(len(self.shapes))]
        self.trigger = _trigger(every, (TRIGGER, encodings.TRIGGER, encodings.ESCAPED))
        self.certain_trigger = _trigger((shape for shape in every if shape.is_certain), (encodings.TRIGGER,))
        self.fields = Fields(self.named)
        self.block_trigger = types.compiled(encodings.TRIGGER, groups=False)

    def matching(self, text: bytes) -> list[tuple[int, SecretShape, types.Pattern]]:
        """Return the shapes that are in a text, in their order."""
        numbers = sorted(self._which.Match(text) or ())
        return [(number, self.shapes[number], self._patterns[number]) for number in numbers]

    @lru_cache(maxsize=4096)  # noqa: B019 - there is one for the process
    def named(self, name: bytes) -> tuple[SecretShape, ...]:
        """Return the kinds of secrets that a value with this name may be."""
        if _PUBLIC_NAME.search(name):
            return ()
        return tuple(
            shape for shape, pattern in zip(self.names, self._bare, strict=True) if pattern.search(name)
        )


_FIELD: Final = re.compile(
    rb"""[A-Za-z0-9_.-]*=(?:"([^"\\\n%&#^\x1b]*)"|([A-Za-z0-9/._:+-]+))(?=[ \n]|"[ \n,}]|\Z)"""
)
_PARAMETER: Final = re.compile(rb"""[A-Za-z0-9_.-]*=([A-Za-z0-9._~-]+)(?=[& \n]|"[ \n,}]|\Z)""")
_JSON_FIELD: Final = re.compile(
    rb'"([^"\\\n]*)"[ \t]*:[ \t]*(?:"([^"\\\n]*)"|(-?[0-9][0-9.eE+-]*|true|false|null))(?=[ \t]*[,}])'
)
_MOST_REMEMBERED: Final = 4096
_MAX_FIELDS_LINE_BYTES: Final = 1 << 14
"""Each hit looks back over its line, so a longer line would take quadratic time."""


class Fields:
    """Judges fields at once: most lines that name secrets have nothing else.

    These are `name=value` between blanks, parameters of URLs, and fields of JSON without escapes. Names of
    objects come back in line after line, so the fields without a secret are remembered.
    """

    def __init__(self, named: Callable[[bytes], tuple[SecretShape, ...]]) -> None:
        self._named = named
        self._harmless: set[bytes] = set()

    def find(  # noqa: C901, PLR0911 - one syntax after the other
        self,
        text: bytes,
        line: tuple[int, int],
        hit: int,
        trigger: types.Pattern,
        known: Callable[[bytes], list[Found]],
    ) -> tuple[int, Found | None] | None:
        """Return the end of the field at a hit, and its secret; None for text in any other syntax.

        `known` finds exact secrets in decoded text.
        """
        first, end = line
        is_string = False
        if end - first > _MAX_FIELDS_LINE_BYTES:
            return None
        begin = text.find(b"{", first, end)
        if (
            0 <= begin < hit
            and text.startswith(b'"', begin + 1)
            and text.endswith(b"}", begin, end)
            and text.find(b"\\", begin, end) < 0
        ):
            is_inside = text.count(b'"', begin, hit) % 2 == 1
            if is_inside or text.startswith(b'"', hit):
                opening = text.rfind(b'"', begin, hit) if is_inside else hit
                field = _JSON_FIELD.match(text, opening)
                if field is not None:
                    return self._judge(text, line, field, field[1], field.lastindex or 1, trigger)
                first, is_string = opening + 1, True
        hit += text[hit] in b"?&"
        parameter = _PARAMETER.match(text, hit)
        if parameter is not None:
            head = text[max(first, hit - _LONGEST_NAME) : hit]
            start = hit - len(head) + len(head.rstrip(_NAME_BYTES))
            if start > first and text[start - 1 : start] in (b"?", b"&"):
                name = text[start : parameter.start(1) - 1]
                if ordinary_words.is_error(parameter[1]):
                    return None
                return self._judge(text, line, parameter, name, 1, trigger)
        field = _FIELD.match(text, hit)
        if field is None:
            return None
        start = max(text.rfind(b" ", first, hit) + 1, first)
        name = text[start : field.start(field.lastindex or 1)].partition(b"=")[0]
        if not name or name.strip(_NAME_BYTES):
            return None
        is_quoted = field.lastindex == 1
        if is_quoted and is_string:
            return None
        # Where a name in lower case begins a line, its value may have blanks, and is read with its line.
        is_word = is_quoted or text.find(b"=", first, start) >= 0 or is_behind_words(text, first, start)
        if not (name[:1].isupper() or (is_word and start > first)):
            return None
        if not self._named(name):
            return self._hexadecimal(field, trigger, known)
        return self._judge(text, line, field, name, field.lastindex or 1, trigger)

    def _judge(  # noqa: PLR0917 - the parts of a field
        self,
        text: bytes,
        line: tuple[int, int],
        field: re.Match[bytes],
        name: bytes,
        group: int,
        trigger: types.Pattern,
    ) -> tuple[int, Found | None] | None:
        value = field[group]
        key = name + b"=" + value
        if key in self._harmless:
            return field.end(), None
        shapes_ = self._named(name)
        if not shapes_ or value.startswith(MASK_BEGIN):
            return None
        is_quoted = text[field.start(group) - 1] == _DOUBLE_QUOTE or field.re is _JSON_FIELD
        for shape in shapes_:
            if _is_secret(shape, value, is_quoted=is_quoted):
                is_alone = len(value) < _LEAST_REPEATED or text.count(value, *line) == 1
                return (field.end(), (*field.span(group), shape.kind)) if is_alone else None
        # A credential of systemd has its name before a colon, and a shape of its own.
        if b":" in value or trigger.search(value) is not None:
            return None
        if len(self._harmless) >= _MOST_REMEMBERED:
            self._harmless.clear()
        self._harmless.add(key)
        return field.end(), None

    @staticmethod
    def _hexadecimal(
        field: re.Match[bytes], trigger: types.Pattern, known: Callable[[bytes], list[Found]]
    ) -> tuple[int, None] | None:
        """Return the end of a field in hexadecimal, as audit(8) writes it, that holds no secret."""
        plain = encodings.from_hexadecimal(field[2]) if field.lastindex == _BARE else None
        if plain is None or trigger.search(plain) is not None or known(plain):
            return None
        return field.end(), None


_BARE: Final = 2
"""The group of a value without quotes."""
_DOUBLE_QUOTE: Final = ord('"')


@cache
def patterns() -> Patterns:
    return Patterns(shapes())


class LineReader:
    """Reads one line, and what is encoded in it, and collects the secrets by their places in the line."""

    def __init__(
        self,
        known: Callable[[bytes], list[Found]],
        decode: Callable[[bytes, int], list[Found]],
        *,
        certain: bool = False,
    ) -> None:
        """`known` finds the exact secrets in a text; `decode` all secrets in a text that stood encoded in a
        line, at a depth of encodings.
        """
        self._known = known
        self._secrets_in = decode
        self._certain = certain
        self._patterns = patterns()

    def secrets(self, line: bytes, depth: int = 0) -> list[Found]:
        """Return the secrets of a line, or of a text of several, in any order. They may overlap."""
        found: list[Found] = []
        texts: list[tuple[UnescapedText, Sequence[Document]]] = []
        self._explore(UnescapedText(line, [], []), depth, found, texts)
        self._find_shapes(texts, found)
        return found

    def _explore(  # noqa: C901, PLR0912 - from top to bottom this is how a text is read
        self,
        view: UnescapedText,
        depth: int,
        found: list[Found],
        texts: list[tuple[UnescapedText, Sequence[Document]]],
    ) -> None:
        """Take a text apart: into lines, the strings of JSON, and what its escapes stand for."""
        text = view.text
        if b"\n" in text:
            if depth < MAX_DEPTH:
                self._decode_lines(view, depth, found)
            position = 0
            for line in text.split(b"\n"):
                if len(line) >= _LEAST_TEXT:
                    self._explore(view.part(position, position + len(line)), depth, found, texts)
                position += len(line) + 1
            return
        start = prefix_end(text)
        if start:
            view = view.part(start, len(text))
            text = view.text
        trigger = self._patterns.certain_trigger if self._certain else self._patterns.trigger
        if depth and trigger.search(text) is None:
            return
        documents = find_documents(text, 0)
        texts.append((view, documents))
        if documents:
            for document in documents:
                self._read_document(view, document, depth, found, texts)
            text = _without(text, documents)
            if not text.strip(b"\x02 \t\r,"):
                return
            view = UnescapedText(text, [0], [0], view)
        if not self._certain:
            for start, end, kind in self._assigned(text):
                for first, last in _with_repeats(text, ((start, end),)):
                    found.append((view.place(first), view.place(last), kind))
        if depth < MAX_DEPTH:
            self._decode(view, depth, found)
            for part_ in quoted_parts(view):
                if b"\n" in part_.text:
                    for first, last, kind in self._secrets_in(part_.text, depth + 1):
                        found.append((part_.place(first), part_.place(last), kind))
                else:
                    self._explore(part_, depth + 1, found, texts)
            command = encodings.audit_command(view)
            if command is not None:
                self._explore(command, depth + 1, found, texts)
            finer = unescape(view)
            if finer is not None:
                self._find_known(finer, found)
                self._explore(finer, depth + 1, found, texts)

    def _read_document(
        self,
        view: UnescapedText,
        document: Document,
        depth: int,
        found: list[Found],
        texts: list[tuple[UnescapedText, Sequence[Document]]],
    ) -> None:
        text = view.text
        trigger = self._patterns.certain_trigger if self._certain else self._patterns.trigger
        hits = [match.span() for match in trigger.finditer(text, document.start, document.end)]
        hits.reverse()
        for leaf in document.leaves:
            while hits and hits[-1][1] <= leaf.start:
                hits.pop()
            if leaf.is_key or leaf.start == leaf.end:
                continue
            is_own = leaf.is_string or text[: leaf.start].rstrip().endswith(b":")
            if leaf.name and is_own and not self._certain:
                value = text[leaf.start : leaf.end]
                shapes_ = (
                    shape
                    for shape in self._patterns.named(leaf.name)
                    if _is_secret(shape, value, is_quoted=True) and not value.startswith(MASK_BEGIN)
                )
                if (shape := next(shapes_, None)) is not None:
                    found.append((view.place(leaf.start), view.place(leaf.end), shape.kind))
                    continue
            if leaf.is_string and leaf.end - leaf.start >= _LEAST_TEXT and depth < MAX_DEPTH:
                inside = view.part(leaf.start, leaf.end)
                if hits and hits[-1][0] <= leaf.end:
                    plain = unescape(inside, is_quoted=True)
                    if plain is not None:
                        self._find_known(plain, found)
                    self._explore(plain or inside, depth + 1, found, texts)

    def _assigned(self, text: bytes) -> Iterator[Found]:
        """Yield the values behind names in a text that is no JSON."""
        quotes = Text(text)
        position = 0
        while (match := self._patterns.scanner.search(text, position)) is not None:
            name, behind = match.span(match.lastindex)
            start = len(text) - len(text[match.end() :].lstrip(b" \t"))
            position = max(start, position + 1)
            head = text[max(0, name - _LONGEST_NAME) : name]
            name -= len(head) - len(head.rstrip(_NAME_BYTES))
            if _is_in_mask(text, start):
                continue
            # The path of a file, and most often what is wrong with it.
            is_path = text[name - 1 : name] == b"/" and b":" in text[behind:start]
            for shape in self._patterns.named(text[name:behind]):
                value = quotes.value(name, start, has_blanks=shape.check is ordinary_words.is_password)
                rest = _HALF_MASKED.match(text, value.start, value.end)
                if rest is not None:
                    yield *rest.span(1), shape.kind
                    break
                if is_path and not ordinary_words.is_stated(text[value.start : value.end]):
                    continue
                if self._is_value(shape, text, name, value):
                    yield value.start, value.end, shape.kind
                    position = max(position, value.end)
                    break

    def _is_value(  # noqa: PLR0911 - one reason for each
        self, shape: SecretShape, text: bytes, name: int, value: ValueSpan
    ) -> bool:
        secret = text[value.start : value.end]
        if value.end - value.start < shape.least or secret.startswith(MASK_BEGIN):
            return False
        if shape.kind == "token" and _PUBLIC_NAME.search(text[max(0, name - 16) : value.start]):
            return False
        if not _is_secret(shape, secret, is_quoted=value.is_quoted):
            return False
        is_colon = b":" in text[max(0, value.start - _LONGEST_NAME) : value.start].rstrip(b" \t")[-3:]
        if value.is_quoted:
            is_message = is_colon and _WORD_BEFORE.search(text, max(0, name - _LONGEST_NAME), name)
            return not (is_message and ordinary_words.is_sentence(secret))
        if not is_colon:
            return not ordinary_words.is_error(secret)
        if _URL.match(secret) or _LABEL.fullmatch(secret) or ordinary_words.is_sentence(secret):
            return False
        if value.is_line:
            return True
        if _FAILURE.search(text, max(0, name - _LONGEST_NAME), name):
            is_log = secret.startswith(b"{") or _LOCATION.fullmatch(secret) is not None
            return not is_log and ordinary_words.is_stated(secret)
        # A message: what follows a colon is more often prose than a value.
        is_joined = text[value.start - 1 : value.start] == b":"
        is_field = is_joined and _STRUCTURE.search(text, 0, name) is not None
        is_prose = is_joined or _WORD_AFTER.match(text, value.end) is not None
        return is_field or not is_prose or ordinary_words.is_stated(secret)

    def _find_known(self, view: UnescapedText, found: list[Found]) -> None:
        """Find known secrets in a text whose escapes are no form that is searched for in the line."""
        found.extend(
            (view.place(start), view.place(end), kind) for start, end, kind in self._known(view.text)
        )

    def _decode(self, view: UnescapedText, depth: int, found: list[Found]) -> None:
        """Look into what is encoded, and mask all of it where something is found."""
        if self._patterns.block_trigger.search(view.text) is None:
            return
        for start, end, plain in encodings.decoded_runs(view.text):
            for _, _, kind in self._secrets_in(plain, depth + 1)[:1]:
                found.append((view.place(start), view.place(end), kind))

    def _decode_lines(self, view: UnescapedText, depth: int, found: list[Found]) -> None:
        """Look into what several lines encode together."""
        text = view.text
        position = 0
        trigger = self._patterns.block_trigger
        while (match := trigger.search(text, position)) is not None:
            start = text.rfind(b"\n", 0, match.start()) + 1
            block = encodings.block_around(text, start, min(start, position))
            position = block.end if block is not None else line_end(text, start) + 1
            if block is not None:
                for first, last, kind in self._secrets_in(block.plain, depth + 1):
                    found.extend((view.place(a), view.place(b), kind) for a, b in block.spans_of(first, last))
        for end in encodings.KEY_END.finditer(text):
            start = text.rfind(b"\n", 0, end.start()) + 1
            if text.rfind(b"-----BEGIN ", 0, start) < 0:
                spans = encodings.key_lines_before(text, start, 0)
                found.extend((view.place(a), view.place(b), "private-key") for a, b in spans)

    def _find_shapes(
        self, texts: Sequence[tuple[UnescapedText, Sequence[Document]]], found: list[Found]
    ) -> None:
        together = b"\n".join(view.text for view, _ in texts)
        for _, shape, pattern in self._patterns.matching(together):
            if self._certain and not shape.is_certain:
                continue
            for view, documents in texts:
                values = _with_repeats(view.text, _matches(shape, pattern, view.text))
                for start, end in values:
                    last = _end_in_leaf(documents, start, end)
                    if start < last:
                        found.append((view.place(start), view.place(last), shape.kind))


def _is_secret(shape: SecretShape, value: bytes, *, is_quoted: bool) -> bool:
    check = shape.check
    if is_quoted and check is ordinary_words.is_password:
        check = ordinary_words.is_value  # prose is not in quotes
    return len(value) >= shape.least and check(value)


_IN_QUOTES: Final[Mapping[Callable[[bytes], bool], Callable[[bytes], bool]]] = {
    ordinary_words.is_password: ordinary_words.is_value,
    ordinary_words.is_flag_value: ordinary_words.is_quoted_flag_value,
}


def _matches(shape: SecretShape, pattern: types.Pattern, text: bytes) -> Iterator[tuple[int, int]]:
    """Yield the groups of a shape that are secret."""
    quotes: Text | None = None
    for match in pattern.finditer(text):
        if text.startswith(MASK_BEGIN, match.start()) and shape.kind != "private-key":
            continue  # a mask looks like an element of XML
        for group in range(1, pattern.groups + 1):
            start, end = match.span(group)
            if start < 0:
                continue
            check = shape.check
            if shape.is_word:
                quotes = quotes or Text(text)
                value = quotes.word(start - (text[start - 1 : start] in _QUOTES))
                start, end = value.start, max(value.end, value.start)
            if text[start - 1 : start] in _QUOTES:  # prose is not in quotes
                check = _IN_QUOTES.get(check, check)
            if end - start < shape.least or _is_in_mask(text, start):
                continue
            if shape.kind == "token" and _PUBLIC_NAME.search(text[max(0, start - _LONGEST_NAME) : start]):
                continue
            if check(text[start:end]):
                yield start, end


def _with_repeats(line: bytes, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield each value and the other places of the same in its line, which have no name before them."""
    values: set[bytes] = set()
    for start, end in spans:
        value = line[start:end]
        if len(value) < _LEAST_REPEATED or value in values or not ordinary_words.is_token(value):
            yield start, end
            continue
        values.add(value)
        place = line.find(value)
        while place >= 0:
            yield place, place + len(value)
            place = line.find(value, place + len(value))


def _end_in_leaf(documents: Sequence[Document], start: int, end: int) -> int:
    """Return where a secret ends that begins in a document: in the same string at the latest."""
    for document in documents:
        if document.start <= start < document.end:
            leaf = next((leaf for leaf in document.leaves if leaf.start <= start < leaf.end), None)
            return min(end, leaf.end) if leaf is not None else start
    return end


def _without(text: bytes, documents: Sequence[Document]) -> bytes:
    """Return a text of the same length with something neutral in the place of JSON."""
    pieces: list[bytes] = []
    position = 0
    for document in documents:
        pieces += [text[position : document.start], b"\x02" * (document.end - document.start)]
        position = document.end
    return b"".join((*pieces, text[position:]))


def _is_in_mask(line: bytes, position: int) -> bool:
    start = max(0, position - _LONGEST_MASK)
    return line.rfind(MASK_BEGIN, start, position) > line.rfind(b">", start, position)


def _trigger(every: Iterable[SecretShape], others: Iterable[bytes]) -> types.Pattern:
    """Return one pattern of all triggers, in order, so that RE2 finds what neighbours have in common."""
    triggers = chain((shape.trigger for shape in every), others)
    alternatives = {each for trigger in triggers for each in _plain(trigger.replace(rb"[ \t]", _SPACE))}
    return types.compiled(b"(?m)" + b"|".join(sorted(alternatives)), groups=False)


_SPACE: Final = rb"(?:[ \t+]|%20|\\+(?:u00|x)20)"
"""A blank in a trigger may be escaped."""


def _plain(trigger: bytes) -> list[bytes]:
    """Return the alternatives of a trigger that has nothing else; any other as a whole."""
    return [b"(?:" + trigger + b")"] if _NESTED & set(trigger) else trigger.split(b"|")


# --- Replacing ---

_NUMBER: Final = b"0123456789.eE+-"


def placed(line: bytes, found: Iterable[Found]) -> list[Found]:
    """Return what to mask in a line, in its order and without damage to JSON.

    Overlapping secrets are one, of the kind of the first.
    """
    start = prefix_end(line)
    documents = find_documents(line, start)
    parts = sorted(
        (
            (first, last, kind)
            for begin, end, kind in found
            for first, last in clip_to_strings(line, documents, begin, end)
        ),
        key=lambda each: (each[0], -each[1]),
    )
    in_order: list[Found] = []
    for first, last, kind in parts:
        if in_order and first < in_order[-1][1]:
            in_order[-1] = (in_order[-1][0], max(last, in_order[-1][1]), in_order[-1][2])
        elif first < last:
            in_order.append((first, last, kind))
    return in_order


def number_quote(line: bytes, start: int, end: int) -> bytes:
    """Return the quote to put around a mask in the place of a number in JSON: the one around its name."""
    if line[start:end].strip(_NUMBER) and line[start:end] not in (b"true", b"false", b"null"):
        return b""
    head = line[max(0, start - 64) : start].rstrip(b" \t")
    if head.endswith(b'":'):
        name = head[:-2]
        return name[len(name.rstrip(b"\\")) :] + b'"'
    is_item = head.endswith((b"[", b",")) and line[end : end + 1] in (b",", b"]")
    return b'"' if is_item else b""
