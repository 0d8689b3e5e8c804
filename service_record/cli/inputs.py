"""Open the sources of a verb, and select its boot and the time at which it judges.

Errors are one line.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache, wraps
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from service_record.cli import Unreadable
from service_record.cli.options import all_options, services_argument, source_option
from service_record.history import History
from service_record.history.build import ALL_BOOTS, Now, Selection, find_boot, host_history, latest_entry
from service_record.history.outcome import Outcome, Run
from service_record.read.source import ARCHIVE_NAMES, Source, SourceError, liveness_for, open_source
from service_record.record.appending import DEFAULT_DIRECTORY, record_name
from service_record.record.directory import Records
from service_record.record.systemd import RunningService, boot_id, uptime
from service_record.record.visible import visible

_MAX_NEAREST: Final = 3
_MAX_LISTED: Final = 8
_FILE_NAMES: Final = (*ARCHIVE_NAMES, ".json", ".jsonl", ".log", ".txt", ".export", ".journal")
_SOURCES: Final = "give a directory of records, a bundle or a collector's URL"
_TOMBSTONE: Final = "var/lib/service-record/reporter.stopped"
"""`Places.tombstone`, below the root of a host."""


class ReadRequest(msgspec.Struct, frozen=True):
    """The sources that a verb reads, and the runs that it selects from them."""

    services: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    boot: str = ALL_BOOTS
    stage: str | None = None
    failed: bool = False
    since: datetime | None = None
    until: datetime | None = None
    journal: bool = False
    """Add the runs in journals, also where there are records."""

    def select(self, history: History | None = None) -> Selection:
        """Return the selection of runs. Without a history it selects no boot."""
        return Selection(
            services=self.services,
            boot_id=None if history is None else select_boot(history, self.boot),
            stage=self.stage,
            failed=self.failed,
            since=self.since,
            until=self.until,
        )


def request_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add services and `--from`; pass these and the options that select runs as one argument, `request`."""

    @wraps(function)
    def call(*args: Any, services: tuple[str, ...], places: tuple[str, ...], **options: Any) -> Any:
        services, places = split_places(services, places)
        chosen = {name: options.pop(name) for name in _SELECTING & options.keys()}
        return function(*args, request=ReadRequest(services, places, **chosen), **options)

    return all_options(services_argument("[SERVICE|SOURCE]..."), source_option)(call)


_SELECTING: Final = frozenset(("boot", "stage", "failed", "since", "until", "journal"))
"""The options of `selection_options`, `period_options` and `journal_option`."""


def split_places(words: tuple[str, ...], places: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return services and sources: without `--from`, a word that names a file or a directory is a source.

    So is a word such as `host.tar.gz`, so that the error for a missing file names the file. The name of a
    service with a record on this host is never taken for a file.
    """
    if places:
        return words, places
    found = tuple(word for word in words if _is_place(word))
    return tuple(word for word in words if word not in found), found


def _is_place(word: str) -> bool:
    if word == "-" or "/" in word or word.startswith("example:"):
        return True
    is_file_name = os.path.exists(word) or word.endswith(_FILE_NAMES)  # noqa: PTH110  # it never raises
    return is_file_name and word not in Records().services()


def open_places(
    places: Sequence[str],
    services: Sequence[str],
    *,
    needs_records: bool = True,
    with_evidence: bool = False,
    derives: bool = False,
    reads_journal: bool = False,
) -> Source:
    """Open these places as one source. Raises Unreadable if one of the services has no record there.

    With `needs_records=False`, a bundle without records is accepted if it lists failed units. With
    `with_evidence`, a source with neither is accepted, and the other files in it can be read.

    With `derives`, a source without records gets the runs in its journals and logs; with `reads_journal`, a
    source with records gets them as well. Without places, the journal is that of this host.
    """
    try:
        source = open_source(places, with_evidence=with_evidence or derives)
    except SourceError as error:
        derived = _journal_of_this_host(None) if derives and not places else None
        if derived is None:
            raise Unreadable(visible(str(error))) from None
        return derived
    except (FileNotFoundError, NotADirectoryError) as error:
        if error.filename not in places:
            raise
        advice = "" if error.filename.startswith("example:") else f"; {_SOURCES}"
        raise Unreadable(f"{visible(error.filename)}: {error.strerror}{advice}") from None
    if derives and (reads_journal or not source.records or len(places) > 1):
        # With evidence, unread files are reported later, by `host_files`.
        source = _add_derived(source, places, warns=not with_evidence)
    if source.refusal and (needs_records or (derives and not with_evidence)):
        raise Unreadable(visible(source.refusal))
    if needs_records and not source.records and not source.running and source.unit_texts:
        raise Unreadable(f"no records in {visible(source.name)}, but units that failed: use show or analyze")
    for part in source.left_out:
        click.echo(f"Warning: {visible(str(part))}", err=True)
    running = {record_name(one.unit) for one in source.running}
    check_names(services, sorted(running.union(name for name, _ in source.records)), source.name)
    _note_undelivered_bundle(Path(places[0]) if len(places) == 1 else None if places else Records().directory)
    return source


def _add_derived(source: Source, places: Sequence[str], *, warns: bool) -> Source:
    """Add the runs in journals; with `warns`, report files that are not read."""
    if not places:
        return _journal_of_this_host(source) or source
    if source.contents is None:
        return source
    from service_record.read.derived import add_derived  # slow to load, and most sources have records

    def warn(part: object) -> None:
        if warns:
            click.echo(f"Warning: {visible(str(part))}", err=True)

    return add_derived(source, warn)


def _journal_of_this_host(source: Source | None) -> Source | None:
    from service_record.read.derived import journal_of_this_host

    try:
        return journal_of_this_host(source)
    except SourceError as error:
        raise Unreadable(visible(str(error))) from None


def check_names(services: Iterable[str], recorded: Sequence[str], place: str) -> None:
    """Raise Unreadable with the nearest name where a service has no record there."""
    unknown = sorted(set(services) - set(recorded))
    if not unknown:
        return
    from difflib import get_close_matches  # only for a refusal

    nearest = dict.fromkeys(
        near for name in unknown for near in get_close_matches(name, recorded, _MAX_NEAREST)
    )
    if nearest:
        advice = f"did you mean {' or '.join(nearest)}?"
    else:
        more = f" and {len(recorded) - _MAX_LISTED} more" if len(recorded) > _MAX_LISTED else ""
        names = ", ".join(recorded[:_MAX_LISTED])
        advice = f"there are: {names}{more}" if names else "there are no records"
    raise Unreadable(visible(f"no record of {', '.join(unknown)} in {place}; {advice}"))


@cache  # --wait opens again and again
def _note_undelivered_bundle(directory: Path | None) -> None:
    """Print where the boot reporter keeps a bundle that it could not deliver."""
    root = _find_root(directory)
    if root is None or not os.path.exists(root / _TOMBSTONE):  # noqa: PTH110  # it never raises
        return
    from service_record.reporter.paths import Places
    from service_record.reporter.stopping import PURGE, undelivered_bundle

    bundle = undelivered_bundle(Places(root))
    if bundle is not None:
        warning = (
            f"the boot reporter keeps a bundle that not every destination has: {bundle}; remove it: {PURGE}"
        )
        click.echo(f"Note: {visible(warning)}", err=True)


def _find_root(directory: Path | None) -> Path | None:
    """Return the root directory of the host with these records; None if it is unknown."""
    if directory is None:
        return None
    if directory == Records().directory:
        return Path("/")
    is_default = directory.parts[-3:] == Path(DEFAULT_DIRECTORY).parts[-3:]
    return directory.parents[2] if is_default else None


def read_history(source: Source) -> History:
    """Return the history of a source: its records, running services, and the anomalies of its files."""
    return host_history(
        source.records,
        liveness_for(source),
        running=map(_make_run, source.running),
        written=source.written,
        unfinished=source.unfinished,
        damaged=source.damaged,
    )


def _make_run(running: RunningService) -> Run:
    """Return the run of a running service, with the facts that systemd has."""
    return Run(
        service=record_name(running.unit),
        attempt=1,
        outcome=Outcome.RUNNING,
        started=running.started,
        ended=None,
        duration=None,
        uptime=running.uptime,
        first_entry=running.started,
        last_entry=running.started,
        last_uptime=running.uptime,
        boot_id=boot_id(),
        invocation_id=running.invocation_id,
        pid=running.pid,
        recorder="systemd",
    )


def select_boot(history: History, prefix: str) -> str | None:
    """Return the boot id that `--boot` names; None for all boots."""
    if prefix == ALL_BOOTS:
        return None
    try:
        return find_boot(history.boots, prefix)
    except LookupError as error:
        raise Unreadable(str(error)) from None


def find_now(history: History, source: Source) -> Now:
    """Return the present for the records of this running host; otherwise the time of the latest entry."""
    boot = boot_id()
    is_here = source.is_home or (boot is not None and boot in history.boots)
    if source.is_snapshot or not is_here:
        return latest_entry(history)
    return Now(time=datetime.now(UTC), boot_id=boot, uptime=uptime())
