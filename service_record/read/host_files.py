"""The files of a host beside its records: in a bundle, or in a directory that one was unpacked to."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from service_record.diagnosis.causes import HostFiles
from service_record.diagnosis.units import Unit
from service_record.read.source import Source, records_directory
from service_record.record.directory import RECORD_DIRECTORIES

if TYPE_CHECKING:
    from service_record.bundle.contents import Content


def host_files(
    source: Source,
    places: Sequence[str],
    units: Iterable[Unit] | None = (),
    *,
    named: Iterable[str] = (),
    is_here: bool = False,
) -> HostFiles | None:
    """Return the files beside the records of a source; None if there are none.

    With `is_here` the records are this host's own, and the host itself is read, for at most three seconds:
    among other things the latest lines in the journal of the failed `units` and of the `named` services.
    """
    contents = _contents(source, places)
    if contents is not None:
        return ((one.path, one.read) for one in contents)
    if not is_here:
        return None
    failed = [unit.name for unit in units or () if unit.is_failed]
    return _live([*failed, *(f"{service}.service" for service in named)])


def _live(units: Sequence[str]) -> HostFiles:
    from service_record.read.live_host import live_contents  # only of this host

    for name, data in live_contents(units):
        yield name, BytesIO(data).read


def _directory_of(place: str) -> Path:
    """Return the directory that has more than records, by the one that was given."""
    path = Path(place)
    if path.is_dir() and records_directory(path) == path:
        inside = next((one for one in RECORD_DIRECTORIES if str(path.resolve()).endswith(f"/{one}")), None)
        return path.resolve().parents[1] if inside is not None else path
    return path


def _contents(source: Source, places: Sequence[str]) -> "Iterator[Content] | None":
    """Return the files of a source beside its records; None where there can be none."""
    if not source.is_snapshot or len(places) != 1:
        return None
    if source.archive is not None:
        return _archive_contents(source.archive, Path(places[0]).name)
    if "://" in places[0] or places[0] == "-":
        return None
    from service_record.bundle.contents import directory_contents  # no bundle, no need

    return directory_contents(_directory_of(places[0]), _ignore)


def _archive_contents(archive: Callable[[], BufferedReader], name: str) -> "Iterator[Content]":
    from service_record.bundle.contents import archive_contents  # as above

    with archive() as stream:
        yield from archive_contents(stream, name, 0.0, _ignore)


def _ignore(_: object) -> None:
    """Ignore what was left out: it was reported when the records were read."""
