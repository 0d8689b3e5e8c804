r"""The verdict on the consoles of a host that nobody can reach: agetty(8) shows it above its prompts.

agetty acts on a backslash and the character behind it (`\n` is the host's name), so that each is doubled.
Consoles this early have whatever font the firmware has: what is not ASCII is left out.
"""

from contextlib import suppress
from typing import Final

from service_record.display.text import cut_within, visible, wrap
from service_record.reporter.files import write_whole
from service_record.reporter.places import Places
from service_record.reporter.telling import tell

_WIDTH: Final = 79
"""Of a row: one cell less than the narrowest console has, where a full row is followed by an empty one."""
_ROWS: Final = 2
"""Of one thing that is said. Whoever wants more logs in."""


def issue(verdict: str, advice: str = "") -> bytes:
    """The content of the file: the verdict, and below it what to do, each of at most two rows of 79 cells."""
    rows = [*_rows(f"service-record: {verdict}"), *_rows(advice), ""]
    return "".join(f"{row}\n" for row in rows).replace("\\", r"\\").encode("ascii", "replace")


def show(places: Places, content: bytes) -> None:
    """Put this on the consoles, unless it is there already. Raises OSError."""
    with suppress(OSError):
        if places.issue.read_bytes() == content:
            return
    write_whole(places.issue, content, mode=0o644)
    reload(places)


def reload(places: Places) -> None:
    """Have the prompts that wait already show it; where nobody has logged in, that is all there is to see."""
    tell(places, "agetty", "--reload")


def _rows(text: str) -> list[str]:
    """The text between words in at most two rows; of a longer one the middle is left out."""
    text = " ".join(visible(text).split())
    if not text:
        return []
    for room in range(_ROWS * _WIDTH, _WIDTH, -1):
        rows = wrap(cut_within(text, room, " ... "), _WIDTH)
        if len(rows) <= _ROWS:
            return list(rows)
    return list(wrap(cut_within(text, _WIDTH, " ... "), _WIDTH))
