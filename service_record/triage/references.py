"""Find the evidence of hosts in a source: a folder, a file, a pattern, an object store, a collector.

Each item is one host: a bundle, a directory of its logs or records, or a single log.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias

from service_record.http.address import address_of, is_collector
from service_record.http.collector_client import connect, host_path
from service_record.read.source import recorded_services
from service_record.record.recognition import ARCHIVES, HEAD_BYTES, LOGS, FileForm, recognise
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


Skip: TypeAlias = Callable[[str, str], None]
"""Is called with the place of each file that is not judged, and the reason."""
_LOGS: Final = (LOGS | {FileForm.RECORD}) - {FileForm.TEXT, FileForm.UTF_16}
"""The forms of a file that is judged without being named: only hosts write these."""
_HOST_NAMES: Final = frozenset(
    {
        *("bootstrap", "control-plane", "journals", "var", "etc", "proc", "sos_commands", "sos_logs"),
        *("host_service_logs", "cluster-scoped-resources", "namespaces", "journal.export", "anaconda"),
        *("anaconda.log", "basic-environment.txt", "cloud-init.log", "cloud-init-output.log", "dmesg.txt"),
        *(
            "kind-version.txt",
            "kube-system",
            "messages",
            "nodes.json",
            "syslog",
            "subiquity-server-debug.log",
        ),
    }
)
"""Names of files and directories that stand at the top of what a gatherer collects from a host."""


class TriageError(Exception):
    """The reason why bundles cannot be found or an index cannot be used, in one line."""


def _ignore(_place: str, _reason: str) -> None:
    pass


def references(source: str, skip: Skip = _ignore) -> Iterator[Reference]:
    """Yield the items of a source, in the order of their names where the source has one.

    Raises TriageError when there is no such place, OSError and CollectorError when it cannot be read.
    """
    if is_store(source):
        yield from _in_store(source, skip)
    elif is_collector(source):
        yield from _in_collector(source)
    else:
        yield from _on_disk(source, skip)


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


def _in_store(source: str, skip: Skip) -> Iterator[Reference]:
    from pyarrow import fs  # an extra

    filesystem, path = store_of(source)
    scheme = source.partition("://")[0]
    is_one = source.endswith(_SUFFIXES)
    selector = [path] if is_one else fs.FileSelector(path, recursive=True)
    for each in sorted(filesystem.get_file_info(selector), key=lambda info: info.path):
        if each.type is fs.FileType.File:
            place = f"{scheme}://{each.path}"
            if not each.path.endswith(_SUFFIXES):
                with filesystem.open_input_stream(each.path, compression=None) as stream:
                    form = recognise(stream.read(HEAD_BYTES))
                if form not in ARCHIVES | _LOGS:
                    skip(place, _why_skipped(form))
                    continue
            yield Reference(place, each.size or 0, (each.mtime_ns or 0) / 1e9)
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


def _on_disk(source: str, skip: Skip) -> Iterator[Reference]:
    path = Path(source)
    matches = [source] if path.exists() else sorted(glob(source, recursive=True))  # noqa: PTH207  # of any path
    if not matches:
        raise TriageError(
            f"{source}: no such file or directory, and no file matches that pattern; check the path"
        )
    for match in map(Path, matches):
        if match.is_dir():
            yield from _below(match, skip, is_source=True)
        else:
            yield _reference(match)


def _below(directory: Path, skip: Skip, *, is_source: bool = False) -> Iterator[Reference]:
    """Yield the items below a directory, without following links.

    A directory is one item if it has records, the layout of a gatherer, or logs and nothing but logs. In the
    folder that the user names, each log is an item of its own.
    """
    try:
        with os.scandir(directory) as entries:
            children = sorted(entries, key=lambda child: child.name)
        if _is_host(directory, children):
            yield _reference(directory)
            return
    except OSError as error:
        skip(str(directory), error.strerror or "cannot be read")
        return
    found: list[Reference] = []
    logs: list[Path] = []
    for child in children:
        path = Path(child.path)
        if child.is_dir(follow_symlinks=False):
            found += _below(path, skip)
        elif not child.is_file(follow_symlinks=False):
            skip(child.path, "a symbolic link" if child.is_symlink() else "not a plain file")
        elif (form := _form(path, skip)) in ARCHIVES or child.name.endswith(_SUFFIXES):
            found.append(_reference(path))  # a bundle whose upload failed is named as one that cannot be read
        elif form in _LOGS:
            logs.append(path)
        elif form is not None:
            skip(child.path, _why_skipped(form))
    if logs and not is_source and not found:
        yield _reference(directory)
        return
    yield from sorted([*found, *map(_reference, logs)], key=lambda each: each.uri)


def _is_host(directory: Path, children: "list[os.DirEntry[str]]") -> bool:
    names = {child.name for child in children if not child.is_symlink()}
    if names & _HOST_NAMES:
        return True
    return not any(name.endswith(_SUFFIXES) for name in names) and bool(recorded_services(directory))


def _form(path: Path, skip: Skip) -> FileForm | None:
    try:
        with path.open("rb") as stream:
            return recognise(stream.read(HEAD_BYTES))
    except OSError as error:
        skip(str(path), error.strerror or "cannot be read")
        return None


def _why_skipped(form: FileForm) -> str:
    if form in {FileForm.TEXT, FileForm.UTF_16}:
        return f"{form}, perhaps not a log; name it as a SOURCE to judge it"
    return f"neither a bundle nor a log: {form}"


def _reference(path: Path) -> Reference:
    status = path.stat()
    return Reference(str(path.absolute()), status.st_size, status.st_mtime)
