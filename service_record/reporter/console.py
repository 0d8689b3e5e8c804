r"""The verdict on the consoles of a host that nobody can reach, and messages to programs of the host.

agetty(8) shows the verdict above its prompts. It acts on a backslash and the character behind it (`\n` is
the host's name), so that each is doubled. Consoles this early have whatever font the firmware has: what is
not ASCII is left out. It does no harm when a program does not listen to its message.
"""

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from service_record.display.text import cut_within, wrap
from service_record.record import systemd
from service_record.record.atomic_write import write_whole
from service_record.record.visible import visible
from service_record.reporter.paths import Places

_SECONDS: Final = 10


def tell_systemd(places: Places, *arguments: str) -> None:
    """Run systemctl with these arguments, where it speaks of the host that is meant."""
    if systemd.is_running():
        tell(places, "systemctl", "--quiet", *arguments)


def tell(places: Places, *command: str) -> None:
    """Run a program for at most ten seconds, on the host itself only, never for one below a directory."""
    if places.root != Path("/"):
        return
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)


_WIDTH: Final = 79
"""The width of a row: one cell less than the narrowest console has, where an empty row follows a full one."""
_ROWS: Final = 2
"""The rows of one message. Whoever wants more logs in."""


def issue(verdict: str, advice: str = "") -> bytes:
    """Return the file's content: the verdict, and below it what to do, each of at most two rows of
    79 cells.
    """
    rows = [*_rows(f"service-record: {verdict}"), *_rows(advice), ""]
    return "".join(f"{row}\n" for row in rows).replace("\\", r"\\").encode("ascii", "replace")


def show(places: Places, content: bytes) -> None:
    """Put this on the consoles, unless it is there already, also where a prompt waits. Raises OSError."""
    with suppress(OSError):
        if places.issue.read_bytes() == content:
            return
    write_whole(places.issue, content, mode=0o644)
    tell(places, "agetty", "--reload")


def _rows(text: str) -> list[str]:
    """Return the text between words in at most two rows; of a longer one the middle is left out."""
    text = " ".join(visible(text).split())
    if not text:
        return []
    for room in range(_ROWS * _WIDTH, _WIDTH, -1):
        rows = wrap(cut_within(text, room, " ... "), _WIDTH)
        if len(rows) <= _ROWS:
            return list(rows)
    return list(wrap(cut_within(text, _WIDTH, " ... "), _WIDTH))
