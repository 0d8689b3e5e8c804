"""Find where values end: with their quotes, their line, the next item of a list, or their word. Pure.

Patterns elsewhere find where a value begins; outside JSON, only this module decides where it ends.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from service_record.redaction.encodings import unescape
from service_record.redaction.types import UnescapedText

_QUOTED: Final = re.compile(
    # Each alternative begins with its quote, so that `re` skips other text fast.
    rb"""\"(?<![A-Za-z0-9\\"']")[^"\\\n]*(?:\\.[^"\\\n]*)*\""""
    rb"""|'(?<![A-Za-z0-9\\"']')[^'\n]*(?:'(?:\\'|"'")?'[^'\n]*)*'""",
    re.DOTALL,
)
_DOUBLE_QUOTED: Final = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_SHELL_QUOTED: Final = re.compile(rb"""'([^']*(?:'(?:\\'|"'")?'[^']*){0,64})'""")
_BACK_QUOTED: Final = re.compile(rb"`([^`\n]+)`(?=[\s)}\]]|[,;:.]\s|\Z)")
_BRACE_QUOTED: Final = re.compile(rb"\{(?=[A-Za-z0-9_.]*[^A-Za-z0-9_.}\s])([^}\s]*(?:\}\}[^}\s]*)*)\}(?=;)")
"""Matches a value in a connection string of ODBC, but no `{name}` of a template."""
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
_SIGNS_IN_PARTS: Final = (b" ", b"\t", b"\\", b"''", b'"\'"')
"""Quotes without one of these contain only a word. Finding each of many words takes long."""


def quoted_parts(view: UnescapedText) -> Iterator[UnescapedText]:  # noqa: C901, PLR0912 - one loop for each syntax
    """Yield the unescaped quoted texts, and the unescaped parameters, path segments and data of URLs.

    A quoted word without escapes is not among them: no other text is in it.
    """
    text = view.text
    if b"'" in text or b'"' in text:
        for match in _ANSI_QUOTED.finditer(text):
            yield _unescaped_part(view, *match.span(1))
        for match in _QUOTED.finditer(text) if any(sign in text for sign in _SIGNS_IN_PARTS) else ():
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


def _unescaped_part(view: UnescapedText, start: int, end: int) -> UnescapedText:
    part = view.part(start, end)
    return unescape(part, is_quoted=True) or part


_DOUBLE_QUOTE: Final = ord('"')


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
        """Return the end of a value that is the rest of its line or quotes; 0 for another value."""
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
        end = self._word_end(start, limit)
        if item is not None:
            end = self._find_next(item, start, end)
        return ValueSpan(start, self.end_before_marks(start, end, first, limit))

    def end_before_marks(self, start: int, end: int, first: int, limit: int) -> int:
        """Return the end of a word in the text from `first` to `limit`, without the text's closing marks."""
        text = self.data
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
        return end

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
        elif quote == b"{":
            match = _BRACE_QUOTED.match(text, start, limit)
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
