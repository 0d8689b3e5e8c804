"""Find the evidence of hosts in a source: a folder, a file, a pattern, an object store, a collector.

Each item is one host: a bundle, a directory of its logs or records, or a single log.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias

import msgspec

from service_record.http.address import is_collector, parse_address
from service_record.http.collector_answers import Hosts, StoredRecords
from service_record.http.collector_client import CollectorClient, connect, host_path
from service_record.read.examples import resolve_example
from service_record.read.source import SourceError, recorded_services
from service_record.record.line import make_encodable
from service_record.record.recognition import ARCHIVES, HEAD_BYTES, LOGS, FileForm, recognise
from service_record.triage.rows import Reference

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_SUFFIXES: Final = (
    *(".tar", ".tgz", ".txz", ".tzst", ".tbz2"),
    *(f".tar.{packing}" for packing in ("gz", "xz", "zst", "bz2")),
)
_STORES: Final = ("s3://", "gs://")
_CHUNK_BYTES: Final = 1 << 20
_HOSTS_PER_PAGE: Final = 1000


class Skipped(msgspec.Struct, frozen=True):
    """A file or directory that yields no row."""

    place: str
    reason: str
    is_unread: bool = False
    """True if it may hold evidence but could not be read; false for files that are no evidence."""


Skip: TypeAlias = Callable[[Skipped], None]
"""A function that is called with each skipped file."""
_LOGS: Final = (LOGS | {FileForm.RECORD}) - {FileForm.TEXT, FileForm.UTF_16}
"""Forms of files that are judged although the user did not name them: only hosts write these."""
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
"""Names of files and directories at the top of an archive that a gatherer makes of a host."""


class TriageError(Exception):
    """The reason why bundles cannot be found or an index cannot be used, in one line."""


def find_references(source: str, skip: Skip = lambda _skipped: None) -> Iterator[Reference]:
    """Yield the items of a source, ordered by name within a folder.

    Raises TriageError if the place does not exist or cannot be listed, CollectorError if a collector refuses.
    """
    if is_store(source):
        try:
            yield from _find_in_store(source, skip)
        except OSError as error:
            raise TriageError(f"{source}: {error}") from None
    elif is_collector(source):
        yield from _find_in_collector(source)
    else:
        yield from _find_on_disk(source, skip)


@contextmanager
def local_file(reference: Reference) -> Iterator[bytes]:
    """Provide a bundle as a file or directory of this machine while it is read.

    Raises OSError, CollectorError.
    """
    uri = reference.uri
    if is_store(uri):
        filesystem, path = open_store(uri)
        with filesystem.open_input_stream(path, compression=None) as stream, _copy() as (file, copy):
            while chunk := stream.read(_CHUNK_BYTES):
                file.write(chunk)
            file.flush()
            yield copy
    elif is_collector(uri) and reference.version:
        place, _, bundle = uri.rpartition("@")
        path = host_path(parse_address(place).host, "bundles", bundle)
        with connect(place) as client, _copy() as (file, copy):
            client.download(path, file)
            file.flush()
            yield copy
    else:
        yield reference.path or os.fsencode(uri)


@contextmanager
def _copy() -> Iterator[tuple[BinaryIO, bytes]]:
    """Provide a temporary file, open for writing, and its path."""
    with tempfile.TemporaryDirectory(prefix="service-record-triage-") as around:
        path = Path(around) / "bundle"
        with path.open("wb") as file:
            yield file, os.fsencode(path)


def is_store(place: str) -> bool:
    """Return True if a place is in an object store."""
    return place.startswith(_STORES)


def open_store(uri: str) -> "tuple[FileSystem, str]":
    """Return the object store of a URI, and the path in it.

    Keys, region and AWS_ENDPOINT_URL come from the environment, as for every S3 client. Raises TriageError if
    no bucket is named, because nobody wants to read all buckets of an account.
    """
    from pyarrow import fs  # an extra

    scheme = uri.partition("://")[0]
    if not uri.partition("://")[2].strip("/"):
        raise TriageError(f"{uri}: no bucket is named; use {scheme}://BUCKET/PREFIX")

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


def _find_in_store(source: str, skip: Skip) -> Iterator[Reference]:
    from pyarrow import fs  # an extra

    filesystem, path = open_store(source)
    scheme = source.partition("://")[0]
    is_one = source.endswith(_SUFFIXES)
    selector = [path] if is_one else fs.FileSelector(path, recursive=True)
    for each in sorted(filesystem.get_file_info(selector), key=lambda info: info.path):
        if each.type is fs.FileType.File:
            place = f"{scheme}://{each.path}"
            if not each.path.endswith(_SUFFIXES):
                try:
                    with filesystem.open_input_stream(each.path, compression=None) as stream:
                        form = recognise(stream.read(HEAD_BYTES))
                except OSError as error:
                    skip(Skipped(place, str(error), is_unread=True))
                    continue
                if form not in ARCHIVES | _LOGS:
                    skip(Skipped(place, _describe_skipped(form)))
                    continue
            yield Reference(place, each.size or 0, (each.mtime_ns or 0) / 1e9)
        elif is_one:
            raise TriageError(f"{source}: no such object; check bucket, prefix and keys")


def _find_in_collector(source: str) -> Iterator[Reference]:
    """Yield the hosts of a collector, or the one host that the source names. Raises CollectorError.

    A host's latest bundle is judged; a host without a bundle is judged by the records that it has sent.
    """
    address = parse_address(source)
    with connect(source) as client:
        if address.host:
            yield from _find_host_in_collector(client, source.rstrip("/"), address.host)
            return
        after = None
        while True:
            page = client.get(
                "/api/v1/hosts", Hosts, all="true", sort="name", limit=_HOSTS_PER_PAGE, after=after
            )
            for host in page.hosts:
                yield from _find_host_in_collector(client, f"{source.rstrip('/')}/{host.name}", host.name)
            after = page.next
            if not after:
                return


def _find_host_in_collector(client: CollectorClient, place: str, name: str) -> Iterator[Reference]:
    stored = client.get(host_path(name, "records"), StoredRecords)
    if stored.bundle is not None:
        yield Reference(f"{place}@{stored.bundle}", version=str(stored.bundle))
    elif stored.services:
        # Records grow, so they are judged in each run: a run's own time is in the key.
        yield Reference(place, changed=time.time())


def _find_on_disk(source: str, skip: Skip) -> Iterator[Reference]:
    source = resolve_example(source)
    path = Path(source)
    matches = [source] if path.exists() else sorted(glob(source, recursive=True))  # noqa: PTH207  # of any path
    if not matches:
        raise TriageError(
            f"{source}: no such file or directory, and no file matches that pattern; check the path"
        )
    for match in matches:
        # The same file by a link, a relative path or `..` has one name.
        real = Path(os.path.realpath(match))
        if real.is_dir():
            yield from _find_below(real, skip, is_source=True)
        else:
            yield from _make_file_reference(real, skip)


def _find_below(directory: Path, skip: Skip, *, is_source: bool = False) -> Iterator[Reference]:
    """Yield the items below a directory, without following links.

    A directory is one item if it has records, the layout of a gatherer, or logs and nothing but logs. In the
    folder that the user names, each log is an item of its own.
    """
    try:
        with os.scandir(directory) as entries:
            children = sorted(entries, key=lambda child: child.name)
        if _is_host(directory, children):
            yield _make_directory_reference(directory)
            return
    except OSError as error:
        skip(Skipped(_format_place(directory), error.strerror or "cannot be read", is_unread=True))
        return
    found: list[Reference] = []
    logs: list[Reference] = []
    for child in children:
        path = Path(child.path)
        place = _format_place(path)
        if child.is_dir(follow_symlinks=False):
            found += _find_below(path, skip)
        elif not child.is_file(follow_symlinks=False):
            skip(Skipped(place, "a symbolic link" if child.is_symlink() else "not a plain file"))
        elif (form := _recognise_file(path, skip)) in ARCHIVES or child.name.endswith(_SUFFIXES):
            found += _make_file_reference(
                path, skip
            )  # a bundle whose upload failed is named as one that cannot be read
        elif form in _LOGS:
            logs += _make_file_reference(path, skip)
        elif form is not None:
            skip(Skipped(place, _describe_skipped(form)))
    if logs and not is_source and not found:
        yield _make_directory_reference(directory)
        return
    yield from sorted([*found, *logs], key=lambda each: each.uri)


def _is_host(directory: Path, children: "list[os.DirEntry[str]]") -> bool:
    names = {child.name for child in children if not child.is_symlink()}
    if names & _HOST_NAMES:
        return True
    try:
        return not any(name.endswith(_SUFFIXES) for name in names) and bool(recorded_services(directory))
    except SourceError:  # several hosts below it, and each is found by itself
        return False


def _recognise_file(path: Path, skip: Skip) -> FileForm | None:
    try:
        with path.open("rb") as stream:
            return recognise(stream.read(HEAD_BYTES))
    except OSError as error:
        skip(Skipped(_format_place(path), error.strerror or "cannot be read", is_unread=True))
        return None


def _describe_skipped(form: FileForm) -> str:
    if form in {FileForm.TEXT, FileForm.UTF_16}:
        return f"{form}, perhaps not a log; name it as a SOURCE to judge it"
    return f"neither a bundle nor a log: {form}"


def _make_file_reference(path: Path, skip: Skip) -> Iterator[Reference]:
    try:
        status = path.stat()
    except OSError as error:  # removed meanwhile, for example
        skip(Skipped(_format_place(path), error.strerror or "cannot be read", is_unread=True))
        return
    yield Reference(_format_place(path), status.st_size, status.st_mtime, path=os.fsencode(path))


def _make_directory_reference(directory: Path) -> Reference:
    """Return a reference whose version changes with the names, sizes and times of the files below it."""
    seen = hashlib.blake2b(digest_size=16)
    for parent, directories, names in os.walk(os.fsencode(directory)):
        directories.sort()
        for name in sorted(names):
            path = os.path.join(parent, name)  # noqa: PTH118  # bytes, which Path does not take
            try:
                status = os.lstat(path)
            except OSError:
                continue
            seen.update(b"%b\0%d %d\n" % (path, status.st_size, status.st_mtime_ns))
    return Reference(_format_place(directory), version=seen.hexdigest(), path=os.fsencode(directory))


def _format_place(path: Path) -> str:
    return make_encodable(str(path))
