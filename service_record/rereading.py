"""Long record files: open for as long as somebody may want to read parts of them again."""

import errno
import os
import stat
from io import BufferedReader, UnsupportedOperation
from typing import Final
from weakref import finalize

from service_record.writer import AnyPath

LEAST_BYTES: Final = 4 << 20
"""Of a file that is kept open. Shorter ones are cheap to hold, and may be more than a process can open."""


def rereadable(stream: BufferedReader, name: AnyPath) -> "OpenFile | None":
    """The file that a stream reads from here on; None when it is short, or no regular file.

    The stream may be closed meanwhile. Raises OSError when no more files can be opened.
    """
    try:
        descriptor = stream.fileno()
    except UnsupportedOperation:
        return None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size < LEAST_BYTES:
        return None
    return OpenFile(os.dup(descriptor), stream.tell(), name)


class OpenFile:
    """A `Rereadable` file, closed with the last passage of it that anybody has."""

    def __init__(self, descriptor: int, begin: int, name: AnyPath) -> None:
        self._descriptor = descriptor
        self._begin = begin
        self._name = name
        finalize(self, os.close, descriptor)

    def read(self, offset: int, size: int) -> bytes:
        text = os.pread(self._descriptor, size, self._begin + offset)
        if len(text) < size:
            raise self.changed()
        return text

    def changed(self) -> OSError:
        return OSError(errno.ESTALE, "the record was changed while it was read; try again", self._name)
