"""Files that verbs make of records."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from service_record.display.text import visible
from service_record.records import Records, is_record_name

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_FILE_MODE: Final = 0o640


def check_new(path: Path) -> None:
    """Raise a usage error where a file is already, or where one would be among this host's records."""
    if os.path.lexists(path):
        raise click.UsageError(f"{visible(str(path))} exists, and nothing is overwritten; name another place")
    if is_record_name(path.name) and path.parent.resolve() == Records().directory.resolve():
        raise click.UsageError(f"{visible(str(path))} would be a record of this host; name another place")


def write_new(path: Path, chunks: Iterable[bytes]) -> None:
    """Make a file of these bytes, readable as records are; when that fails, nothing is left of it.

    Raises OSError, FileExistsError among them.
    """
    descriptor = os.open(path, _NEW, _FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.writelines(chunks)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
