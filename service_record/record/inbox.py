"""The inbox: a directory for entries of services that run as a user and cannot write their record.

The exit helper moves the entries to the record when the service ends. Every local user may put files of any
number and size into the inbox, so readers read a limited number of files and bytes of each user.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from service_record.record.appending import SUFFIX, open_regular, record_name
from service_record.record.systemd import unit_of_process

MAX_NAMES: Final = 100_000
"""The limit of files that are listed. A user with more files hides those of others; `left_out` says so."""
MAX_FILES: Final = 1024
MAX_FILES_OF_USER: Final = 64
MAX_BYTES: Final = 64 << 20
MAX_BYTES_OF_USER: Final = 16 << 20
MAX_PIDS: Final = 64
_PID_BYTES: Final = 64 << 10
"""Process ids are read from the beginning and the end of a file, where a running writer has entries."""
_PID: Final = re.compile(rb'"pid":(\d{1,9})')
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class Inbox:
    """The files of an inbox, within the limits."""

    def __init__(self, directory: Path) -> None:
        """List the files. Raises OSError if there is no inbox, or if this user may not list it."""
        self.left_out = ""
        """A note about files beyond the limits, in one line; empty if there are none."""
        self._files: list[tuple[str, Path, int]] = []
        """Service, path and the number of bytes to read."""
        bytes_of: Counter[int] = Counter()
        files_of: Counter[int] = Counter()
        left_out: Counter[int] = Counter()
        with os.scandir(directory) as entries:
            names = list(islice(entries, MAX_NAMES + 1))
        for entry in sorted(names[:MAX_NAMES], key=lambda entry: entry.name):
            status = _status(entry)
            if status is None:
                continue
            owner = status.st_uid
            size = min(status.st_size, MAX_BYTES_OF_USER - bytes_of[owner], MAX_BYTES - bytes_of.total())
            is_full = files_of[owner] == MAX_FILES_OF_USER or files_of.total() == MAX_FILES
            if is_full or size < status.st_size:
                left_out[owner] += 1
            if not is_full and size:
                service = entry.name.removesuffix(SUFFIX).rpartition(".")[0]
                self._files.append((service, Path(entry.path), size))
                files_of[owner] += 1
                bytes_of[owner] += size
        parts = [f"{count} of user {user}" for user, count in left_out.most_common(3)]
        if len(left_out) > len(parts):
            parts.append("and others")
        if len(names) > MAX_NAMES:
            parts.append(f"all behind the first {MAX_NAMES}")
        if parts:
            self.left_out = (
                f"files were left out, or their ends: {', '.join(parts)}; each user may have "
                f"{MAX_FILES_OF_USER} files and {MAX_BYTES_OF_USER >> 20} MiB there"
            )

    def services(self) -> set[str]:
        """Return the running services that have entries here."""
        return {service for service, path, size in self._files if _entries(service, path, size) is not None}

    def read(self, service: str) -> Iterator[bytes]:
        """Yield the entries of a service, file by file."""
        for name, path, size in self._files:
            if name == service and (data := _entries(service, path, size)) is not None:
                yield data


def _status(entry: "os.DirEntry[str]") -> os.stat_result | None:
    """Return the status of a plain file with a name of the inbox; None for anything else."""
    if not entry.name.endswith(SUFFIX):
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # its service has just ended
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _entries(service: str, path: Path, size: int) -> bytes | None:
    """Return the content of a file if a process of its owner wrote it in the service's control group.

    Otherwise any user could add entries to the record of any service. None for any other file.
    """
    try:
        with os.fdopen(open_regular(path, _READ), "rb") as stream:
            owner = os.fstat(stream.fileno()).st_uid
            data = stream.read(size)
    except OSError:
        return None
    found = _PID.findall(data[:_PID_BYTES]) + _PID.findall(data[-_PID_BYTES:])
    pids = list(dict.fromkeys(found))
    for pid in {*pids[: MAX_PIDS // 2], *pids[-MAX_PIDS // 2 :]}:
        unit = unit_of_process(int(pid), owner)
        if unit is not None and record_name(unit) == service:
            return data
    return None
