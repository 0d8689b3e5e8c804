"""What `follow` shows of records that are complete, although it never ends by itself."""

import contextlib
import os
import shutil
import tarfile
import threading
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from service_record.cli import main
from service_record.history.outcome import order
from service_record.read.source import records_directory
from service_record.record.directory import Records
from service_record.record.entry import Entry
from tests.archives import extract_all

_LAST: Final = "nothing-more"
"""A service that records once all else was shown."""
_READER_LEFT: Final = 141


def followed(source: Path, *arguments: str) -> str:
    """Return the output of `follow` with these arguments on a directory or bundle, from first to
    last entry.
    """
    with TemporaryDirectory() as place:
        copy = Path(place) / "records"
        if source.is_dir():
            shutil.copytree(source, copy)
        else:
            with tarfile.open(source) as bundle:
                extract_all(bundle, copy)
        return _shown(records_directory(copy), *arguments)


def _shown(directory: Path, *arguments: str) -> str:
    readable, writable = os.pipe()
    reader = _Reader(readable, directory)
    with TextIOWrapper(os.fdopen(writable, "wb"), encoding="utf-8") as text:
        reader.start()
        with contextlib.redirect_stdout(text):
            status = main(
                ["follow", "--from", str(directory), "--lines", "all", *arguments], standalone_mode=False
            )
    reader.join()
    if status != _READER_LEFT:
        raise AssertionError(f"follow ended with {status}, and not because its reader left")
    return reader.text


class _Reader(threading.Thread):
    """Reads what is shown, has one more service record, and leaves when that shows: all else did before."""

    def __init__(self, descriptor: int, directory: Path) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._record = directory / f"{_LAST}.json"
        self._entry = _latest(Records(directory))
        self.text = ""

    def run(self) -> None:
        with os.fdopen(self._descriptor, encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                if number == 0:
                    self._record.write_bytes(self._entry.to_line())
                if _LAST in line:
                    return
                self.text += line


def _latest(records: Records) -> Entry:
    """An entry of which nobody is told the day again."""
    pieces = (piece for service in records.services() for piece in records.read(service))
    return max((piece for piece in pieces if isinstance(piece, Entry)), key=lambda entry: order(entry.time))
