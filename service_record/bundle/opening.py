"""Read the records in a bundle, in one pass and without writing files."""

import json
import re
from collections.abc import Iterator, Mapping
from io import BufferedReader, BytesIO
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.bundle.layers import (
    CHUNK_BYTES,
    Layer,
    LimitError,
    Limits,
    Pull,
    ReadingBudget,
    decompressed_layer,
    is_archive,
    is_packed,
    size_text,
)
from service_record.bundle.members import AnyMember, archive_members
from service_record.bundle.names import MANIFEST, is_unit_text, named
from service_record.bundle.tar import TarError
from service_record.record import recognition
from service_record.record.directory import RECORD_DIRECTORIES, UNFINISHED_SUFFIX
from service_record.record.entry import Malformed, Piece
from service_record.record.layout import read_entries
from service_record.record.recovery import STRUCTURE

_MAX_LEFT_OUT: Final = 20
_MAX_MANIFEST_BYTES: Final = 1 << 20
_MANIFEST: Final = re.compile(rf"(?:[^/]+/)?{re.escape(MANIFEST)}")
_JSON_FILE: Final = re.compile(r"(?:[^/]+/){0,2}(?P<service>[^/.][^/]*)\.json", re.DOTALL)
_BOOT_ID: Final = re.compile("[0-9a-f]{32}")
_MAX_UNIT_TEXTS: Final = 100
_MAX_TOP_NAMES: Final = 200
_MAX_UNIT_TEXT_BYTES: Final = 256 << 10


class LeftOut(msgspec.Struct, frozen=True):
    """A part of an archive that was not read, or not completely."""

    path: str
    """The path of the member, with those of its outer archives; empty for the archive itself."""
    reason: str

    def __str__(self) -> str:
        return _join(self.path, self.reason)

    def within(self, place: str) -> "LeftOut":
        """Return a copy with the place of the archive before the path."""
        return replace(self, path=": ".join(filter(None, (place, self.path))))


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of one record, or of its `.damaged` file."""

    path: str
    """The path of the member, with those of its outer archives."""
    data: bytes
    written: int
    """The modification time of the file, in seconds since 1970."""
    damage: str = ""
    """Why its end is missing; empty if it is complete."""

    def pieces(self) -> Iterator[Piece]:
        """Yield the entries and the damaged parts, and `damage` at the end."""
        yield from read_entries(BytesIO(self.data))
        if self.damage:
            yield Malformed(self.data.count(b"\n") + 1, self.path, self.damage)

    def continues(self, other: "Record") -> bool:
        """Return True if this is a later copy of `other`: the same record with more entries at its end.

        White space and the brackets of an array may differ: they move when an entry is added.
        """
        return self.data.translate(None, STRUCTURE).startswith(other.data.translate(None, STRUCTURE))


class Bundle(msgspec.Struct, frozen=True):
    """The contents of an archive."""

    records: dict[str, Record]
    """Service name -> its record."""
    left_out: tuple[LeftOut, ...]
    unfinished: frozenset[str] = frozenset()
    """Services with a `.json.tmp` file: upstream's shim was killed before it renamed the file."""
    damaged: Mapping[str, Record] = msgspec.field(default_factory=dict)
    """Service name -> the `.damaged` file beside its record, with damaged bytes that a writer replaced."""
    unpacked: bytes | None = None
    """The content of a compressed file that is not an archive; of a log, its first 8 KiB."""
    boot_id: str | None = None
    """The boot in which the bundle was made, from its manifest, or None. It may have no entry yet."""
    is_of_gather: bool = False
    """True for a bundle by OpenShift's gather of a bootstrap host: its layout, without our manifest."""
    top_names: tuple[str, ...] = ()
    """The names of its directories, down to the second level."""
    unit_texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Path, with those of outer archives -> text of systemd about failed units."""


def open_bundle(stream: BufferedReader, limits: Limits | None = None) -> Bundle:
    """Return the records in an archive, sorted by service name.

    No content raises an exception: damaged or malicious parts, and those beyond a limit, are in `left_out`.
    Of two records of a service, the later one in the archive is used.
    """
    reading = _ArchiveReading(Layer(stream.read1, ReadingBudget(limits or Limits())))
    reading.read()
    return reading.bundle()


def boot_id_in(manifest: bytes) -> str | None:
    """Return the boot id in a manifest (docs/manifest.schema.json), or None."""
    try:
        document = json.loads(manifest)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not str(document.get("generator")).startswith("service-record/"):
        return None
    boot_id = document.get("bootId")
    return boot_id if isinstance(boot_id, str) and _BOOT_ID.fullmatch(boot_id) else None


class _ArchiveReading:
    """The state of one pass through an archive."""

    def __init__(self, outermost: Layer) -> None:
        self._outermost = outermost
        self._records: dict[str, Record] = {}
        self._loose: dict[str, Record] = {}
        """Service name -> a record recognized by its content, in a directory of another name."""
        self._damaged: dict[str, Record] = {}
        self._unfinished: set[str] = set()
        self._left_out: list[LeftOut] = []
        self._unreported = 0
        self._unpacked: bytes | None = None
        self._boot_ids: dict[str, str | None] = {}
        """Directory of a manifest -> its boot id."""
        self._unit_texts: dict[str, str] = {}
        self._top_names: dict[str, None] = {}

    def bundle(self) -> Bundle:
        left_out = self._left_out
        records = self._records or self._loose  # an archive of a copied directory of records
        if self._unreported:
            left_out = [*left_out, LeftOut("", f"and {self._unreported} more")]
        return Bundle(
            dict(sorted(records.items())),
            tuple(left_out),
            frozenset(self._unfinished),
            self._damaged,
            self._unpacked,
            self._boot_id(),
            is_of_gather=not self._boot_ids
            and bool(self._records)
            and all("bootstrap/services/" in record.path for record in self._records.values()),
            top_names=tuple(self._top_names),
            unit_texts=self._unit_texts,
        )

    def _boot_id(self) -> str | None:
        """Return the boot id of the only manifest, if it is beside all records: they are of one host."""
        if len(self._boot_ids) != 1:
            return None
        ((directory, boot_id),) = self._boot_ids.items()
        places = tuple(f"{directory}{place}/" for place in RECORD_DIRECTORIES)
        return boot_id if all(record.path.startswith(places) for record in self._records.values()) else None

    def read(self) -> None:
        try:
            layer = decompressed_layer(self._outermost)
            if is_archive(layer.head):
                self._archive(layer, "")
            elif is_packed(layer.head):
                self._leave_out("", _too_deep(layer))
            else:
                self._only_compressed(layer)
        except LimitError as error:
            self._leave_out("", f"{error}; the rest was not read")

    def _only_compressed(self, layer: Layer) -> None:
        head = layer.peek(recognition.HEAD_BYTES)
        if recognition.recognise(head) in recognition.LOGS:
            self._unpacked = head  # its lines are read later, from the file
            return
        self._unpacked, excess = _read_record(layer.read, layer.budget)
        if excess or layer.damage:
            self._leave_out("", excess or layer.damage)

    def _archive(self, layer: Layer, path: str) -> None:
        """Read all members, and then to the end, where compressions have a checksum."""
        try:
            for member in archive_members(layer):
                self._member(member, layer, _join(path, member.name))
            while layer.read():
                pass
        except TarError as error:
            self._leave_out(path, str(error))
            return
        if layer.damage:
            self._leave_out(path, layer.damage)

    def _member(self, member: AnyMember, layer: Layer, path: str) -> None:
        parts = named(member.name)
        if len(self._top_names) < _MAX_TOP_NAMES:
            self._top_names.update(dict.fromkeys(member.name.split("/")[:-1][:2]))
        if is_unit_text(member.name):
            self._unit_text(member, layer, path)
        elif parts is None:
            if _MANIFEST.fullmatch(member.name) and not member.kind and member.size <= _MAX_MANIFEST_BYTES:
                manifest, _ = _read_record(member.read, layer.budget)
                self._boot_ids[path.removesuffix(MANIFEST)] = boot_id_in(manifest)
            elif member.size and not member.kind:
                self._other(Layer(member.read, layer.budget, layer), member, path)
        elif refusal := _refusal(member):
            self._leave_out(path, refusal)
        elif parts.suffix == UNFINISHED_SUFFIX:
            self._unfinished.add(parts.service)
        else:
            layer.budget.count_record()
            record = _record(member, layer, path)
            self._keep(self._damaged if parts.suffix else self._records, parts.service, record)
            if parts.suffix and record.damage:  # unlike a record, it has no pieces to report the damage
                self._leave_out(path, record.damage)

    def _unit_text(self, member: AnyMember, layer: Layer, path: str) -> None:
        """Keep the beginning of a text about failed units, for the first _MAX_UNIT_TEXTS of them."""
        if member.kind or len(self._unit_texts) >= _MAX_UNIT_TEXTS:
            return
        data = bytearray()
        while len(data) < _MAX_UNIT_TEXT_BYTES and (chunk := member.read(CHUNK_BYTES)):
            data += chunk[: _MAX_UNIT_TEXT_BYTES - len(data)]
        layer.budget.keep(len(data))
        self._unit_texts[path] = data.decode(errors="replace")

    def _other(self, outside: Layer, member: AnyMember, path: str) -> None:
        """Read an inner archive, or a record at another path than on a host.

        A compressed file that is not an archive is not read.
        """
        if (match := _JSON_FILE.fullmatch(member.name)) is not None:
            head = outside.peek(recognition.HEAD_BYTES)
            if recognition.recognise(head) is recognition.FileForm.RECORD and b'"phase"' in head:
                outside.budget.count_record()
                data, damage = _read_record(outside.read, outside.budget)
                damage = damage or (member.damage if member.is_cut else "")
                record = Record(path=path, data=data, written=member.written, damage=damage)
                self._keep(self._loose, match["service"], record)
                return
        layer = decompressed_layer(outside)
        if is_archive(layer.head) and layer.depth < layer.budget.limits.layers:
            self._archive(layer, path)
        elif is_packed(layer.head):
            self._leave_out(path, _too_deep(layer))
        elif layer.damage:
            self._leave_out(path, layer.damage)

    def _keep(self, records: dict[str, Record], service: str, record: Record) -> None:
        before = records.get(service)
        if before is None or record.continues(before):
            records[service] = record
        elif not before.continues(record):
            self._leave_out(before.path, f"a later record of the same service is in {record.path}")
            records[service] = record

    def _leave_out(self, path: str, reason: str) -> None:
        if not path or len(self._left_out) < _MAX_LEFT_OUT:  # damage of the whole archive is always reported
            self._left_out.append(LeftOut(path, reason))
        else:
            self._unreported += 1


def _refusal(member: AnyMember) -> str:
    """Return why a member with the name of a record is not read; empty if it is read."""
    if member.name.startswith("/") or ".." in member.name.split("/"):
        return "refused: its name leads out of the archive"
    return f"refused: {member.kind}, not a plain file" if member.kind else ""


def _record(member: AnyMember, layer: Layer, path: str) -> Record:
    data, damage = _read_record(member.read, layer.budget)
    if not damage and member.is_cut:
        damage = member.damage
    return Record(path=path, data=data, written=member.written, damage=damage)


def _read_record(pull: Pull, budget: ReadingBudget) -> tuple[bytes, str]:
    """Return the part of a record within the limits, and why the rest is not read, or an empty text.

    Raises LimitError if a limit was reached before.
    """
    limit = budget.limits.record_bytes
    data = BytesIO()  # its getvalue() makes no copy
    excess = ""
    try:
        while data.tell() <= limit and (chunk := pull(CHUNK_BYTES)):
            budget.keep(len(chunk))
            data.write(chunk)
    except LimitError as error:
        if not data.tell():
            raise
        excess = f"{error}; the rest of the record was not read"
    if data.tell() > limit:
        excess = f"only the first {size_text(limit)} of a record are read"
    data.truncate(limit)
    return data.getvalue(), excess


def _too_deep(layer: Layer) -> str:
    return f"not read: more than {layer.budget.limits.layers} archives and compressions in one another"


def _join(path: str, name: str) -> str:
    return f"{path}: {name}" if path else name
