"""What a round says, a line each: to the journal with their priorities, to people without."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from service_record.display.text import visible

_STDERR: Final = 2


class Priority(IntEnum):
    """As syslog(3) counts them."""

    ERROR = 3
    WARNING = 4
    NOTICE = 5
    INFO = 6


@dataclass(frozen=True, slots=True)
class Log:
    """Lines on a file descriptor, unbuffered. Whoever reads them may be gone: that is never an error."""

    descriptor: int
    is_journal: bool
    """Lines begin with their priority: `<4>`; see sd-daemon(3)."""

    def error(self, text: str) -> None:
        """Something for a person to do; the round goes on without it."""
        self._say(Priority.ERROR, text)

    def warning(self, text: str) -> None:
        """Something did not go as it should, and may do so in a later round."""
        self._say(Priority.WARNING, text)

    def notice(self, text: str) -> None:
        """Something was done that others may see."""
        self._say(Priority.NOTICE, text)

    def info(self, text: str) -> None:
        self._say(Priority.INFO, text)

    def _say(self, priority: Priority, text: str) -> None:
        mark = f"<{priority.value}>" if self.is_journal else ""
        with suppress(OSError):
            os.write(self.descriptor, f"{mark}{visible(text)}\n".encode())


def log_for(environ: Mapping[str, str]) -> Log:
    """Standard error, which is the journal when systemd says so; see systemd.exec(5), $JOURNAL_STREAM."""
    device, _, inode = environ.get("JOURNAL_STREAM", "").partition(":")
    with suppress(OSError):
        status = os.fstat(_STDERR)
        return Log(_STDERR, (str(status.st_dev), str(status.st_ino)) == (device, inode))
    return Log(_STDERR, is_journal=False)
