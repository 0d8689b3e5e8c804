"""What programs of the host are told, for whom it does no harm when they do not listen."""

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from service_record.reporter.places import Places

_SECONDS: Final = 10
_BOOTED: Final = Path("/run/systemd/system")
"""Only there where systemd is the init system; see sd_booted(3)."""


def tell_systemd(places: Places, *arguments: str) -> None:
    """Run systemctl with these arguments, where it speaks of the host that is meant."""
    if _BOOTED.is_dir():
        tell(places, "systemctl", "--quiet", *arguments)


def tell(places: Places, *command: str) -> None:
    """Run a program for at most ten seconds, on the host itself only, never for one below a directory."""
    if places.root != Path("/"):
        return
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
