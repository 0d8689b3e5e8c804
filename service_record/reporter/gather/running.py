"""Run the programs of a bundle; their errors are those of gathering."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from service_record.read import programs
from service_record.read.programs import Deadline, ProgramError
from service_record.reporter.gather.model import GatherError, GatherStatus

# The lowest best-effort priority: with the idle class, a program would never end on a host whose disk is
# always busy. -t: run it also where the priority cannot be set.
_LAST_TO_DISKS: Final = ("-t", "-c", "2", "-n", "7")
_PRIVILEGED: Final = frozenset({"podman"})
"""Programs that treat root without CAP_SYS_ADMIN as an ordinary user, and then list no container."""
_CAP_SYS_ADMIN: Final = 1 << 21  # capabilities(7)
_BY_SYSTEMD: Final = (
    *("systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--property=RuntimeMaxSec=60"),
    *("--property=MemoryMax=256M", "--property=Nice=15", "--property=LogLevelMax=notice", "--"),
)
"""Has systemd run a program outside of our unit's sandbox. RuntimeMaxSec= ends it if we are killed."""
_STATUSES: Final = {
    programs.NoProgramError: GatherStatus.ABSENT,
    programs.ProgramTimeoutError: GatherStatus.TIMED_OUT,
    programs.TooMuchOutputError: GatherStatus.CUT,
}


class GatheredProgram(programs.Program):
    """A program whose errors are GatherErrors."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], *, is_merged: bool = False
    ) -> None:
        ionice = shutil.which("ionice")
        prefix = (
            *((ionice, *_LAST_TO_DISKS) if ionice else ()),
            *(_BY_SYSTEMD if command[0] in _PRIVILEGED and _is_confined() else ()),
        )
        try:
            super().__init__(command, environ, is_merged=is_merged, prefix=prefix)
        except ProgramError as error:
            raise _as_gather_error(error) from error

    def chunks(self, deadline: Deadline, most: int) -> Iterator[bytes]:
        try:
            yield from super().chunks(deadline, most)
        except ProgramError as error:
            raise _as_gather_error(error) from error


def _as_gather_error(error: ProgramError) -> GatherError:
    return GatherError(_STATUSES.get(type(error), GatherStatus.FAILED), str(error))


def _is_confined() -> bool:
    """Return whether we are root without CAP_SYS_ADMIN, and systemd can be asked for what we may not do."""
    if os.geteuid() != 0 or shutil.which(_BY_SYSTEMD[0]) is None:
        return False
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapEff:"):
                return not int(line.split()[1], 16) & _CAP_SYS_ADMIN
    return False
