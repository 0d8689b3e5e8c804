"""The first bytes of a stream, which say what it is, looked at without losing them."""

from io import BufferedReader, RawIOBase
from typing import Final

from service_record.bundle.layers import HEAD_BYTES

_BEGINNINGS: Final = (b"{", b"[", b"\n")
"""Of records, so that a line from a pipe is not kept waiting for more. A whole head is looked at anyway."""


def looked_into(stream: BufferedReader) -> tuple[bytes, BufferedReader]:
    """The first bytes of a stream, and the stream with them still in it. A record is not waited for."""
    head = stream.peek()
    if len(head) >= HEAD_BYTES or head.startswith(_BEGINNINGS):
        return head, stream
    head = stream.read(HEAD_BYTES)
    return head, BufferedReader(_Rewound(head, stream))


class _Rewound(RawIOBase):
    """A stream from its beginning again, after its head was read."""

    def __init__(self, head: bytes, stream: BufferedReader) -> None:
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader gives
        data = self._head[: len(buffer)] or self._stream.read1(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()
