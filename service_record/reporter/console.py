r"""Show the verdict above the login prompts of the host's consoles; run systemctl and agetty.

agetty(8) prints the files of issue.d, and expands backslash sequences (`\n` is the host's name), so
backslashes are doubled. This early, a console may have no font beyond ASCII: other characters become `?`.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from service_record.display.text import cut_within, wrap
from service_record.record import systemd
from service_record.record.atomic_write import write_whole
from service_record.record.programs import Deadline, ProgramError, run
from service_record.record.visible import visible
from service_record.reporter.paths import Places

_TIMEOUT_SECONDS: Final = 10
_MAX_OUTPUT_BYTES: Final = 1 << 20


def run_systemctl(places: Places, *arguments: str) -> None:
    """Run systemctl with these arguments, if systemd runs and the root is this host. Errors are ignored."""
    if systemd.is_running():
        run_on_host(places, "systemctl", "--quiet", *arguments)


def run_on_host(places: Places, *command: str) -> None:
    """Run a program for at most ten seconds, unless the root is a mounted disk. Errors are ignored."""
    if places.root != Path("/"):
        return
    with suppress(ProgramError):
        run(command, os.environ, Deadline(_TIMEOUT_SECONDS), _MAX_OUTPUT_BYTES)


_WIDTH: Final = 79
"""The width of a row in cells. One less than 80, because some consoles add an empty row after a full one."""
_MAX_ROWS: Final = 2
"""The most rows of one message."""


def issue(verdict: str, advice: str = "") -> bytes:
    """Return the content of the issue file: verdict and advice, each in at most two rows of 79 cells."""
    rows = [*_wrap(f"service-record: {verdict}"), *_wrap(advice), ""]
    return "".join(f"{row}\n" for row in rows).replace("\\", r"\\").encode("ascii", "replace")


def show(places: Places, content: bytes) -> None:
    """Write the issue file if it changed, and have waiting prompts show it. Raises OSError."""
    with suppress(OSError):
        if places.issue.read_bytes() == content:
            return
    write_whole(places.issue, content, mode=0o644)
    run_on_host(places, "agetty", "--reload")


def _wrap(text: str) -> list[str]:
    """Wrap the text between words into at most two rows. The middle of a longer text is left out."""
    text = " ".join(visible(text).split())
    if not text:
        return []
    for room in range(_MAX_ROWS * _WIDTH, _WIDTH, -1):
        rows = wrap(cut_within(text, room, " ... "), _WIDTH)
        if len(rows) <= _MAX_ROWS:
            return list(rows)
    return list(wrap(cut_within(text, _WIDTH, " ... "), _WIDTH))
