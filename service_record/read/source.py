"""One interface to every source: a directory, files, bundles, standard input or a collector.

`recognise` determines the type of a file by its content. Files that are not records may be evidence:
`Source.contents` yields them.
"""

import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import BufferedReader, BytesIO, RawIOBase, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

import msgspec
from msgspec.structs import replace

from service_record.history.results import Liveness
from service_record.record import systemd
from service_record.record.appending import DAMAGED_SUFFIX, DEFAULT_DIRECTORY
from service_record.record.directory import (
    LISTINGS,
    RECORD_DIRECTORIES,
    UNFINISHED_SUFFIX,
    Records,
    is_inside,
    open_inside,
)
from service_record.record.entry import Entry, Malformed, Piece
from service_record.record.holes import without_holes
from service_record.record.layout import read_entries
from service_record.record.recognition import ARCHIVES, HEAD_BYTES, LOGS, FileForm, is_record, recognise

if TYPE_CHECKING:  # reading a directory does not import the modules that open archives
    from service_record.bundle import Bundle, LeftOut
    from service_record.bundle.contents import Content, Leave


STANDARD_INPUTS: Final = ("-", "standard input")
"""The names of standard input in arguments and in messages."""
_STANDARD_INPUT, _STREAM_NAME = STANDARD_INPUTS

_COLLECTOR: Final = ("collector://", "collector+http://", "collector+https://")
_FAILED_UNIT: Final = re.compile(r"^\W*\S+\.[a-z]+ +\S+ +failed ", re.MULTILINE)
_MAX_UNIT_TEXTS: Final = 100
_MAX_UNIT_TEXT: Final = 256 << 10  # characters


class SourceError(Exception):
    """A source cannot be read. The message says why and what to do, in one line."""


class Source(msgspec.Struct, frozen=True):
    """The records and other files of one host. Each record can be read once."""

    name: str
    """The place of the records, for messages and headings."""
    records: tuple[tuple[str, Iterable[Piece]], ...]
    """Services with the pieces of their records, which are read lazily."""
    is_home: bool = False
    """True for the records directory of this host."""
    written: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Service -> the time of the last write to its record, if known, in seconds since 1970."""
    unfinished: frozenset[str] = frozenset()
    """Services with a new file that upstream's shim has written but not moved into place."""
    damaged: Mapping[str, Callable[[], bytes]] = msgspec.field(default_factory=dict)
    """Service -> a function that reads the damaged bytes, which a writer moved to a separate file."""
    is_snapshot: bool = False
    """True for a bundle: a run without an end was running when the bundle was made."""
    left_out: "tuple[LeftOut, ...]" = ()
    """The parts of an archive or directory that were not read."""
    boot_id: str | None = None
    """For a bundle: the id of the boot in which it was made, if its manifest has it."""
    running: tuple[systemd.RunningService, ...] = ()
    """Services that systemd runs on this host now, including those without a record."""
    unit_texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    """For a bundle: path -> text of the files about failed units."""
    contents: "Callable[[Leave], Iterator[Content]] | None" = None
    """Iterates over all files of the source; None if there are only records."""
    refusal: str = ""
    """The reason why there are no records, if there are only other files; else empty."""
    hosts: "tuple[Source, ...]" = ()
    """The hosts of a cluster whose logs are in one source, each as a source; empty for one host."""
    is_log_bundle: bool = False
    """True for a log bundle of `openshift-install gather`, which is made after the installation ended."""


def open_source(places: Sequence[str] = (), *, with_evidence: bool = False) -> Source:
    """Open the records in these directories, files and bundles; without places, the records of this host.

    `-` is standard input, `collector://HOST/NAME` a host of a collector, `example:NAME` an example. If the
    entries of a file have a field `service`, as in the output of `show --output jsonl`, the file has one
    record for each service. Raises OSError if a place cannot be read, SourceError if it has no records.

    With `with_evidence`, a place that has only other files is opened as well, and the source has a `refusal`.
    Standard input that is not a record is copied to an unnamed temporary file.
    """
    if not places:
        return _open_directory(Records().directory, is_home=True)
    sources = [_open_place(place, with_evidence=with_evidence) for place in places]
    return sources[0] if len(sources) == 1 else _join_sources(sources)


def liveness_for(source: Source) -> Liveness:
    """Return the rules by which runs without an end count as running or interrupted."""
    if source.is_snapshot:
        return Liveness(source.boot_id, is_at_home=source.boot_id is not None)
    return Liveness(systemd.boot_id(), source.is_home, systemd.is_alive)


def _open_place(place: str, *, with_evidence: bool) -> Source:
    if place == _STANDARD_INPUT:
        stream = os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
        return _open_stream(_STREAM_NAME, "stdin", stream, None, with_evidence=with_evidence)
    if place.startswith(_COLLECTOR):
        return _open_collector(place, with_evidence=with_evidence)
    if place.startswith("example:"):
        from service_record.read.examples import example_path  # imported here because it is rarely needed

        return replace(_open_place(str(example_path(place)), with_evidence=with_evidence), name=place)
    path = Path(place)
    if path.is_dir():
        return _open_bundle_or_directory(path, with_evidence=with_evidence)
    stream = without_holes(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    reopen = (lambda: path.open("rb")) if path.is_file() else None
    return _open_stream(place, path.name, stream, reopen, with_evidence=with_evidence)


def _open_collector(place: str, *, with_evidence: bool) -> Source:
    """Return the records of a host from a collector."""
    from service_record.http.address import CollectorError  # imported here because it is rarely needed
    from service_record.read.remote import remote_records

    try:
        remote = remote_records(place)
        if remote.records or remote.bundle is None:
            contents = None
            if remote.bundle is not None:
                contents = partial(_archive_contents, partial(_fetch_bundle, remote.bundle), "bundle")
            return Source(place, remote.records, is_snapshot=True, contents=contents)
        bundle = remote.bundle()
    except CollectorError as fault:
        raise SourceError(str(fault)) from None
    return _open_stream(place, "bundle", bundle, None, with_evidence=with_evidence)


def _fetch_bundle(fetch: Callable[[], BufferedReader]) -> BufferedReader:
    """Download a bundle from a collector. Raises OSError, because callers of `contents` expect this error."""
    from service_record.http.address import CollectorError  # imported here because it is rarely needed

    try:
        return fetch()
    except CollectorError as fault:
        raise OSError(errno.EIO, str(fault)) from None


def _open_bundle_or_directory(path: Path, *, with_evidence: bool) -> Source:
    """Return the records and files of a directory, which may contain an unpacked bundle."""
    directory = records_directory(path)
    is_home = _is_home(directory)
    contents = partial(_directory_contents, path)
    if not is_home and not recorded_services(directory):
        texts = _find_unit_texts(path)
        if texts:
            return Source(str(path), (), is_snapshot=True, unit_texts=texts, contents=contents)
        refusal = f"no records in {path}: {_explain_no_records(path)}"
        if not with_evidence or not path.is_dir() or not any(path.iterdir()):
            raise SourceError(refusal)
        left_out = _report_unreachable_host(
            str(path), {each.name for each in (path, *path.glob("*"), *path.glob("*/*"))}
        )
        return Source(str(path), (), is_snapshot=True, refusal=refusal, contents=contents, left_out=left_out)
    source = _open_directory(directory, is_home=is_home)
    if not is_unpacked_bundle(path):
        has_more = not is_home and _has_other_files(directory)
        return replace(source, contents=contents) if has_more else source
    top = directory.parents[1] if directory.parents[1].is_relative_to(path) else path
    is_log_bundle = directory.parts[-2:] == _LOG_BUNDLE and not (top / "manifest.json").exists()
    texts = _read_unit_texts(path, top)
    return replace(source, is_snapshot=True, unit_texts=texts, contents=contents, is_log_bundle=is_log_bundle)


_LOG_BUNDLE: Final = ("bootstrap", "services")
_RECORD_SUFFIXES: Final = (".json", UNFINISHED_SUFFIX, DAMAGED_SUFFIX, ".lock")


def _explain_no_records(path: Path) -> str:
    if not path.is_dir():
        return "no such directory"
    has_json = any(path.glob("*.json"))
    return "its *.json files are not records" if has_json else "no *.json file there"


def _report_unreachable_host(name: str, names: set[str]) -> "tuple[LeftOut, ...]":
    """Return a remark about a log bundle that has no logs of the bootstrap host; else nothing."""
    is_gather = any(each.startswith("log-bundle") for each in {name.rpartition("/")[2], *names})
    if not is_gather or "bootstrap" in names or not names & {"control-plane", "serial"}:
        return ()
    from service_record.bundle import LeftOut  # imported here because it is rarely needed

    why = "not in this log bundle: the bootstrap host could not be reached when the bundle was made"
    return (LeftOut(f"{name}: bootstrap", why),)


def _has_other_files(directory: Path) -> bool:
    """Return whether a directory of records also has other files, which may be evidence."""
    with os.scandir(directory) as entries:
        return any(
            not entry.name.startswith(".") and (entry.is_dir() or not entry.name.endswith(_RECORD_SUFFIXES))
            for entry in entries
        )


def _directory_contents(path: Path, leave: "Leave") -> "Iterator[Content]":
    from service_record.bundle.contents import directory_contents  # imported here because it is rarely needed

    return directory_contents(path, leave)


def _archive_contents(
    archive: Callable[[], BufferedReader], name: str, leave: "Leave"
) -> "Iterator[Content]":
    from service_record.bundle.contents import archive_contents  # imported here because it is rarely needed

    with archive() as stream:
        yield from archive_contents(stream, name, 0.0, leave)


def _find_unit_texts(path: Path) -> dict[str, str]:
    """Return the files about units of an unpacked bundle without records; empty if no unit failed."""
    listings = [
        listing
        for name in (*LISTINGS, *(f"sos_commands/systemd/{name}" for name in LISTINGS))
        for below in ("", "*/")
        for listing in path.glob(below + name)
        if is_inside(path, listing)
    ]
    texts = _read_unit_texts(path, listings[0].parent) if len(listings) == 1 else {}
    return texts if _name_failed_units(texts) else {}


def _name_failed_units(texts: Mapping[str, str]) -> bool:
    return any(path.endswith(LISTINGS) and _FAILED_UNIT.search(text) for path, text in texts.items())


def _read_unit_texts(directory: Path, top: Path) -> dict[str, str]:
    """Return path -> text of the files about failed units below `top`, a directory of an unpacked bundle."""
    texts = {}
    listings = (top / listing for listing in (*LISTINGS, "unit-properties.txt"))
    for path in (*listings, *sorted(top.glob("unit-status/*.txt"))[:_MAX_UNIT_TEXTS]):
        with suppress(OSError), TextIOWrapper(open_inside(directory, path), "utf-8", "replace") as stream:
            texts[str(path)] = stream.read(_MAX_UNIT_TEXT)
    return texts


def is_unpacked_bundle(path: Path) -> bool:
    """Return whether a directory contains an unpacked bundle. Raises SourceError if it contains several."""
    directory = records_directory(path)
    return directory != path and not _is_home(directory)


def _is_home(directory: Path) -> bool:
    return directory.resolve() == Records().directory.resolve()


def records_directory(path: Path) -> Path:
    """Return the directory of records in an unpacked bundle; any other directory is returned unchanged.

    Raises SourceError if there are several bundles.
    """
    for below in ("", "*/"):
        directories = [
            place for layout in _LAYOUTS for place in path.glob(below + layout) if is_inside(path, place)
        ]
        directories = [place for place in directories if recorded_services(place)] or [
            place for place in directories if str(place).endswith(RECORD_DIRECTORIES)
        ]
        if len(directories) > 1:
            names = ", ".join(str(place) for place in sorted(directories))
            raise SourceError(f"several bundles in {path}: give one of {names}")
        if directories:
            return directories[0]
        if recorded_services(path):
            break
    return path


_LAYOUTS: Final = (*RECORD_DIRECTORIES, "log/openshift", "openshift")
"""Directories of records in a bundle, and in a copy of /var, of /var/log or of its content."""


def recorded_services(directory: Path) -> list[str]:
    """Return the services with a record in a directory. Records are recognized by their content.

    Damaged and empty files count as records if another file of the directory is a record, or if the directory
    has the name of a directory of records. JSON files of other programs are never records.
    """
    records = Records(directory)
    services = records.services()
    if str(directory).endswith(RECORD_DIRECTORIES) or _is_home(directory) or not services:
        return services
    heads = {service: _read_head(directory, directory / f"{service}.json") for service in services}
    if not any(map(is_record, heads.values())) and _has_other_files(directory):
        return []
    return [service for service in services if recognise(heads[service]) not in _FOREIGN]


_FOREIGN: Final = frozenset({FileForm.JSON, FileForm.JOURNAL_JSON, FileForm.HTML, FileForm.XML})


def _read_head(directory: Path, path: Path) -> bytes:
    """Return the first bytes of a file; empty if it cannot be read. Reading its record reports the error."""
    try:
        with open_inside(directory, path) as stream:
            return stream.read(HEAD_BYTES)
    except OSError:
        return b""


def _open_directory(path: Path, *, is_home: bool) -> Source:
    records = Records(path)
    services = records.services(with_inbox=True)
    if services and not is_home:
        services = recorded_services(path)
    running = systemd.running_services() if is_home and path == Path(DEFAULT_DIRECTORY) else ()
    if not services and not running:
        problem = "no *.json file there" if path.is_dir() else "no such directory"
        raise SourceError(
            f"no records in {path}: {problem}; services make them when they first record, "
            "and --from names another directory or file"
        )
    return Source(
        str(path),
        tuple((service, records.read(service)) for service in services),
        is_home,
        **files_beside(path, services),
        left_out=_list_unread_files(records),
        running=running,
    )


class FilesBeside(TypedDict):
    """The fields of a `Source` that describe the files of its records."""

    written: dict[str, float]
    unfinished: frozenset[str]
    damaged: dict[str, Callable[[], bytes]]


def files_beside(directory: Path, services: Iterable[str]) -> FilesBeside:
    """Return the write times of records, and which of them have an unfinished write or a damaged copy."""
    files = {service: directory / f"{service}.json" for service in services}
    copies = {service: beside(file, DAMAGED_SUFFIX) for service, file in files.items()}
    return FilesBeside(
        written={service: file.stat().st_mtime for service, file in files.items() if file.exists()},
        unfinished=frozenset(service for service, file in files.items() if beside(file, UNFINISHED_SUFFIX)),
        damaged={
            service: partial(_read_inside, directory, copy)
            for service, copy in copies.items()
            if copy is not None
        },
    )


def _read_inside(directory: Path, path: Path) -> bytes:
    with open_inside(directory, path) as stream:
        return stream.read()


def _list_unread_files(records: Records) -> "tuple[LeftOut, ...]":
    reasons = [(str(link), "a symbolic link, which is not followed") for link in records.links()]
    inbox = records.inbox()
    if inbox is not None and inbox.left_out:
        reasons.append(("inbox", inbox.left_out))
    if not reasons:
        return ()
    from service_record.bundle import LeftOut  # imported here because it is rarely needed

    return tuple(LeftOut(path, reason) for path, reason in reasons)


def beside(record: Path, suffix: str) -> Path | None:
    """Return the file with the path of a record plus a suffix; None if it is missing or a symbolic link."""
    path = record.with_name(record.name + suffix)
    try:
        return path if path.is_file() and not path.is_symlink() else None
    except OSError:  # with the suffix, the name is too long
        return None


def _open_stream(
    name: str,
    file_name: str,
    stream: BufferedReader,
    reopen: Callable[[], BufferedReader] | None,
    *,
    with_evidence: bool,
) -> Source:
    """Return the records and files in an open file. `reopen` opens it again; None if that is impossible."""
    head, stream = look_ahead(stream)
    form = recognise(head)
    # A damaged record may begin with any bytes. A text named like an archive is a failed download.
    is_text = form is FileForm.TEXT and not file_name.endswith((_RECORD, *ARCHIVE_NAMES))
    if form is FileForm.JSON:
        stream.close()
        raise SourceError(_describe_refusal(name, f"looks like {form}"))
    if form not in ARCHIVES and not is_text and form not in LOGS - {FileForm.TEXT}:
        return _make_record_source(name, file_name.removesuffix(".json"), _read_and_close(stream))
    if reopen is None and with_evidence:
        stream = (reopen := _copy_stream(stream))()
    contents = partial(_archive_contents, reopen, file_name) if reopen is not None else None
    if form in LOGS:
        stream.close()
        return _make_log_source(name, form, contents, with_evidence=with_evidence)
    from service_record.bundle import open_bundle  # imported here because most files are not archives

    with stream:
        return _make_bundle_source(
            name, file_name, open_bundle(stream), contents, with_evidence=with_evidence
        )


def _make_log_source(
    name: str, form: FileForm, contents: "Callable[[Leave], Iterator[Content]] | None", *, with_evidence: bool
) -> Source:
    refusal = _describe_refusal(name, f"looks like {form}", _ANALYZE_READS)
    if not with_evidence:
        raise SourceError(refusal)
    return Source(name, (), is_snapshot=True, refusal=refusal, contents=contents)


def look_ahead(stream: BufferedReader) -> tuple[bytes, BufferedReader]:
    """Return the first bytes of a stream, and a stream that still begins with them.

    On a pipe, this returns as soon as the first line of a record has arrived.
    """
    if stream.seekable():
        start = stream.tell()  # standard input may have been read before
        head = stream.read(HEAD_BYTES)
        stream.seek(start)
        return head, stream
    head = b""
    while len(head) < HEAD_BYTES and not (head.startswith(b"{") and b"\n" in head):
        more = stream.read1(HEAD_BYTES - len(head))
        if not more:
            break
        head += more
    return head, BufferedReader(_RewoundStream(head, stream))


class _RewoundStream(RawIOBase):
    """A stream that begins with a head that was already read."""

    def __init__(self, head: bytes, stream: BufferedReader) -> None:
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # BufferedReader passes a memoryview
        data = self._head[: len(buffer)] or self._stream.read1(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _copy_stream(stream: BufferedReader) -> Callable[[], BufferedReader]:
    """Copy a stream to an unnamed file; return a function that opens the copy, any number of times."""
    import tempfile  # imported here because it is rarely needed
    from shutil import copyfileobj  # likewise

    with tempfile.TemporaryFile() as file:
        copyfileobj(stream, file)
        file.flush()
        copy = os.dup(file.fileno())

    def reopen() -> BufferedReader:
        os.lseek(copy, 0, os.SEEK_SET)
        return os.fdopen(copy, "rb", closefd=False)

    return reopen


def _make_bundle_source(
    name: str,
    file_name: str,
    bundle: "Bundle",
    contents: "Callable[[Leave], Iterator[Content]] | None",
    *,
    with_evidence: bool,
) -> Source:
    """Return the records of an archive, or of a compressed record file."""
    left_out = tuple(part.within(name) for part in bundle.left_out)
    if bundle.unpacked is not None:
        form = recognise(bundle.unpacked[:HEAD_BYTES])
        if form in LOGS:
            return replace(
                _make_log_source(name, form, contents, with_evidence=with_evidence), left_out=left_out
            )
        service = Path(file_name).stem.removesuffix(".json")
        source = _make_record_source(name, service, read_entries(BytesIO(bundle.unpacked)))
        return replace(source, left_out=left_out)
    if not bundle.records and not _name_failed_units(bundle.unit_texts):
        layouts = " nor ".join(f"{layout}/*.json" for layout in RECORD_DIRECTORIES)
        damage = "; ".join(part.reason for part in left_out if part.path in {"", name})
        layout = f"an archive with neither {layouts}; check that it is the bundle you mean"
        others = [str(part) for part in left_out if part.path not in {"", name}]
        refusal = "; ".join([f"no records in {name}: {damage or layout}", *others])
        if not with_evidence:
            raise SourceError(refusal)
        left_out += _report_unreachable_host(name, set(bundle.top_names))
        return Source(name, (), is_snapshot=True, refusal=refusal, left_out=left_out, contents=contents)
    return Source(
        name,
        tuple((each, record.pieces()) for each, record in bundle.records.items()),
        written={each: record.written for each, record in bundle.records.items()},
        unfinished=bundle.unfinished,
        damaged={each: BytesIO(copy.data).getvalue for each, copy in bundle.damaged.items()},
        is_snapshot=True,
        left_out=left_out,
        boot_id=bundle.boot_id,
        unit_texts=bundle.unit_texts,
        contents=contents,
        is_log_bundle=bundle.is_of_gather,
    )


def _make_record_source(name: str, service: str, pieces: Iterator[Piece]) -> Source:
    """Return a source with one record, or with one for each service if the entries name their service."""
    beginning = list(islice(pieces, PIECES))
    try:
        refuse_foreign(name, beginning)
    except ForeignError as error:
        raise SourceError(str(error)) from None
    if not beginning:
        return Source(name, ((service, iter(())),))
    first, whole = beginning[0], chain(beginning, pieces)
    if _service_of_entry(first) is None:
        return Source(name, ((service, whole),))
    return Source(
        name, tuple((of_service, iter(own)) for of_service, own in _group_by_service(whole, service).items())
    )


def _read_and_close(stream: BufferedReader) -> Iterator[Piece]:
    with stream:
        yield from read_entries(stream)


def _group_by_service(pieces: Iterable[Piece], service: str) -> dict[str, list[Piece]]:
    """Group pieces by service. A piece without a service belongs to the service of the previous piece."""
    records: dict[str, list[Piece]] = {}
    for piece in pieces:
        service = _service_of_entry(piece) or service
        records.setdefault(service, []).append(piece)
    return records


def _service_of_entry(first: Piece) -> str | None:
    """Return the field `service` of an entry, or None."""
    name = first.extra.get("service") if isinstance(first, Entry) else None
    return name if isinstance(name, str) else None


def _join_sources(sources: Sequence[Source]) -> Source:
    """Combine sources. The records of a service in several sources become one, in the order of sources."""
    records: dict[str, Iterable[Piece]] = {}
    for service, pieces in chain.from_iterable(source.records for source in sources):
        records[service] = chain(records.get(service, ()), pieces)
    readers = [source.contents for source in sources if source.contents is not None]
    refusals = [source.refusal for source in sources if source.refusal]
    return Source(
        ", ".join(source.name for source in sources),
        tuple(records.items()),
        all(source.is_home for source in sources),
        dict(chain.from_iterable(source.written.items() for source in sources)),
        frozenset[str]().union(*(source.unfinished for source in sources)),
        dict(chain.from_iterable(source.damaged.items() for source in sources)),
        all(source.is_snapshot for source in sources),
        tuple(chain.from_iterable(source.left_out for source in sources)),
        running=tuple(chain.from_iterable(source.running for source in sources)),
        unit_texts=dict(chain.from_iterable(source.unit_texts.items() for source in sources)),
        contents=partial(_chain_contents, readers) if readers else None,
        refusal="; ".join(refusals) if len(refusals) == len(sources) else "",
    )


def _chain_contents(
    readers: "Sequence[Callable[[Leave], Iterator[Content]]]", leave: "Leave"
) -> "Iterator[Content]":
    for read in readers:
        yield from read(leave)


PIECES: Final = 2  # the number that distinguishes a damaged record from any other file

ARCHIVE_NAMES: Final = (".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".zip")
_RECORD: Final = ".json"
_JSON: Final = ("{", "[", "\0")
"""First characters of damaged records. A loss of power leaves NULs."""


class ForeignError(Exception):
    """A file is neither a record nor a bundle. The message names its apparent type and what to do."""


def refuse_foreign(name: str, beginning: Iterable[Piece]) -> None:
    """Raise ForeignError if the first pieces of a file show that it is not a record.

    Only a file named `*.json` and standard input may be an empty record.
    """
    pieces = list(islice(beginning, PIECES))
    is_record = name.endswith(_RECORD) or name in STANDARD_INPUTS
    if not pieces and not is_record:
        raise ForeignError(_describe_refusal(name, "it is empty"))
    if len(pieces) != 1 or not isinstance(pieces[0], Malformed):
        return
    text = pieces[0].text
    if not text.strip("\0") and not is_record:
        raise ForeignError(_describe_refusal(name, "looks like an empty archive"))
    if not text.startswith(_JSON):
        raise ForeignError(_describe_form(name, recognise(_without_escapes(text))))


def _without_escapes(text: str) -> bytes:
    r"""Encode a text, and replace escapes such as `\xe9`, which stand for bytes that are not UTF-8."""
    data = text.encode(errors="replace")
    return re.sub(rb"\\x([89a-f][0-9a-f])", lambda escape: bytes.fromhex(escape[1].decode()), data)


def refuse_unpacked(name: str, head: bytes) -> None:
    """Raise ForeignError if a file is named like an archive but is not an archive."""
    if not name.endswith(ARCHIVE_NAMES):
        return
    text = head.decode(errors="backslashreplace").strip()
    refuse_foreign(name, [Malformed(1, text, "")] if text else [])


def _describe_form(name: str, form: FileForm) -> str:
    advice = (_ANALYZE_READS,) if form in LOGS - {FileForm.TEXT} else ()
    return _describe_refusal(name, f"looks like {form}", *advice)


_ANALYZE_READS: Final = "service-record analyze reads logs"


def _describe_refusal(name: str, looks: str, advice: str = "look into it, or fetch the bundle again") -> str:
    return f"{name}: not a bundle and not a record: {looks}; {advice}"
