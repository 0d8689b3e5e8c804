"""Storage of bundles as objects: in a folder, or in an S3 object store.

The address and the keys of S3 are in the usual environment variables: AWS_ENDPOINT_URL, AWS_REGION,
AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
"""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import LocalStore, ObjectStore, from_url

from service_record.collector.serving_settings import CollectorSettings

if TYPE_CHECKING:
    from obstore import GetResult  # exists only in the type stubs

FOLDER: Final = "objects"
_PIECE_BYTES: Final = 1024 * 1024
"""Approximate size of a piece of an object in memory."""
_PART_BYTES: Final = 8 * 1024 * 1024
"""Size of a part of an upload. S3 requires at least 5 MiB."""
_PARTS: Final = 2
"""Number of parts that are uploaded at the same time."""
_RETRY_TIME: Final = timedelta(seconds=20)


class ObjectError(Exception):
    """Objects cannot be stored or read at the moment. The message is the reason in one line."""


class NoSuchObject(ObjectError):  # noqa: N818  # the name is a sentence
    """No object has this key."""


class Objects:
    """The storage of bundles. Its methods block: call them from threads, not from an event loop."""

    def __init__(self, store: ObjectStore, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder

    def put(self, key: str, file: Path) -> None:
        """Store the content of a file under a key, atomically. It is on disk when this returns.

        Raises ObjectError.
        """
        with _store_faults(key):
            obstore.put(self._store, key, file, chunk_size=_PART_BYTES, max_concurrency=_PARTS)
        if self._folder is not None:
            _sync(self._folder, key)

    def read(self, key: str) -> Iterator[bytes]:
        """Return the bytes of an object in pieces.

        Raises NoSuchObject at the call, ObjectError at any time.
        """
        with _store_faults(key):
            result = obstore.get(self._store, key)
        return _pieces(key, result)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects. Missing objects are ignored. Raises ObjectError."""
        for key in keys:
            try:
                with _store_faults(key):
                    obstore.delete(self._store, key)
            except NoSuchObject:
                continue

    def keys_before(self, when: float) -> Iterator[str]:
        """Yield the keys of objects that were stored before a time, in seconds since 1970.

        Raises ObjectError.
        """
        with _store_faults(""):
            for batch in obstore.list(self._store):
                yield from (each["path"] for each in batch if each["last_modified"].timestamp() < when)


def objects(settings: CollectorSettings) -> Objects:
    """Return the object store for these settings. Raises ObjectError or OSError."""
    if not settings.objects:
        folder = settings.data / FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Objects(LocalStore(folder), folder)
    is_plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    with _store_faults(settings.objects):
        store = from_url(
            settings.objects,
            client_options={"timeout": "60s", "connect_timeout": "5s", "allow_http": is_plain},
            retry_config={"max_retries": 3, "retry_timeout": _RETRY_TIME},
        )
    return Objects(store)


def new_key(host: str) -> str:
    """Return a new unique key for an object of a host."""
    return f"{host.replace(':', '_')}/{secrets.token_hex(16)}"


def _pieces(key: str, result: "GetResult") -> Iterator[bytes]:
    with _store_faults(key):
        for piece in result.stream(min_chunk_size=_PIECE_BYTES):
            yield bytes(piece)


@contextmanager
def _store_faults(what: str) -> Iterator[None]:
    """Convert errors of the store, which have many lines, to ObjectError with one line."""
    try:
        yield
    except (NotFoundError, FileNotFoundError):
        raise NoSuchObject(f"{what}: no such object") from None
    except (BaseError, OSError, ValueError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ObjectError(f"{what}: {first}") from error


def _sync(folder: Path, key: str) -> None:
    """Sync a file and its parent folders to disk."""
    path = folder / key
    for part in (path, *path.parents[: len(Path(key).parts)]):
        descriptor = os.open(part, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
