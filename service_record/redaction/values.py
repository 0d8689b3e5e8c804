"""Values that stand in other lines than their names: in YAML, in JSON for people, and in XML. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from service_record.redaction import ordinary_words, types
from service_record.redaction.bodies import FoundSpan, sub_lines
from service_record.redaction.patterns import part
from service_record.redaction.unescaped import UnescapedText

TRIGGER: Final = rb"""(?:stringD|(?:^|[^A-Za-z])d)ata["'\\]*(?::|&|%3A)[ \t]*(?:\{|\\|&|%|$)|form-data;"""
"""Matches where a map begins that may be that of a Secret, and a part of a form; others have triggers."""
_KIND: Final = "secret-value"
_MAX_LINES: Final = 200
_LEAST_ENCODED: Final = 4
_LEAST_BINARY: Final = 24

_NAME: Final = rb"""["']?[A-Za-z0-9_.-]*(?i:<<TOKENS>>|<<PASSWORDS>>|_pw)<<SUFFIX>>["']?"""
_ASKS: Final = types.compiled(
    part(rb"""^([^\n]*?)(?:-[ \t]+)?""" + _NAME + rb"""[ \t]*[:=][ \t]*([|>][-+0-9]*)?[ \t\r]*$""")
)
_ASKS_XML: Final = types.compiled(part(rb"""^([^\n]*?)<""" + _NAME + rb"""(?:[ \t][^<>\n]*)?>[ \t\r]*$"""))
_ASKS_FORM: Final = types.compiled(
    part(rb"""^([^\n]*?)(?i:content-disposition):[^\n]*;[ \t]*name=""" + _NAME + rb"""[ \t\r]*$""")
)
_ENV: Final = types.compiled(
    part(
        rb"""^([^\n]*?)(?:-[ \t]+)?\{?["']?(?:name|key)["']?[ \t]*:[ \t]*"""
        + _NAME
        + rb"""[ \t]*,?[ \t\r]*$"""
    )
)
_ENV_VALUE: Final = types.compiled(
    rb"""^[^\n]*?["']?\b[Vv]alue["']?[ \t]*:[ \t]*"""
    rb"""(?:"([^"\n]+)|'([^'\n]+)|([^\s"'{\[|>][^\n]*?))[ \t\r,"'}]*$"""
)
_MAP: Final = types.compiled(rb"""^([^\n]*?)["']?(stringData|data)["']?[ \t]*:[ \t]*\{?[ \t\r]*$""")
_PAIR: Final = types.compiled(
    rb"""^[^\n]*?["']?[A-Za-z0-9_.-]+["']?[ \t]*:[ \t]+"""
    rb"""(?:"([^"\n]+)|'([^'\n]+)|([^\s"'{\[|>&*!][^\n]*?))[ \t\r,"']*$"""
)
_MAPS_IN_LINE: Final = types.compiled(rb'"(stringData|data)"[ \t]*:[ \t]*\{([^{}\n]*)\}')
_PAIRS_IN_LINE: Final = types.compiled(rb'"[^"\\\n]+"[ \t]*:[ \t]*"([^"\\\n]+)"')
_ANY: Final = types.compiled(
    part(
        rb"""(?m)"""
        + _NAME
        + rb"""[ \t]*(?:[:=][ \t]*(?:[|>][-+0-9]*)?|,|>|[ \t][^<>\n]*>)?[ \t\r]*$"""
        + rb"""|form-data;|[dD]ata["']?[ \t]*:[ \t]*(?:\{|\r?$)"""
    ),
    groups=False,
)
"""Matches wherever a name may begin to wait for its value."""
_SCALAR: Final = types.compiled(rb"""["']?([^\s"'{\[|>#<-][^\s"']*)["']?[ \t\r,]*""")
_BEGINNINGS: Final = {"map": _MAP, "scalar": _ASKS, "xml": _ASKS_XML, "env": _ENV, "form": _ASKS_FORM}
_KEY: Final = types.compiled(rb"[A-Za-z0-9_.-]+:(?:[ \t]|$)")


@dataclass(frozen=True, slots=True)
class _Open:
    """A name whose value is to come."""

    form: str
    """scalar, block, xml, env, form, or the name of a map."""
    head: bytes
    """What stands before the name in its line."""

    @property
    def depth(self) -> int:
        return len(self.head) - len(self.head.rstrip(b" \t"))


class ValueFollower:
    """Follows names to their values, from line to line."""

    def __init__(self) -> None:
        self._open: _Open | None = None
        self._lines = 0
        self._is_within = False
        """True when the name stands in the same line, before the escape of its end."""

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def spans(self, view: UnescapedText) -> Iterator[FoundSpan]:
        """Yield the values in the next line whose names stand before it, and learn which names are in it."""
        if self._open is None and not _ANY.search(view.text):
            return
        self._is_within = False
        for place, line in sub_lines(view):
            yield from ((place + start, place + end, _KIND) for start, end in self._values(line))

    def _values(self, line: bytes) -> Iterator[tuple[int, int]]:
        if self._open is not None and line.strip():
            self._lines += 1
            spans = list(self._expected(self._open, line))
            yield from spans
            if spans and not self.is_open:
                return
        if self._open is None or self._open.form == "data":
            self._begin(line)
        yield from _in_line(line)

    def _expected(self, name: _Open, line: bytes) -> Iterator[tuple[int, int]]:
        start, depth = _behind(name.head, line), name.depth
        if start is None and self._is_within:
            start = depth = 0
        text = line[start:] if start is not None else b""
        is_deeper = start is not None and len(text) - len(text.lstrip(b" \t")) > depth
        if name.form in {"block", "stringData", "data"}:
            if not is_deeper or self._lines > _MAX_LINES:
                self._open = None
                return
        elif name.form == "form" and _KEY.match(text):
            return
        else:
            self._open = None
        if start is None or not (is_deeper or name.form in {"xml", "env", "form"}):
            return
        span = _value(name.form, text)
        if span:
            yield start + span[0], start + span[1]

    def _begin(self, line: bytes) -> None:
        for form, pattern in _BEGINNINGS.items():
            match = pattern.search(line)
            if match is not None:
                self._open, self._lines = _Open(_form(form, match), match.group(1)), 0
                self._is_within = True
                return


def _form(form: str, match: Any) -> str:
    """Return where the value is to be looked for: a map has the name that it has in the text."""
    if form == "map":
        return str(match.group(2).decode())
    return "block" if form == "scalar" and match.group(2) else form


def _behind(head: bytes, line: bytes) -> int | None:
    """Return where a line goes on behind what a program puts before each; None when that is not there."""
    position = 0
    for word in head.split():
        start = position + len(line[position:]) - len(line[position:].lstrip(b" \t"))
        end = next((at for at in range(start, len(line)) if line[at : at + 1] in b" \t"), len(line))
        if not word or _shape(word) != _shape(line[start:end]):
            return None
        position = end
    return position


def _shape(word: bytes) -> bytes:
    return bytes(48 if 48 <= byte <= 57 else byte for byte in word)  # noqa: PLR2004  # digits


def _value(form: str, text: bytes) -> tuple[int, int] | None:
    """Return where the value is in a line."""
    if form == "block":
        start = len(text) - len(text.lstrip(b" \t"))
        return (start, len(text.rstrip())) if ordinary_words.is_value(text) else None
    if form in {"env", "stringData", "data"}:
        match = (_ENV_VALUE if form == "env" else _PAIR).search(text)
        check = _is_encoded if form == "data" else ordinary_words.is_value
    else:
        match = _SCALAR.fullmatch(text.strip(b" \t\r"))
        check = _is_scalar
    if match is None:
        return None
    group = next(number for number in range(1, match.re.groups + 1) if match.group(number))
    shift = len(text) - len(text.lstrip(b" \t\r")) if check is _is_scalar else 0
    start, end = match.span(group)
    return (start + shift, end + shift) if check(match.group(group)) else None


def _is_scalar(value: bytes) -> bool:
    return ordinary_words.is_password(value) and not _KEY.match(value)


def _is_encoded(value: bytes) -> bool:
    """Tell base64 of a text, and long base64 of bytes, from the plain values of a ConfigMap."""
    decoded = ordinary_words.decoded(value)
    if len(decoded) < _LEAST_ENCODED or len(value) % 4:
        return False
    is_text = decoded.isascii() and decoded.decode().replace("\n", "").replace("\t", "").isprintable()
    return is_text or (len(value) >= _LEAST_BINARY and ordinary_words.is_token(value))


def _in_line(line: bytes) -> Iterator[tuple[int, int]]:
    """Yield the values of a Secret that is one line of JSON."""
    for each in _MAPS_IN_LINE.finditer(line):
        for pair in _PAIRS_IN_LINE.finditer(line, each.start(2), each.end(2)):
            check = _is_encoded if each.group(1) == b"data" else ordinary_words.is_value
            if check(pair.group(1)):
                yield pair.span(1)
