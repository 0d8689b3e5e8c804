"""Find values whose names are not directly before them: in XML, SQL, lists, tables and sentences. Pure."""

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, TypeAlias

from service_record.redaction import types
from service_record.redaction.secret_names import item_name
from service_record.redaction.types import mask_end


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


_FLOW_LIST: Final = re.compile(rb"[:=][ \t]*\[([^\[\]{}\n]+)\](?=[ \t\r]*(?:[,;})#]|\Z))")
_MAX_NAME_BYTES: Final = 64
_FLOW_NAME: Final = re.compile(rb"[A-Za-z0-9_.-]+\Z")
_FLOW_ITEM: Final = re.compile(rb"[ \t]*(?:\"([^\"]*)\"|'([^']*)'|([^\s,\"']+))[ \t]*(?:,|\Z)")
_WORD_ITEM: Final = 3


def _list_values(text: bytes) -> Iterator[NamedValue]:
    """Yield the items of the lists in a line, as in YAML and Python. Their name is that of the list."""
    end = 0
    for each in _FLOW_LIST.finditer(text):
        # A pattern that begins with the name would try each letter of the line.
        before = text[end : each.start()].rstrip(b" \t")
        before = before[:-1] if before.endswith((b'"', b"'")) else before
        name = _FLOW_NAME.search(before[-_MAX_NAME_BYTES:])
        position, end = each.span(1)
        while name is not None and (item := _FLOW_ITEM.match(text, position, end)) is not None:
            place = ValuePlace.PROSE if item[_WORD_ITEM] else ValuePlace.MESSAGE
            yield item_name(name[0]), *item.span(item.lastindex or 0), place
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
