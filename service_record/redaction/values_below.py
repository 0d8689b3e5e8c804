"""Find values on other lines than their names: in YAML, indented JSON, XML, forms and tables. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from service_record.redaction import ordinary_words, types
from service_record.redaction.encodings import from_base64
from service_record.redaction.masks import clip_and_merge
from service_record.redaction.named_values import sql_columns, sql_rows
from service_record.redaction.prefixes import prefix_end
from service_record.redaction.shapes import expand_parts
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

TRIGGER: Final = (
    COLUMNS + rb"|"
    rb"""(?i:password|passphrase|passcode|token)[ \t][A-Za-z0-9_,.'`/() \t-]*:[ \t]*(?:\\|\r?$)"""
    rb"""|chpasswd["'\\]*:|variable[ \t]+\\*"[A-Za-z0-9_-]+\\*"[ \t]*\{"""
    rb"""|[sS]ecrets["'\\]*:[ \t]*\{?[ \t]*(?:\\|\r?$)|\)[ \t]*(?i:values)[ \t]*(?:\\|\r?$)"""
    rb"""|-[ \t]["']?--?[a-z0-9-]*(?:pass(?:word|wd|phrase)?|token|secret|psk|key)["']?(?:[\\&%#]|\r?$)"""
    rb"""|(?:stringD|(?:^|[^A-Za-z])d)ata["'\\]*(?:(?::|%3A)[ \t]*(?:\{|\\|&|%|$)|&)|form-data;"""
    rb"""|expect[ \t]+[^\n]*ssword|[fF]ollowing[ \t][^\n:=]*passwords[ \t]*:?[ \t]*(?:\\|\r?$)|"""
    + COLUMN_END
    + rb""": [A-Z][a-z]*\((?:\\|\r?$)"""
    rb"""|(?i:command|cmd|args|argv|entrypoint)["'\\]*[ \t]*[:=][ \t]*\[?[ \t]*(?:\\|\r?$)"""
)
"""Matches some texts after which a value may follow on another line: the start of a map as in a Kubernetes
Secret, the header of a form's part, the arguments of a command, the columns of CSV. Shapes have the triggers
of all other names.
"""
_KIND: Final = "secret-value"
_MAX_VALUE_LINES: Final = 200
_MAX_FIELDS: Final = 3
"""The limit of other fields between a name and its value, and of further lines in an XML element."""
_MAX_OPEN_BYTES: Final = 1 << 13
"""The limit of lines that are searched for a name. Longer lines are not written by hand."""
_MIN_TEXT_BYTES: Final = 4
_MIN_BINARY_BYTES: Final = 24

_PARTS: Final = {
    b"name": expand_parts(rb"""[A-Za-z0-9_.-]*(?i:<<TOKENS>>|<<PASSWORDS>>)<<SUFFIX>>"""),
    b"names": expand_parts(rb"""[A-Za-z0-9_.-]*(?:<<TOKEN_LIST>>|<<PASSWORD_LIST>>)"""),
    b"is": rb"""["'\]]*[ \t]*(?::=|=>|[:=])[ \t]*""",
    b"tag": rb"""(?:[!&][A-Za-z0-9_-]+[ \t]*)?""",
    b"map": rb"""["']?[ \t]*:[ \t]*\{?""",
    b"quoted": rb""""(?:[^"\\\n]|\\[^\n])+"|'[^'\n]+'""",
    b"after": rb"""[ \t\r,;)}\]/>]*(?:</[^\n]*|[ \t]+#[^\n]*)?$""",
}
_OPEN: Final = {
    "users": rb"""["']?chpasswd["']?:""",
    "logins": rb"""(?i:\bfollowing\b[^\n:=]*passwords)[ \t]*:?""",
    "stringData": rb"""["']?\bstringData%(map)b""",
    "data": rb"""["']?\bdata%(map)b""",
    "secrets": rb"""["']?\b[sS]ecrets%(map)b""",
    "rows": rb"""(?i:\binto)[ \t]+[^\s()']{1,128}[ \t]*\(([^()'\n]{1,1000})\)[ \t]*(?i:values)[ \t\r]*"""
    rb"""(?:\([^\n]*,)?""",
    "table": COLUMNS + rb"""[^\n]*""",
    "part": rb"""(?i:content-disposition:)[^\n]*[ \t;]name=["']?(%(name)b)["']?"""
    rb"""|["'\[]*(%(name)b)["'\]]*[ \t]*=>""",
    "element": rb"""<(?:[A-Za-z][^<>\n]*[ \t](?:name|key)=["']?)?(%(name)b)["']?(?:[ \t][^<>\n]*)?>""",
    "label": rb"""(?:-[ \t]+|\{|<[A-Za-z][A-Za-z0-9:_-]*[ \t]+)?"""
    rb"""(?:["'\[]*[A-Za-z_-]*(?:[nN]ame|[kK]ey)(?:%(is)b|[ \t]+)|<(?:name|key)>|variable[ \t]+)"""
    rb"""["']?(%(name)b)["']?(?:[ \t]*[,{]?|</(?:name|key)>)|["'\[]*(%(name)b)%(is)b\{""",
    "list": rb"""(?:-[ \t]+)?["']?(%(names)b)%(is)b\[?""",
    "block": rb"""(?:-[ \t]+)?["'\[]*(%(name)b)%(is)b%(tag)b[|>][-+0-9]*""",
    "value": rb"""(?:-[ \t]+)?["'\[]*(%(name)b)%(is)b%(tag)b(?:[A-Z]?[a-z]*\()?""",
    "prompt": rb"""\bexpect[ \t][^\n]*(?i:assword|assphrase|asscode)[^"\n]*["}][ \t]*\{?""",
    "sentence": rb"""\b(?i:password|passphrase|passcode|token)[ \t][^\n:="]*:""",
}
"""Form -> the end of a line whose value is on a later line. The group is the name of the value.

- users, logins: lines of users and passwords, as in cloud-init and as it prints random ones.
- stringData, data, secrets: maps of which each value may be secret.
- rows, table: columns. Their names are in an INSERT, or in a header.
- label: a name whose value is in a field `value` or `default`, as in a list of environment variables.
- part, element: a name whose value may be at any depth, in a form or a dump of PHP, or in XML.
- prompt: what a script of expect(1) waits for.
- sentence: a sentence that announces a value, `Use the following password to proceed:`.
"""
_PATTERNS: Final = {
    form: types.Finder(b"(?:" + pattern % _PARTS + rb")[ \t\r]*$", groups=True)
    for form, pattern in _OPEN.items()
}
_ANY_OPEN: Final = types.Finder(
    rb"""(?m)(?:""" + b"|".join(_OPEN.values()) % _PARTS + rb""")[ \t\r]*$|ata"[ \t]*:[ \t]*\{"""
)
"""Matches each line with a name whose value may be on a later line, and a Secret in one line of JSON."""
_VALUE: Final = types.Finder(
    rb"""^[ \t]*(-[ \t]+)?(?:string\(\d+\)[ \t]+)?"""
    rb"""(?:(%(quoted)b)|([^\s"'{\[|>&*!#<-][^\s"'<]*))%(after)b""" % _PARTS,
    groups=True,
)
"""Matches a value that is alone in its line, or an item of a list in YAML, TOML or indented JSON."""
_LABELLED: Final = types.Finder(
    rb"""^[ \t]*(?:["'\[]*[A-Za-z_-]*(?:[vV]alue|default)(?:%(is)b|[ \t]+)|<(?i:value|string|data)>)"""
    rb"""(?:(%(quoted)b)|([|>][-+0-9]*)|([^\s"'{\[|>][^<\n]*?))?%(after)b""" % _PARTS,
    groups=True,
)
"""Matches a value behind a word that says so, as in a list of names and values."""
_PAIR: Final = types.Finder(
    rb"""^[^\n]*?["']?[A-Za-z0-9_.-]+["']?[ \t]*:[ \t]+"""
    rb"""(?:"([^"\n]+)|'([^'\n]+)|([^\s"'{\[|>&*!][^\n]*?))[ \t\r,"']*$""",
    groups=True,
)
_USER: Final = types.Finder(
    rb"""^[ \t]*(?:-[ \t]+)?["']?[A-Za-z_][A-Za-z0-9_.-]*:([^\s"'][^\n]*?)["']?(?:</[a-z][^\n]*)?[ \t\r]*$""",
    groups=True,
)
_FIELD: Final = types.Finder(
    rb"""^[ \t]*(?:["']?([A-Za-z0-9_.-]+)["']?(?::(?:[ \t"']|$)|=[ \t"']|[ \t]+[:=])"""
    rb"""|<([A-Za-z][A-Za-z0-9_.-]*)[ >][^\n]*</)""",
    groups=True,
)
"""Matches another field between a name and its value, but no item of a list."""
_NAMED_APART: Final = (b"name", b"key", b"Name", b"Key")
_MAPS_IN_LINE: Final = types.compile_pattern(
    rb'"(stringData|data)"[ \t]*:[ \t]*\{((?:[^{}"\n]|"[^"\n]*")*)\}'
)
_PAIRS_IN_LINE: Final = types.compile_pattern(rb'"[^"\\\n]+"[ \t]*:[ \t]*"([^"\\\n]+)"')
_PREFIX_WORD: Final = re.compile(rb"[ \t]*([^ \t]+)")


def _is_encoded(value: bytes) -> bool:
    """Return True for base64 of text, or long base64 of bytes; False for plain values of a ConfigMap."""
    decoded = from_base64(value)
    if len(decoded) < _MIN_TEXT_BYTES or len(value) % 4:
        return False
    is_text = decoded.isascii() and decoded.decode().replace("\n", "").replace("\t", "").isprintable()
    return is_text or (len(value) >= _MIN_BINARY_BYTES and ordinary_words.is_token(value))


_MAPS: Final = {
    "users": (_USER, ordinary_words.is_password),
    "logins": (_USER, ordinary_words.is_password),
    "stringData": (_PAIR, ordinary_words.is_value),
    "data": (_PAIR, _is_encoded),
    "secrets": (_PAIR, ordinary_words.is_no_name),
}
"""Form -> pattern and check of its values."""
_BLOCKS: Final = frozenset({"block", *_MAPS})
_LISTS: Final = frozenset({"list", "logins"})
_TABLES: Final = frozenset({"table", "rows"})
_AT_ANY_DEPTH: Final = frozenset({"label", "part", "element", "prompt", "sentence"})
"""Forms whose values may be no deeper than their names."""
_WHOLE_LINES: Final = frozenset({"table", "logins", "prompt", "sentence"})
"""Forms that a whole line begins, not only a name."""
_WITH_FIELDS: Final = frozenset({"label", "part", "element", "value"})
"""Forms with other fields before the value."""
_WITH_OTHER_NAMES: Final = frozenset({"data", "secrets", *_WITH_FIELDS})
"""Forms below which another name may begin."""


_JOINTS: Final = {"list": (b" = [", b"]"), "prompt": (b" ", b""), "sentence": (b" ", b"")}
"""Form -> the texts before and after a value that is joined to its name. The others are assignments."""


class OpenName(NamedTuple):
    """A name whose value is on a later line.

    A tuple: a dataclass takes several times as long to hash, and each line below such a name needs that.
    """

    form: str
    """A key of `_OPEN`."""
    head: bytes
    """The text before the name, with zeros for digits."""
    text: bytes
    """The name, or the text of the whole line; of `rows` the columns."""
    lines: int = 0
    """The number of lines below the name, if it is limited."""

    @property
    def depth(self) -> int:
        return len(self.head) - len(self.head.rstrip(b" \t"))


_OPENING: Final = re.compile(rb"""(?:^|[\s=(:])(["'])""")
_OPENINGS: Final = (b'"', b"'", b">")
"""The last character of a head that begins a text of several lines, whose other lines have no prefix."""


class ValueFollower:
    """Finds values that are on a later line than their names.

    The name and the value are joined to one text, `password = VALUE`, and read like any other.
    """

    _is_within: bool
    """True if the name is in the same physical line, before an escaped line break."""

    def __init__(
        self, find_named: Callable[[bytes], Iterable[Found]], find_all: Callable[[bytes], Iterable[Found]]
    ) -> None:
        """Take two functions that find the secrets in a text of one line: the values of names, and all."""
        self._find_named, self._find_all = find_named, find_all
        self.name: OpenName | None = None
        """The name whose value is expected next, or None."""

    def spans(self, view: UnescapedText) -> Iterator[Found]:
        """Yield the values in the next line whose names are on earlier lines; remember names without one."""
        if self.name is None and _ANY_OPEN.find(view.text) is None:
            return
        self._is_within = False
        for place, line in iterate_lines(view.text, 0, len(view.text)):
            yield from ((place + start, place + end, _KIND) for start, end in self._values(line))

    def _values(self, line: bytes) -> Iterator[tuple[int, int]]:
        name = self.name
        if name is not None and line.strip():
            find = self._find_in_row if name.form in _TABLES else self._find_below
            spans = list(find(name, line))
            yield from spans
            if spans and self.name is None:
                return
        is_free = self.name is None or self.name.form in _WITH_OTHER_NAMES
        if is_free and len(line) <= _MAX_OPEN_BYTES and _ANY_OPEN.find(line) is not None:
            self._remember_name(line)
        yield from _values_in_json(line)

    def _find_below(self, name: OpenName, line: bytes) -> Iterator[tuple[int, int]]:
        """Yield the values in a line that may be below a name."""
        start, depth = self._skip_head(name, line)
        text = line[start:] if start is not None else b""
        if start is not None and not text.strip():
            return  # an empty line behind the prefix
        indent = len(text) - len(text.lstrip(b" \t"))
        least = 0 if name.form in _AT_ANY_DEPTH else depth + (name.form not in _LISTS)
        self.name = None
        if start is None or indent < least:
            return
        find = self._find_in_block if name.form in _BLOCKS else self._find_value
        for first, last in find(name, text, line[: start + indent]):
            yield start + first, start + last

    def _find_in_block(self, name: OpenName, text: bytes, _head: bytes) -> Iterator[tuple[int, int]]:
        """Yield the value in a line of a block or a map. It ends with a line that is no deeper."""
        if name.lines == _MAX_VALUE_LINES:
            return
        self.name = name._replace(lines=name.lines + 1)
        pattern, check = _MAPS.get(name.form, (None, None))
        spans = pattern.groups(text) if pattern is not None else None
        is_text = name.form == "stringData" and _FIELD.find(text) is None
        if spans is not None and check is not None:
            first, last = next(span for span in spans[1:] if span[0] >= 0)
            if check(text[first:last]):
                yield first, last
        elif name.form == "logins":
            self.name = None
        elif (name.form == "block" or is_text) and ordinary_words.is_value(text):
            yield len(text) - len(text.lstrip(b" \t")), len(text.rstrip())

    def _find_value(self, name: OpenName, text: bytes, head: bytes) -> Iterator[tuple[int, int]]:
        """Yield the value in a line. Other fields may precede it; a list or an XML element has several."""
        if name.form == "prompt":
            yield from self._read_joined(name, text, 0, len(text))
            return
        if name.form != "list" and (labelled := _LABELLED.groups(text)) is not None:
            _, quoted, block, rest = labelled
            if rest[0] < 0 and quoted[0] < 0:
                form = "block" if block[0] >= 0 else "value"
                self.name = OpenName(form, head.translate(ZEROS_FOR_DIGITS), name.text)
                return
            yield from self._read_joined(name, text, *max(quoted, rest))
            return
        value = _VALUE.groups(text) if name.form != "label" else None
        if value is not None and _FIELD.find(text) is None:
            _, item, quoted, word = value
            if name.form == "list" and item[0] < 0 and quoted[0] < 0:
                return
            if name.form == "list":
                self.name = name
            elif name.form == "element" and name.lines < _MAX_FIELDS:
                self.name = name._replace(lines=name.lines + 1)
            yield from self._read_joined(name, text, *max(quoted, word))
            return
        field = _FIELD.groups(text)
        if field is not None and name.form in _WITH_FIELDS and name.lines < _MAX_FIELDS:
            key = text[slice(*max(field[1:]))]
            if not (key.endswith(_NAMED_APART) or key.startswith(b"value")):
                self.name = name._replace(lines=name.lines + 1)

    def _read_joined(self, name: OpenName, text: bytes, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the secrets in a value, read behind its name."""
        before, after = _JOINTS.get(name.form, (b" = ", b""))
        if text[first:last].startswith((b'"', b"'")):
            before, after = before + text[first : first + 1], text[last - 1 : last] + after
            first, last = first + 1, last - 1
        elif b" " in text[first:last] and name.form in _WITH_FIELDS:
            before, after = before + b"`", b"`"  # without quotes, a value may end at a blank
        before = name.text + before
        joined = before + text[first:last] + after
        find = self._find_all if name.form in _WHOLE_LINES else self._find_named
        for start, end, _ in clip_and_merge(joined, find(joined)):
            begin, stop = first + max(start - len(before), 0), min(first + end - len(before), last)
            if begin < stop:
                yield begin, stop

    def _skip_head(self, name: OpenName, line: bytes) -> tuple[int | None, int]:
        """Return the offset after the prefix of a line, or None, and the depth of the name in such lines."""
        start = _skip_prefix(name.head, line)
        if start is None and (self._is_within or name.head.endswith(_OPENINGS)):
            return 0, 0
        return start, name.depth

    def _find_in_row(self, name: OpenName, line: bytes) -> Iterator[tuple[int, int]]:
        """Yield the secrets in a line of a table or in rows of an INSERT. Another line ends the table."""
        start = prefix_end(line)
        if name.form == "table":
            spans = [] if NO_ROW.match(line, start) else secret_cells(name.text, line, start)
            self.name = name if spans is not None else None
            yield from spans or ()
            return
        self.name = name if line.rstrip().endswith(b",") else None
        for column, first, last in sql_rows(line, start, sql_columns(name.text)):
            check = column_check(column)
            if check is not None and check(line[first:last]):
                yield first, last

    def _remember_name(self, line: bytes) -> None:
        start = prefix_end(line)
        for form, pattern in _PATTERNS.items():
            spans = pattern.groups(line)
            if spans is None or (form == "table" and not any(read_header(line[start:])[1])):
                continue
            is_whole = form in _WHOLE_LINES
            head = line[: start if is_whole else spans[0][0]]
            opening = _OPENING.search(line)
            if opening is not None and line.count(opening[1]) % 2:
                head += opening[1]
            name = line[start:].strip() if is_whole else line[slice(*max(spans[1:], default=(0, 0)))]
            self.name = OpenName(form, head.translate(ZEROS_FOR_DIGITS), name)
            self._is_within = True
            return


def _skip_prefix(head: bytes, line: bytes) -> int | None:
    """Return the offset after the prefix `head`; None if this line has another prefix. Digits may differ."""
    here = line.translate(ZEROS_FOR_DIGITS)
    position = 0
    for word in head.split():
        here_word = _PREFIX_WORD.match(here, position)
        if here_word is None or here_word[1] != word:
            return None
        position = here_word.end()
    return position


def _values_in_json(line: bytes) -> Iterator[tuple[int, int]]:
    """Yield the values of a Secret that is written as one line of JSON."""
    for each in _MAPS_IN_LINE.finditer(line):
        for pair in _PAIRS_IN_LINE.finditer(line, each.start(2), each.end(2)):
            check = _is_encoded if each.group(1) == b"data" else ordinary_words.is_value
            if check(pair.group(1)):
                yield pair.span(1)
