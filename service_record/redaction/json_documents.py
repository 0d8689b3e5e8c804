"""Read the JSON in a line: its keys, its values and their names, and what may be masked in it. Pure.

A line may have several documents, text around them, and only a part of a document.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

from service_record.redaction.secret_names import item_name


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
    parent: bytes = b""
    """The key of the object around the value."""


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
                *token.span(kind),
                is_string=kind == _STRING,
                name=name or current.name,
                is_item=not name,
                parent=current.outer,
            )
            leaves.append(leaf)
            current.add(name, leaf, token[_STRING])
        elif kind == _OPEN:
            open_.append(current)
            inner = item_name(name) if name else current.name
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
        for number in range(index, len(document.leaves)):  # a slice would copy the rest for each secret
            leaf = document.leaves[number]
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
