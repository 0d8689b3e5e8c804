"""Make the bundle of a round if the rules want one, and keep it in the spool until it is shipped.

The spool holds at most one bundle: the newest one that some destination still lacks.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from service_record.record.atomic_write import clear_the_way, place_by_moving, remove_torn, sync_names
from service_record.record.journal_sending import MessageKind
from service_record.reporter.host_state import HostEvidence
from service_record.reporter.log import Log, render_page
from service_record.reporter.paths import Places
from service_record.reporter.policy.round_context import RoundContext
from service_record.reporter.policy.shipments import spool_is_delivered
from service_record.reporter.policy.transitions import mark_secret_in_bundle, with_bundle
from service_record.reporter.settings import COLLECTOR, Settings, secrets_in
from service_record.reporter.state import ReporterState

if TYPE_CHECKING:
    from service_record.redaction import Leak
    from service_record.reporter.bundling import Bundled

_MAX_MEMORY_BYTES: Final = 8 << 20
"""The largest bundle that is kept in memory, which counts towards the unit's `MemoryMax=`."""


@dataclass(frozen=True, slots=True)
class Spool:
    """A directory that holds one bundle."""

    directory: Path

    def keep(self, bundle: Path) -> Path:
        """Replace the bundle in the spool, atomically. Return its new path. Raises OSError."""
        clear_the_way(self.directory, is_directory=True)
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_torn(self.directory)
        target = self.directory / bundle.name
        clear_the_way(target)
        _make_newest(bundle, [path for path in self._bundles() if path != target])
        place_by_moving(bundle, target)
        self._drop_all_but(target)
        return target

    def newest(self) -> Path | None:
        """Return the bundle in the spool, or None. Remove leftovers of a power loss."""
        try:
            self._remove_torn()
            bundles = self._bundles()
            if not bundles:
                return None
            self._drop_all_but(bundles[-1])
        except OSError:
            return None
        return bundles[-1]

    def drop(self) -> None:
        """Empty the spool. If the disk fails, the next round tries again."""
        try:
            self._remove_torn()
            self._drop_all_but(None)
        except OSError:
            return

    def _remove_torn(self) -> None:
        if not self.directory.is_symlink():
            remove_torn(self.directory)

    def _bundles(self) -> list[Path]:
        """Return the bundles, oldest first. Links are ignored: the reporter creates none."""
        if self.directory.is_symlink():
            return []
        files = [path for path in self.directory.glob("[!.]*") if path.is_file() and not path.is_symlink()]
        return sorted(files, key=lambda path: (path.stat().st_mtime_ns, path.name))

    def _drop_all_but(self, retained: Path | None) -> None:
        dropped = [path for path in self._bundles() if path != retained]
        for path in dropped:
            path.unlink(missing_ok=True)
        if dropped:
            sync_names(self.directory)


def _make_newest(bundle: Path, others: list[Path]) -> None:
    """Make the bundle's time the latest, even if the clock was set back since the others were made."""
    latest = max((path.stat().st_mtime_ns for path in others), default=0)
    if bundle.stat().st_mtime_ns <= latest:
        os.utime(bundle, ns=(latest + 1_000_000_000,) * 2)


class BundleQueue:
    """Makes and stores the bundle of one round."""

    def __init__(
        self, places: Places, environ: Mapping[str, str], say: Log, settings: Settings, evidence: HostEvidence
    ) -> None:
        self.leak: Leak | None = None
        """The place of a secret that was found in the finished bundle. Such a bundle is deleted."""
        self.has_tried = False
        """True if this round has made a bundle or failed to: it makes no other."""
        self._places = places
        self._environ = environ
        self._say = say
        self._settings = settings
        self._evidence = evidence
        self._spool = Spool(places.spool_directory)
        self._in_memory = Spool(places.volatile.spool_directory)
        self._cursor: str | None = None

    def gather(self, state: ReporterState, most_bytes: int) -> ReporterState:
        """Make a bundle, keep it in the spool, and return the new state.

        On a full or read-only disk, which may be why the host fails, a smaller bundle is made in memory.
        """
        self.has_tried = True
        most_bytes = min(most_bytes, self._settings.disk_bytes)
        disk, memory = (self._places, self._spool), (self._places.volatile, self._in_memory)
        for (places, spool), (_, other) in ((disk, memory), (memory, disk)):
            limit = min(most_bytes, _MAX_MEMORY_BYTES) if places.is_volatile else most_bytes
            try:
                bundled = self._make_bundle(places.work_directory, state, limit)
                if bundled.leak is not None:
                    bundled.path.unlink(missing_ok=True)
                    self.leak = bundled.leak
                    why = f"no bundle: a secret would have left the host with it ({bundled.leak})"
                    self._say.error(why, MessageKind.NO_BUNDLE)
                    return mark_secret_in_bundle(state, self._evidence)
                spool.keep(bundled.path)
            except OSError as error:
                shutil.rmtree(places.work_directory, ignore_errors=True)
                self._say.error(
                    f"no bundle: {error.filename or places.work_directory}: {error.strerror}",
                    MessageKind.NO_BUNDLE,
                )
                continue
            self._say.notice(
                f"a bundle was made: {bundled.bytes} bytes, {bundled.masked} secrets masked",
                MessageKind.BUNDLE_MADE,
            )
            other.drop()  # its bundle is older
            return with_bundle(state, self._evidence, is_volatile=places.is_volatile)
        return state

    def _make_bundle(self, directory: Path, state: ReporterState, most_bytes: int) -> "Bundled":
        from service_record.reporter.bundling import make_bundle  # most rounds make no bundle
        from service_record.reporter.gather.collectors import COLLECTORS
        from service_record.reporter.gather.gathering import Context
        from service_record.reporter.gather.journal import newest_cursor

        at = datetime.now(UTC)
        service = self._settings.service
        urls = (service.url if service and service.is_usable else None, self._settings.api_url)
        context = Context(
            root=self._places.root,
            environ=self._environ,
            boot_id=self._evidence.boot_id,
            cursor=state.cursor if self._is_incremental() else None,
            urls=tuple(filter(None, urls)),
            ca_bundle=service.ca_bundle if service else None,
        )
        self._cursor = newest_cursor(context)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return make_bundle(
            directory,
            COLLECTORS,
            context,
            verdict=render_page(self._evidence, str(self._places.records), at),
            at=at,
            most_bytes=most_bytes,
            redact=self._settings.redact,
            secrets=secrets_in(self._settings),
        )

    def find_bundle(self, most_bytes: int) -> tuple[Path, int] | None:
        """Return the path and the size of the bundle in the spool; None if it is missing or too large.

        The one in memory is newer than the one on the disk: it is made only if the disk fails.
        """
        path = self._in_memory.newest() or self._spool.newest()
        if path is None:
            return None
        try:
            size = path.stat().st_size
        except OSError:
            return None
        return (path, size) if size <= most_bytes else None

    def drop_delivered(self, state: ReporterState) -> ReporterState:
        """Empty the spool if every destination has its bundle, and return the new state.

        If all destinations keep earlier bundles, the next one has only newer journal entries. Also retries
        deletions that failed in an earlier round.
        """
        if not spool_is_delivered(RoundContext(self._settings, state, self._evidence)):
            return state
        self._spool.drop()
        self._in_memory.drop()
        if state.bundle is None:
            return state
        has_cursor = self._cursor is not None and self._is_incremental()
        return replace(state, bundle=None, cursor=self._cursor if has_cursor else state.cursor)

    def _is_incremental(self) -> bool:
        """Return whether a bundle may have only new entries: every destination keeps earlier bundles."""
        places = self._settings.ship_to
        return self._settings.service is None and all(to.startswith(("/", COLLECTOR)) for to in places)
