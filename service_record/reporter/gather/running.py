"""Run programs for a bundle, at a low priority, and convert their errors to GatherError."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from service_record.read import programs
from service_record.read.programs import Deadline, ProgramError
from service_record.reporter.gather.model import GatherError, GatherStatus

# The lowest priority of the best-effort class. In the idle class, a program would never finish on a host
# whose disk is always busy. -t: run the program even if the priority cannot be set.
_IONICE_OPTIONS: Final = ("-t", "-c", "2", "-n", "7")
_PRIVILEGED: Final = frozenset({"podman"})
"""Without CAP_SYS_ADMIN, podman treats root as an ordinary user, and lists no containers."""
_CAP_SYS_ADMIN: Final = 1 << 21  # capabilities(7)
_SYSTEMD_RUN: Final = (
    *("systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--property=RuntimeMaxSec=60"),
    *("--property=MemoryMax=256M", "--property=Nice=15", "--property=LogLevelMax=notice", "--"),
)
"""Runs a program outside the sandbox of our unit. RuntimeMaxSec= ends it even if this process is killed."""
_STATUSES: Final = {
    programs.NoProgramError: GatherStatus.ABSENT,
    programs.ProgramTimeoutError: GatherStatus.TIMED_OUT,
    programs.TooMuchOutputError: GatherStatus.CUT,
}


class GatheredProgram(programs.Program):
    """A running program. Its errors are raised as GatherError."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], *, is_merged: bool = False
    ) -> None:
        ionice = shutil.which("ionice")
        prefix = (
            *((ionice, *_IONICE_OPTIONS) if ionice else ()),
            *(_SYSTEMD_RUN if command[0] in _PRIVILEGED and _is_confined() else ()),
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
    """Return whether this process is root without CAP_SYS_ADMIN, and systemd-run is installed."""
    if os.geteuid() != 0 or shutil.which(_SYSTEMD_RUN[0]) is None:
        return False
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapEff:"):
                return not int(line.split()[1], 16) & _CAP_SYS_ADMIN
    return False
