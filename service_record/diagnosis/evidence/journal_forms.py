"""Convert journals in any format of journalctl, and text in UTF-16 or with colours, to plain lines. Pure.

Each entry becomes lines of the form `TIME HOST;UNIT;PRIORITY PROGRAM[PID]: MESSAGE`. `log_lines` parses them.
In text formats, which have no unit and no priority, the part after the host is missing. `PRIORITY;boot` marks
the first entry of another boot. An entry becomes as many lines as it has in its file, so that line numbers
stay correct.

https://systemd.io/JOURNAL_EXPORT_FORMATS specifies the export format.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec

from service_record.record.recognition import FileForm

_BLOCK_BYTES: Final = 1 << 18
_SIZE_BYTES: Final = 8
_MAX_FIELD_BYTES: Final = 16 << 20
_MAX_DIGITS: Final = 16  # of microseconds since 1970, up to the year 2286
_MAX_KEPT_BYTES: Final = 1 << 14  # of one field
_MAX_OBJECT_LINES: Final = 1000
_ESCAPES: Final = rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_=>])|\r(?=\n)|\0"
"""Control sequences of terminals (ECMA-48), carriage returns and NULs, as serial consoles log them."""
LOST_COLOURS: Final = r"(?:\^\[)?\[\d{1,3}(?:;\d{1,3}){0,4}m"
"""Colours in a copy that has lost its escape characters, or shows them as `^[`."""
_VERBOSE_TIME: Final = rb"[A-Z][a-z]{2} (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d\.\d+) \S+ \["
_VERBOSE_STAMP: Final = rb"[;\[]t=([0-9a-f]{1,14})[;\]]"
_VERBOSE_FIELD: Final = rb" {4}([A-Z_][A-Z0-9_]*)=(.*)"

Read = Callable[[int], bytes]
Fields = dict[bytes, bytes]
_T = TypeVar("_T")


def convert_to_lines(form: FileForm, read: Read) -> Read:
    """Return a function that reads a file as plain lines, one block per call. It ignores its argument."""
    if form in WITH_FIELDS:
        boots = _Boots()
        blocks = _join_blocks(
            _read_entries(
                form, read, lambda fields, line, lines: _entry_lines(boots.mark(fields), line, lines)
            )
        )
    elif form is FileForm.UTF_16:
        blocks = _strip_escapes(_decode_utf_16(read))
    else:
        blocks = _strip_escapes(iter(lambda: read(_BLOCK_BYTES), b""))
    return lambda _: next(blocks, b"")


def prepend(head: bytes, read: Read) -> Read:
    """Return a function that reads a file of which `head` was read already. It ignores its argument."""
    blocks = chain([head], iter(lambda: read(_BLOCK_BYTES), b""))
    return lambda _: next(blocks, b"")


WITH_FIELDS: Final = frozenset({FileForm.JOURNAL_EXPORT, FileForm.JOURNAL_JSON, FileForm.JOURNAL_VERBOSE})
"""Journal formats whose entries have named fields."""


def read_fields(form: FileForm, read: Read) -> Iterator[Fields]:
    """Yield the fields of each entry of a journal in one of the formats WITH_FIELDS."""
    return (
        entry for entry in _read_entries(form, read, lambda fields, *_: fields) if isinstance(entry, dict)
    )


def _read_entries(
    form: FileForm, read: Read, convert: "Callable[[Fields, int, int], _T]"
) -> "Iterator[_T | bytes]":
    """Yield each entry converted by `convert`, and lines between entries unchanged."""
    if form is FileForm.JOURNAL_EXPORT:
        return _export_entries(_Buffer(read), convert)
    if form is FileForm.JOURNAL_JSON:
        return _json_entries(_Buffer(read), convert)
    return _verbose_entries(_Buffer(read), convert)


def _strip_escapes(blocks: Iterator[bytes]) -> Iterator[bytes]:
    for block in blocks:
        if b"\x1b" in block or b"\r\n" in block or b"\0" in block:
            block = re.sub(_ESCAPES, b"", block)  # noqa: PLW2901
        if b"[0m" in block:  # searching for the whole pattern in each block would take long
            block = re.sub(LOST_COLOURS.encode(), b"", block)  # noqa: PLW2901
        yield block or b" "  # an empty block would end the file


def _decode_utf_16(read: Read) -> Iterator[bytes]:
    """Yield UTF-16 text, as Windows saves it, in UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    while chunk := read(_BLOCK_BYTES):
        yield decoder.decode(chunk).encode() or b" "


class _Buffer:
    """Reads a file by lines or by a number of bytes."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._data = b""
        self._place = 0

    def line(self) -> bytes:
        """Return the next line with its newline; without a newline, the rest of the file."""
        while (end := self._data.find(b"\n", self._place)) < 0:
            if len(self._data) - self._place > _MAX_FIELD_BYTES or not self._read_more():
                return self.take(len(self._data) - self._place)
        return self.take(end + 1 - self._place)

    def take(self, count: int) -> bytes:
        """Return `count` bytes, fewer only at the end."""
        while len(self._data) - self._place < count and self._read_more():
            pass
        piece = self._data[self._place : self._place + count]
        self._place += len(piece)
        return piece

    def _read_more(self) -> bool:
        chunk = self._read(_BLOCK_BYTES)
        self._data, self._place = self._data[self._place :] + chunk, 0
        return bool(chunk)


class _Boots:
    """Marks the first message of each boot in a journal, except the first boot."""

    def __init__(self) -> None:
        self._boot = b""

    def mark(self, fields: Fields) -> Fields:
        boot = fields.get(b"_BOOT_ID", b"")
        if boot != self._boot and boot and fields.get(b"MESSAGE"):
            if self._boot:
                fields[b"boot"] = b";boot"
            self._boot = boot
        return fields


def _join_blocks(entries: Iterator[bytes]) -> Iterator[bytes]:
    """Join entries to blocks of at least _BLOCK_BYTES."""
    block = bytearray()
    for entry in entries:
        block += entry
        if len(block) >= _BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


def _export_entries(source: _Buffer, convert: Callable[[Fields, int, int], _T]) -> Iterator[_T]:
    fields: Fields = {}
    lines = message_line = 0
    while line := source.line():
        name, equals, value = line.rstrip(b"\n").partition(b"=")
        begun, lines = lines, lines + 1
        if equals:
            fields[name] = value[:_MAX_KEPT_BYTES]
        elif name:
            size = source.take(_SIZE_BYTES)
            length = int.from_bytes(size, "little")
            if length > _MAX_FIELD_BYTES:
                break  # damaged: the start of the next field cannot be found
            value = source.take(length + 1)
            fields[name] = value[:-1][:_MAX_KEPT_BYTES]
            lines += size.count(b"\n") + value.count(b"\n")
        if name == b"MESSAGE":
            message_line = begun
        if not name:
            yield convert(fields, message_line, lines)
            fields, lines, message_line = {}, 0, 0
    if fields:
        yield convert(fields, message_line, lines)


class _JsonFields(msgspec.Struct):
    """The fields to keep. Values are strings, lists of bytes, or null for very long values."""

    MESSAGE: Any = None
    PRIORITY: Any = None
    UNIT: Any = None
    SYSLOG_IDENTIFIER: Any = None
    SYSLOG_PID: Any = None
    realtime: Any = msgspec.field(default=None, name="__REALTIME_TIMESTAMP")
    comm: Any = msgspec.field(default=None, name="_COMM")
    hostname: Any = msgspec.field(default=None, name="_HOSTNAME")
    boot_id: Any = msgspec.field(default=None, name="_BOOT_ID")
    pid: Any = msgspec.field(default=None, name="_PID")
    unit: Any = msgspec.field(default=None, name="_SYSTEMD_UNIT")
    transport: Any = msgspec.field(default=None, name="_TRANSPORT")
    monotonic: Any = msgspec.field(default=None, name="__MONOTONIC_TIMESTAMP")
    own_invocation: Any = msgspec.field(default=None, name="_SYSTEMD_INVOCATION_ID")
    sent: Any = msgspec.field(default=None, name="_SOURCE_REALTIME_TIMESTAMP")
    MESSAGE_ID: Any = None
    INVOCATION_ID: Any = None
    JOB_RESULT: Any = None
    UNIT_RESULT: Any = None
    EXIT_CODE: Any = None
    EXIT_STATUS: Any = None


_JSON_NAMES: Final = {one.name: one.encode_name.encode() for one in msgspec.structs.fields(_JsonFields)}
"""Attribute -> the name of its field in a journal."""


def _json_entries(source: _Buffer, convert: Callable[[Fields, int, int], _T]) -> Iterator[_T | bytes]:
    """Yield the entries of -o json, json-pretty, json-sse and json-seq, and of arrays made by jq."""
    decoder = msgspec.json.Decoder(_JsonFields)
    waiting: list[bytes] = []  # lines of an incomplete object
    while line := source.line():
        text = line.strip(b" \t\r\n,\x1e").removeprefix(b"data: ")
        if not waiting and not text.startswith(b"{"):
            yield b"\n"  # between entries
            continue
        waiting.append(line)
        if not text.endswith(b"}") and len(waiting) < _MAX_OBJECT_LINES:
            continue
        whole = b"".join(waiting).strip(b" \t\r\n,\x1e").removeprefix(b"data: ")
        try:
            entry = decoder.decode(whole)
        except msgspec.DecodeError:
            if len(waiting) > 1 and len(waiting) < _MAX_OBJECT_LINES:
                continue  # the line ended with a brace inside a value
            yield b"".join(waiting)  # damaged: its lines are searched as they are
        else:
            fields = {name: _json_value(getattr(entry, key)) for key, name in _JSON_NAMES.items()}
            own = [number for number, each in enumerate(waiting) if each.lstrip().startswith(b'"MESSAGE"')]
            yield convert(fields, own[0] if own else 0, len(waiting))
        waiting = []
    yield from waiting


def _json_value(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode(errors="replace")[:_MAX_KEPT_BYTES]
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, list):
        if value and isinstance(value[0], str):  # the entry has the field several times
            return _json_value(value[0])
        return bytes(each & 0xFF for each in value[:_MAX_KEPT_BYTES] if isinstance(each, int))
    return b""


def _verbose_entries(source: _Buffer, convert: Callable[[Fields, int, int], _T]) -> Iterator[_T]:
    fields: Fields = {}
    lines = message_line = 0
    name = b""
    while line := source.line():
        text = line.rstrip(b"\r\n")
        if (header := re.match(_VERBOSE_TIME, text)) is not None:
            if lines:
                yield convert(fields, message_line, lines)
            stamp = re.search(_VERBOSE_STAMP, text)
            fields, lines, message_line = {}, 0, 0
            fields[b"__REALTIME_TIMESTAMP"] = b"%d" % int(stamp[1], 16) if stamp else b""
            fields[b"time"] = header[1] + b"T" + header[2] + b"+00:00"
        elif (field := re.match(_VERBOSE_FIELD, text)) is not None:
            name = field[1]
            fields[name] = field[2][:_MAX_KEPT_BYTES]
            if name == b"MESSAGE":
                message_line = lines
        elif name and text.startswith(b"     "):
            fields[name] = (fields.get(name, b"") + b"\n" + text.strip())[:_MAX_KEPT_BYTES]
        lines += 1
    if lines:
        yield convert(fields, message_line, lines)


def _entry_lines(fields: Fields, message_line: int, lines: int) -> bytes:
    """Return an entry as plain lines: as many as it has in its file, each message line with the line head."""
    message = fields.get(b"MESSAGE", b"").replace(b"\0", b"")
    if not message:
        return b"\n" * max(lines, 1)
    parts = message.split(b"\n")
    room = max(lines - message_line, 1)
    if len(parts) > room:  # in JSON, a message with newlines is one line
        parts = [*parts[: room - 1], b"\\n".join(parts[room - 1 :])]
    head = _line_head(fields)
    text = b"\n".join(head + part for part in parts)
    return b"\n" * message_line + text + b"\n" * max(lines - message_line - len(parts) + 1, 1)


def _line_head(fields: Fields) -> bytes:
    stamp = fields.get(b"__REALTIME_TIMESTAMP", b"")
    if stamp.isdigit() and len(stamp) <= _MAX_DIGITS:
        time = datetime.fromtimestamp(int(stamp) / 1e6, UTC).isoformat(timespec="microseconds").encode()
    else:
        time = fields.get(b"time") or b"1970-01-01T00:00:00.000000+00:00"
    is_kernel = fields.get(b"_TRANSPORT") == b"kernel"
    name = fields.get(b"SYSLOG_IDENTIFIER") or fields.get(b"_COMM") or b"unknown"
    name = b"kernel" if is_kernel else re.sub(rb"[\s:\[\]]", b"_", name)
    pid = fields.get(b"SYSLOG_PID") or fields.get(b"_PID") or b""
    # A message of systemd about a unit belongs to that unit, as in `journalctl --unit`.
    unit = fields.get(b"UNIT") or fields.get(b"_SYSTEMD_UNIT") or b""
    priority = fields.get(b"PRIORITY", b"")[:1]
    boot = fields.get(b"boot", b"")
    details = (
        b";%s;%s%s" % (re.sub(rb"[\s;]", b"_", unit), priority, boot) if unit or priority or boot else b""
    )
    return b"%s %s%s %s%s: " % (
        time,
        re.sub(rb"[\s;]", b"_", fields.get(b"_HOSTNAME") or b"host"),
        details,
        name,
        b"[%s]" % pid if pid.isdigit() and not is_kernel else b"",
    )
