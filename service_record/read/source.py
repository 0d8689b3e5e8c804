"""One interface to every source: a directory, files, bundles, standard input or a collector.

`recognise` says what a file is, by its content. Files that are not records are evidence: `contents` yields
them.
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

if TYPE_CHECKING:  # a directory is read without what opens archives
    from service_record.bundle import Bundle, LeftOut
    from service_record.bundle.contents import Content, Leave


STANDARD_INPUTS: Final = ("-", "standard input")
"""The names of standard input: in arguments, and for people."""
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
    """The place of the records as messages and headings name it."""
    records: tuple[tuple[str, Iterable[Piece]], ...]
    """Each service with the pieces of its record, which are read lazily."""
    is_home: bool = False
    """True for the records directory of this host."""
    written: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Service -> the time of the last write to its record, if known, in seconds since 1970."""
    unfinished: frozenset[str] = frozenset()
    """Services for which upstream's shim left a new file that it had not yet moved into place."""
    damaged: Mapping[str, Callable[[], bytes]] = msgspec.field(default_factory=dict)
    """Service -> a function that reads the damaged bytes which a writer moved to a file beside the record."""
    is_snapshot: bool = False
    """True for a bundle: a run without an end was running when the bundle was made."""
    left_out: "tuple[LeftOut, ...]" = ()
    """The parts of an archive or directory that were not read."""
    boot_id: str | None = None
    """For a bundle: the boot in which it was made, if its manifest names the boot."""
    running: tuple[systemd.RunningService, ...] = ()
    """Services that systemd runs on this host now; they may have no record."""
    unit_texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    """For a bundle: path -> text of the files about failed units."""
    contents: "Callable[[Leave], Iterator[Content]] | None" = None
    """Iterates over all files of the source; None if there are only records."""
    refusal: str = ""
    """Why there are no records, if there are only other files."""
    is_log_bundle: bool = False
    """True for a log bundle of OpenShift's gather, which is made when the installation has ended."""


def open_source(places: Sequence[str] = (), *, with_evidence: bool = False) -> Source:
    """Open the records in these directories, files and bundles; without any, those of this host.

    `-` is standard input, `collector://HOST/NAME` a host of a collector, `example:NAME` an example. A file
    whose entries name their `service`, as `show --output jsonl` writes it, has one record for each service.
    Raises OSError if a place cannot be read, SourceError if it has no records.

    With `with_evidence`, a place without records is opened too, if there are other files: the source has a
    `refusal` then. Standard input is copied to a file without a name if it is not a record.
    """
    if not places:
        return _directory(Records().directory, is_home=True)
    sources = [_place(place, with_evidence=with_evidence) for place in places]
    return sources[0] if len(sources) == 1 else _joined(sources)


def liveness_for(source: Source) -> Liveness:
    """Return the rules by which runs without an end count as running or interrupted."""
    if source.is_snapshot:
        return Liveness(source.boot_id, is_at_home=source.boot_id is not None)
    return Liveness(systemd.boot_id(), source.is_home, systemd.is_alive)


def _place(place: str, *, with_evidence: bool) -> Source:
    if place == _STANDARD_INPUT:
        stream = os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
        return _stream(_STREAM_NAME, "stdin", stream, None, with_evidence=with_evidence)
    if place.startswith(_COLLECTOR):
        return _of_collector(place, with_evidence=with_evidence)
    if place.startswith("example:"):
        from service_record.read.examples import example_path  # few read one

        return replace(_place(str(example_path(place)), with_evidence=with_evidence), name=place)
    path = Path(place)
    if path.is_dir():
        return _bundle_or_directory(path, with_evidence=with_evidence)
    stream = without_holes(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    again = (lambda: path.open("rb")) if path.is_file() else None
    return _stream(place, path.name, stream, again, with_evidence=with_evidence)


def _of_collector(place: str, *, with_evidence: bool) -> Source:
    """Return the records that a collector has of a host."""
    from service_record.http.address import CollectorError  # few read from there
    from service_record.read.remote import remote_records

    try:
        remote = remote_records(place)
        if remote.records or remote.bundle is None:
            contents = None
            if remote.bundle is not None:
                contents = partial(_archive_contents, partial(_fetched, remote.bundle), "bundle")
            return Source(place, remote.records, is_snapshot=True, contents=contents)
        bundle = remote.bundle()
    except CollectorError as fault:
        raise SourceError(str(fault)) from None
    return _stream(place, "bundle", bundle, None, with_evidence=with_evidence)


def _fetched(fetch: Callable[[], BufferedReader]) -> BufferedReader:
    """Return a collector's bundle. Raises OSError, which callers of a reading function expect."""
    from service_record.http.address import CollectorError  # as above

    try:
        return fetch()
    except CollectorError as fault:
        raise OSError(errno.EIO, str(fault)) from None


def _bundle_or_directory(path: Path, *, with_evidence: bool) -> Source:
    """Return the records and files of a directory, or of the bundle that was unpacked to it."""
    directory = records_directory(path)
    is_home = _is_home(directory)
    contents = partial(_directory_contents, path)
    if not is_home and not recorded_services(directory):
        texts = _texts_below(path)
        if texts:
            return Source(str(path), (), is_snapshot=True, unit_texts=texts, contents=contents)
        refusal = f"no records in {path}: {_why_no_records(path)}"
        if not with_evidence or not path.is_dir() or not any(path.iterdir()):
            raise SourceError(refusal)
        left_out = _unreachable(str(path), {each.name for each in (path, *path.glob("*"), *path.glob("*/*"))})
        return Source(str(path), (), is_snapshot=True, refusal=refusal, contents=contents, left_out=left_out)
    source = _directory(directory, is_home=is_home)
    if not is_unpacked_bundle(path):
        has_more = not is_home and _has_other_files(directory)
        return replace(source, contents=contents) if has_more else source
    top = directory.parents[1] if directory.parents[1].is_relative_to(path) else path
    is_log_bundle = directory.parts[-2:] == _LOG_BUNDLE and not (top / "manifest.json").exists()
    texts = _texts_in(path, top)
    return replace(source, is_snapshot=True, unit_texts=texts, contents=contents, is_log_bundle=is_log_bundle)


_LOG_BUNDLE: Final = ("bootstrap", "services")
_RECORD_SUFFIXES: Final = (".json", UNFINISHED_SUFFIX, DAMAGED_SUFFIX, ".lock")


def _why_no_records(path: Path) -> str:
    if not path.is_dir():
        return "no such directory"
    has_json = any(path.glob("*.json"))
    return "its *.json files are not records" if has_json else "no *.json file there"


def _unreachable(name: str, names: set[str]) -> "tuple[LeftOut, ...]":
    """Report a log bundle that has no logs of its bootstrap host."""
    is_gather = any(each.startswith("log-bundle") for each in {name.rpartition("/")[2], *names})
    if not is_gather or "bootstrap" in names or not names & {"control-plane", "serial"}:
        return ()
    from service_record.bundle import LeftOut  # few need it

    why = "not in this log bundle: the bootstrap host could not be reached when the bundle was made"
    return (LeftOut(f"{name}: bootstrap", why),)


def _has_other_files(directory: Path) -> bool:
    """Return whether a directory of records has files besides, which may be evidence."""
    with os.scandir(directory) as entries:
        return any(
            not entry.name.startswith(".") and (entry.is_dir() or not entry.name.endswith(_RECORD_SUFFIXES))
            for entry in entries
        )


def _directory_contents(path: Path, leave: "Leave") -> "Iterator[Content]":
    from service_record.bundle.contents import directory_contents  # few sources need it

    return directory_contents(path, leave)


def _archive_contents(
    archive: Callable[[], BufferedReader], name: str, leave: "Leave"
) -> "Iterator[Content]":
    from service_record.bundle.contents import archive_contents  # as above

    with archive() as stream:
        yield from archive_contents(stream, name, 0.0, leave)


def _texts_below(path: Path) -> dict[str, str]:
    """Return the texts about units of an unpacked bundle without records; empty if no unit failed."""
    listings = [
        listing
        for name in (*LISTINGS, *(f"sos_commands/systemd/{name}" for name in LISTINGS))
        for below in ("", "*/")
        for listing in path.glob(below + name)
        if is_inside(path, listing)
    ]
    texts = _texts_in(path, listings[0].parent) if len(listings) == 1 else {}
    return texts if _name_failed_units(texts) else {}


def _name_failed_units(texts: Mapping[str, str]) -> bool:
    return any(path.endswith(LISTINGS) and _FAILED_UNIT.search(text) for path, text in texts.items())


def _texts_in(directory: Path, top: Path) -> dict[str, str]:
    """Return path and text of the files about failed units below `top`, a directory of an unpacked bundle."""
    texts = {}
    listings = (top / listing for listing in (*LISTINGS, "unit-properties.txt"))
    for path in (*listings, *sorted(top.glob("unit-status/*.txt"))[:_MAX_UNIT_TEXTS]):
        with suppress(OSError), TextIOWrapper(open_inside(directory, path), "utf-8", "replace") as stream:
            texts[str(path)] = stream.read(_MAX_UNIT_TEXT)
    return texts


def is_unpacked_bundle(path: Path) -> bool:
    """Return whether a directory holds an unpacked bundle. Raises SourceError if it holds several."""
    directory = records_directory(path)
    return directory != path and not _is_home(directory)


def _is_home(directory: Path) -> bool:
    return directory.resolve() == Records().directory.resolve()


def records_directory(path: Path) -> Path:
    """Return the directory of records in an unpacked bundle; for any other directory, itself."""
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
"""Where a bundle has its records, and a copy of /var, of /var/log or of what is in it."""


def recorded_services(directory: Path) -> list[str]:
    """Return the services with a record in a directory, known by the content of its files.

    JSON of other programs never makes a directory one of records. Where something is recorded, or where the
    name of the directory says so, a damaged or empty file is a record too.
    """
    records = Records(directory)
    services = records.services()
    if str(directory).endswith(RECORD_DIRECTORIES) or _is_home(directory) or not services:
        return services
    heads = {service: _head(directory, directory / f"{service}.json") for service in services}
    if not any(map(is_record, heads.values())) and _has_other_files(directory):
        return []
    return [service for service in services if recognise(heads[service]) not in _FOREIGN]


_FOREIGN: Final = frozenset({FileForm.JSON, FileForm.JOURNAL_JSON, FileForm.HTML, FileForm.XML})


def _head(directory: Path, path: Path) -> bytes:
    """Return the first bytes of a file; none if it cannot be read, an error that its reader reports."""
    try:
        with open_inside(directory, path) as stream:
            return stream.read(HEAD_BYTES)
    except OSError:
        return b""


def _directory(path: Path, *, is_home: bool) -> Source:
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
        left_out=_not_read(records),
        running=running,
    )


class FilesBeside(TypedDict):
    """The fields of a source about the files of its records."""

    written: dict[str, float]
    unfinished: frozenset[str]
    damaged: dict[str, Callable[[], bytes]]


def files_beside(directory: Path, services: Iterable[str]) -> FilesBeside:
    """Return when each record was written, and which have an unfinished write or a damaged copy."""
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


def _not_read(records: Records) -> "tuple[LeftOut, ...]":
    reasons = [(str(link), "a symbolic link, which is not followed") for link in records.links()]
    inbox = records.inbox()
    if inbox is not None and inbox.left_out:
        reasons.append(("inbox", inbox.left_out))
    if not reasons:
        return ()
    from service_record.bundle import LeftOut  # few directories need it

    return tuple(LeftOut(path, reason) for path, reason in reasons)


def beside(record: Path, suffix: str) -> Path | None:
    """Return the file beside a record that is named like it with a suffix, unless it is a link."""
    path = record.with_name(record.name + suffix)
    try:
        return path if path.is_file() and not path.is_symlink() else None
    except OSError:  # too long a name to have any beside it
        return None


def _stream(
    name: str,
    file_name: str,
    stream: BufferedReader,
    again: Callable[[], BufferedReader] | None,
    *,
    with_evidence: bool,
) -> Source:
    """Return the records and files in an open file; `again` opens it once more, if that can be done."""
    head, stream = look_ahead(stream)
    form = recognise(head)
    # A damaged record may begin with anything. An archive that is text is the error of a download.
    is_text = form is FileForm.TEXT and not file_name.endswith((_RECORD, *ARCHIVE_NAMES))
    if form is FileForm.JSON:
        stream.close()
        raise SourceError(_refusal(name, f"looks like {form}"))
    if form not in ARCHIVES and not is_text and form not in LOGS - {FileForm.TEXT}:
        return _of_pieces(name, file_name.removesuffix(".json"), _closing(stream))
    if again is None and with_evidence:
        stream = (again := _copied(stream))()
    contents = partial(_archive_contents, again, file_name) if again is not None else None
    if form in LOGS:
        stream.close()
        return _of_log(name, form, contents, with_evidence=with_evidence)
    from service_record.bundle import open_bundle  # most files are no archive

    with stream:
        return _of_bundle(name, file_name, open_bundle(stream), contents, with_evidence=with_evidence)


def _of_log(
    name: str, form: FileForm, contents: "Callable[[Leave], Iterator[Content]] | None", *, with_evidence: bool
) -> Source:
    refusal = _refusal(name, f"looks like {form}", "service-record analyze reads logs")
    if not with_evidence:
        raise SourceError(refusal)
    return Source(name, (), is_snapshot=True, refusal=refusal, contents=contents)


def look_ahead(stream: BufferedReader) -> tuple[bytes, BufferedReader]:
    """Return the first bytes of a stream, and the stream with them still in it.

    A line of a record is not waited for any longer than it takes to come whole.
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
    return head, BufferedReader(_Rewound(head, stream))


class _Rewound(RawIOBase):
    """A stream from its beginning again, after its head was read."""

    def __init__(self, head: bytes, stream: BufferedReader) -> None:
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader gives
        data = self._head[: len(buffer)] or self._stream.read1(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _copied(stream: BufferedReader) -> Callable[[], BufferedReader]:
    """Copy a stream to a file without a name; return what opens the copy, any number of times."""
    import tempfile  # few are read twice from a pipe
    from shutil import copyfileobj  # likewise

    with tempfile.TemporaryFile() as file:
        copyfileobj(stream, file)
        file.flush()
        copy = os.dup(file.fileno())

    def again() -> BufferedReader:
        os.lseek(copy, 0, os.SEEK_SET)
        return os.fdopen(copy, "rb", closefd=False)

    return again


def _of_bundle(
    name: str,
    file_name: str,
    bundle: "Bundle",
    contents: "Callable[[Leave], Iterator[Content]] | None",
    *,
    with_evidence: bool,
) -> Source:
    """Return the records of an archive; one that is only compressed may hold those of several services."""
    left_out = tuple(part.within(name) for part in bundle.left_out)
    if bundle.unpacked is not None:
        form = recognise(bundle.unpacked[:HEAD_BYTES])
        if form in LOGS:
            return replace(_of_log(name, form, contents, with_evidence=with_evidence), left_out=left_out)
        service = Path(file_name).stem.removesuffix(".json")
        source = _of_pieces(name, service, read_entries(BytesIO(bundle.unpacked)))
        return replace(source, left_out=left_out)
    if not bundle.records and not _name_failed_units(bundle.unit_texts):
        layouts = " nor ".join(f"{layout}/*.json" for layout in RECORD_DIRECTORIES)
        damage = "; ".join(part.reason for part in left_out if part.path in {"", name})
        layout = f"an archive with neither {layouts}; check that it is the bundle you mean"
        others = [str(part) for part in left_out if part.path not in {"", name}]
        refusal = "; ".join([f"no records in {name}: {damage or layout}", *others])
        if not with_evidence:
            raise SourceError(refusal)
        left_out += _unreachable(name, set(bundle.top_names))
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


def _of_pieces(name: str, service: str, pieces: Iterator[Piece]) -> Source:
    """Return one record, or one for each service if the entries name theirs."""
    beginning = list(islice(pieces, PIECES))
    try:
        refuse_foreign(name, beginning)
    except ForeignError as error:
        raise SourceError(str(error)) from None
    if not beginning:
        return Source(name, ((service, iter(())),))
    first, whole = beginning[0], chain(beginning, pieces)
    if _service_in(first) is None:
        return Source(name, ((service, whole),))
    return Source(
        name, tuple((of_service, iter(own)) for of_service, own in _by_service(whole, service).items())
    )


def _closing(stream: BufferedReader) -> Iterator[Piece]:
    with stream:
        yield from read_entries(stream)


def _by_service(pieces: Iterable[Piece], service: str) -> dict[str, list[Piece]]:
    """Group pieces by service; a piece without a service belongs to that of the piece before it."""
    records: dict[str, list[Piece]] = {}
    for piece in pieces:
        service = _service_in(piece) or service
        records.setdefault(service, []).append(piece)
    return records


def _service_in(first: Piece) -> str | None:
    """Return the service that an entry names; None if it names none."""
    name = first.extra.get("service") if isinstance(first, Entry) else None
    return name if isinstance(name, str) else None


def _joined(sources: Sequence[Source]) -> Source:
    """Return several sources as one; a service in more than one has one record, in the order given."""
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
        contents=partial(_chained, readers) if readers else None,
        refusal="; ".join(refusals) if len(refusals) == len(sources) else "",
    )


def _chained(
    readers: "Sequence[Callable[[Leave], Iterator[Content]]]", leave: "Leave"
) -> "Iterator[Content]":
    for read in readers:
        yield from read(leave)


PIECES: Final = 2  # enough to tell a damaged record from another file

ARCHIVE_NAMES: Final = (".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".zip")
_RECORD: Final = ".json"
_JSON: Final = ("{", "[", "\0")
"""How damaged records begin; a loss of power leaves NULs."""


class ForeignError(Exception):
    """A file is neither a record nor a bundle. The message says what it looks like, and what to do."""


def refuse_foreign(name: str, beginning: Iterable[Piece]) -> None:
    """Raise ForeignError if a file, by its first pieces, is not a record.

    A file named `*.json` and standard input may be empty records.
    """
    pieces = list(islice(beginning, PIECES))
    is_record = name.endswith(_RECORD) or name in STANDARD_INPUTS
    if not pieces and not is_record:
        raise ForeignError(_refusal(name, "it is empty"))
    if len(pieces) != 1 or not isinstance(pieces[0], Malformed):
        return
    text = pieces[0].text
    if not text.strip("\0") and not is_record:
        raise ForeignError(_refusal(name, "looks like an empty archive"))
    if not text.startswith(_JSON):
        raise ForeignError(_refusal(name, f"looks like {recognise(_without_escapes(text))}"))


def _without_escapes(text: str) -> bytes:
    r"""Return the bytes of a text in which those that are not UTF-8 are written as `\xe9`."""
    data = text.encode(errors="replace")
    return re.sub(rb"\\x([89a-f][0-9a-f])", lambda escape: bytes.fromhex(escape[1].decode()), data)


def refuse_unpacked(name: str, head: bytes) -> None:
    """Raise ForeignError if a file is named like an archive, and is none."""
    if not name.endswith(ARCHIVE_NAMES):
        return
    text = head.decode(errors="backslashreplace").strip()
    refuse_foreign(name, [Malformed(1, text, "")] if text else [])


def _refusal(name: str, looks: str, advice: str = "look into it, or fetch the bundle again") -> str:
    return f"{name}: not a bundle and not a record: {looks}; {advice}"
