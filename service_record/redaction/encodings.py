"""Decode text that may hide a secret: base64, gzip, hexadecimal, dumps of bytes, quoted-printable. Pure.

`types` decodes the escapes of single characters (JSON, percent, C, XML). `secrets` has the forms in which a
known secret is searched for.
"""

import binascii
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from service_record.redaction import types
from service_record.redaction.syntax import prefix_end
from service_record.redaction.types import UnescapedText, from_base64, line_end

_MAX_PLAIN_BYTES: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
_AS_GZIP: Final = 31

# Three bytes of ASCII in base64: their highest bits are zero. Only a tenth of all groups of four match.
# `C` begins a group that begins with a tab or a line feed.
_GROUP: Final = rb"[CI-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
_BASE64_TEXT: Final = rb"(?:" + _GROUP + rb"){5}"
_BASE64_GZIP: Final = rb"H4sI[A-Za-z0-9+/]{4}"
_HEX_TEXT: Final = rb"(?:[2-7][0-9A-Fa-f]|0[09aAdD]){14}|=(?:[2-7][0-9A-F]|0[09AD]){6}"
_DUMP: Final = rb"[0-9A-Fa-f]{6}:? {1,2}(?:[0-9A-Fa-f]{2} ){4}|[0-9A-Fa-f]{6}:? (?:[0-9A-Fa-f]{4} ){3}"
TRIGGER: Final = b"|".join((_BASE64_TEXT, _BASE64_GZIP, _HEX_TEXT, _DUMP, rb"[^=\s]=\r?$", rb"type=EXECVE"))
"""Matches wherever text may be in one of these encodings."""
ESCAPED: Final = rb"%3[AaDd]|%20|\\u00(?:2[dD]|3[aAdD]|5[fF]|20)"
"""Matches an escaped `=`, `:` or blank, as around names and values, and an escaped `-` or `_` in a name."""

_BASE64: Final = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")
_LOOKS_BASE64: Final = types.Finder(_BASE64_TEXT + rb"|" + _BASE64_GZIP)
_HEX: Final = re.compile(rb"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}){6,}(?![0-9A-Fa-f])")
_HAS_HEX: Final = types.Finder(rb"[0-9A-Fa-f]{12}")
"""Matches in each text with a match of `_HEX`, in a tenth of its time."""
_LOOKS_HEX: Final = types.Finder(rb"^(?:[2-7][0-9A-Fa-f]|0[09aAdD])+$")
_EXECVE: Final = b"type=EXECVE"
_COUNT: Final = re.compile(rb"argc=\d+")
_ARGUMENT: Final = re.compile(rb' a\d+(?:\[\d+\])?=(?:"([^"\n]*)"|((?:[0-9A-F]{2})+)(?![^ \n]))')


def decode_runs(text: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield start, end and decoded text of each run of hexadecimal and base64 in a line."""
    for run in _HEX.finditer(text) if _HAS_HEX.find(text) is not None else ():
        if _LOOKS_HEX.find(run[0]) is not None:
            yield *run.span(), _split_arguments(binascii.unhexlify(run[0]))
    for run in _BASE64.finditer(text):
        looks = _LOOKS_BASE64.find(text, *run.span())
        if looks is not None:
            shift = (looks[0] - run.start()) % 4
            yield *run.span(), _text_or_empty(inflate(from_base64(text[run.start() + shift : run.end()])))


def _split_arguments(data: bytes) -> bytes:
    """Return the data; if it has NULs, return it as a command line, and with each argument on its own line.

    audit(8) separates the arguments of a process with NULs.
    """
    if b"\0" not in data:
        return data
    return data.translate(_UNBROKEN).replace(b"\0", b" ") + b"\n" + data.replace(b"\0", b"\n")


def inflate(data: bytes, max_bytes: int = _MAX_PLAIN_BYTES) -> bytes:
    """Decompress up to `max_bytes` of gzip data; empty if it is damaged. Other data is returned unchanged."""
    if not data.startswith(_GZIP):
        return data
    try:
        return zlib.decompressobj(_AS_GZIP).decompress(data, max_bytes)
    except zlib.error:
        return b""


def _text_or_empty(data: bytes) -> bytes:
    """Return the data if it looks like text, else empty bytes.

    Digests, certificates and other random bytes would match shapes by chance.
    """
    odd = len(data.translate(None, _TEXT_BYTES))
    return data if _ODD_BYTES_DIVISOR * odd < len(data) else b""


_TEXT_BYTES: Final = b"\0\t\n\r\x1b" + bytes(range(0x20, 0x7F))
_ODD_BYTES_DIVISOR: Final = 4
"""Less than a quarter of a text may be bytes beyond printable ASCII. Of random bytes, three in five are."""


def audit_command(view: UnescapedText) -> UnescapedText | None:
    """Return the command line of an EXECVE record of audit(8), or None. Its arguments may be hexadecimal."""
    begin, record = None, view.text.find(_EXECVE)
    while record >= 0 and begin is None:
        line_end = view.text.find(b"\n", record)
        line_end = line_end if line_end >= 0 else len(view.text)
        begin = _COUNT.search(view.text, record, line_end)
        record = view.text.find(_EXECVE, line_end)
    if begin is None:
        return None
    pieces: list[bytes] = []
    places: list[int] = []
    widths: list[int] = []
    for argument in _ARGUMENT.finditer(view.text, begin.end()):
        is_hex = argument[1] is None
        word = (binascii.unhexlify(argument[2]) if is_hex else argument[1]).translate(_UNBROKEN)
        pieces += [word, b" "]
        places += argument.span(2 if is_hex else 1)
        widths += [2 if is_hex else 1, 1]
    if not pieces:
        return None
    starts = accumulate(map(len, pieces[:-1]), initial=0)
    return UnescapedText(b"".join(pieces), list(starts), places, view, widths)


def listed_commands(view: UnescapedText) -> Iterator[UnescapedText]:
    """Yield each list of quoted words that is a command as a command line.

    Programs print the arguments of a command as a list of Python or JSON: `['app', '-p', 'x']`. It has an
    option or a pipe among its words, or a name that says what it is.
    """
    is_list = b"['" in view.text or b'["' in view.text
    for each in _WORD_LIST.finditer(view.text) if is_list else ():
        before = view.text[max(0, each.start() - _MAX_NAME_BYTES) : each.start()]
        if _OPTION_IN_LIST.search(each[0]) is None and _COMMAND_NAME.search(before) is None:
            continue
        pieces: list[bytes] = []
        places: list[int] = []
        for word in _LISTED_WORD.finditer(view.text, *each.span()):
            start, end = word.span(word.lastindex or 0)
            pieces += [view.text[start:end].translate(_UNBROKEN), b" "]
            places += [start, end]
        starts = accumulate(map(len, pieces[:-1]), initial=0)
        yield UnescapedText(b"".join(pieces), list(starts), places, view)


_UNTIL: Final = rb"([^%b\\\n]{0,512}(?:\\.[^%b\\\n]{0,512}){0,64})"
_WORD_IN_QUOTES: Final = rb"(?:'" + _UNTIL % (b"'", b"'") + rb"'|\"" + _UNTIL % (b'"', b'"') + rb"\")"
_LISTED_WORD: Final = re.compile(_WORD_IN_QUOTES)
_OPTION_IN_LIST: Final = re.compile(rb"""["'], ?["'](?:-|\|["'])""")
_COMMAND_NAME: Final = re.compile(rb"""\b(?i:command|cmd|args?|argv|exec|entrypoint)["']?[ \t:=]{1,3}\Z""")
_MAX_NAME_BYTES: Final = 16
_WORD_LIST: Final = re.compile(rb"\[" + _WORD_IN_QUOTES + rb"(?:, ?" + _WORD_IN_QUOTES + rb"){1,64}\]")
"""Matches a list of two words or more. The counts bound the time for a list that never ends."""


_UNBROKEN: Final = bytes.maketrans(b" \n", b"\x01\x01")
"""Table that replaces the blanks in an argument, so that the argument stays one word."""


# --- Blocks of several lines ---

_SINGLE: Final = re.compile(
    rb"[0-9A-Fa-f]{6,8}:? {1,2}((?:[0-9A-Fa-f]{2} {1,2}){0,31}[0-9A-Fa-f]{2})[ \r]*(?:\|.*)?\Z"
)
_PAIRS: Final = re.compile(
    rb"[0-9A-Fa-f]{6,8}: ((?:[0-9A-Fa-f]{4} ){0,15}(?:[0-9A-Fa-f]{4}|[0-9A-Fa-f]{2}))(?:  .*)?[ \r]*\Z"
)
_SWAPPED: Final = re.compile(rb"[0-9A-Fa-f]{7} ((?:[0-9A-Fa-f]{4} ){0,15}[0-9A-Fa-f]{4})[ \r]*\Z")
_PLAIN_HEX: Final = re.compile(rb"((?:[0-9A-Fa-f]{2}){8,})[ \r]*\Z")
_BASE64_LINE: Final = re.compile(rb"""[ \t>|"'*#-]*([A-Za-z0-9+/]{40,}={0,2})["',\\ \t\r]*\Z""")
_BASE64_END: Final = re.compile(rb"""[ \t>|"'*#-]*([A-Za-z0-9+/]{2,}={0,2})["',\\ \t\r]*\Z""")
_ONLY_BASE64: Final = re.compile(
    # The blanks are bounded, and each lookahead stops at the first other character: a line of blanks would
    # take quadratic time.
    rb"[ \t]{0,64}(?![a-z][a-z0-9]{2,31}/)(?=[a-z0-9+/]*[A-Z])(?=[A-Z0-9+/]*[a-z])(?=[A-Za-z+/]*[0-9])"
    rb"[A-Za-z0-9+/]{40,}={0,2}[ \t\r]*"
)
"""Words do not have digits and letters of both cases. In `USER/PASSWORD` the second one may be a password."""
_CANDIDATE: Final = re.compile(
    rb"""[ \t>|"'*#-]*(?:[0-9A-Fa-f]{6,8}:? |[A-Za-z0-9+/]{16})|[^\n]{60,75}=\r?(?:\n|\Z)"""
)
_QUOTED_LINE: Final = re.compile(rb"([\t\x20-\x7e]{60,75}=)\r?\Z")
"""Matches a line of quoted-printable whose line break is not part of the text (RFC 2045, 6.7)."""
_QUOTED_END: Final = re.compile(rb"([\t\x20-\x7e]{0,76})\r?\Z")


def _from_digits(digits: bytes) -> bytes:
    digits = digits.replace(b" ", b"")
    return binascii.unhexlify(digits[: len(digits) & ~1])


def _from_swapped(digits: bytes) -> bytes:
    data = _from_digits(digits)
    swapped = bytearray(data)
    swapped[0::2], swapped[1::2] = data[1::2], data[0::2]
    return bytes(swapped)


@dataclass(frozen=True, slots=True)
class _Encoding:
    """One way to write bytes as lines."""

    line: re.Pattern[bytes]
    """Matches a line. The group has the encoded bytes."""
    decode: Callable[[bytes], bytes]
    """Decodes the bytes of a line; those of all lines together if `is_joined`."""
    last: re.Pattern[bytes] | None = None
    """Matches a last line of another form."""
    is_joined: bool = False
    is_dump: bool = False
    """True if the lines have offsets and bytes, and nothing else."""


_BASE64_LINES: Final = _Encoding(
    _BASE64_LINE, lambda text: inflate(from_base64(text)), _BASE64_END, is_joined=True
)
ENCODINGS: Final = (
    _Encoding(_SINGLE, _from_digits, is_dump=True),
    _Encoding(_PAIRS, _from_digits, is_dump=True),
    _Encoding(_SWAPPED, _from_swapped, is_dump=True),
    _Encoding(_PLAIN_HEX, _from_digits),
    _BASE64_LINES,
    _Encoding(_QUOTED_LINE, binascii.a2b_qp, _QUOTED_END),
)
"""The encodings of blocks of lines. A line has the first one that matches it."""
_ANY_LINE: Final = re.compile(b"|".join(each.line.pattern for each in ENCODINGS))
_MAX_BACK_BYTES: Final = 1 << 16
KEY_END: Final = re.compile(rb"-----END [A-Z0-9 ]*PRIVATE KEY")
_MIN_BLOCK_LINES: Final = 2
"""`decode_runs` decodes a single line of hexadecimal or base64."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines that together encode one text."""

    start: int
    end: int
    """The start of the line after the block."""
    spans: list[tuple[int, int]]
    """The span of the encoded part of each line."""
    starts: list[int]
    """The offset of each line in the decoded text; empty for base64, whose lines are decoded together."""
    plain: bytes
    is_key: bool = False
    """True if the next line ends a private key."""
    is_dump: bool = False
    """True if the lines are a dump: offsets and bytes, and nothing else."""

    def encoded_spans(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the encoded spans for a span of the decoded text."""
        if not self.starts:
            return self.spans
        first = bisect_right(self.starts, start) - 1
        return [span for at, span in zip(self.starts[first:], self.spans[first:], strict=True) if at < end]


def _match_line(text: bytes, start: int, form: re.Pattern[bytes]) -> tuple[int, int, int] | None:
    """Return the span of a line's encoded part, and the line's end; None if the line has another form."""
    end = line_end(text, start)
    match = form.match(text, prefix_end(text, start), end)
    return (*match.span(1), end) if match is not None and end - start < _MAX_BACK_BYTES else None


def _width(text: bytes, start: int, form: re.Pattern[bytes]) -> int:
    found = _match_line(text, start, form)
    return found[1] - found[0] if found is not None else 0


def _find_encoding(text: bytes, start: int) -> _Encoding | None:
    first = prefix_end(text, start)
    if _CANDIDATE.match(text, first) is None:
        return None
    end = line_end(text, start)
    if end - start >= _MAX_BACK_BYTES:
        return None
    match = _ANY_LINE.match(text, first, end)
    return ENCODINGS[(match.lastindex or 1) - 1] if match is not None else None


def may_be_in_block(line: bytes) -> bool:
    """Return True if the lines around a line decide whether it encodes a text or ends a private key."""
    return ends_key(line) or _find_encoding(line, 0) is not None


def only_base64(lines: Iterable[bytes]) -> set[bytes]:
    """Return the lines of only base64, as in a certificate: no name or word in them has a value."""
    # Few lines are without blanks, and seeing that takes a tenth of the time of the pattern.
    without_blanks = [line for line in lines if b" " not in line.strip()]
    return {line for line in without_blanks if _ONLY_BASE64.fullmatch(line) is not None}


def find_block(text: bytes, start: int, floor: int) -> Block | None:
    """Return the block around the line at `start`, or None. The block does not begin before `floor`."""
    encoding = _find_encoding(text, start)
    if encoding is None:
        return None
    form, is_joined = encoding.line, encoding.is_joined
    begin = start
    while begin > floor and begin > start - _MAX_BACK_BYTES:
        before = text.rfind(b"\n", floor, begin - 1) + 1 or floor
        found = _match_line(text, before, form)
        if found is None or (is_joined and found[1] - found[0] < _width(text, begin, form)):
            break
        begin = before
    lines: list[tuple[int, int, int]] = []
    position = begin
    width = 0
    is_open = True
    while is_open and position < len(text) and (found := _match_line(text, position, form)) is not None:
        size = found[1] - found[0]
        if is_joined and width and size > width:
            break
        lines.append(found)
        position = found[2] + 1
        is_open = not (is_joined and (size < width or text[found[1] - 1 : found[1]] == b"="))
        width = size
    if is_open and encoding.last is not None and position < len(text):
        last = _match_line(text, position, encoding.last)
        if last is not None and (
            not is_joined or (last[1] - last[0] < width and (last[1] - last[0]) % 4 == 0)
        ):
            lines.append(last)
            position = last[2] + 1
    position = min(position, len(text))
    is_key = encoding is _BASE64_LINES and ends_key(text[position : line_end(text, position)])
    if not encoding.is_dump and len(lines) < _MIN_BLOCK_LINES and not is_key:
        return None
    spans = [(first, end if encoding.is_dump else after) for first, after, end in lines]
    parts = [text[first:after] for first, after, _ in lines]
    pieces = [encoding.decode(part) for part in ([b"".join(parts)] if is_joined else parts)]
    starts = [] if is_joined else list(accumulate(map(len, pieces[:-1]), initial=0))
    plain = b"".join(pieces)
    if not encoding.is_dump:
        plain = _text_or_empty(plain)
    return Block(begin, position, spans, starts, plain, is_key, encoding.is_dump)


def end_before_block(text: bytes, end: int) -> int:
    """Return `end`; if the line before it may be part of a block, return the start of that block."""
    begin = end
    while begin > 0 and begin > end - _MAX_BACK_BYTES:
        before = text.rfind(b"\n", 0, begin - 1) + 1
        if _find_encoding(text, before) is None:
            break
        begin = before
    return begin or end


def key_lines_before(text: bytes, start: int, floor: int) -> list[tuple[int, int]]:
    """Return the spans of base64 before the END line at `start`, for a key whose BEGIN line is missing."""
    spans: list[tuple[int, int]] = []
    while start > floor:
        before = text.rfind(b"\n", floor, start - 1) + 1 or floor
        found = _match_line(text, before, _BASE64_END)
        if found is None or (spans and not _match_line(text, before, _BASE64_LINE)):
            break
        spans.append(found[:2])
        start = before
    has_begin = b"-----BEGIN" in text[text.rfind(b"\n", floor, max(start - 1, floor)) + 1 : start]
    return [] if has_begin else spans[::-1]


def ends_key(line: bytes) -> bool:
    return b"-----END" in line and KEY_END.search(line) is not None
