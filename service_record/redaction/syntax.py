"""Find where values begin and end in the syntaxes of logs and configuration files. Pure.

It reads JSON, quoted words of shells and logfmt, lines of YAML and INI, lists, and single words. Patterns
elsewhere find where a value begins; only this module decides where it ends.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from service_record.redaction import types
from service_record.redaction.encodings import unescape
from service_record.redaction.types import UnescapedText, mask_end

_PREFIX: Final = re.compile(
    rb"(?:<\d{1,3}>)?(?:"
    # syslog of RFC 5424
    rb"1 \d{4}-\d\d-\d\dT\S+ \S+ \S+ \S+ \S+ (?:-|\[[^\]]*\]) "
    # syslog and journalctl: time, host, program
    rb"|(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*) "
    rb"(?!(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR) )[A-Za-z0-9_.:-]+ [^\s:\[\]=\"'{]+(?:\[\d+\])?: "
    # container logs (CRI)
    rb"|\d{4}-\d\d-\d\dT\S+ (?:stdout|stderr) [FP] "
    # klog
    rb"|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [A-Za-z0-9_.-]+:\d+\] "
    # cloud-init and other Python programs
    rb"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S* - \S+\[[A-Z]+\]: "
    # only a time; the kernel's time in seconds
    rb"|\[? *\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*\]? (?:[+-]\d{4} )?"
    rb"(?:(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR)[: ] ?)?"
    rb"|\[ *\d+\.\d+\] "
    # the trace of set -x; journalctl -o export
    rb"|\++ |MESSAGE=)"
)
_MAX_PREFIXES: Final = 4


def prefix_end(text: bytes, start: int = 0) -> int:
    """Return the offset of the message after up to four logger prefixes."""
    for _ in range(_MAX_PREFIXES):
        match = _PREFIX.match(text, start)
        if match is None:
            break
        start = match.end()
    return start


# --- JSON ---


@dataclass(slots=True)
class Leaf:
    """A key or a scalar of JSON. The span of a string does not include its quotes."""

    start: int
    end: int
    is_string: bool
    name: bytes = b""
    """The key of the value, or of the array around it in the singular; empty for a key."""
    is_key: bool = False
    is_item: bool = False
    """True for an item of an array."""


@dataclass(slots=True)
class _OpenContainer:
    name: bytes
    """The name of the items of an array."""
    outer: bytes = b""
    """The key of an object or its name as an item, for a `value` in it."""
    label: bytes = b""
    value: Leaf | None = None

    def add(self, key: bytes, leaf: Leaf, text: bytes | None) -> None:
        """Remember a leaf that is the name of another one, or that has such a name."""
        if key in _LABELLED:
            self.value = leaf
            leaf.name = self.outer or key
        elif self.value is None and key.endswith(_LABELLED[1]):
            self.value = leaf
        elif text is not None and (key in _LABELS or (not self.label and key.endswith(_LABELS[2:]))):
            self.label = text


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document in a text, or the part of one that a line contains."""

    start: int
    end: int
    leaves: Sequence[Leaf]
    is_complete: bool
    """False if the text ends too early, or is not valid JSON after `end`."""


_DOCUMENT: Final = re.compile(rb'[\[{][ \t]*["{\[]|\[[ \t]*(?:-?[0-9][0-9.eE+-]*|true|false|null)[ \t]*,')
_INDEX: Final = re.compile(rb'(?<=[A-Za-z0-9_)\]])\["[^"\\]*"\]')
"""Matches an index in source code: `headers["x-secret-key"]`."""
_FIELD: Final = re.compile(rb'[ \t]*"[^"\\]*(?:\\.[^"\\]*)*"(?:[ \t]*:|[ \t\r]*\Z)', re.DOTALL)
_TOKEN: Final = re.compile(
    rb'[ \t\r\n]*(?:"([^"\\]*(?:\\.[^"\\]*)*)"([ \t\r\n]*:)?|([{\[])|([}\]])|(,)'
    rb"|(-?[0-9][0-9.eE+-]*|true|false|null|NaN|-?Infinity))",
    re.DOTALL,
)
_STRING, _COLON, _OPEN, _CLOSE, _COMMA, _SCALAR = range(1, 7)
_NAME_BEFORE: Final = re.compile(rb"([A-Za-z0-9_.-]+)[\"']?[ \t]*[:=][ \t]*\Z")
"""Matches the name before a list of YAML or TOML whose syntax is that of JSON."""
_MAX_NAME_BEFORE_BYTES: Final = 80
_LABELS: Final = (b"name", b"key", b"Name", b"Key")
_LABELLED: Final = (b"value", b"Value")
"""The keys of a name and of its value. Those with a capital may end a key: `{"ParameterKey": …}`."""


def _item_name(name: bytes) -> bytes:
    """Return the name of the items of a list: `token` for `tokens`.

    `secrets` stays: such lists mostly hold the names of Secrets.
    """
    is_plural = name.endswith(b"s") and not name.endswith(b"ss") and not name.lower().endswith(b"secrets")
    return name[:-1] if is_plural else name


@lru_cache(maxsize=16)
def find_documents(text: bytes) -> list[Document]:
    """Return the JSON documents in a line, in order."""
    documents: list[Document] = []
    position = 0
    if _FIELD.match(text) or text.startswith((b"}", b"]")):
        document = _read_document(text, 0)
        if document.leaves:
            documents.append(document)
        position = document.end
    while (begin := _DOCUMENT.search(text, position)) is not None:
        if _INDEX.match(text, begin.start()):
            position = begin.end()
            continue
        document = _read_document(text, begin.start(), is_whole=True)
        if document.leaves:
            documents.append(document)
        # Without leaves there are only brackets and commas up to the end. Reading from an inner bracket ends
        # in the same way, so continue after all of them: otherwise `[[[[...` would take quadratic time.
        position = document.end
    return documents


def _read_document(  # noqa: C901 - one branch for each kind of token
    text: bytes, start: int, *, is_whole: bool = False
) -> Document:
    """Read tokens to the end of the document or to the first invalid one.

    `is_whole`: the document begins with a bracket, and ends with the matching one. Otherwise it is the rest
    of a document that began in an earlier line.
    """
    leaves: list[Leaf] = []
    open_: list[_OpenContainer] = []
    current = _OpenContainer(b"")
    name = b""
    if is_whole and text.startswith(b"[", start):
        before = _NAME_BEFORE.search(text[max(0, start - _MAX_NAME_BEFORE_BYTES) : start])
        name = before[1] if before is not None else b""
    position = end = start
    while (token := _TOKEN.match(text, position)) is not None:
        position = token.end()
        kind = token.lastindex
        if kind == _COLON:
            name = token[_STRING]
            leaves.append(Leaf(*token.span(_STRING), is_string=True, is_key=True))
            continue
        if kind in (_STRING, _SCALAR):
            leaf = Leaf(
                *token.span(kind), is_string=kind == _STRING, name=name or current.name, is_item=not name
            )
            leaves.append(leaf)
            current.add(name, leaf, token[_STRING])
        elif kind == _OPEN:
            open_.append(current)
            inner = _item_name(name) if name else current.name
            is_array = token[_OPEN] == b"["
            current = _OpenContainer(inner if is_array else b"", b"" if is_array else name or inner)
        elif kind == _CLOSE:
            if current.label and current.value is not None:
                current.value.name = current.label
            if not open_ and is_whole:
                break
            current = open_.pop() if open_ else _OpenContainer(b"")
        name = b""
        end = position
        if is_whole and not open_:
            break
    if current.label and current.value is not None:
        current.value.name = current.label
    if position == len(text):
        end = position  # the line ends after a key
    leaves = [leaf for leaf in leaves if leaf.end <= end]
    is_complete = not open_ and not name and (is_whole or not text[end:].strip())
    return Document(start, end, leaves, is_complete)


_JSON_ESCAPE: Final = re.compile(rb"\\(?:u[0-9A-Fa-f]{4}|.)", re.DOTALL)


def clip_to_strings(
    text: bytes, documents: Sequence[Document], start: int, end: int
) -> list[tuple[int, int]]:
    """Return the parts of a span that may be masked without making the complete JSON around it invalid.

    In a document these are parts of strings, with whole escapes and without the quotes, and whole numbers.
    """
    parts: list[tuple[int, int]] = []
    position = start
    at = max(0, bisect_right(documents, start, key=lambda document: document.start) - 1)
    for document in islice(documents, at, None):
        if document.start >= end:
            break
        if document.end <= position:
            continue
        if position < document.start:
            parts.append((position, document.start))
        index = max(0, bisect_right(document.leaves, position, key=lambda leaf: leaf.start) - 1)
        for leaf in document.leaves[index:]:
            if leaf.start >= end:
                break
            first, last = max(leaf.start, position), min(leaf.end, end)
            if first < last:
                parts.append(
                    _extend_to_escapes(text, leaf, first, last) if leaf.is_string else (leaf.start, leaf.end)
                )
        position = document.end
    if position < end:
        parts.append((position, end))
    return parts


def _extend_to_escapes(text: bytes, leaf: Leaf, first: int, last: int) -> tuple[int, int]:
    if text.find(b"\\", leaf.start, last) >= 0:
        for escape in _JSON_ESCAPE.finditer(text, leaf.start, leaf.end):
            if escape.start() >= last:
                break
            if escape.start() < first < escape.end():
                first = escape.start()
            last = max(last, escape.end())
    return first, last


# --- Values in other text ---

_QUOTED: Final = re.compile(
    # Each alternative begins with its quote, so that `re` skips other text fast.
    rb"""\"(?<![A-Za-z0-9\\"']")[^"\\\n]*(?:\\.[^"\\\n]*)*\""""
    rb"""|'(?<![A-Za-z0-9\\"']')[^'\n]*(?:'(?:\\'|"'")?'[^'\n]*)*'""",
    re.DOTALL,
)
_DOUBLE_QUOTED: Final = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_SHELL_QUOTED: Final = re.compile(rb"""'([^']*(?:'(?:\\'|"'")?'[^']*){0,64})'""")
_BACK_QUOTED: Final = re.compile(rb"`([^`\n]+)`(?=[\s)}\]]|[,;:.]\s|\Z)")
_IN_QUOTES: Final = rb"([^'\\]*(?:\\.[^'\\]*)*)'"
_ESCAPE_QUOTED: Final = re.compile(b"'" + _IN_QUOTES, re.DOTALL)
_ESCAPE_QUOTED_PART: Final = re.compile(rb"'(?<![A-Za-z0-9\\\"'$]')" + _IN_QUOTES, re.DOTALL)
_AFTER_QUOTE: Final = frozenset(b" \t\r\n\0,;:.)}]>|&<\\@%/+?!#*=")
_LINE_HEAD: Final = re.compile(
    rb"[ \t]*(?:[-?>*|+#][ \t]+)*"
    rb"(?:(?:export|set|setenv|declare(?:[ \t]+-\w+)*|env)[ \t]+)?[\"']?[A-Za-z0-9_.$-]*\Z"
)
_NEXT_FIELD: Final = re.compile(
    rb"[ \t](?:[\"']?[A-Za-z_][A-Za-z0-9_.-]*[\"']?[=:]|(?:#|//|&&|\|\||[|<>;])(?=[\s\0\"']|\Z))"
)
_LIST_ITEM: Final = re.compile(rb"(?:[,;][A-Za-z]|[&|][a-z])[a-z_]{3,}=(?![=>])")
_LISTS: Final = {
    b",": re.compile(rb",[ \t]*[A-Za-z_][A-Za-z0-9_.-]*[=:]"),
    b";": re.compile(rb";"),
    b"&": re.compile(rb"[&#]"),
    b"?": re.compile(rb"[&#]"),
}
_DOTTED_ITEM: Final = re.compile(
    _LIST_ITEM.pattern + rb"|,[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)+=(?![=>])"
)
"""Also matches a name with dots, after a name with dots: `auth.password=x,auth.user=y`."""
_ESCAPED_BREAK: Final = re.compile(rb"""\\+(?:[nrt]|u00|x[0-2]|["'])""")
_ESCAPED_QUOTE: Final = re.compile(rb"""\\+(?:u00|x[0-2]|["'])""")
_QUOTES: Final = (b'"', b"'", b"`")
_INNER_BREAK: Final = re.compile(rb"(?<!\\)" + _ESCAPED_BREAK.pattern)
"""Matches inside a value. Without the lookbehind, a long run of backslashes would take quadratic time."""
_STRUCTURE: Final = re.compile(rb"[{\[]")
_BLANK: Final = re.compile(rb"[ \t]")
_WORD_END: Final = re.compile(rb"[\s\0]")
_WORD_SIGN: Final = re.compile(rb"""[\s\0"'\\]""")
_MAX_PIECES: Final = 16
"""After this number of quoted parts and escapes, a word ends at the next blank."""
_MAX_HEAD_BYTES: Final = 1 << 12
_COUNTED_BYTES: Final = 1 << 8
_NOWHERE: Final = 1 << 62
_LITERAL: Final = re.compile(rb"(?:\$|[bBrRuUfFN]{1,2})(?=[\"'])")
"""Matches the prefix of a string literal in Python (`rb"`), a shell (`$'`) or SQL (`N'`)."""
_MAX_NAME_BYTES: Final = 64
_NAME_BYTES: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-="
_OPENING: Final = {b")": b"(", b"]": b"[", b"}": b"{", b">": b"<"}


_PARAMETER: Final = re.compile(rb"[?&][A-Za-z0-9_.\[\]-]+=([^\s&\"'<>#]*)")
_ESCAPED_PART: Final = re.compile(
    rb"\bdata:[A-Za-z0-9/.+;=-]*,([^\s\"'<>]*)|/([^\s/?&\"'<>#%]*%[^\s/?&\"'<>#]*)"
)
"""Matches the data of a data URL, or one percent-encoded segment of a URL's path.

A pattern that requires `%` in the data would read to their end again from each further `data:`.
"""
_JOINED_QUOTES: Final = re.compile(rb"""'(?:\\'|"'")?'""")
"""Matches a quote within single quotes, as shells, YAML and SQL write it."""
_ANSI_QUOTED: Final = re.compile(rb"\$'" + _IN_QUOTES, re.DOTALL)
_MIN_PART_BYTES: Final = 8


def quoted_parts(view: UnescapedText) -> Iterator[UnescapedText]:  # noqa: C901, PLR0912 - one loop for each syntax
    """Yield the unescaped quoted texts, and the unescaped parameters, path segments and data of URLs.

    A quoted word without escapes is not among them: no other text is in it.
    """
    text = view.text
    if b"'" in text or b'"' in text:
        for match in _ANSI_QUOTED.finditer(text):
            yield _unescaped_part(view, *match.span(1))
        for match in _QUOTED.finditer(text):
            start, end = match.start() + 1, match.end() - 1
            if end - start < _MIN_PART_BYTES:
                continue
            if text[match.start()] == _DOUBLE_QUOTE:
                if text.find(b"\\", start, end) >= 0 or text.find(b" ", start, end) >= 0:
                    yield _unescaped_part(view, start, end)
            elif text[start - 2 : start - 1] != b"$":
                part = view.part(start, end)
                joined = list(_JOINED_QUOTES.finditer(part.text))
                if joined:
                    yield part.replace_spans([each.span() for each in joined], b"'")
                elif b" " in part.text:
                    yield part
    if b"\\'" in text:
        for match in _ESCAPE_QUOTED_PART.finditer(text):
            if text.find(b"\\'", *match.span(1)) >= 0:
                yield _unescaped_part(view, *match.span(1))
    if b"%" in text:
        for match in _ESCAPED_PART.finditer(text):
            part = view.part(*match.span(match.lastindex or 0))
            if b"%" in part.text:
                yield unescape(part) or part
    if b"=" in text and (b"?" in text or b"&" in text):
        for match in _PARAMETER.finditer(text):
            part = view.part(*match.span(1))
            if b"%" not in part.text and b"+" not in part.text:
                continue
            plain = UnescapedText(part.text.replace(b"+", b" "), [0], [0], part)
            yield unescape(plain) or plain


_DOUBLE_QUOTE: Final = ord('"')


class ValuePlace(Enum):
    """How sure it is that the text in a place is the value of a name."""

    SURE = 1
    """Only a value can be here, as after `=`."""
    MESSAGE = 2
    """A value or a sentence."""
    PROSE = 3
    """Other words are more likely than a value."""


NamedValue: TypeAlias = tuple[bytes, int, int, ValuePlace]
"""A name, the span of its value, and the place of the value."""


def find_named_values(text: bytes) -> Iterator[NamedValue]:
    """Yield the values whose names are not directly before them: in XML, SQL, lists, tables and sentences."""
    if b"</" in text or b"/>" in text:
        yield from _xml_values(text)
    if b"(" in text:
        yield from _sql_values(text)
    if b"[" in text:
        yield from _list_values(text)
    if text.startswith(b"|"):
        yield from _table_values(text)
    if b" " in text:
        yield from _prose_values(text)


_XML_TAG: Final = re.compile(
    rb"<([A-Za-z_][A-Za-z0-9_:.-]*)((?:\s+[A-Za-z_:][A-Za-z0-9_:.-]*=(?:\"[^\"<]*\"|'[^'<]*'))*)\s*/?>"
)
_XML_ATTRIBUTE: Final = re.compile(rb"([A-Za-z0-9_.-]+)=(?:\"([^\"]*)\"|'([^']*)')")
_XML_TEXT: Final = re.compile(rb"<!\[CDATA\[([^\n]{0,256}?)\]\]></|([^<>\n]*)</")
_XML_NAMES: Final = frozenset({b"name", b"key"})
_XML_VALUES: Final = frozenset({b"value", b"string", b"data"})


def _xml_values(text: bytes) -> Iterator[NamedValue]:
    """Yield the name and the span of each text and value of XML elements.

    The name is an attribute `name` or `key`. For a `value` or `string` it may also be this attribute of the
    element around it, the text of such an element before it, or the element around it. Otherwise it is the
    element's own.
    """
    label = outer = b""
    for tag in _XML_TAG.finditer(text):
        if mask_end(text, tag.start()):
            continue  # a mask looks like an element
        element = tag[1].rpartition(b":")[2]
        name = b""
        value: tuple[int, int] | None = None
        for attribute in _XML_ATTRIBUTE.finditer(text, *tag.span(2)) if tag[2] else ():
            span = attribute.span(attribute.lastindex or 0)
            if attribute[1].lower() in _XML_NAMES:
                name = text[slice(*span)]
            elif attribute[1].lower() == b"value":
                value = span
        if value is not None:
            yield name or element, *value, ValuePlace.MESSAGE
        content = _XML_TEXT.match(text, tag.end())
        if content is None:
            if not tag[0].endswith(b"/>"):
                outer = element  # <Password><Value>
                label = name or label  # of the `value` below: <property name="password"><value>
            continue
        start, end = content.span(content.lastindex or 0)
        span = end - len(text[start:end].lstrip()), start + len(text[start:end].rstrip())
        if element.lower() in _XML_NAMES:
            label = text[slice(*span)]
            continue
        name = name or ((label or outer) if element.lower() in _XML_VALUES else b"") or element
        yield name, *span, ValuePlace.MESSAGE
        label = b""


def _unescaped_part(view: UnescapedText, start: int, end: int) -> UnescapedText:
    part = view.part(start, end)
    return unescape(part, is_quoted=True) or part


_FLOW_LIST: Final = re.compile(rb"[:=][ \t]*\[([^\[\]{}\n]+)\](?=[ \t\r]*(?:[,;})#]|\Z))")
_FLOW_NAME: Final = re.compile(rb"[A-Za-z0-9_.-]+\Z")
_FLOW_ITEM: Final = re.compile(rb"[ \t]*(?:\"([^\"]*)\"|'([^']*)'|([^\s,\"']+))[ \t]*(?:,|\Z)")
_WORD_ITEM: Final = 3


def _list_values(text: bytes) -> Iterator[NamedValue]:
    """Yield the name of the items and the span of each item of lists in one line, as in YAML and Python."""
    end = 0
    for each in _FLOW_LIST.finditer(text):
        # A pattern that begins with the name would try each letter of the line.
        before = text[end : each.start()].rstrip(b" \t")
        before = before[:-1] if before.endswith((b'"', b"'")) else before
        name = _FLOW_NAME.search(before[-_MAX_NAME_BYTES:])
        position, end = each.span(1)
        while name is not None and (item := _FLOW_ITEM.match(text, position, end)) is not None:
            place = ValuePlace.PROSE if item[_WORD_ITEM] else ValuePlace.MESSAGE
            yield _item_name(name[0]), *item.span(item.lastindex or 0), place
            position = item.end()


_TABLE_ROW: Final = re.compile(rb"\|[ \t]+([A-Za-z0-9_.-]{1,64})[ \t]+\|[ \t]+([^|\n]*[^|\s])[ \t]*\|\s*")


def _table_values(text: bytes) -> Iterator[NamedValue]:
    """Yield the name and the span of the value in a row of a table of two columns, as openstack(1) prints."""
    row = _TABLE_ROW.fullmatch(text)
    if row is not None:
        yield row[1], *row.span(2), ValuePlace.MESSAGE


_ASSIGN: Final = rb"(?:(?:re)?set(?:ting)?|(?:chang|updat|replac)(?:ed|ing)|assign(?:ed|ing))"
_KIND_OF_NAME: Final = rb"(?:(?:the|value|of|option|variable|property|parameter|attribute|field)[ \t]+){0,3}"
_NAME: Final = rb"[\"'`]?([A-Za-z_][A-Za-z0-9_.-]{1,63})[\"'`]?[ \t]+"
_ASSIGNMENT: Final = re.compile(
    rb"(?i:\b"
    + _ASSIGN
    + rb"[ \t]+(?:"
    + _KIND_OF_NAME
    + _NAME
    + rb")??(?:from[ \t]+[^\s]+[ \t]+)?to[ \t:]+)"
)
_NAME_BEFORE_VERB: Final = re.compile(_NAME + rb"(?:(?:is|was|has[ \t]been)[ \t]+)?(?:now[ \t]+)?\Z")
_MAX_BEFORE_VERB_BYTES: Final = 96
_CLOSING_MARKS: Final = rb"[.,;:)\]}]*[ \t\r]*(?:[\"'`<\\]|$)"
_LAST_WORD: Final = re.compile(
    rb"(?:\"([^\"\n]+)\"|'([^'\n]+)'|`([^`\n]+)`|([^\s\"'`<>\\]*[^\s\"'`<>\\.,;:)\]}]))" + _CLOSING_MARKS
)
"""Matches a value that ends a sentence."""


def _prose_values(text: bytes) -> Iterator[NamedValue]:
    """Yield each value that a sentence assigns (`Setting NAME to VALUE`), or that follows an identifier."""
    for assignment in _ASSIGNMENT.finditer(text) if b" to" in text else ():
        verb = assignment.start()
        before = text[max(0, verb - _MAX_BEFORE_VERB_BYTES) : verb]
        name = assignment if assignment[1] else _NAME_BEFORE_VERB.search(before)
        value = _LAST_WORD.match(text, assignment.end())
        if name is not None and value is not None:
            yield name[1], *value.span(value.lastindex or 0), ValuePlace.MESSAGE
    for quoted in _QUOTED_AFTER_NAME.finditer(text) if b'"' in text or b"'" in text else ():
        yield quoted[1], *quoted.span(quoted.lastindex or 0), ValuePlace.MESSAGE
    directive = _DIRECTIVE.groups(text)
    if directive is not None:
        start, end = next(span for span in directive[2:] if span[0] >= 0)
        yield text[slice(*directive[1])], start, end, ValuePlace.MESSAGE


_QUOTED_AFTER_NAME: Final = re.compile(
    rb"\b([A-Za-z][A-Za-z0-9_.-]{0,63})(?:[ \t]+(?:(?:is|was|to)[ \t]+)?[\"']([^\"'\n]{8,256})[\"']"
    rb"|(?=[\"'],[ \t]*[\"'](?![a-z]+_)([^\"'\n]{8,256})[\"'][ \t]*\)))"
)
"""Matches `password 'VALUE'`, `password to "VALUE"`, and the last two arguments in `("password", "VALUE")`.

The last name of a list of names is an identifier: `"password", "created_at"`.
"""
_DIRECTIVE: Final = types.Finder(
    rb"(?:^[+-]?|[\"'`])[ \t]*([A-Za-z][A-Za-z0-9]*(?:[_.-][A-Za-z0-9]+)+|[A-Z]{3,}"
    rb"|[A-Z]?[a-z]+[A-Z][A-Za-z]+|requirepass|bindpw|masterauth)[ \t]+" + _LAST_WORD.pattern,
    groups=True,
)
"""Matches an identifier and a word. An ordinary word as the name would make prose of it."""


SQL_TRIGGER: Final = rb"(?i:values)[ \t]*\("
_SQL_INSERT: Final = re.compile(rb"(?i:\binto)\s+[^\s()']{1,128}\s*\(([^()']{1,4096})\)\s*(?i:values)\s*\(")
_SQL_ACCOUNTS: Final = re.compile(
    rb"(?i:\binto\s+[^\s()']{0,100}(?:user|account|credential|password|secret|token|login|member|admin)s?[\"`\]]?\s+values\s*\()"
)
"""Matches an INSERT without columns into a table of accounts."""
_SQL_STRING: Final = rb"'((?:[^'\\]|''|\\.)*)'"
_SQL_VALUE: Final = re.compile(
    rb"\s{0,8}(?:[A-Za-z0-9_]{0,32}(?:\(\s{0,8}%b\s{0,8}\)|%b)\s{0,8}|[^,'()]*)([,)])"
    % (_SQL_STRING, _SQL_STRING),
    re.DOTALL,
)
"""Matches a string, a string in a function, or another value, and the mark after it."""
_SQL_FIRST_ROW: Final = re.compile(rb"\s*\(")
_SQL_NEXT_ROW: Final = re.compile(rb"\s*,\s*\(")


def _sql_values(text: bytes) -> Iterator[NamedValue]:
    """Yield each string in the rows of INSERT statements. Its name is the column."""
    for pattern, place in ((_SQL_INSERT, ValuePlace.MESSAGE), (_SQL_ACCOUNTS, ValuePlace.PROSE)):
        end = 0
        for insert in pattern.finditer(text):
            if insert.start() < end:
                continue  # in a string of the last statement
            columns = sql_columns(insert[1]) if insert.lastindex else [b"password"] * _MAX_COLUMNS
            for name, start, end in sql_rows(text, insert.end() - 1, columns):
                yield name, start, end, place


_MAX_COLUMNS: Final = 64


def sql_strings(
    text: bytes, position: int, columns: Sequence[bytes]
) -> tuple[list[tuple[bytes, int, int]], int]:
    """Return the column and the span of each string in a row that begins at `position`, and its end."""
    found: list[tuple[bytes, int, int]] = []
    for column in columns:
        value = _SQL_VALUE.match(text, position)
        if value is None:
            break
        position = value.end()
        found += [(column, *value.span(group)) for group in (1, 2) if value[group]]
        if value[3] == b")":
            break
    labels = [text[start:end] for column, start, end in found if column.lower().endswith(_SQL_LABELS)]
    if labels:
        found = [
            (labels[0] if column.lower().endswith(b"value") else column, start, end)
            for column, start, end in found
        ]
    return found, position


_SQL_LABELS: Final = (b"name", b"key")


def sql_rows(text: bytes, position: int, columns: Sequence[bytes]) -> Iterator[tuple[bytes, int, int]]:
    """Yield the column and the span of each string in a line of rows, which begin at `position`."""
    row = _SQL_FIRST_ROW.match(text, position)
    while row is not None:
        strings, position = sql_strings(text, row.end(), columns)
        yield from strings
        row = _SQL_NEXT_ROW.match(text, position)


def sql_columns(names: bytes) -> list[bytes]:
    return [name.strip(b' \t`"[]') for name in names.split(b",")]


class ValueSpan(NamedTuple):
    """The span of a value, and how it is written. A tuple is made faster than a dataclass."""

    start: int
    end: int
    is_quoted: bool = False
    is_line: bool = False
    """True if the name begins the line and the value is the rest of the line, as in YAML and INI."""


class Text:
    """Finds the ends of the values in one line.

    Names may be nested in values: in `password=password=...` each value ends where the word ends. Reading
    each value from start to end would take quadratic time. So the methods search for the next delimiter, and
    `_find_next` remembers its position. If names are read in order, each delimiter is searched for only once.
    """

    __slots__ = ("_ends", "_found", "_quoted", "_starts", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._quoted = _QUOTED.finditer(data)
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._found: dict[tuple[re.Pattern[bytes], int], tuple[int, int, int]] = {}
        """For each pattern and piece: the start of the search, and the start and end of its match."""

    def _find_next(self, pattern: re.Pattern[bytes], position: int, limit: int, piece: int = 0) -> int:
        """Return the start of the next match; `limit` if no match ends by then."""
        since, start, end = self._found.get((pattern, piece), (_NOWHERE, 0, 0))
        if not since <= position <= start:
            match = pattern.search(self.data, position)
            start, end = match.span() if match is not None else (_NOWHERE, _NOWHERE)
            self._found[pattern, piece] = position, start, end
        return start if end <= limit else limit

    def has_structure(self, end: int) -> bool:
        """Return True if a bracket of JSON or of a Go structure is in the line before `end`."""
        return self._find_next(_STRUCTURE, 0, end) < end

    def bounds(self, position: int) -> tuple[int, int, bool]:
        """Return the span of the quoted text around a position and True, or that of the line and False."""
        while not self._starts or self._starts[-1] < position:
            match = next(self._quoted, None)
            start, end = match.span() if match is not None else (_NOWHERE, _NOWHERE)
            self._starts.append(start)
            self._ends.append(end)
        index = bisect_right(self._starts, position - 1) - 1
        if index >= 0 and position < self._ends[index]:
            return self._starts[index] + 1, self._ends[index] - 1, True
        return 0, len(self.data), False

    def value(self, name: int, start: int, *, has_blanks: bool) -> ValueSpan:
        """Return the value that begins at `start`; its name begins at `name`.

        `has_blanks`: the value may contain blanks if it is the rest of its line.
        """
        first, limit, is_bounded = self.bounds(name)
        if limit <= start:  # the quotes around the name end before the value
            first, limit, is_bounded = self.bounds(start)
        if start >= limit:
            return ValueSpan(start, start)
        quoted = self._quoted_value(start, limit)
        if quoted is not None:
            return quoted
        # The separator of a list may be before an outer name: in `?message=pwd=x&v=1` it is the `?`.
        before = self.data[max(first, name - _MAX_NAME_BYTES) : name].rstrip(_NAME_BYTES)
        is_variable = self.data[name : name + 1].isupper() and b":" not in self.data[start - 2 : start]
        is_list = not (is_variable and self.data[name + 1 : name + 2].isupper())
        any_item = _DOTTED_ITEM if self.data.find(b".", name, start) >= 0 else _LIST_ITEM
        item = _LISTS.get(before[-1:], any_item if is_list else None)
        end = self._line_end(name, start, first, limit, item, is_bounded=is_bounded)
        is_word = is_variable and not is_bounded  # a shell ends the value of a variable at a blank
        if end and ((has_blanks and not is_word) or self._find_next(_BLANK, start, end) >= end):
            return ValueSpan(start, end, is_line=True)
        return self._word_value(item, start, first, limit)

    def clip(self, start: int, end: int) -> int:
        """Return the end of the part of a span that is in the same quotes as its beginning.

        The rest of a value with escapes is found in the text without its escapes.
        """
        first, limit, is_quoted = self.bounds(start - (self.data[start - 1 : start] in _QUOTES))
        if is_quoted and self.data[first - 1] == _DOUBLE_QUOTE:
            return self._find_next(_INNER_BREAK, start, min(end, limit))
        return min(end, limit)

    def word(self, start: int) -> ValueSpan:
        """Return the word of a command line that begins at `start`."""
        first, limit, _ = self.bounds(start)
        return self._quoted_value(start, limit) or self._word_value(None, start, first, limit)

    def _line_end(
        self,
        name: int,
        start: int,
        first: int,
        limit: int,
        item: re.Pattern[bytes] | None,
        *,
        is_bounded: bool,
    ) -> int:
        """Return the end of a value that takes the rest of its line or quotes; 0 if this one does not."""
        text = self.data
        if name - first > _MAX_HEAD_BYTES or not _LINE_HEAD.match(text, first, name):
            return 0
        if text[start - 1 : start] == b":" and not is_bounded:
            return 0  # YAML needs a blank after the colon of a mapping
        end = start + len(text[start:limit].rstrip(b" \t\r\0"))
        if any(self._find_next(sign, start, end) < end for sign in (_INNER_BREAK, _NEXT_FIELD)):
            return 0
        return self._find_next(item, start, end) if item is not None else end

    def _word_value(self, item: re.Pattern[bytes] | None, start: int, first: int, limit: int) -> ValueSpan:
        """Return a value of one word. It ends before the next `item` of a list, and without closing marks."""
        text = self.data
        end = self._word_end(start, limit)
        if item is not None:
            end = self._find_next(item, start, end)
        for _ in range(min(end - start - 1, _MAX_PIECES)):
            last = text[end - 1 : end]
            opening = _OPENING.get(last)
            near = max(start, end - _COUNTED_BYTES)
            is_closing = (
                opening is not None
                and text.rfind(opening, max(first, start - _MAX_HEAD_BYTES), start) >= 0
                and text.count(opening, near, end) < text.count(last, near, end)
            )
            if not (is_closing or last in b",;:" or (last == b"." and end == limit)):
                break
            end -= 1
        return ValueSpan(start, end)

    def _word_end(self, start: int, limit: int) -> int:
        """Return the end of a shell word, which may contain quoted parts and escaped blanks."""
        position = start
        for piece in range(_MAX_PIECES):
            position = self._find_next(_WORD_SIGN, position, limit, piece)
            sign = self.data[position : position + 1]
            if position >= limit or sign not in (b"\\", b'"', b"'"):
                return position
            if sign == b"\\":
                # In double quotes a line break is escaped. Elsewhere these may be characters of a password.
                has_escapes = self.data.startswith(b'"', limit)
                if (_ESCAPED_BREAK if has_escapes else _ESCAPED_QUOTE).match(self.data, position, limit):
                    return position
                position = min(position + 2, limit)
            else:
                # Inside a word, a quoted part must close before the next blank. Otherwise the quote is an
                # ordinary character.
                blank = limit if position == start else self._find_next(_WORD_END, position, limit)
                position = max(self.data.find(sign, position + 1, blank), position) + 1
        return self._find_next(_WORD_END, position, limit)

    def _quoted_value(self, start: int, limit: int) -> ValueSpan | None:
        """Return the quoted value that begins at `start`, or None if it has no quotes."""
        text = self.data
        literal = _LITERAL.match(text, start, limit)
        start = literal.end() if literal is not None else start
        quote = text[start : start + 1]
        if quote == b'"':
            match = _DOUBLE_QUOTED.match(text, start, limit)
        elif quote == b"'":
            match = _SHELL_QUOTED.match(text, start, limit)
            if match is not None and not _ends_word(text, match.end(), limit):
                match = _ESCAPE_QUOTED.match(text, start, limit) or match
            elif match is not None and text[match.end() - 2] == _BACKSLASH:  # an escape, except in a shell
                longer = _ESCAPE_QUOTED.match(text, start, limit)
                match = longer if longer is not None and _ends_word(text, longer.end(), limit) else match
        elif quote == b"`":
            match = _BACK_QUOTED.match(text, start, limit)
        else:
            return None
        if match is None:
            return None
        end = match.end()
        if not _ends_word(text, end, limit):  # a shell joins adjacent text to the same word
            return ValueSpan(start + 1, self._word_end(end, limit), is_quoted=True)
        return ValueSpan(*match.span(1), is_quoted=True)


_BACKSLASH: Final = ord("\\")


def _ends_word(text: bytes, end: int, limit: int) -> bool:
    """Return True if a closing quote before `end` may also end the word."""
    return end >= limit or text[end] in _AFTER_QUOTE


def break_end(text: bytes, start: int) -> int:
    """Return the end of the escaped line break, tab or quote at `start`, or 0. It ends an empty value."""
    found = _ESCAPED_BREAK.match(text, start) if text.startswith(b"\\", start) else None
    return found.end() if found is not None else 0
