"""Find values on other lines than their names: in YAML, indented JSON, XML, forms and tables. Pure.

A line may end in a name. Then a row of `_FORMS` says how the values below it look, in which lines they may
be, and when they are secret.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from service_record.redaction import ordinary_words, types
from service_record.redaction.encodings import from_base64
from service_record.redaction.named_values import ValuePlace, sql_columns, sql_rows
from service_record.redaction.prefixes import prefix_end
from service_record.redaction.secret_names import find_name, item_name
from service_record.redaction.tables import (
    COLUMN_END,
    COLUMNS,
    NO_ROW,
    column_check,
    read_header,
    secret_cells,
)
from service_record.redaction.types import (
    ZEROS_FOR_DIGITS,
    Found,
    UnescapedText,
    iterate_lines,
)

SECRET_VALUE: Final = "secret-value"  # noqa: S105 - a kind
_Spans: TypeAlias = list[tuple[int, int]]
_MAX_LINES_TO_VALUE: Final = 4
"""The limit of lines below the name of one value. There may be other fields before it."""
_MAX_BLOCK_LINES: Final = 200
"""The limit of lines in a map or a text."""
_MAX_ITEMS: Final = 100_000
_MAX_OPEN_BYTES: Final = 1 << 13
"""The limit of lines that are searched for a name. Longer lines are not written by hand."""
_MIN_TEXT_BYTES: Final = 4
_MIN_BINARY_BYTES: Final = 24


def _is_encoded(value: bytes) -> bool:
    """Return True for base64 of text, or long base64 of bytes; False for plain values of a ConfigMap."""
    decoded = from_base64(value)
    if len(decoded) < _MIN_TEXT_BYTES or len(value) % 4:
        return False
    is_text = decoded.isascii() and decoded.decode().replace("\n", "").replace("\t", "").isprintable()
    return is_text or (len(value) >= _MIN_BINARY_BYTES and ordinary_words.TOKEN(value))


MAPS_OF_SECRETS: Final[Mapping[bytes, Callable[[bytes], bool]]] = {
    b"data": _is_encoded,
    b"stringData": ordinary_words.VALUE,
}
"""The maps of a Secret, and the check for their values."""
_PARTS: Final = {
    b"name": rb"""[A-Za-z0-9_.-]+""",
    b"names": rb"""[A-Za-z0-9_.-]+[A-Za-z0-9]s""",
    b"user": rb"[A-Za-z_][A-Za-z0-9_.-]*",
    b"is": rb"""["'\]]*[ \t]*(?::=|=>|[:=])[ \t]*""",
    b"tag": rb"""(?:[!&][A-Za-z0-9_-]+[ \t]*)?""",
    b"map": rb"""["']?[ \t]*:[ \t]*\{?""",
    b"quoted": rb""""((?:[^"\\\n]|\\[^\n])+)"|'([^'\n]+)'""",
    b"after": rb"""[ \t\r,;)}\]/>]*(?:</[A-Za-z][^\n]*|[ \t]+#[^\n]*)?$""",
}
_WORD: Final = rb"""([^\s"'{\[|>&*!#<-]|[^\s"'{\[|>&*!#<-][^\s"'<]*[^\s"'<,;:])"""
_ALONE: Final = rb"""^[ \t]*(?:string\(\d+\)[ \t]+|-[ \t]+)?(?:%(quoted)b|""" + _WORD + rb""")%(after)b"""
"""Matches a value that is alone in its line."""
_LABELLED: Final = (
    rb"""^[ \t]*(?:<(?i:value|string|data)>([^\n]*?)"""
    rb"""|["'\[]*[A-Za-z_-]*(?:[vV]alue|default)(?:%(is)b|[ \t]+)"""
    rb"""(?:%(quoted)b|([|>])[-+0-9]*|([{\[|>]*[^\s"'{\[|>][^\n]*?))?)%(after)b"""
)
"""Matches a value behind a word that says so, or only this word and the mark of a text below it."""
_ITEM: Final = rb"""^[ \t]*(?:-[ \t]+(?:%(quoted)b|""" + _WORD + rb""")|%(quoted)b)%(after)b"""
_LINE: Final = rb"""^[ \t]*(\S[^\n]*?)[ \t\r]*$"""
_ENTRY: Final = (
    rb"""^[^\n]*?["']?[A-Za-z0-9_.-]+["']?[ \t]*:[ \t]+"""
    rb"""(?:"([^"\n]+)|'([^'\n]+)|([^\s"'{\[|>&*!][^\n]*?))[ \t\r,"']*$"""
)
"""Matches a value in a map of YAML or indented JSON."""


@dataclass(frozen=True, eq=False, slots=True)
class _Form:
    """A way to write a name whose values are below it."""

    opening: bytes
    """Matches the end of a line with a name. The group is the name; without a group it is `password`."""
    value: bytes = _LINE
    """Matches a line with a value, which is the only group that matches."""
    check: Callable[[bytes], bool] | None = None
    """Returns True if a value is secret; None if that depends on the name."""
    is_deeper: bool = False
    """True if the values are deeper than the name. Otherwise they may have the same indentation."""
    has_several: bool = False
    """True for several values. The lines between them are deeper than the name."""
    max_lines: int = _MAX_LINES_TO_VALUE
    """The limit of lines below the name."""
    is_closed: bool = False
    """True if no other name begins below the name."""
    trigger: bytes = b""
    """Matches a part of the opening in the first pass. Empty if the name is found there in any case."""


_VALUE: Final = _Form(
    rb"""(?:-[ \t]+)?["'\[]*(%(name)b)%(is)b%(tag)b(?:[A-Z]?[a-z]*\()?""",
    rb"(?:" + _LABELLED + rb"|" + _ALONE + rb")",
    is_deeper=True,
    trigger=COLUMN_END + rb""": [A-Z][a-z]*\((?:\\|\r?$)""",
)
_BLOCK: Final = _Form(
    rb"""(?:-[ \t]+)?["'\[]*(%(name)b)%(is)b%(tag)b[|>][-+0-9]*""",
    check=ordinary_words.VALUE,
    is_deeper=True,
    has_several=True,
    max_lines=_MAX_BLOCK_LINES,
    is_closed=True,
)
"""A text of several lines, as in YAML."""
_ROWS: Final = _Form(
    rb"""(?i:\binto)[ \t]+[^\s()']{1,128}[ \t]*\(([^()'\n]{1,1000})\)[ \t]*"""
    rb"""(?i:values)[ \t\r]*(?:\([^\n]*,)?""",
    is_closed=True,
    trigger=rb"""\)[ \t]*(?i:values)[ \t]*(?:\\|\r?$)""",
)
"""An INSERT. The name is the list of its columns."""
_TABLE: Final = _Form(rb"(^[^\n]*?" + COLUMNS + rb"[^\n]*)", is_closed=True, trigger=COLUMNS)
"""A table with a header. The name is the header."""
_FORMS: Final = (
    # Users and passwords, as cloud-init takes them, and as it prints random ones.
    _Form(
        rb"""["']?chpasswd["']?:|^[^\n]*(?i:\bfollowing\b[^\n:=]*passwords)[ \t]*:?""",
        rb"""^[ \t]*(?:-[ \t]+)?(?:"%(user)b:([^\n]+)",?|'%(user)b:([^\n]+)',?"""
        rb"""|%(user)b:(\S[^\n]*?)["']?(?:</[a-z][^\n]*)?)[ \t\r]*$""",
        ordinary_words.PASSWORD,
        has_several=True,
        max_lines=_MAX_BLOCK_LINES,
        is_closed=True,
        trigger=rb"""chpasswd["'\\]*:|[fF]ollowing[ \t][^\n:=]*passwords[ \t]*:?[ \t]*(?:\\|\r?$)""",
    ),
    # The maps of a Secret.
    _Form(
        rb"""["']?\bstringData%(map)b""",
        rb"(?:" + _ENTRY + rb"""|^[ \t]*((?:[^:\n]|:[^\s])*)$)""",
        ordinary_words.VALUE,
        is_deeper=True,
        has_several=True,
        max_lines=_MAX_BLOCK_LINES,
        is_closed=True,
    ),
    _Form(
        rb"""["']?\bdata%(map)b""",
        _ENTRY,
        _is_encoded,
        is_deeper=True,
        has_several=True,
        max_lines=_MAX_BLOCK_LINES,
        trigger=rb"""(?:stringD|(?:^|[^A-Za-z])d)ata["'\\]*(?:(?::|%3A)[ \t]*(?:\{|\\|&|%|$)|&)""",
    ),
    _ROWS,
    _TABLE,
    # A part of a form, an element of XML, or an entry in a dump of PHP.
    _Form(
        rb"""(?i:content-disposition:)[^\n]*[ \t;]name=["']?(%(name)b)["']?"""
        rb"""|<(?:[A-Za-z][^<>\n]*[ \t](?:name|key)=["']?)?(%(name)b)["']?(?:[ \t][^<>\n]*)?>"""
        rb"""|["'\[]*(%(name)b)["'\]]*[ \t]*=>""",
        _VALUE.value,
        trigger=rb"form-data;",
    ),
    # A name with its value in a field `value` or `default`, as in a list of environment variables.
    _Form(
        rb"""(?:-[ \t]+|\{|<[A-Za-z][A-Za-z0-9:_-]*[ \t]+)?"""
        rb"""(?:["'\[]*[A-Za-z_-]*(?:[nN]ame|[kK]ey)(?:%(is)b|[ \t]+)|<(?:name|key)>|variable[ \t]+)"""
        rb"""["']?(%(name)b)["']?(?:[ \t]*[,{]?|</(?:name|key)>)|["'\[]*(%(name)b)%(is)b\{""",
        _LABELLED,
        trigger=rb"""variable[ \t]+\\*"[A-Za-z0-9_-]+\\*"[ \t]*\{""",
    ),
    # A list.
    _Form(
        rb"""(?:-[ \t]+)?["']?(%(names)b)%(is)b\[?""",
        _ITEM,
        has_several=True,
        max_lines=_MAX_ITEMS,
        is_closed=True,
    ),
    _BLOCK,
    _VALUE,
    # The text that a script of expect(1) waits for.
    _Form(
        rb"""\bexpect[ \t][^\n]*(?i:assword|assphrase|asscode)[^"\n]*["}][ \t]*\{?""",
        rb"""^[ \t]*send(?:[ \t]+-[a-z-]*)*[ \t]+"([^"\r\n]+?)(?:\\[rn]|\r)*\"""",
        trigger=rb"""expect[ \t]+[^\n]*ssword""",
    ),
    # A sentence that announces a value: `Use the following password to proceed:`.
    _Form(
        rb"""^[^\n]*\b(?i:password|passphrase|passcode|token)[ \t][^\n:="]*:""",
        _ALONE,
        ordinary_words.WORD,
        trigger=rb"""(?i:password|passphrase|passcode|token)[ \t]"""
        rb"""[A-Za-z0-9_,.'`/() \t-]*:[ \t]*(?:\\|\r?$)""",
    ),
)
_OPENINGS: Final = [
    (form, types.Finder(b"(?:" + form.opening % _PARTS + rb")[ \t\r]*$", groups=True)) for form in _FORMS
]
_ANY_OPENING: Final = types.Finder(
    rb"(?m)(?:" + b"|".join(form.opening for form in _FORMS) % _PARTS + rb")[ \t\r]*$"
)
_VALUES: Final = {form: types.Finder(form.value % _PARTS, groups=True) for form in _FORMS}
TRIGGER: Final = b"|".join(form.trigger for form in _FORMS if form.trigger)
"""Matches in lines after which a value may follow on another line."""
_PREFIX_WORD: Final = re.compile(rb"[ \t]*([^ \t]+)")
_CHANGE_MARK: Final = re.compile(rb"^([ ]?)[-+](?=[ \t]{2})")
"""Matches the mark of a changed line in a diff of indented text."""
_QUOTES: Final = (b'"', b"'")


class OpenName(NamedTuple):
    """A name whose value is on a later line.

    A tuple: a dataclass takes several times as long to hash, and each line below such a name needs that.
    """

    form: _Form
    head: bytes
    """The text before the name, with zeros for digits."""
    text: bytes
    """The name; of a table its header, of an INSERT its columns."""
    lines: int = 0
    """The number of lines below the name."""

    def text_start(self, line: bytes) -> tuple[int, int]:
        """Return the offset in a line after the words of `head`, and the depth of the name there.

        A line without these words, as in a text in quotes, is taken from its start.
        """
        here = line.translate(ZEROS_FOR_DIGITS)
        start = 0
        for word in self.head.split():
            here_word = _PREFIX_WORD.match(here, start)
            if here_word is None or here_word[1] != word:
                return 0, 0
            start = here_word.end()
        return start, len(self.head) - len(self.head.rstrip(b" \t"))


class ValueFollower:
    """Finds values that are on a later line than their names."""

    def __init__(self, find_kind: Callable[..., str | None]) -> None:
        """Take `LineReader.find_kind`, which decides about a value by its name."""
        self._find_kind = find_kind
        self.name: OpenName | None = None
        """The name whose value is expected next, or None."""

    def spans(self, view: UnescapedText) -> Iterator[Found]:
        """Yield the values in the next line whose names are on earlier lines; remember a name without one."""
        if self.name is None and _ANY_OPENING.find(view.text) is None:
            return
        for place, line in iterate_lines(view.text, 0, len(view.text)):
            for start, end in self._find_values(line):
                yield place + start, place + end, SECRET_VALUE

    def _find_values(self, line: bytes) -> _Spans:
        spans: _Spans = []
        if self.name is not None and line.strip():
            is_table = self.name.form in (_TABLE, _ROWS)
            spans = self._read_row(self.name, line) if is_table else self._read_line(self.name, line)
        if not spans and not (self.name is not None and self.name.form.is_closed):
            self.name = _find_name(line) or self.name
        return spans

    def _read_line(self, name: OpenName, line: bytes) -> _Spans:
        """Return the value in a line below a name, and forget the name after its last value."""
        form = name.form
        start, depth = name.text_start(line)
        text = _CHANGE_MARK.sub(rb"\1 ", line[start:])
        indent = len(text) - len(text.lstrip(b" \t"))
        if not text.strip():
            return []
        self.name = None
        least = depth + 1 if form.is_deeper else depth
        if indent < least or name.lines == form.max_lines:
            return []
        spans = _VALUES[form].groups(text)
        is_only_value = spans is not None and not form.has_several
        is_behind_values = spans is None and form.has_several and indent <= depth
        if not (is_only_value or is_behind_values):
            self.name = name._replace(lines=name.lines + 1)
        if spans is None:
            return []
        first, last = max(spans[1:])
        value = text[first:last]
        if is_only_value and value in (b"", b"|", b">"):
            head = line[: start + indent].translate(ZEROS_FOR_DIGITS)
            self.name = OpenName(_BLOCK if value else _VALUE, head, name.text)
            return []
        if form.check is not None:
            is_secret = form.check(value)
        else:
            is_quoted = text[first - 1 : first] in _QUOTES
            kind = self._find_kind(item_name(name.text), value, ValuePlace.SURE, is_quoted=is_quoted)
            is_secret = kind is not None
        return [(start + first, start + last)] if is_secret else []

    def _read_row(self, name: OpenName, line: bytes) -> _Spans:
        """Return the secrets in a line of a table or in rows of an INSERT. Another line ends the table."""
        start = prefix_end(line)
        if name.form is _TABLE:
            cells = [] if NO_ROW.match(line, start) else secret_cells(name.text, line, start)
            self.name = name if cells is not None else None
            return cells or []
        self.name = name if line.rstrip().endswith(b",") else None
        return [
            (first, last)
            for column, first, last in sql_rows(line, start, sql_columns(name.text))
            if (check := column_check(column)) is not None and check(line[first:last])
        ]


def _find_name(line: bytes) -> OpenName | None:
    """Return the name at the end of a line, or None."""
    if len(line) > _MAX_OPEN_BYTES or _ANY_OPENING.find(line) is None:
        return None
    start = prefix_end(line)
    text = line[start:]
    for form, opening in _OPENINGS:
        spans = opening.groups(text)
        if spans is None or (form is _TABLE and not any(read_header(text)[1])):
            continue
        first, last = max(spans[1:], default=(-1, -1))
        name = text[first:last] if first >= 0 else b"password"
        if form not in (_TABLE, _ROWS) and find_name(item_name(name)) is None:
            continue
        return OpenName(form, line[: start + spans[0][0]].translate(ZEROS_FOR_DIGITS), name)
    return None
