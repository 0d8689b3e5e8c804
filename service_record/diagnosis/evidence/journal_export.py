"""Journals in systemd's export format, as agent-gather has them, read as lines of journalctl. Pure.

https://systemd.io/JOURNAL_EXPORT_FORMATS says what the format is. A line has as many lines before it as its
message has in the file, so that places are those of the file.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

_BLOCK_BYTES: Final = 1 << 18
_SIZE_BYTES: Final = 8
_MAX_FIELD_BYTES: Final = 16 << 20
_MAX_DIGITS: Final = 16
"""Of microseconds since 1970, up to the year 2286."""
_MAX_FIELD: Final = 1 << 14
"""Of a field so much is kept."""

Read = Callable[[int], bytes]


def export_lines(read: Read) -> Read:
    """Return what reads the same journal as lines: time, host, program, process and message."""
    blocks = _blocks(_Buffer(read))
    return lambda _: next(blocks, b"")


class _Buffer:
    """Bytes of a file, a line or so many at a time."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._data = b""
        self._place = 0

    def line(self) -> bytes:
        """Return the next line with its end; what is left where that is missing."""
        while (end := self._data.find(b"\n", self._place)) < 0:
            if len(self._data) - self._place > _MAX_FIELD_BYTES or not self._has_more():
                return self.take(len(self._data) - self._place)
        return self.take(end + 1 - self._place)

    def take(self, count: int) -> bytes:
        """Return so many bytes, or what is left."""
        while len(self._data) - self._place < count and self._has_more():
            pass
        piece = self._data[self._place : self._place + count]
        self._place += len(piece)
        return piece

    def _has_more(self) -> bool:
        chunk = self._read(_BLOCK_BYTES)
        self._data, self._place = self._data[self._place :] + chunk, 0
        return bool(chunk)


def _blocks(source: _Buffer) -> Iterator[bytes]:
    """Yield lines, some hundred kilobytes at a time."""
    block = bytearray()
    fields: dict[bytes, bytes] = {}
    lines = message_line = 0
    while line := source.line():
        name, equals, value = line.rstrip(b"\n").partition(b"=")
        begun, lines = lines, lines + 1
        if equals:
            fields[name] = value[:_MAX_FIELD]
        elif name:
            size = source.take(_SIZE_BYTES)
            length = int.from_bytes(size, "little")
            if length > _MAX_FIELD_BYTES:
                break  # damaged: nothing behind it can be told from what it says
            value = source.take(length + 1)
            fields[name] = value[:-1][:_MAX_FIELD]
            lines += size.count(b"\n") + value.count(b"\n")
        if name == b"MESSAGE":
            message_line = begun
        if not name:
            block += _entry(fields, message_line, lines)
            fields, lines, message_line = {}, 0, 0
            if len(block) >= _BLOCK_BYTES:
                yield bytes(block)
                block.clear()
    block += _entry(fields, message_line, lines) if fields else b""
    if block:
        yield bytes(block)


def _entry(fields: dict[bytes, bytes], message_line: int, lines: int) -> bytes:
    """Return an entry as its message, each line of it with what stands before, in as many lines as it has."""
    messages = fields.get(b"MESSAGE", b"").split(b"\n")
    head = _head(fields)
    text = b"\n".join(head + message for message in messages) if fields.get(b"MESSAGE") else b""
    rest = lines - message_line - text.count(b"\n")
    return b"\n" * message_line + text + b"\n" * max(rest, 1)


def _head(fields: dict[bytes, bytes]) -> bytes:
    stamp = fields.get(b"__REALTIME_TIMESTAMP", b"")
    is_time = stamp.isdigit() and len(stamp) <= _MAX_DIGITS
    time = datetime.fromtimestamp(int(stamp) / 1e6 if is_time else 0, UTC)
    is_kernel = fields.get(b"_TRANSPORT") == b"kernel"
    name = fields.get(b"SYSLOG_IDENTIFIER") or fields.get(b"_COMM") or b"unknown"
    name = b"kernel" if is_kernel else name.replace(b" ", b"_").replace(b":", b"_")
    pid = fields.get(b"SYSLOG_PID") or fields.get(b"_PID") or b""
    host = fields.get(b"_HOSTNAME") or b"host"
    return b"%s %s %s%s: " % (
        time.isoformat(timespec="microseconds").encode(),
        host,
        name,
        b"[%s]" % pid if pid.isdigit() and not is_kernel else b"",
    )
