"""One interface to every source of records: a directory, files, bundles, standard input or a collector."""

import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import BufferedReader, BytesIO, TextIOWrapper
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

if TYPE_CHECKING:  # a directory is read without what opens archives
    from service_record.bundle import Bundle, LeftOut


STANDARD_INPUTS: Final = ("-", "standard input")
"""The names of standard input: in arguments, and for people."""
_STANDARD_INPUT, _STREAM_NAME = STANDARD_INPUTS

_COLLECTOR: Final = ("collector://", "collector+http://", "collector+https://")
_ZIP: Final = b"PK\x03\x04"
_FAILED_UNIT: Final = re.compile(r"^\W*\S+\.[a-z]+ +\S+ +failed ", re.MULTILINE)
_MAX_UNIT_TEXTS: Final = 100
_MAX_UNIT_TEXT: Final = 64 << 10  # characters


class SourceError(Exception):
    """The reason why nothing can be read there, and what to do, in one line."""


class Source(msgspec.Struct, frozen=True):
    """Records to read, each once."""

    name: str
    """The place of the records, for people."""
    records: tuple[tuple[str, Iterable[Piece]], ...]
    """Service and what is in its record, read as it is asked for."""
    is_home: bool = False
    """True for the records directory of this host."""
    written: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Service and when its file was last written, where that is known, in seconds since 1970."""
    unfinished: frozenset[str] = frozenset()
    """Services with a file beside theirs that upstream's shim was about to put in its place."""
    damaged: Mapping[str, Callable[[], bytes]] = msgspec.field(default_factory=dict)
    """Service and what reads the copy beside its record of the damaged bytes that a writer replaced in it."""
    is_snapshot: bool = False
    """True for a bundle: what runs without an end in it was running when it was made."""
    left_out: "tuple[LeftOut, ...]" = ()
    """The parts of an archive or directory that were not read, each with its place in the path."""
    boot_id: str | None = None
    """For a bundle: the boot that ran when it was made, if its manifest names that."""
    running: tuple[systemd.RunningService, ...] = ()
    """Services of this host that run now; those that know nothing of us have no record of that yet."""
    unit_texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    """For a bundle: path and text of the files that say which units failed, and how."""
    archive: Callable[[], BufferedReader] | None = None
    """Opens the archive once more, for what lies beside the records; None where there is none."""
    refusal: str = ""
    """The reason why there is nothing to read, unless files beside records will do."""


def open_source(places: Sequence[str] = (), *, with_evidence: bool = False) -> Source:
    """Open the records in these directories, files and bundles; by default this host's. `-` is standard
    input, `collector://HOST/NAME` a host that a collector knows.

    A stream that names the `service` of its entries, as `show --output jsonl` writes it, holds as many
    records. Raises OSError when a place cannot be read, SourceError when there is no record in it.

    With `with_evidence` what lies beside the records can be read, too: an archive on standard input is
    copied to a file without a name, and a place without any record has a `refusal`.
    """
    if not places:
        return _directory(Records().directory, is_home=True)
    sources = [_place(place, with_evidence=with_evidence and len(places) == 1) for place in places]
    return sources[0] if len(sources) == 1 else _joined(sources)


def liveness_for(source: Source) -> Liveness:
    """Return what is known of the runs in a source that have no end; for a bundle, as of the boot that made
    it.
    """
    if source.is_snapshot:
        return Liveness(source.boot_id, is_at_home=source.boot_id is not None)
    return Liveness(systemd.boot_id(), source.is_home, systemd.is_alive)


def _place(place: str, *, with_evidence: bool) -> Source:
    if place == _STANDARD_INPUT:
        stream = os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
        stream, again = _twice(stream) if with_evidence else (stream, None)
        return replace(_stream(_STREAM_NAME, "stdin", stream, with_evidence=with_evidence), archive=again)
    if place.startswith(_COLLECTOR):
        return _of_collector(place, with_evidence=with_evidence)
    path = Path(place)
    if path.is_dir():
        return _bundle_or_directory(path, with_evidence=with_evidence)
    stream = without_holes(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    source = _stream(place, path.name.removesuffix(".json"), stream, with_evidence=with_evidence)
    return replace(source, archive=lambda: path.open("rb")) if source.is_snapshot else source


def _of_collector(place: str, *, with_evidence: bool) -> Source:
    """Return the records of a host that a collector knows, as they were when it heard of it last."""
    from service_record.client.address import CollectorError  # few read from there
    from service_record.read.remote import remote_records

    try:
        remote = remote_records(place)
        if remote.records or remote.bundle is None:
            archive = remote.bundle and partial(_fetched, remote.bundle)
            return Source(place, remote.records, is_snapshot=True, archive=archive)
        bundle = remote.bundle()
    except CollectorError as fault:
        raise SourceError(str(fault)) from None
    stream, again = _twice(bundle) if with_evidence else (bundle, None)
    return replace(_stream(place, "", stream, with_evidence=with_evidence), archive=again)


def _fetched(fetch: Callable[[], BufferedReader]) -> BufferedReader:
    """Return a collector's bundle. Raises OSError: it is too late for a refusal."""
    from service_record.client.address import CollectorError  # as above

    try:
        return fetch()
    except CollectorError as fault:
        raise OSError(errno.EIO, str(fault)) from None


def _bundle_or_directory(path: Path, *, with_evidence: bool) -> Source:
    """Return the records in a directory, or in the bundle that was unpacked to it."""
    directory = records_directory(path)
    if directory == path and not Records(path).services() and (texts := _texts_below(path)):
        return Source(str(path), (), is_snapshot=True, unit_texts=texts)
    try:
        source = _directory(directory, is_home=_is_home(directory))
    except SourceError as error:
        if not with_evidence or directory != path or _is_home(directory):
            raise
        return Source(str(path), (), is_snapshot=True, refusal=str(error))
    if not is_unpacked_bundle(path):
        return source
    return replace(source, is_snapshot=True, unit_texts=_texts_in(path, directory.parents[1]))


def _texts_below(path: Path) -> dict[str, str]:
    """Return the same of a bundle without records that was unpacked there; empty if they name no
    failed unit.
    """
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
    """Return the readable texts about failed units of the bundle that was unpacked to a directory.

    `top` is the bundle's own top directory.
    """
    texts = {}
    listings = (top / listing for listing in LISTINGS)
    for path in (*listings, *sorted(top.glob("unit-status/*.txt"))[:_MAX_UNIT_TEXTS]):
        with suppress(OSError), TextIOWrapper(open_inside(directory, path), "utf-8", "replace") as stream:
            texts[str(path)] = stream.read(_MAX_UNIT_TEXT)
    return texts


def is_unpacked_bundle(path: Path) -> bool:
    """Return whether a directory is one that a bundle was unpacked to; this host's own files are none.

    Raises SourceError when there are several bundles in it.
    """
    directory = records_directory(path)
    return directory != path and not _is_home(directory)


def _is_home(directory: Path) -> bool:
    return directory.resolve() == Records().directory.resolve()


def records_directory(path: Path) -> Path:
    """Return where the bundle in a directory has its records; the directory itself when there is
    none in it.
    """
    for below in ("", "*/"):
        directories = [
            place
            for layout in RECORD_DIRECTORIES
            for place in path.glob(below + layout)
            if is_inside(path, place)
        ]
        if len(directories) > 1:
            names = ", ".join(str(place) for place in sorted(directories))
            raise SourceError(f"several bundles in {path}: give one of {names}")
        if directories:
            return directories[0]
        if Records(path).services():
            break
    return path


def _directory(path: Path, *, is_home: bool) -> Source:
    records = Records(path)
    services = records.services(with_inbox=True)
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


def _stream(name: str, service: str, stream: BufferedReader, *, with_evidence: bool) -> Source:
    """Return the records in an open file, which is read while they are."""
    from service_record.bundle import is_packed, looked_into  # as above

    head, stream = looked_into(stream)
    if head.startswith(_ZIP):
        raise SourceError(f"{name}: a zip archive, which is not read; unpack it, and give its directory")
    if not is_packed(head):
        return _of_pieces(name, service, _closing(stream))
    from service_record.bundle import open_bundle  # as above

    with stream:
        return _of_bundle(name, service, open_bundle(stream), with_evidence=with_evidence)


def _twice(stream: BufferedReader) -> tuple[BufferedReader, Callable[[], BufferedReader] | None]:
    """Return a stream, and what opens it again if it is an archive: a copy in a file without a name."""
    import tempfile  # few are read twice from a pipe
    from shutil import copyfileobj  # likewise

    from service_record.bundle import is_packed, looked_into  # as above

    head, stream = looked_into(stream)
    if not is_packed(head):
        return stream, None
    with tempfile.TemporaryFile() as file:
        copyfileobj(stream, file)
        file.flush()
        copy = os.dup(file.fileno())

    def again() -> BufferedReader:
        os.lseek(copy, 0, os.SEEK_SET)
        return os.fdopen(copy, "rb", closefd=False)

    return again(), again


def _of_bundle(name: str, service: str, bundle: "Bundle", *, with_evidence: bool) -> Source:
    """Return the records of an archive; one that is only compressed may hold those of several services."""
    left_out = tuple(part.within(name) for part in bundle.left_out)
    if bundle.unpacked is not None:
        pieces = read_entries(BytesIO(bundle.unpacked))
        source = _of_pieces(name, Path(service).stem.removesuffix(".json"), pieces)
        return replace(source, left_out=left_out)
    if not bundle.records and not _name_failed_units(bundle.unit_texts):
        layouts = " nor ".join(f"{layout}/*.json" for layout in RECORD_DIRECTORIES)
        nothing = (
            f"no records in {name}: an archive with neither {layouts}; check that it is the bundle you mean"
        )
        refusal = "; ".join([nothing, *map(str, left_out)])
        if not with_evidence:
            raise SourceError(refusal)
        return Source(name, (), is_snapshot=True, refusal=refusal)
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
    )


def _of_pieces(name: str, service: str, pieces: Iterator[Piece]) -> Source:
    """Return the record of a service, or those of all services that its entries name."""
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
    """Return the pieces of each service; one that names none belongs with the piece before it."""
    records: dict[str, list[Piece]] = {}
    for piece in pieces:
        service = _service_in(piece) or service
        records.setdefault(service, []).append(piece)
    return records


def _service_in(first: Piece) -> str | None:
    """Return the service that an entry names; a plain one names none."""
    name = first.extra.get("service") if isinstance(first, Entry) else None
    return name if isinstance(name, str) else None


def _joined(sources: Sequence[Source]) -> Source:
    """Several sources as one; a service in more than one has one record, in the order given."""
    records: dict[str, Iterable[Piece]] = {}
    for service, pieces in chain.from_iterable(source.records for source in sources):
        records[service] = chain(records.get(service, ()), pieces)
    name = ", ".join(source.name for source in sources)
    return Source(
        name,
        tuple(records.items()),
        all(source.is_home for source in sources),
        dict(chain.from_iterable(source.written.items() for source in sources)),
        frozenset[str]().union(*(source.unfinished for source in sources)),
        dict(chain.from_iterable(source.damaged.items() for source in sources)),
        all(source.is_snapshot for source in sources),
        tuple(chain.from_iterable(source.left_out for source in sources)),
        running=tuple(chain.from_iterable(source.running for source in sources)),
        unit_texts=dict(chain.from_iterable(source.unit_texts.items() for source in sources)),
    )


PIECES: Final = 2
"""The number of pieces of a file needed to tell."""

_ARCHIVES: Final = (".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".zip")
_RECORD: Final = ".json"
_JSON: Final = ("{", "[", "\0")
"""The beginnings of what is left of a record; NULs stand where a loss of power has taken the rest."""
_PAGES: Final = ("<!doctype html", "<html", "<head", "<body")


class ForeignError(Exception):
    """A guess at a file that is neither a record nor a bundle, and what to do, in one line."""


def refuse_foreign(name: str, beginning: Iterable[Piece]) -> None:
    """Raise ForeignError for a file of that name of which all pieces, or the first two, look foreign.

    A file that is called like a record is one, even if nothing is in it; so is standard input.
    """
    pieces = list(islice(beginning, PIECES))
    is_record = name.endswith(_RECORD) or name in STANDARD_INPUTS
    if not pieces and not is_record:
        raise ForeignError(_refusal(name, "is empty"))
    if len(pieces) != 1 or not isinstance(pieces[0], Malformed):
        return
    text = pieces[0].text
    if not text.strip("\0") and not is_record:
        raise ForeignError(_refusal(name, "looks like an empty archive"))
    if not text.startswith(_JSON):
        raise ForeignError(_refusal(name, f"looks like {_kind(text)}"))


def refuse_unpacked(name: str, head: bytes) -> None:
    """Raise ForeignError for a file called like an archive whose first bytes are not those of one."""
    if not name.endswith(_ARCHIVES):
        return
    text = head.decode(errors="backslashreplace").strip()
    refuse_foreign(name, [Malformed(1, text, "")] if text else [])


def _kind(text: str) -> str:
    beginning = text.lstrip("\ufeff \t\r\n")[:1000].lower()
    if beginning.startswith(_PAGES):
        return "HTML"
    if beginning.startswith("<?xml"):
        return "XML"
    is_text = "".join(beginning.split()).isprintable() and "\\x" not in beginning
    return "plain text" if is_text else "binary data"


def _refusal(name: str, looks: str) -> str:
    return f"{name}: not a bundle and not a record: {looks}; look into it, or fetch the bundle again"
