"""The bundles that a source has: a folder, a file, a pattern, an object store, a collector."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from service_record.client.address import address_of, is_collector
from service_record.client.calls import connect, host_path
from service_record.record.directory import RECORD_DIRECTORIES, is_inside
from service_record.triage.rows import Reference

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_SUFFIXES: Final = (
    *(".tar", ".tgz", ".txz", ".tzst", ".tbz2"),
    *(f".tar.{packing}" for packing in ("gz", "xz", "zst", "bz2")),
)
_STORES: Final = ("s3://", "gs://")
_PIECE: Final = 1 << 20
_PAGE: Final = 1000


class TriageError(Exception):
    """The reason why bundles cannot be found or an index cannot be used, in one line."""


def references(source: str) -> Iterator[Reference]:
    """Yield the bundles of a source, in the order of their names where the source has one.

    Raises TriageError when there is no such place, OSError and CollectorError when it cannot be read.
    """
    if is_store(source):
        yield from _in_store(source)
    elif is_collector(source):
        yield from _in_collector(source)
    else:
        yield from _on_disk(source)


@contextmanager
def local_file(reference: Reference) -> Iterator[Path]:
    """Have a bundle as a file or directory of this machine for as long as it is read.

    Raises OSError, CollectorError.
    """
    uri = reference.uri
    if is_store(uri):
        filesystem, path = store_of(uri)
        with filesystem.open_input_stream(path, compression=None) as stream, _copy() as (file, copy):
            while piece := stream.read(_PIECE):
                file.write(piece)
            file.flush()
            yield copy
    elif is_collector(uri):
        place, _, bundle = uri.rpartition("@")
        path = host_path(address_of(place).host, "bundles", bundle)
        with connect(place) as client, _copy() as (file, copy):
            client.download(path, file)
            file.flush()
            yield copy
    else:
        yield Path(uri)


@contextmanager
def _copy() -> Iterator[tuple[BinaryIO, Path]]:
    """Have a file to write a bundle to, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="service-record-triage-") as around:
        path = Path(around) / "bundle"
        with path.open("wb") as file:
            yield file, path


def is_store(place: str) -> bool:
    """Return whether a place is in an object store."""
    return place.startswith(_STORES)


def store_of(uri: str) -> "tuple[FileSystem, str]":
    """Return the object store that a URI names, and the path in it.

    The environment has keys, region and AWS_ENDPOINT_URL, as every S3 client reads them.
    """
    from pyarrow import fs  # an extra

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if uri.startswith("s3://") and endpoint:
        scheme, _, place = endpoint.rpartition("://")
        store = fs.S3FileSystem(
            endpoint_override=place.rstrip("/"),
            scheme=scheme or "https",
            region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
            allow_bucket_creation=False,
        )
        return store, uri.removeprefix("s3://").rstrip("/")
    filesystem, path = fs.FileSystem.from_uri(uri)
    return filesystem, path.rstrip("/")


def _in_store(source: str) -> Iterator[Reference]:
    from pyarrow import fs  # an extra

    filesystem, path = store_of(source)
    scheme = source.partition("://")[0]
    is_one = source.endswith(_SUFFIXES)
    selector = [path] if is_one else fs.FileSelector(path, recursive=True)
    for each in sorted(filesystem.get_file_info(selector), key=lambda info: info.path):
        if each.type is fs.FileType.File and each.path.endswith(_SUFFIXES):
            changed = (each.mtime_ns or 0) / 1e9
            yield Reference(f"{scheme}://{each.path}", each.size or 0, changed)
        elif is_one:
            raise TriageError(f"{source}: no such object; check bucket, prefix and keys")


def _in_collector(source: str) -> Iterator[Reference]:
    """Yield the latest bundle of each host that a collector knows. Raises CollectorError."""
    with connect(source) as client:
        after = None
        while True:
            page = client.get("/api/v1/hosts", all="true", limit=_PAGE, after=after)
            for host in page["hosts"]:
                bundle = client.get(host_path(host["name"], "records")).get("bundle")
                if bundle is not None:
                    yield Reference(f"{source.rstrip('/')}/{host['name']}@{bundle}", 0, float(bundle))
            after = page.get("next")
            if not after:
                return


def _on_disk(source: str) -> Iterator[Reference]:
    path = Path(source)
    if path.is_dir():
        yield from _below(path)
        return
    matches = [source] if path.exists() else sorted(glob(source, recursive=True))  # noqa: PTH207  # of any path
    if not matches:
        raise TriageError(
            f"{source}: no such file or directory, and no file matches that pattern; check the path"
        )
    for match in matches:
        yield from _below(Path(match)) if Path(match).is_dir() else iter((_reference(Path(match)),))


def _below(directory: Path) -> Iterator[Reference]:
    """Yield the archives below a directory and the bundles unpacked there, without following links."""
    layouts = (directory / layout for layout in RECORD_DIRECTORIES)
    if any(layout.is_dir() and is_inside(directory, layout) for layout in layouts):
        yield _reference(directory)
        return
    children: list[os.DirEntry[str]] = []
    with os.scandir(directory) as entries:
        children = sorted(entries, key=lambda child: child.name)
    for child in children:
        if child.is_dir(follow_symlinks=False):
            yield from _below(Path(child.path))
        elif child.name.endswith(_SUFFIXES) and child.is_file(follow_symlinks=False):
            yield _reference(Path(child.path))


def _reference(path: Path) -> Reference:
    status = path.stat()
    return Reference(str(path.absolute()), status.st_size, status.st_mtime)
