"""The words and signs of pages: a verdict has a sign, a word and a colour, never a colour alone. Pure."""

from collections.abc import Collection, Mapping
from typing import Final

from service_record.display.text import count, duration

VERDICTS: Final = ("failed", "looping", "stuck", "silent", "progressing", "done")
"""Worst first, as counts are shown."""
SIGNS: Final = {
    "failed": "✗",
    "looping": "↻",
    "stuck": "▲",
    "silent": "◌",
    "progressing": "●",
    "done": "✓",
    "abandoned": "▲",
    # States of clusters and of their hosts.
    "pending-for-input": "▲",
    "insufficient": "▲",
    "disconnected": "▲",
    "installing-pending-user-action": "▲",
    "resetting-pending-user-action": "▲",
    "discovering": "●",
    "known": "●",
    "ready": "●",
    "preparing-for-installation": "●",
    "preparing-successful": "●",
    "preparing-failed": "✗",
    "installing": "●",
    "installing-in-progress": "●",
    "finalizing": "●",
    "resetting": "●",
    "installed": "✓",
    "added-to-existing-cluster": "✓",
    "available": "✓",
    "error": "✗",
    "cancelled": "◌",
    "disabled": "◌",
}
_LOOKS_OF_SIGNS: Final = {
    "✗": "failure",
    "↻": "failure",
    "▲": "interrupted",
    "●": "running",
    "✓": "success",
    "◌": "faint",
}
LOOKS: Final = {word: _LOOKS_OF_SIGNS[sign] for word, sign in SIGNS.items()}
"""The class of the styles that all our pages share."""
_MINUTE: Final = 60


def took(seconds: float) -> str:
    """`12s`, `2m 3s`, `1h 5m`: pages tick in whole seconds."""
    whole = max(int(seconds), 0)
    return f"{whole}s" if whole < _MINUTE else duration(whole)


def times(number: int) -> str:
    """`×3`; nothing for once."""  # noqa: RUF002
    return f"×{number}" if number > 1 else ""  # noqa: RUF001


def counted(total: int, counts: Mapping[str, int], shown: Collection[str] = ()) -> str:
    """`31 hosts: 2 failed, 1 stuck, 28 done`."""
    told = ", ".join(
        f"{counts[verdict]} {verdict}"
        for verdict in VERDICTS
        if counts[verdict] and (not shown or verdict in shown)
    )
    return f"{count(total, 'host')}: {told}" if told else "no hosts"
