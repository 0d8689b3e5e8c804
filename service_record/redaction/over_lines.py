"""Find secrets that span several lines. Pure.

`Body` finds the lines of a private key below its BEGIN line. `ValueFollower` finds
values that are on another line than their names: in YAML, indented JSON, XML and forms.

Each line is masked as it is read, so nothing has to be kept until a secret ends. A program may add a prefix
or suffix to each line of a key; these are learned from its first lines.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from service_record.redaction import ordinary_words, types
from service_record.redaction.argument_lists import write_word
from service_record.redaction.encodings import from_base64
from service_record.redaction.masks import clip_and_merge
from service_record.redaction.named_values import sql_columns, sql_rows
from service_record.redaction.prefixes import prefix_end
from service_record.redaction.secrets import expand_parts
from service_record.redaction.types import (
    MASK_BEGIN,
    ZEROS_FOR_DIGITS,
    Found,
    UnescapedText,
    iterate_lines,
    line_end,
)

PRIVATE_KEY: Final = "private-key"
_MAX_LINES: Final = 4000
_MAX_FOREIGN_LINES: Final = 160
"""The limit of other lines between two lines of a key: of other programs, or fields of a journal."""
_SURE_BYTES: Final = 40
"""Inside a private key, base64 of this size or more is recognised anywhere in a line."""
_MAX_FRAMED_BYTES: Final = 1 << 13
_MAX_FRAMES: Final = 64
"""The limit of different texts around the lines of a key, each of which is compared with each line."""
_LONG: Final = 24
"""In a key, text of base64 characters of this size or more is not an ordinary word."""
_SHORT: Final = 16
"""The least size of the first line of a key."""
_PEM_UNIT: Final = 4
"""The size of a line of PEM is a multiple of this."""

_BEGIN: Final = re.compile(
    rb"(?:-----)?BEGIN[ +](?:[A-Z0-9 +]{0,40}PRIVATE[ +]KEY(?:[ +]BLOCK)?"
    rb"|OpenVPN[ +]Static[ +]key[ +]V1)-----|Private-Lines:[ +][0-9]+"
)
"""Matches before the lines of a key: PEM, the static keys of OpenVPN, and the keys of PuTTY."""
_END: Final = re.compile(
    rb"-----END[ +](?:[A-Z0-9 +]{0,40}PRIVATE[ +]KEY|OpenVPN[ +]Static[ +]key)|Private-MAC:"
)
_SIGNS: Final = (b"PRIVATE", b"Static", b"Private-Lines")
"""Every text that `_BEGIN` matches contains one of these, which are faster to find."""
_MASK: Final = MASK_BEGIN + rb"[a-z0-9-]*>"
_RUN: Final = re.compile(_MASK + rb"|[A-Za-z0-9+/]+={0,2}")
_VARYING: Final = re.compile(rb"[0-9A-Fa-f]+")
_SEVERAL_BLANKS: Final = re.compile(rb"[ \t]{2,}|\t")
_CLOSING: Final = re.compile(rb"""[\s\0"'`\\,;$)}\]|+&<>*]*""")
_INDENT: Final = b" \t>#*|\"'`+-\0"


class _Frame(NamedTuple):
    """The text before and after the base64 in a line. Numbers become 0, because they differ between lines."""

    head: bytes
    tail: bytes

    @classmethod
    def from_line(cls, line: bytes, start: int, end: int) -> "_Frame":
        """Return the frame around a span of a line. All lines that are too long for a key share one frame."""
        if len(line) > _MAX_FRAMED_BYTES:
            return cls(b"-", b"-")
        return cls(_generalize(line[:start]), _generalize(line[end:]))


class OpenBody(NamedTuple):
    """A private key that may continue in the next line."""

    frames: tuple[_Frame, ...] = ()
    lines: int = 0
    foreign: int = 0
    """The number of other lines since the last line of the secret."""
    has_begun: bool = False

    def with_frame(self, line: bytes, start: int, end: int) -> "OpenBody":
        frame = _Frame.from_line(line, start, end)
        is_new = frame not in self.frames and len(self.frames) < _MAX_FRAMES
        return self._replace(frames=(*self.frames, frame)) if is_new else self


class Body:
    """Finds the lines of a private key, from one line to the next."""

    def __init__(self) -> None:
        self.open: OpenBody | None = None
        """The secret that may continue in the next line, or None."""

    def spans(self, view: UnescapedText) -> Iterator[Found]:
        """Yield the secret parts of the next line, and remember whether the secret continues after it."""
        if self.open is None and not any(sign in view.text for sign in _SIGNS):
            return
        for place, line in iterate_lines(view.text, 0, len(view.text)):
            position = 0
            for begin in _BEGIN.finditer(line):
                if begin.start() > position:
                    yield from self._find_pieces(place, line, position, begin.start())
                position = begin.end()
                self.open = OpenBody().with_frame(line, begin.start(), position)
            yield from self._find_pieces(place, line, position, len(line))

    def _find_pieces(self, place: int, line: bytes, start: int, end: int) -> Iterator[Found]:
        """Yield the pieces of the current secret in a part of a line."""
        if self.open is None:
            return
        closing = _END.search(line, start, end)
        limit = closing.start() if closing else end
        runs, body = _find_runs(self.open, line, start, limit)
        yield from ((place + a, place + b, PRIVATE_KEY) for a, b in runs)
        is_over = closing is not None or body.lines == _MAX_LINES
        body = body._replace(lines=body.lines + 1)
        if runs:
            body = body._replace(foreign=0, has_begun=True)
        elif limit > start and line.find(MASK_BEGIN, start, end) < 0:
            is_over |= body.foreign == _MAX_FOREIGN_LINES
            body = body._replace(foreign=body.foreign + 1)
        self.open = None if is_over else body


def _find_runs(body: OpenBody, line: bytes, start: int, end: int) -> tuple[list[tuple[int, int]], OpenBody]:
    """Return the base64 of the secret in a part of a line, and the secret with the frames of this line."""
    runs: list[tuple[int, int]] = []
    previous = 0
    for run in _RUN.finditer(line, start, end):
        first, last = run.span()
        if line.startswith(MASK_BEGIN, first):
            previous = last
            continue
        goes_on = 0 < previous <= first and not line[previous:first].strip(_INDENT)
        if _is_part(body, line, first, last, goes_on=goes_on):
            if not goes_on:
                body = body.with_frame(line, first, last)
            previous = last
            runs.append((first, last))
    return runs, body


def _is_part(body: OpenBody, line: bytes, start: int, end: int, *, goes_on: bool) -> bool:
    if end - start >= _SURE_BYTES and ordinary_words.is_random(line[start:end]):
        return True
    # A plus at the start may be part of the base64, or mark an added line in a diff.
    fits = _is_long_enough(body, end - start) or (
        line.startswith(b"+", start) and _is_long_enough(body, end - start - 1)
    )
    return fits and (goes_on or _has_known_frame(body, line, start, end))


def _has_known_frame(body: OpenBody, line: bytes, start: int, end: int) -> bool:
    """Return True if the base64 is alone in its line, or has the frame of an earlier line."""
    is_last = _CLOSING.fullmatch(line, end) is not None
    if is_last and start <= _MAX_FRAMED_BYTES and not line[:start].strip(_INDENT):
        return True
    if not is_last and _generalize(line[end : end + 1]) not in {frame.tail[:1] for frame in body.frames}:
        return False
    own = _Frame.from_line(line, start, end)
    return any(own == frame or (is_last and own.head == frame.head) for frame in body.frames)


def _is_long_enough(body: OpenBody, size: int) -> bool:
    """Return True if a run is long enough to be a line of the base64 and not a word."""
    if size >= _LONG:
        return True
    return size % _PEM_UNIT == 0 and (body.has_begun or size >= _SHORT)


def _generalize(text: bytes) -> bytes:
    """Return a text with each number replaced by 0, and with single blanks."""
    return _VARYING.sub(b"0", _SEVERAL_BLANKS.sub(b" ", text))


_COLUMN_END: Final = expand_parts(rb"""(?i:<<PASSWORDS>>|<<TOKENS>>)["']?""")
_COLUMNS: Final = _COLUMN_END + rb"""(?:[,;]["']?[A-Za-z_]|\t| {2}| [/|]|\r?$)"""
"""Matches the end of a column's name in a header. A search for its beginning would take far more states."""
TRIGGER: Final = (
    _COLUMNS + rb"|"
    rb"""(?i:password|passphrase|passcode|token)[ \t][A-Za-z0-9_,.'`/() \t-]*:[ \t]*(?:\\|\r?$)"""
    rb"""|chpasswd["'\\]*:|variable[ \t]+\\*"[A-Za-z0-9_-]+\\*"[ \t]*\{"""
    rb"""|[sS]ecrets["'\\]*:[ \t]*\{?[ \t]*(?:\\|\r?$)|\)[ \t]*(?i:values)[ \t]*(?:\\|\r?$)"""
    rb"""|-[ \t]["']?--?[a-z0-9-]*(?:pass(?:word|wd|phrase)?|token|secret|psk|key)["']?(?:[\\&%#]|\r?$)"""
    rb"""|(?:stringD|(?:^|[^A-Za-z])d)ata["'\\]*(?:(?::|%3A)[ \t]*(?:\{|\\|&|%|$)|&)|form-data;"""
    rb"""|expect[ \t]+[^\n]*ssword|[fF]ollowing[ \t][^\n:=]*passwords[ \t]*:?[ \t]*(?:\\|\r?$)|"""
    + _COLUMN_END
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
    "table": _COLUMNS + rb"""[^\n]*""",
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
_NAME_OF_COLUMN: Final = re.compile(rb"""["']?[A-Za-z_][A-Za-z0-9_.-]*["']?""")
_TEXT: Final = re.compile(rb"[A-Za-z_].*")
_TITLE_OF_COLUMN: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_.-]*(?: [A-Za-z0-9_.-]+){0,2}")
_GAP: Final = re.compile(rb"\t[ \t]*| {2,}| +[/|] +")
"""Matches between the names of columns in a comment above lines whose columns have blanks between them."""
_WORD: Final = re.compile(rb"[ \t]*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"']\S*))(?:[ \t]+|[ \t\r]*\Z)")
_CELL: Final = {
    separator: re.compile(rb' *(?:"((?:[^"]|"")*)"|([^%b"]*))[ \r]*(?:[%b]|\Z)' % (separator, separator))
    for separator in (b",", b";", b"\t", b"|", b":")
}
_REST: Final = re.compile(rb"(\S.*)\Z")
"""Matches the last column of a file in which a colon separates the columns. It may have further colons."""
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
            spans = [] if _NO_ROW.match(line, start) else _secret_cells(name.text, line, start)
            self.name = name if spans is not None else None
            yield from spans or ()
            return
        self.name = name if line.rstrip().endswith(b",") else None
        for column, first, last in sql_rows(line, start, sql_columns(name.text)):
            check = _column_check(column)
            if check is not None and check(line[first:last]):
                yield first, last

    def _remember_name(self, line: bytes) -> None:
        start = prefix_end(line)
        for form, pattern in _PATTERNS.items():
            spans = pattern.groups(line)
            if spans is None or (form == "table" and not any(_read_header(line[start:])[1])):
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


@lru_cache(maxsize=64)
def _read_header(header: bytes) -> tuple[bytes, list[Callable[[bytes], bool] | None]]:
    """Return the separator of the columns, and the check for the values of each; None if not secret.

    A comment may name the columns of the lines below it. There are no checks for a text that is no header.
    """
    text = header.strip(b" \t\r|#;")
    separators = b",;\t|"
    is_comment = header.lstrip().startswith((b"#", b";"))
    if is_comment:
        separators = b"" if _GAP.search(text) else b",;:"
        text = text if not separators else text.split()[-1]  # other words may stand before the columns
    separator = next((bytes([each]) for each in separators if each in text), b"")
    names = [name.strip() for name in (text.split(separator) if separator else _GAP.split(text))]
    name_of_column = _NAME_OF_COLUMN
    if separator in (b"", b"|"):
        name_of_column = _TEXT if is_comment else _TITLE_OF_COLUMN
    if len(names) == 1 or not all(map(name_of_column.fullmatch, names)):
        return separator, []
    return separator, [_column_check(name.strip(b"\"'").replace(b" ", b"_")) for name in names]


def _column_check(name: bytes) -> Callable[[bytes], bool] | None:
    """Return the check for the values of a column of a table; None if they are not secret."""
    if _PASSWORD_COLUMN.find(name) is not None:
        return ordinary_words.is_password
    return ordinary_words.is_token if _TOKEN_COLUMN.find(name) is not None else None


_PASSWORD_COLUMN: Final = types.Finder(expand_parts(rb"(?i:<<PASSWORDS>>)$"))
_TOKEN_COLUMN: Final = types.Finder(expand_parts(rb"(?i:<<TOKENS>>)$"))


def _secret_cells(header: bytes, line: bytes, position: int) -> list[tuple[int, int]] | None:
    """Return the secrets in a row that begins at `position`; None if it has another number of columns."""
    separator, checks = _read_header(header)
    found: list[tuple[int, int]] = []
    if separator == b"|":
        position = len(line) - len(line[position:].lstrip(b" |"))
    end = len(line.rstrip(b" |\r")) if separator == b"|" else len(line)
    for number, check in enumerate(checks):
        is_last = number == len(checks) - 1
        pattern = _REST if is_last and separator == b":" else _CELL.get(separator, _WORD)
        cell = pattern.match(line, position, end)
        if cell is None or (cell.end() < end or cell[0].endswith(separator or b" ")) is is_last:
            return None
        position = cell.end()
        first, last = cell.span(cell.lastindex or 0)
        value = line[first:last].rstrip(b" \r")
        if check is not None and check(value):
            found.append((first, first + len(value)))
    return found


_NO_ROW: Final = re.compile(rb"[ \t]*(?:[#;]|[-+|: \t]+\r?\Z)")
"""Matches a comment, or a line below the header of a table."""


def _values_in_json(line: bytes) -> Iterator[tuple[int, int]]:
    """Yield the values of a Secret that is written as one line of JSON."""
    for each in _MAPS_IN_LINE.finditer(line):
        for pair in _PAIRS_IN_LINE.finditer(line, each.start(2), each.end(2)):
            check = _is_encoded if each.group(1) == b"data" else ordinary_words.is_value
            if check(pair.group(1)):
                yield pair.span(1)


class CommandText(NamedTuple):
    """The lines of a command as one text, written as a shell traces it."""

    text: bytes
    parts: Sequence[tuple[int, int, int]]
    """The parts of the text that come from lines: offset in the text, offset in the log, size."""

    def places(self, secrets: Iterable[Found]) -> Iterator[Found]:
        """Yield the secrets in the text by their offsets in the log. A secret in two lines has two places."""
        ends = [offset + size for offset, _, size in self.parts]
        for start, end, kind in secrets:
            mark = ""
            for offset, place, size in self.parts[bisect_right(ends, start) :]:
                if offset >= end:
                    break
                yield place + max(start - offset, 0), place + min(end - offset, size), mark + kind
                mark = "+"


class CommandFollower:
    """Joins the lines of a command: a pipeline in a trace, lines that backslashes continue, and arguments in
    a list.
    """

    def __init__(self) -> None:
        self._head = b""
        """The beginning of the command, from lines that were read."""
        self._depth: int | None = None
        """The indentation of a list; None for lines that end in a backslash."""
        self._lines = 0
        self.is_open = False
        """True if the next line may belong to the command."""
        self.end = 0
        """Where the line after the command begins."""

    def begins_in(self, line: bytes) -> bool:
        """Return True if a command begins in a line and may continue in the next one."""
        if b"+ " in line and TRACED_OUTPUT.search(line) is not None:
            return True
        return (b"- " in line or line.endswith(_MAY_CONTINUE)) and (
            _CONTINUED.search(line) is not None or _ARGUMENTS.fullmatch(line, prefix_end(line)) is not None
        )

    def begin(self, log: bytes, start: int, end: int) -> list[CommandText]:
        """Take the first line of a command, for which `begins_in` returned True; return like `join`."""
        line = log[start:end]
        texts = _join_pipeline(log, line, start, end)
        head = prefix_end(line)
        self._lines, self._depth = 0, None
        if _CONTINUED.search(line) is not None:
            self._head = line[head:].rstrip(b"\\\r")
            self.is_open = True
        elif (arguments := _ARGUMENTS.fullmatch(line, head)) is not None:
            self._head = arguments[3] or b""
            self._depth = len(arguments[1]) + len(arguments[2] or b"")
            self.is_open = True
        return texts + self.join(log, end + 1)

    def join(self, log: bytes, position: int) -> list[CommandText]:
        """Return the texts of the next lines of the command, from the line at `position` on.

        Sets `end`. At the end of the log, the command stays open. A long command is several texts that begin
        with its program: each line is read once.
        """
        texts: list[CommandText] = []
        while self.is_open and position < len(log):
            pieces = [b"+ ", _shorten(self._head)]
            size = sum(map(len, pieces))
            parts: list[tuple[int, int, int]] = []
            while self.is_open and position < len(log) and size < _MAX_JOINED_BYTES:
                end = line_end(log, position)
                line = log[position:end]
                part = self._find_part(line, prefix_end(line))
                if part is None or self._lines > _MAX_ARGUMENTS:
                    self.is_open = False
                    break
                first, last = part
                word = line[first:last] if self._depth is None else write_word(line[first:last])
                parts.append((size + 1, position + first, last - first))
                pieces += (b" ", word)
                size += 1 + len(word)
                self._lines += 1
                position = end + 1
                if self._depth is None and _CONTINUED.search(line) is None:
                    self.is_open = False
            text = b"".join(pieces)
            self._head = text[2:]
            if parts:
                texts.append(CommandText(text, parts))
        self.end = position
        return texts

    def _find_part(self, line: bytes, start: int) -> tuple[int, int] | None:
        """Return the span of the part of the command in a line, or None if the command has ended."""
        if self._depth is None:
            return start, len(line.rstrip(b"\\\r"))
        item = _ARGUMENT.groups(line[start:])
        if item is None:
            return None
        (_, depth), (mark, _), *values = item[1:]
        first, last = max(values)
        is_inside = depth > self._depth or (depth == self._depth and mark >= 0)
        return (start + first, start + last) if is_inside else None


TRACED_OUTPUT: Final = re.compile(rb"\+ (?:\S+: )?(?:echo|printf) (?:(?:-[neE]+|'?%s(?:\\n)?'?) )?\S+\s*\Z")
"""Matches an output of one word. Several words are mostly a message: `echo 'Unlocking the disk'`."""


def _join_pipeline(log: bytes, line: bytes, start: int, end: int) -> list[CommandText]:
    """Return a line, a pipe, and the command in the next line as one text; none if they are no pipeline.

    `set -x` of a shell prints the commands of a pipeline on lines of their own. The command that reads the
    output tells whether it is a password.
    """
    if (output := TRACED_OUTPUT.search(line)) is None:
        return []
    prefix, plus, reader = log[end + 1 : line_end(log, end + 1)].partition(b"+ ")
    # There is one `+` for each level of subshells, which may differ.
    prefixes = {each.rstrip(b"+").translate(ZEROS_FOR_DIGITS) for each in (prefix, line[: output.start()])}
    if not plus or len(prefixes) > 1:
        return []
    return [CommandText(line + b" | " + reader, [(0, start, len(line))])]


_MAY_CONTINUE: Final = (b"\\", b":", b"[", b"\r")
_CONTINUED: Final = re.compile(rb"(?<!\\)\\\r?\Z")
_ARGUMENTS: Final = re.compile(
    rb"""([ \t]*)(?:((?:-[ \t]+)?)["']?\w*(?i:command|cmd|args|argv|entrypoint)["']?[ \t]*[:=][ \t]*\[?"""
    rb"""|-[ \t]+["']?(--?[A-Za-z][A-Za-z0-9-]*)["']?,?)[ \t\r]*"""
)
"""Matches a name of arguments, or an argument that is an option, with the indentation before it."""
_ARGUMENT: Final = types.Finder(
    rb"""^([ \t]*)(-[ \t]+)*(?:"([^\n]*)"|'([^\n]*)'|([^\s"'\]}][^\n]*?)),?[ \t\r]*$""", groups=True
)
_MAX_ARGUMENTS: Final = 200
_MAX_JOINED_BYTES: Final = 1 << 12
_MAX_COMMAND_BYTES: Final = 1 << 8
"""Each text of a long command begins with this part of the text before it."""


def _shorten(command: bytes) -> bytes:
    """Return the first and the last words of a long command: its program, and the option of the next word."""
    if len(command) <= _MAX_COMMAND_BYTES:
        return command
    half = _MAX_COMMAND_BYTES // 2
    return command[:half].rpartition(b" ")[0] + b" " + command[-half:].partition(b" ")[2]
