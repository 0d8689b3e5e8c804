"""The files of a host beside its records: in a bundle, or in a directory that one was unpacked to."""

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from service_record.diagnosis.causes import Causes
from service_record.diagnosis.evidence.scan import NO_EVIDENCE
from service_record.diagnosis.host_cause import HostFiles, causes_with
from service_record.diagnosis.units import Unit
from service_record.history import History
from service_record.read.source import Source, records_directory
from service_record.record.directory import RECORD_DIRECTORIES

if TYPE_CHECKING:
    from service_record.bundle.contents import Content


def with_host_files(
    causes: Causes,
    source: Source,
    places: Sequence[str],
    history: History,
    units: Iterable[Unit],
    *,
    is_here: bool = False,
) -> Causes:
    """Return the causes with the evidence beside the records of a source, where there is any.

    `is_here` is true of this host's own records: then the host is looked at, for at most three seconds.
    """
    path = _place_of(source, places)
    if path is None and not is_here:
        return causes.with_evidence(NO_EVIDENCE, history)
    if path is None:
        return causes_with(causes, history, units, _live())
    return causes_with(causes, history, units, ((one.path, one.read) for one in _contents(path)))


def _live() -> HostFiles:
    """Yield what this host shows."""
    from service_record.read.live_host import live_contents  # noqa: PLC0415  # only of this host

    for name, data in live_contents():
        yield name, BytesIO(data).read


def _place_of(source: Source, places: Sequence[str]) -> Path | None:
    """Return the archive or directory that has more than records; None where nothing has."""
    if not source.is_snapshot or len(places) != 1 or "://" in places[0] or places[0] == "-":
        return None
    path = Path(places[0])
    if path.is_dir() and records_directory(path) == path:
        inside = next((one for one in RECORD_DIRECTORIES if str(path.resolve()).endswith(f"/{one}")), None)
        return path.resolve().parents[1] if inside is not None else path
    return path


def _contents(path: Path) -> "Iterator[Content]":
    from service_record.bundle.contents import archive_contents, directory_contents  # noqa: PLC0415  # no bundle, no need

    def ignore(_: object) -> None:
        """Ignore what was left out: it was reported when the records were read."""

    if path.is_dir():
        yield from directory_contents(path, ignore)
        return
    with path.open("rb") as stream:
        yield from archive_contents(stream, path.name, 0.0, ignore)
