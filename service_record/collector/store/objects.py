"""Bundles as they came: objects in a folder, or in an object store that speaks S3.

Where S3's is and who may use it is told by the environment, as its other clients have it: AWS_ENDPOINT_URL,
AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY.
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
    from obstore import GetResult  # there is none when it runs

FOLDER: Final = "objects"
_PIECE: Final = 1024 * 1024
"""Bytes of an object in memory, about."""
_PART: Final = 8 * 1024 * 1024
"""Bytes of a part of an upload; S3 wants 5 MiB at least."""
_PARTS: Final = 2
"""The parts of an upload on their way at once."""
_PATIENCE: Final = timedelta(seconds=20)


class ObjectError(Exception):
    """The reason why objects cannot be kept or read now, in one line."""


class NoSuchObject(ObjectError):  # noqa: N818  # it says what is so
    """Nothing has that key."""


class Objects:
    """The storage of bundles. Its methods block: call them from threads, not from an event loop."""

    def __init__(self, store: ObjectStore, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder

    def put(self, key: str, file: Path) -> None:
        """Store a file's bytes under a key, whole or not at all; they are on disk when this returns.

        Raises ObjectError.
        """
        with _store_faults(key):
            obstore.put(self._store, key, file, chunk_size=_PART, max_concurrency=_PARTS)
        if self._folder is not None:
            _sync(self._folder, key)

    def read(self, key: str) -> Iterator[bytes]:
        """Return the bytes of an object, in pieces. Raises NoSuchObject at once, ObjectError at any time."""
        with _store_faults(key):
            result = obstore.get(self._store, key)
        return _pieces(key, result)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; those that are not there are removed already. Raises ObjectError."""
        for key in keys:
            try:
                with _store_faults(key):
                    obstore.delete(self._store, key)
            except NoSuchObject:
                continue

    def keys_before(self, when: float) -> Iterator[str]:
        """Yield the keys of objects that were kept before that time, in seconds since 1970.

        Raises ObjectError.
        """
        with _store_faults(""):
            for batch in obstore.list(self._store):
                yield from (each["path"] for each in batch if each["last_modified"].timestamp() < when)


def objects(settings: CollectorSettings) -> Objects:
    """Return the objects of a collector with these settings. Raises ObjectError, OSError."""
    if not settings.objects:
        folder = settings.data / FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Objects(LocalStore(folder), folder)
    with _store_faults(settings.objects):
        store = from_url(
            settings.objects,
            client_options={"timeout": "60s", "connect_timeout": "5s", "allow_http": _is_plain()},
            retry_config={"max_retries": 3, "retry_timeout": _PATIENCE},
        )
    return Objects(store)


def new_key(host: str) -> str:
    """Return a key that nothing has yet, for an object of a host."""
    return f"{host.replace(':', '_')}/{secrets.token_hex(16)}"


def _is_plain() -> bool:
    """Return whether the administrator's URL asks for a store without TLS."""
    return os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")


def _pieces(key: str, result: "GetResult") -> Iterator[bytes]:
    with _store_faults(key):
        for piece in result.stream(min_chunk_size=_PIECE):
            yield bytes(piece)


@contextmanager
def _store_faults(what: str) -> Iterator[None]:
    """Raise faults of the store as ours, in one line; its own have many."""
    try:
        yield
    except (NotFoundError, FileNotFoundError):
        raise NoSuchObject(f"{what}: no such object") from None
    except (BaseError, OSError, ValueError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ObjectError(f"{what}: {first}") from error


def _sync(folder: Path, key: str) -> None:
    """Sync a file, and the names that lead to it, to disk; an object store does that by itself."""
    path = folder / key
    for part in (path, *path.parents[: len(Path(key).parts)]):
        descriptor = os.open(part, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
