r"""One table of the ways in which programs encode text. Pure.

Each row says how encoded text looks and how it is decoded. There are three kinds:

- `ESCAPES`: a few bytes stand for one character, as in `%3D`. The position of each character is known.
- `RUNS`: a text in a line is encoded as a whole, as in base64.
- `LINES`: several lines encode a text together, as in a dump. `blocks` finds the lines.

Encodings may be nested.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate
from operator import floordiv
from typing import Final

from service_record.redaction.types import Finder, UnescapedText, escape_literal


@dataclass(frozen=True, slots=True)
class Escape:
    """A way to write single characters."""

    name: str
    mark: bytes
    """The first bytes of each escape."""
    pattern: bytes
    decode: Callable[[bytes], bytes]
    """Returns the characters of one or more equal escapes."""


@dataclass(frozen=True, slots=True)
class RunEncoding:
    """A way to write a text as a word or a few."""

    name: str
    decode: Callable[[bytes], bytes]
    """Returns the text of a run, or empty bytes if it is invalid."""
    pattern: bytes
    sign: bytes
    """A pattern that encoded text matches, and random bytes such as digests do not."""
    trigger: bytes = b""
    """A pattern that each line with such a text matches, if `sign` matches too many."""
    group: int = 1
    """The number of characters that are decoded together."""


@dataclass(frozen=True, slots=True)
class LineEncoding:
    """A way to write a text as several lines."""

    name: str
    decode: Callable[[bytes], bytes]
    """Returns the text of a line, or of all lines joined; empty bytes if it is invalid."""
    line: re.Pattern[bytes]
    """Matches a line. The group is the encoded text."""
    last: re.Pattern[bytes] | None = None
    """Matches a last line of another form."""
    trigger: bytes = b""
    """A pattern that at least one of the lines matches; empty if the trigger of another row matches one."""
    is_joined: bool = False
    """True if the lines are decoded together."""
    is_dump: bool = False
    """True if the lines have offsets and bytes, and nothing else."""


# --- Escapes ---

_MAX_BYTE: Final = 0xFF
_MAX_CONTROL: Final = 0x20
_DELETE: Final = 0x7F
_BOUNDARY: Final = b"\0"
"""Replaces a terminal's colour code, and separates an unescaped letter or digit from a word after it."""
_FOREIGN: Final = b"\x80"
"""Replaces a character beyond Latin-1."""
_SIMPLE: Final = bytes.maketrans(b"nrtbfvae0", b"\n\r\t\b\f\v\a\x1b\0")
"""Table for the character after a backslash."""
_NAMED: Final[Mapping[bytes, bytes]] = {
    b"&quot;": b'"',
    b"&apos;": b"'",
    b"&lt;": b"<",
    b"&gt;": b">",
    b"&amp;": b"&",
    b"&nbsp;": b" ",
    b"^I": b"\t",
    b"^M": b"\r",
    b"^J": b"\n",
}


def decode_code(value: int) -> bytes:
    """Return the byte of a character's code."""
    return bytes([value]) if value <= _MAX_BYTE else _FOREIGN


def _decode_hex(text: bytes) -> bytes:
    """Return the bytes that are written in hexadecimal, whatever separates them."""
    digits = _SEPARATORS.sub(b"", text)
    return binascii.unhexlify(digits[: len(digits) & ~1])


_SEPARATORS: Final = re.compile(rb"0x|[^0-9A-Fa-f]")


def _decode_unicode(run: bytes) -> bytes:
    return b"".join(decode_code(int(digits, 16)) for digits in run.split(rb"\u")[1:])


def _decode_backslashes(run: bytes) -> bytes:
    if run[2:3].isdigit():
        return b"".join(decode_code(int(digits, 8)) for digits in run.split(b"\\")[1:])
    return run[1::2].translate(_SIMPLE)


def _decode_entity(escape: bytes) -> bytes:
    if not escape.startswith(b"&#"):
        return _NAMED.get(escape, escape)
    digits = escape[2:-1].lower()
    return decode_code(int(digits.strip(b"x"), 16) if digits.startswith(b"x") else int(digits))


def _decode_syslog(escape: bytes) -> bytes:
    """Decode an escape of rsyslog: `#012` is a line feed, but `#123` is a number and stays."""
    value = int(escape[1:], 8)
    return decode_code(value) if value < _MAX_CONTROL or value == _DELETE else escape


_MAX_RUN: Final = 32
"""The number of equal escapes that are decoded as one piece. The pieces are remembered, so it is small."""


def _repeat(escape: bytes) -> bytes:
    return b"%b(?:%b){0,%d}" % (escape, escape, _MAX_RUN - 1)


_HEX: Final = b"[0-9A-Fa-f]"
_PAIR: Final = 2 * _HEX
_UNICODE: Final = _repeat(rb"\\u" + 2 * _PAIR)
ESCAPES: Final = (
    Escape("JSON", rb"\u", _UNICODE, _decode_unicode),
    Escape(
        "quotes",
        b"\\",
        _repeat(rb"\\[0-3][0-7][0-7]") + b"|" + _repeat(rb"\\(?:[nrtbfvae!-/:-@\[-`{-~ ]|0(?![0-7][0-7]))"),
        _decode_backslashes,
    ),
    Escape("\\x", rb"\x", _repeat(rb"\\x" + _PAIR), lambda run: binascii.unhexlify(run.replace(rb"\x", b""))),
    Escape("percent", b"%", _repeat(b"%" + _PAIR), _decode_hex),
    Escape("XML", b"&", rb"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[a-z]{2,5});", _decode_entity),
    Escape("syslog", b"#", b"#[0-3][0-7][0-7]", _decode_syslog),
    Escape("colour", b"\x1b", rb"\x1b\[[0-9;?]*[A-Za-z]", lambda _: _BOUNDARY),
    Escape("colour, cat -v", b"^[", rb"\^\[\[[0-9;?]*[A-Za-z]", lambda _: _BOUNDARY),
)
_CARET: Final = Escape("cat -A", b"^", rb"\^[IMJ]", lambda escape: _NAMED[escape])
"""A password may contain the same two characters, so these are decoded only if there is no other escape."""


def _join_patterns(patterns: Iterable[bytes]) -> re.Pattern[bytes]:
    # Each alternative begins with one character, so that `re` skips other text fast.
    return re.compile(b"(" + b"|".join(patterns) + b")")


_ESCAPE: Final = _join_patterns(each.pattern for each in ESCAPES)
_QUOTED_ESCAPE: Final = _join_patterns([_UNICODE, _repeat(rb"""\\[nrtbf"'/\\$`]""")])
_CARET_ESCAPE: Final = _join_patterns([_CARET.pattern])
_ESCAPES_BY_SIGN: Final = {
    sign: _join_patterns(each.pattern for each in ESCAPES if each.mark.startswith(sign))
    for sign in (b"\\", b"%", b"&", b"#")
}
_BY_MARK: Final = {each.mark: each.decode for each in (*ESCAPES, _CARET)}
_MAY_ESCAPE: Final = re.compile(rb"[\\%&#^\x1b]")
ESCAPED: Final = (
    rb"%(?:25)*(?:3[AaDd]|20)|\\u00(?:2[dD]|3[aAdD]|5[fF]|20)|\\x(?:3[aAdD]|20)|\\0(?:40|7[25])"
    rb"|&#(?:32|58|61|[xX](?:20|3[aAdD]));"
)
"""Matches an escaped `=`, `:` or blank, as around names and values, and an escaped `-` or `_` in a name."""

_MAX_LEVELS: Final = 4
"""Enough for three levels of JSON with an escape in the innermost one."""
_NULS: Final = re.compile(rb"\0+")
_NULS_DIVISOR: Final = 3
"""A text is read as UTF-16 if a third of its bytes are NUL. Nearly half are, in ASCII text."""


def unescaped_views(text: bytes) -> list[UnescapedText]:
    """Return the text itself, and a copy for each level of escapes removed."""
    views = [UnescapedText(text, [], [])]
    if _is_wide(text):
        views.append(views[0].replace_spans((nuls.span() for nuls in _NULS.finditer(text)), b""))
    while len(views) <= _MAX_LEVELS and (finer := unescape(views[-1])) is not None:
        views.append(finer)
    return views


def _is_wide(text: bytes) -> bool:
    """Return True if a text may be UTF-16 or UTF-32."""
    return _NULS_DIVISOR * text.count(b"\0") >= len(text) > 0


def unescape(below: UnescapedText, *, is_quoted: bool = False) -> UnescapedText | None:
    """Return a text with one level of escapes replaced by their characters, or None if it has no escapes.

    `is_quoted`: replace only the backslash escapes of quoted strings, as in JSON.
    """
    if not _MAY_ESCAPE.search(below.text):
        return None
    if is_quoted:
        return _replace(below, _QUOTED_ESCAPE)
    return _replace(below, _ESCAPE) or _replace(below, _CARET_ESCAPE)


def readings(text: bytes) -> list[UnescapedText]:
    """Return the text itself, and copies without one or more of the kinds of escapes in it.

    A password may contain the same characters as an escape of one kind, and be escaped in another way. So
    one kind of escapes is removed at a time.
    """
    views = [UnescapedText(text, [], [])]
    texts = {text}
    for view in views:  # grows
        for sign, kind in _ESCAPES_BY_SIGN.items():
            finer = _replace(view, kind) if sign in view.text else None
            if finer is not None and finer.text not in texts and len(views) < _MAX_READINGS:
                views.append(finer)
                texts.add(finer.text)
    return views


_MAX_READINGS: Final = 16


def _replace(below: UnescapedText, pattern: re.Pattern[bytes]) -> UnescapedText | None:
    plain = decode_escapes(below.text, pattern)
    if plain is None:
        return None
    text, starts, places, widths = plain
    return UnescapedText(text, starts, places, below, widths)


@lru_cache(maxsize=4)
def decode_escapes(
    text: bytes, pattern: re.Pattern[bytes]
) -> tuple[bytes, list[int], list[int], list[int]] | None:
    """Return the unescaped text; None without escapes. `UnescapedText` describes the three lists.

    Some texts have an escape for each character. So a run of equal escapes is one piece, and this function
    works on whole lists and calls no Python function for each run, apart from the cached `_characters`.
    """
    plain, runs = (parts := pattern.split(text))[::2], parts[1::2]
    characters = list(map(_characters, runs))
    if characters == runs:
        return None
    # Text without escapes and runs take turns. A boundary separates a run from a word after it.
    pieces = [b""] * len(parts)
    pieces[::2] = plain
    pieces[1::2] = [
        decoded + _BOUNDARY if decoded[-1:] in _WORDS and behind[:1] in _WORDS and decoded != run else decoded
        for run, decoded, behind in zip(runs, characters, plain[1:], strict=True)
    ]
    widths = [1] * len(parts)
    widths[1::2] = map(floordiv, map(len, runs), map(len, characters))
    starts, places = (list(accumulate(map(len, each), initial=0)) for each in (pieces, parts))
    return b"".join(pieces), starts[:-1], places[:-1], widths


_WORDS: Final = frozenset(bytes([byte]) for byte in range(256) if bytes([byte]).isalnum())


@lru_cache(maxsize=1024)
def _characters(run: bytes) -> bytes:
    """Return the characters of a run of escapes, one byte each; the run itself if they are not escapes."""
    return (_BY_MARK.get(run[:2]) or _BY_MARK[run[:1]])(run)


ESCAPED_RUN: Final = rb"(?:(?:[\\%]+|&(?:amp;)*)[#xu0-9A-Fa-f]{2,12};?){6,}"
"""Matches text in which each character is escaped, once or more often."""


def make_escaped_pattern(text: bytes) -> bytes:
    """Return a pattern for a text in which any sign may be escaped, once or several times."""
    return b"".join(map(_any_writing, text))


@cache
def _any_writing(byte: int) -> bytes:
    """Return a pattern of a byte. Programs that escape letters and digits escape all of a text."""
    literal = escape_literal(bytes([byte]))
    if byte in _NEVER_ESCAPED or byte > _MAX_ASCII:
        return literal
    digits = b"(?i:%02x)" % byte
    return b"(?:%b)" % b"|".join(
        (
            rb"\\*" + literal,
            rb"\\+(?:%03o|(?:u00|x)" % byte + digits + b")",
            b"%(?:25)*" + digits,
            b"&(?:amp;)*(?:[a-z]{2,5}|#%d|#[xX]" % byte + digits + b");",
        )
    )


_MAX_ASCII: Final = 0x7F
_NEVER_ESCAPED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:")

# --- Runs ---

_MAX_PLAIN_BYTES: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
_ZLIB: Final = (b"x\x9c", b"x\xda")
_ANY_HEADER: Final = 47
"""Lets zlib read its own format and gzip's."""
_TEXT_BYTES: Final = b"\0\t\n\r\x1b" + bytes(range(0x20, 0x7F))
_ODD_BYTES_DIVISOR: Final = 4
"""Less than a quarter of a text may be bytes beyond printable ASCII. Of random bytes, three in five are."""
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")


def from_base64(value: bytes, *, is_strict: bool = False) -> bytes:
    """Decode base64 or base64url, with or without padding. Returns empty bytes if the value is not valid.

    `is_strict` rejects other characters, which are otherwise ignored.
    """
    plain = value.translate(_STANDARD).rstrip(b"=")
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=is_strict)
    except binascii.Error:
        return b""


def inflate(data: bytes, max_bytes: int = _MAX_PLAIN_BYTES) -> bytes:
    """Decompress up to `max_bytes` of gzip or zlib; empty if it is damaged. Returns other data unchanged."""
    if not data.startswith((_GZIP, *_ZLIB)):
        return data
    try:
        return zlib.decompressobj(_ANY_HEADER).decompress(data, max_bytes)
    except zlib.error:
        return b""


def is_text(data: bytes) -> bool:
    """Return True if the data looks like text.

    Digests, certificates and other random bytes would match shapes by chance.
    """
    return _ODD_BYTES_DIVISOR * len(data.translate(None, _TEXT_BYTES)) < len(data)


def read_text(data: bytes) -> bytes:
    """Return the text in decoded bytes, which may be compressed or UTF-16; empty if they are not text.

    audit(8) separates the arguments of a process with NULs. They are returned as a command line, and each on
    its own line.
    """
    data = inflate(data)
    if not is_text(data):
        return b""
    if _is_wide(data):
        return WIDE.decode(data)
    if b"\0" not in data:
        return data
    return data.translate(UNBROKEN).replace(b"\0", b" ") + b"\n" + data.replace(b"\0", b"\n")


UNBROKEN: Final = bytes.maketrans(b" \t\n", b"\x01\x01\x01")
"""Table that replaces the blanks in an argument, so that the argument stays one word."""


def _decode_base32(text: bytes) -> bytes:
    text = text.rstrip(b"=")
    return base64.b32decode(text + b"A" * (-len(text) % 8))[: 5 * len(text) // 8]


# Three bytes of ASCII in base64: their highest bits are zero. Only a tenth of all groups of four match.
# `C` begins a group that begins with a tab or a line feed.
_GROUP: Final = rb"[CI-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghijklopstwx014589][A-Za-z0-9+/_-]"
_WIDE_GROUPS: Final = rb"[I-Za-f][AQgw][AB][A-Za-z0-9+/]A[C-H][AEIMQUYcgkosw048]A"
"""Matches three characters of ASCII in base64 of UTF-16, in which each second byte is a NUL."""
_BASE32_GROUP: Final = (
    rb"[BE-P][ABEFIJMNQRUVYZ45][A-Z2-7][A-HQ-X][ACEGIKMOQSUWY246][A-Z2-7][A-DI-LQ-TYZ23][A-Z2-7]"
)
_BASE64: Final = rb"[A-Za-z0-9+/_-]{16,}={0,2}"
_BASE64_OF_ZIP: Final = rb"(?:H4sI|eJ[w-z]|eN[o-r])"
_BASE64_TEXT: Final = rb"(?:" + _GROUP + rb"){5}|(?:" + _WIDE_GROUPS + rb"){2}"
_TEXT_PAIR: Final = rb"(?:[2-7][0-9A-Fa-f]|0[09aAdD])"
_APART: Final = rb"[ :,-] ?(?:0x)?"
WIDE: Final = RunEncoding(
    "UTF-16",
    lambda text: text.replace(b"\0", b""),
    pattern=rb"(?:\0[\t -~]){8,}|(?:[\t -~]\0){8,}",
    sign=rb"(?:[ -~]\0){8}",
)
BASE64: Final = RunEncoding(
    "base64",
    from_base64,
    pattern=_BASE64,
    sign=_BASE64_TEXT,
    group=4,
)
HEXADECIMAL: Final = RunEncoding(
    "hex",
    _decode_hex,
    pattern=rb"(?<!" + _HEX + rb")(?:" + _PAIR + rb"){6,}(?!" + _HEX + rb")",
    sign=_TEXT_PAIR + rb"{6}",
    trigger=_TEXT_PAIR + rb"{14}|=(?:[2-7][0-9A-F]|0[09AD]){6}",
    group=2,
)
BYTES_APART: Final = RunEncoding(
    "hex, bytes apart",
    _decode_hex,
    pattern=rb"\b(?:0x)?" + _PAIR + rb"(?:" + _APART + _PAIR + rb"){7,}\b",
    sign=_TEXT_PAIR + rb"(?:" + _APART + _TEXT_PAIR + rb"){7}",
)
RUNS: Final = (
    WIDE,
    HEXADECIMAL,
    BYTES_APART,
    BASE64,
    RunEncoding(
        "compressed",
        from_base64,
        pattern=rb"(?<![A-Za-z0-9+/_-])" + _BASE64_OF_ZIP + _BASE64,
        sign=_BASE64_OF_ZIP,
        trigger=_BASE64_OF_ZIP + rb"[A-Za-z0-9+/]{4}",
    ),
    RunEncoding(
        "base32",
        _decode_base32,
        pattern=rb"[A-Z2-7]{24,}={0,6}",
        sign=rb"(?:" + _BASE32_GROUP + rb"){3}",
        group=8,
    ),
)


_RUNS: Final = [(re.compile(each.pattern), Finder(each.sign), each) for each in RUNS]


def decode_runs(text: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield start, end and decoded text of each encoded run in a line."""
    for pattern, sign, encoding in _RUNS:
        for run in pattern.finditer(text) if sign.find(text) is not None else ():
            found = sign.find(text, *run.span())
            if found is not None:
                start = run.start() + (found[0] - run.start()) % encoding.group
                yield *run.span(), read_text(encoding.decode(text[start : run.end()]))


# --- Lines ---


def _decode_swapped(digits: bytes) -> bytes:
    data = _decode_hex(digits)
    swapped = bytearray(data)
    swapped[0::2], swapped[1::2] = data[1::2], data[0::2]
    return bytes(swapped)


def _decode_uu(line: bytes) -> bytes:
    try:
        return binascii.a2b_uu(line)
    except binascii.Error:  # the line with `begin`
        return b""


_OFFSET: Final = rb"[0-9A-Fa-f]{6,8}"
_BASE64_LINE: Final = rb"""[ \t>|"'*#-]*([A-Za-z0-9+/]{%d,}={0,2})["',\\ \t\r]*\Z"""
_PAIRS: Final = rb"(?:" + _PAIR + _PAIR + rb" ){0,15}" + _PAIR
BASE64_REST: Final = re.compile(_BASE64_LINE % 2)
"""Matches a short line of base64, such as the last one."""
BASE64_LINES: Final = LineEncoding(
    "base64 in lines",
    lambda text: read_text(from_base64(text)),
    line=re.compile(_BASE64_LINE % 40),
    last=BASE64_REST,
    is_joined=True,
)
LINES: Final = (
    LineEncoding(
        "hexdump -C",
        _decode_hex,
        line=re.compile(
            _OFFSET + rb":? {1,2}((?:" + _PAIR + rb" {1,2}){0,31}" + _PAIR + rb")[ \r]*(?:\|.*)?\Z"
        ),
        trigger=rb"[0-9A-Fa-f]{6}:? {1,2}(?:" + _PAIR + rb" ){4}",
        is_dump=True,
    ),
    LineEncoding(
        "xxd",
        _decode_hex,
        line=re.compile(_OFFSET + rb": (" + _PAIRS + rb"(?:" + _PAIR + rb")?)(?:  .*)?[ \r]*\Z"),
        trigger=rb"[0-9A-Fa-f]{6}:? (?:" + _PAIR + _PAIR + rb" ){3}",
        is_dump=True,
    ),
    LineEncoding(
        "od -x",
        _decode_swapped,
        line=re.compile(rb"[0-9A-Fa-f]{7} (" + _PAIRS + _PAIR + rb")[ \r]*\Z"),
        is_dump=True,
    ),
    LineEncoding("xxd -p", _decode_hex, line=re.compile(rb"((?:" + _PAIR + rb"){8,})[ \r]*\Z")),
    BASE64_LINES,
    LineEncoding(
        "quoted-printable",
        binascii.a2b_qp,
        line=re.compile(rb"([\t\x20-\x7e]{60,75}=)\r?\Z"),
        last=re.compile(rb"([\t\x20-\x7e]{0,76})\r?\Z"),
        trigger=rb"[^=\s]=\r?$",
    ),
    LineEncoding(
        "uuencode in lines",
        _decode_uu,
        line=re.compile(rb"(begin [0-7]{3,4} [^\n]*|M[ -`]{60})\r?\Z"),
        last=re.compile(rb"([!-M][ -`]{2,60})\r?\Z"),
        trigger=rb"begin [0-7]{3} [A-Za-z0-9_.-]",
    ),
)
"""A line has the first of these encodings that matches it."""

ENCODINGS: Final = (*ESCAPES, *RUNS, *LINES)
TRIGGER: Final = b"|".join(
    [
        *(each.trigger or each.sign for each in RUNS),
        *(each.trigger for each in LINES if each.trigger),
    ]
)
"""Matches wherever text may be in a run or lines."""

_ONLY_BASE64: Final = re.compile(
    # The blanks are bounded, and each lookahead stops at the first other character: a line of blanks would
    # take quadratic time.
    rb"[ \t]{0,64}(?![a-z][a-z0-9]{2,31}/)(?=[a-z0-9+/]*[A-Z])(?=[A-Z0-9+/]*[a-z])(?=[A-Za-z+/]*[0-9])"
    rb"[A-Za-z0-9+/]{40,}={0,2}[ \t\r]*"
)
"""Words do not have digits and letters of both cases. In `USER/PASSWORD` the second one may be a password."""


def is_only_base64(line: bytes) -> bool:
    """Return True for a line of only base64, as in a certificate: no name or word in it has a value."""
    return _ONLY_BASE64.fullmatch(line) is not None
