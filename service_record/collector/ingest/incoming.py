"""Temporary files for uploads. They are deleted when the upload is stored or refused."""

import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

FOLDER: Final = "incoming"
_AT_ONCE: Final = 8
_OLD: Final = 24 * 3600.0
"""Older files are from a process that was killed."""


class TooManyUploads(Exception):  # noqa: N818  # an answer, not a fault
    """Too many uploads are running."""


class UploadTooLong(Exception):  # noqa: N818  # an answer, not a fault
    """An uploaded file exceeds its limit."""


@dataclass(slots=True)
class IncomingFile:
    """A file that is being uploaded, with its size and digest so far."""

    path: Path
    most: int
    stream: BinaryIO
    size: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def write(self, data: bytes) -> None:
        """Append data. Raises UploadTooLong or OSError."""
        self.size += len(data)
        if self.size > self.most:
            raise UploadTooLong(f"longer than {self.most} bytes")
        self.digest.update(data)
        self.stream.write(data)

    @property
    def sha256(self) -> str:
        return self.digest.hexdigest()


class UploadFolder:
    """The folder of temporary files. Thread-safe."""

    def __init__(self, data: Path) -> None:
        self._folder = data / FOLDER
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._room = threading.Semaphore(_AT_ONCE)
        for path in self._folder.iterdir():  # files of a collector that was killed
            if path.stat().st_mtime < time.time() - _OLD:
                path.unlink(missing_ok=True)

    @contextmanager
    def file(self, most: int) -> Iterator[IncomingFile]:
        """Yield a temporary file, which is deleted after the block. Raises TooManyUploads or OSError."""
        if not self._room.acquire(blocking=False):
            raise TooManyUploads("too many bundles come in at once")
        try:
            with self.scratch("upload-") as path, path.open("wb") as stream:
                yield IncomingFile(path, most, stream)
        finally:
            self._room.release()

    @contextmanager
    def scratch(self, prefix: str = "look-") -> Iterator[Path]:
        """Yield the path of an empty file, which is deleted after the block.

        Raises OSError, but not if the deletion fails.
        """
        descriptor, name = tempfile.mkstemp(prefix=prefix, dir=self._folder)
        os.close(descriptor)
        try:
            yield Path(name)
        finally:
            with suppress(OSError):  # a later start removes it
                Path(name).unlink()
