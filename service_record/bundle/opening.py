"""Reading bundles: the records in an archive, whatever it is packed in, without a file being made."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BufferedReader, BytesIO
from typing import Final

from service_record.bundle.layers import CHUNK_BYTES, Layer, Pull, is_packed, is_tar, peeled
from service_record.bundle.limits import Budget, LimitError, Limits, shown
from service_record.bundle.names import UNFINISHED_SUFFIX, named
from service_record.bundle.tar import Member, TarError, damage_of, members
from service_record.entry import Malformed
from service_record.layout import read_stretches
from service_record.passage import InMemory
from service_record.plain import Stretch
from service_record.salvage import STRUCTURE

_MAX_LEFT_OUT: Final = 20


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of an archive that was not read, or not to its end."""

    path: str
    """Of the member, through the archives around it; empty for the archive itself."""
    reason: str

    def __str__(self) -> str:
        return _join(self.path, self.reason)

    def within(self, place: str) -> "LeftOut":
        """The same with the place of the archive in its path."""
        return replace(self, path=": ".join(filter(None, (place, self.path))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The bytes of one record, or of the damaged copy beside it."""

    path: str
    """Of the member, through the archives around it."""
    data: bytes
    written: int
    """When its file was last written, in seconds since 1970."""
    damage: str = ""
    """Why its end is missing."""

    def stretches(self) -> Iterator[Stretch]:
        """Its entries and what is damaged between them; behind them, that its end is missing."""
        yield from read_stretches(BytesIO(self.data), source=InMemory(self.data))
        if self.damage:
            yield Malformed(self.data.count(b"\n") + 1, self.path, self.damage)

    def continues(self, other: "Record") -> bool:
        """Whether it is a later copy of the same record, to which only entries were added.

        White space and the structure of an array may differ: they move with each entry that is added.
        """
        return self.data.translate(None, STRUCTURE).startswith(other.data.translate(None, STRUCTURE))


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was read of an archive."""

    records: dict[str, Record]
    """Service -> its record."""
    left_out: tuple[LeftOut, ...]
    unfinished: frozenset[str] = frozenset()
    """Services with a file beside theirs that upstream's shim was about to put in its place."""
    damaged: Mapping[str, Record] = field(default_factory=dict)
    """Service -> the copy beside its record of the damaged bytes that a writer replaced in it."""
    unpacked: bytes | None = None
    """The content when it is no archive, only compressed."""


def open_bundle(stream: BufferedReader, limits: Limits | None = None) -> Bundle:
    """The records in an archive, in the order of their services' names.

    Nothing in it raises: what is damaged, harmful or beyond a limit is left out, and told. Of two copies of a
    service's record the later in the archive counts.
    """
    reading = _Reading(Layer(stream.read1, Budget(limits or Limits())))
    reading.read()
    return reading.bundle()


class _Reading:
    """One pass through an archive."""

    def __init__(self, outermost: Layer) -> None:
        self._outermost = outermost
        self._records: dict[str, Record] = {}
        self._damaged: dict[str, Record] = {}
        self._unfinished: set[str] = set()
        self._left_out: list[LeftOut] = []
        self._untold = 0
        self._unpacked: bytes | None = None

    def bundle(self) -> Bundle:
        left_out = self._left_out
        if self._untold:
            left_out = [*left_out, LeftOut("", f"and {self._untold} more")]
        return Bundle(
            dict(sorted(self._records.items())),
            tuple(left_out),
            frozenset(self._unfinished),
            self._damaged,
            self._unpacked,
        )

    def read(self) -> None:
        try:
            layer = peeled(self._outermost)
            if is_tar(layer.head):
                self._archive(layer, "")
            elif is_packed(layer.head):
                self._leave_out("", _too_deep(layer))
            else:
                self._only_compressed(layer)
        except LimitError as error:
            self._leave_out("", f"{error}; the rest was not read")

    def _only_compressed(self, layer: Layer) -> None:
        self._unpacked, has_more = _first_of(layer.read, layer.budget)
        if has_more or layer.damage:
            self._leave_out("", _too_long(layer.budget.limits) if has_more else layer.damage)

    def _archive(self, layer: Layer, path: str) -> None:
        """All members, and then the end, where a compression has its checksum."""
        try:
            for member in members(layer):
                self._member(member, layer, _join(path, member.name))
            while layer.read():
                pass
        except TarError as error:
            self._leave_out(path, str(error))
            return
        if layer.damage:
            self._leave_out(path, layer.damage)

    def _member(self, member: Member, layer: Layer, path: str) -> None:
        found = named(member.name)
        if found is None:
            if member.size and not member.kind:
                self._nested(Layer(member.read, layer.budget, layer), path)
        elif refusal := _refusal(member):
            self._leave_out(path, refusal)
        elif found.suffix == UNFINISHED_SUFFIX:
            self._unfinished.add(found.service)
        else:
            layer.budget.meet_record()
            record = _record(member, layer, path)
            self._keep(self._damaged if found.suffix else self._records, found.service, record)
            if found.suffix and record.damage:  # nothing else says it, as the pieces of a record do
                self._leave_out(path, record.damage)

    def _nested(self, outside: Layer, path: str) -> None:
        """An archive in the archive. What is only compressed is no bundle, and is not read."""
        layer = peeled(outside)
        if is_tar(layer.head) and layer.depth < layer.budget.limits.layers:
            self._archive(layer, path)
        elif is_packed(layer.head):
            self._leave_out(path, _too_deep(layer))
        elif layer.damage:
            self._leave_out(path, layer.damage)

    def _keep(self, kept: dict[str, Record], service: str, record: Record) -> None:
        before = kept.get(service)
        if before is None or record.continues(before):
            kept[service] = record
        elif not before.continues(record):
            self._leave_out(before.path, f"a later record of the same service is in {record.path}")
            kept[service] = record

    def _leave_out(self, path: str, reason: str) -> None:
        if not path or len(self._left_out) < _MAX_LEFT_OUT:  # what ends the whole archive is always told
            self._left_out.append(LeftOut(path, reason))
        else:
            self._untold += 1


def _refusal(member: Member) -> str:
    """Why a member is not read although it is named like a record; empty when it is."""
    if member.name.startswith("/") or ".." in member.name.split("/"):
        return "refused: its name leads out of the archive"
    return f"refused: {member.kind}, not a plain file" if member.kind else ""


def _record(member: Member, layer: Layer, path: str) -> Record:
    data, has_more = _first_of(member.read, layer.budget)
    damage = ""
    if has_more:
        damage = _too_long(layer.budget.limits)
    elif member.is_cut:
        damage = damage_of(layer)
    return Record(path=path, data=data, written=member.written, damage=damage)


def _first_of(pull: Pull, budget: Budget) -> tuple[bytes, bool]:
    """As much of a record as is read, and whether there is more of it."""
    limit = budget.limits.record_bytes
    data = BytesIO()  # which gives what it has without a copy
    while data.tell() <= limit and (chunk := pull(CHUNK_BYTES)):
        budget.keep(len(chunk))
        data.write(chunk)
    has_more = data.tell() > limit
    data.truncate(limit)
    return data.getvalue(), has_more


def _too_long(limits: Limits) -> str:
    return f"only the first {shown(limits.record_bytes)} of a record are read"


def _too_deep(layer: Layer) -> str:
    return f"not read: more than {layer.budget.limits.layers} archives and compressions in one another"


def _join(path: str, name: str) -> str:
    return f"{path}: {name}" if path else name
