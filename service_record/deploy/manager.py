"""What the service manager of this host is told when its units have come, changed or gone."""

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from service_record.deploy.root import Root

_BOOTED: Final = Path("/run/systemd/system")
"""Only there where systemd is the init system; see sd_booted(3)."""
_SECONDS: Final = 60
_UNITS: Final = "/systemd/system/"


def runs_on(root: Root) -> bool:
    """Whether there is a running systemd that these files are for."""
    return root.is_this_host and _BOOTED.is_dir()


def reload_for(root: Root, paths: Iterable[str]) -> Iterator[str]:
    """Have systemd read its units again if these paths are units; a line where it could not be told."""
    if any(_UNITS in path for path in paths):
        yield from tell(root, "daemon-reload")


def tell(root: Root, *arguments: str) -> Iterator[str]:
    """Run systemctl where it speaks of the host that is meant; a line where that went wrong."""
    if not runs_on(root):
        return
    command = ["systemctl", *arguments]
    try:
        done = subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        yield f"{' '.join(command)}: {error}; run it yourself"
        return
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[:1]
        yield f"{' '.join(command)}: {said[0] if said else f'exit {done.returncode}'}; run it yourself"
