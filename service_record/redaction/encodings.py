r"""One table of the ways in which programs encode text. Pure.

Each row says how encoded text looks, how it is decoded, and how a secret is written in it. There are three
kinds:

- `ESCAPES`: a few bytes stand for one character, as in `%3D`. The position of each character is known.
- `RUNS`: a text in a line is encoded as a whole, as in base64.
- `LINES`: several lines encode a text together, as in a dump. `blocks` finds the lines.

Encodings may be nested. The readers decode unknown secrets, `secrets.forms` writes known ones, and a test
checks each row for both.
"""

import base64
import binascii
import html
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate
from math import lcm
from operator import floordiv
from typing import Final

from service_record.redaction.types import Finder, UnescapedText


def _no_forms(_value: bytes) -> Iterable[bytes]:
    return ()


@dataclass(frozen=True, slots=True)
class Encoding:
    """One way to write a text."""

    name: str
    decode: Callable[[bytes], bytes]
    """Decodes one or more equal escapes, a run, or a line. Returns empty bytes if it is invalid."""
    encode: Callable[[bytes], Iterable[bytes]] = _no_forms
    """Returns the ways to write a text, unless its lines have more than the text in them."""

    def write(self, value: bytes) -> Iterator[bytes]:
        """Yield all forms of a secret, in a text of its own and in a longer one."""
        yield from self.encode(value)


@dataclass(frozen=True, slots=True)
class Escape(Encoding):
    """A way to write single characters."""

    mark: bytes = b""
    """The first bytes of each escape."""
    pattern: bytes = b""
    any_byte: tuple[bytes, ...] = ()
    """The formats of `%` for any byte. Programs mostly escape only special characters."""

    def write(self, value: bytes) -> Iterator[bytes]:
        yield from self.encode(value)
        yield from (_replace_bytes(value, _bytes_in(form)) for form in self.any_byte)


def _replace_bytes(value: bytes, table: Sequence[bytes]) -> bytes:
    """Return the value with each byte replaced by its text in a table of 256. Secrets have many forms."""
    return b"".join(map(table.__getitem__, value))


@cache
def _bytes_in(form: bytes) -> Sequence[bytes]:
    """Return the text of each byte in a format of `%`."""
    return [form % byte[0] for byte in _ALL_BYTES]


_ALL_BYTES: Final = [bytes([byte]) for byte in range(256)]


@dataclass(frozen=True, slots=True)
class RunEncoding(Encoding):
    """A way to write a text as a word or a few."""

    bits: int = 0
    """The bits in each character, if the text may be encoded together with other text."""
    pattern: bytes = b""
    sign: bytes = b""
    """A pattern that encoded text matches, and random bytes such as digests do not.

    If it is empty, another row decodes such runs.
    """
    trigger: bytes = b""
    """A pattern that each line with such a text matches, if `sign` matches too many."""
    group: int = 1
    """The number of characters that are decoded together."""

    def write(self, value: bytes) -> Iterator[bytes]:
        yield from self.encode(value)
        yield from self.inside(value)

    def inside(self, value: bytes) -> Iterator[bytes]:
        """Yield the value inside other text, once for each place in a group of characters.

        Characters that also encode bits of the other text are left out.
        """
        for before in range(lcm(8, self.bits) // 8 if self.bits else 0):
            first, last = -(-8 * before // self.bits), 8 * (before + len(value)) // self.bits
            yield from (text[first:last] for text in self.encode(bytes(before) + value))


@dataclass(frozen=True, slots=True)
class LineEncoding(Encoding):
    """A way to write a text as several lines."""

    line: re.Pattern[bytes] = re.compile(b"")
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


def _byte(value: int) -> bytes:
    return bytes([value]) if value <= _MAX_BYTE else _FOREIGN


def _decode_hex(text: bytes) -> bytes:
    """Return the bytes that are written in hexadecimal, whatever separates them."""
    digits = _SEPARATORS.sub(b"", text)
    return binascii.unhexlify(digits[: len(digits) & ~1])


_SEPARATORS: Final = re.compile(rb"0x|[^0-9A-Fa-f]")


def _decode_unicode(run: bytes) -> bytes:
    return b"".join(_byte(int(digits, 16)) for digits in run.split(rb"\u")[1:])


def _decode_backslashes(run: bytes) -> bytes:
    if run[2:3].isdigit():
        return b"".join(_byte(int(digits, 8)) for digits in run.split(b"\\")[1:])
    return run[1::2].translate(_SIMPLE)


def _decode_entity(escape: bytes) -> bytes:
    if not escape.startswith(b"&#"):
        return _NAMED.get(escape, escape)
    digits = escape[2:-1].lower()
    return _byte(int(digits.strip(b"x"), 16) if digits.startswith(b"x") else int(digits))


def _decode_syslog(escape: bytes) -> bytes:
    """Decode an escape of rsyslog: `#012` is a line feed, but `#123` is a number and stays."""
    value = int(escape[1:], 8)
    return _byte(value) if value < _MAX_CONTROL or value == _DELETE else escape


def _write_json(value: bytes) -> Iterator[bytes]:
    r"""Yield the value as a JSON string. Go also escapes `<`, `>` and `&`, and PHP escapes `/`."""
    text = value.decode(errors="surrogateescape")
    for ascii_only in (False, True):
        plain = json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode(errors="surrogateescape")
        yield plain
        yield plain.replace(b"&", rb"\u0026").replace(b"<", rb"\u003c").replace(b">", rb"\u003e")
        yield plain.replace(b"/", rb"\/")


def _write_quoted(value: bytes) -> Iterator[bytes]:
    """Yield the value as a shell (in both quotes and without), C, Python, YAML and SQL quote it."""
    yield from (value.replace(b"'", quote) for quote in (rb"'\''", b"'\"'\"'", b"''"))
    yield _BASH_SPECIAL.sub(rb"\\\g<0>", value)
    yield from (_add_backslashes(value, special) for special in (b'"\\$`', b"\\", b"\\'"))
    in_c = _add_backslashes(value, b'\\"').replace(b"\n", rb"\n").replace(b"\t", rb"\t")
    yield from (in_c, in_c.replace(b"'", rb"\'"))


def _write_hex_escapes(value: bytes) -> Iterator[bytes]:
    r"""Yield the value with the `\x` escapes of C, of journald, and of the names of systemd's units."""
    yield from (_replace_bytes(value, table) for table in _hex_escape_tables())


@cache
def _hex_escape_tables() -> Sequence[Sequence[bytes]]:
    plain = (_PRINTABLE - set(b"\\"), _PRINTABLE - set(b"\\\"'"), _ALPHANUMERIC | set(b":_."))
    return [[byte if byte[0] in each else rb"\x%02x" % byte[0] for byte in _ALL_BYTES] for each in plain]


_PRINTABLE: Final = frozenset(range(32, 127))
_ALPHANUMERIC: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_BASH_SPECIAL: Final = re.compile(rb"(?![A-Za-z0-9%+./:=@_#~-])[ -~]|^[#~]|(?<=[:=])~")
"""Matches what `printf %q` of bash escapes: `#` only as the first character, `~` where bash expands it."""


def _add_backslashes(value: bytes, special: bytes) -> bytes:
    return re.sub(b"[" + re.escape(special) + b"]", rb"\\\g<0>", value)


def _write_percent(value: bytes) -> Iterator[bytes]:
    """Yield the value percent-encoded: all but letters and digits, as in paths and queries, and as a form.

    Hexadecimal digits are in upper and in lower case.
    """
    used = set(value) - _ALPHANUMERIC - set(b"_.-~")
    for safe in (b"/:@!$&'()*+,;=?", b"/:@!$'()*,;=-._~", b"/", b""):
        upper = lower = value
        for byte in sorted(used.difference(safe), key=_PERCENT_SIGN.__ne__):  # this sign first: others add it
            upper = upper.replace(b"%c" % byte, b"%%%02X" % byte)
            lower = lower.replace(b"%c" % byte, b"%%%02x" % byte)
        yield from (upper, lower)
    yield upper.replace(b"%20", b"+")


_PERCENT_SIGN: Final = ord("%")


_MAX_RUN: Final = 32
"""The number of equal escapes that are decoded as one piece. The pieces are remembered, so it is small."""


def _repeat(escape: bytes) -> bytes:
    return b"%b(?:%b){0,%d}" % (escape, escape, _MAX_RUN - 1)


_HEX: Final = b"[0-9A-Fa-f]"
_PAIR: Final = 2 * _HEX
JSON: Final = Escape(
    "JSON",
    _decode_unicode,
    _write_json,
    mark=rb"\u",
    pattern=_repeat(rb"\\u" + 2 * _PAIR),
    any_byte=(rb"\u%04x",),
)
QUOTES: Final = Escape(
    "quotes",
    _decode_backslashes,
    _write_quoted,
    mark=b"\\",
    pattern=_repeat(rb"\\[0-3][0-7][0-7]") + b"|" + _repeat(rb"""\\(?:[nrtbfvae"'/\\$` ]|0(?![0-7][0-7]))"""),
    any_byte=(rb"\%03o",),
)
PERCENT: Final = Escape(
    "percent",
    _decode_hex,
    _write_percent,
    mark=b"%",
    pattern=_repeat(b"%" + _PAIR),
    any_byte=(b"%%%02X", b"%%%02x"),
)
ESCAPES: Final = (
    JSON,
    QUOTES,
    PERCENT,
    Escape(
        "\\x",
        lambda run: binascii.unhexlify(run.replace(rb"\x", b"")),
        _write_hex_escapes,
        mark=rb"\x",
        pattern=_repeat(rb"\\x" + _PAIR),
        any_byte=(rb"\x%02x",),
    ),
    Escape(
        "XML",
        _decode_entity,
        lambda value: (html.escape(value.decode("latin-1")).encode("latin-1"),),
        mark=b"&",
        pattern=rb"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[a-z]{2,5});",
        any_byte=(b"&#%d;", b"&#x%x;"),
    ),
    Escape("syslog", _decode_syslog, mark=b"#", pattern=b"#[0-3][0-7][0-7]"),
    Escape("colour", lambda _: _BOUNDARY, mark=b"\x1b", pattern=rb"\x1b\[[0-9;?]*[A-Za-z]"),
    Escape("colour, cat -v", lambda _: _BOUNDARY, mark=b"^[", pattern=rb"\^\[\[[0-9;?]*[A-Za-z]"),
)
# Each alternative begins with one character, so that `re` skips other text fast.
_ESCAPE: Final = re.compile(b"(" + b"|".join(each.pattern for each in ESCAPES) + b")")
_QUOTED_ESCAPE: Final = re.compile(b"(" + JSON.pattern + b"|" + _repeat(rb"""\\[nrtbf"'/\\$`]""") + b")")
_CARET: Final = Escape("cat -A", lambda escape: _NAMED[escape], mark=b"^", pattern=rb"\^[IMJ]")
"""A password may contain the same two characters, so these are decoded only if there is no other escape."""
_CARET_ESCAPE: Final = re.compile(b"(" + _CARET.pattern + b")")
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
    plain = decode_escapes(below.text, _QUOTED_ESCAPE if is_quoted else _ESCAPE)
    if plain is None and not is_quoted:
        plain = decode_escapes(below.text, _CARET_ESCAPE)
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
_DIGITS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_UU_DIGITS: Final = b"`" + bytes(range(0x21, 0x60))


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
    lambda value: (value.decode("latin-1").encode(each) for each in ("utf-16-le", "utf-16-be")),
    pattern=rb"(?:\0[\t -~]){8,}|(?:[\t -~]\0){8,}",
    sign=rb"(?:[ -~]\0){8}",
)
BASE64: Final = RunEncoding(
    "base64",
    from_base64,
    lambda value: (base64.b64encode(value),),
    pattern=_BASE64,
    sign=_BASE64_TEXT,
    group=4,
    bits=6,
)
BASE64_URL: Final = RunEncoding(
    "base64url", from_base64, lambda value: (base64.urlsafe_b64encode(value),), bits=6
)
HEXADECIMAL: Final = RunEncoding(
    "hex",
    _decode_hex,
    lambda value: (value.hex().encode(), value.hex().upper().encode()),
    pattern=rb"(?<!" + _HEX + rb")(?:" + _PAIR + rb"){6,}(?!" + _HEX + rb")",
    sign=_TEXT_PAIR + rb"{6}",
    trigger=_TEXT_PAIR + rb"{14}|=(?:[2-7][0-9A-F]|0[09AD]){6}",
    group=2,
)
BYTES_APART: Final = RunEncoding(
    "hex, bytes apart",
    _decode_hex,
    lambda value: (value.hex(":").encode(), value.hex(" ").encode(), value.hex(",").encode()),
    pattern=rb"\b(?:0x)?" + _PAIR + rb"(?:" + _APART + _PAIR + rb"){7,}\b",
    sign=_TEXT_PAIR + rb"(?:" + _APART + _TEXT_PAIR + rb"){7}",
)
RUNS: Final = (
    WIDE,
    HEXADECIMAL,
    BYTES_APART,
    BASE64,
    BASE64_URL,
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
        lambda value: (base64.b32encode(value),),
        pattern=rb"[A-Z2-7]{24,}={0,6}",
        sign=rb"(?:" + _BASE32_GROUP + rb"){3}",
        group=8,
        bits=5,
    ),
    RunEncoding(
        "uuencode",
        lambda text: from_base64(text.translate(bytes.maketrans(_UU_DIGITS, _DIGITS))),
        lambda value: (base64.b64encode(value).rstrip(b"=").translate(bytes.maketrans(_DIGITS, _UU_DIGITS)),),
        bits=6,
    ),
    RunEncoding("base85", base64.b85decode, lambda value: (base64.b85encode(value),)),
    RunEncoding("ascii85", base64.a85decode, lambda value: (base64.a85encode(value),)),
)


_RUNS: Final = [(re.compile(each.pattern), Finder(each.sign), each) for each in RUNS if each.sign]


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
        lambda value: (value.replace(b"=", b"=3D"),),
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

ENCODINGS: Final[tuple[Encoding, ...]] = (*ESCAPES, *RUNS, *LINES)
TRIGGER: Final = b"|".join(
    [
        *(each.trigger or each.sign for each in RUNS if each.sign),
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
