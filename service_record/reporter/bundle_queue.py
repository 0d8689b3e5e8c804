"""Make the bundle of a round if the rules want one, and keep it in the spool until it is shipped.

The spool holds at most one bundle: the newest one that some destination still lacks.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from service_record.http.answers import Outcome, Unreachable, printable
from service_record.record.atomic_write import clear_the_way, place_by_moving, remove_torn, sync_names
from service_record.record.journal_sending import MessageKind
from service_record.reporter import log
from service_record.reporter.assisted_service import succeeded
from service_record.reporter.host_state import HostEvidence
from service_record.reporter.log import Log, outcome_text
from service_record.reporter.paths import Places
from service_record.reporter.policy.round_context import RoundContext, Shipment
from service_record.reporter.policy.shipments import spool_is_delivered
from service_record.reporter.policy.transitions import (
    Call,
    ResponseClass,
    classify,
    with_bundle,
    withheld,
    without_bundle,
)
from service_record.reporter.settings import COLLECTOR, Settings, secrets_in
from service_record.reporter.shipping import Clients
from service_record.reporter.state import ReporterState

if TYPE_CHECKING:
    from service_record.redaction import Leak
    from service_record.reporter.bundling import Bundled


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """A bundle in the spool."""

    path: Path
    bytes: int


@dataclass(frozen=True, slots=True)
class Spool:
    """A directory that holds one bundle. Disk errors are not raised."""

    directory: Path
    most_bytes: int
    """The size limit of the bundle. While a newer one replaces it, there are two."""

    def keep(self, bundle: Path) -> SpooledFile | str:
        """Replace the bundle in the spool, atomically. Return the new file, or the reason why it failed."""
        try:
            size = bundle.stat().st_size
            if size > self.most_bytes:
                return f"{bundle.name}: {size} bytes are more than the spool's {self.most_bytes}"
            clear_the_way(self.directory, is_directory=True)
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            remove_torn(self.directory)
            target = self.directory / bundle.name
            clear_the_way(target)
            _make_newest(bundle, [path for path in self._bundles() if path != target])
            if bundle != target:
                place_by_moving(bundle, target)
            self._drop_all_but(target)
        except OSError as fault:
            return printable(f"{bundle.name}: {fault.strerror or fault}")
        return SpooledFile(target, size)

    def newest(self) -> SpooledFile | None:
        """Return the bundle in the spool, or None. Remove leftovers of a power loss."""
        try:
            bundles = self._bundles()
            self._remove_torn()
            if not bundles:
                return None
            self._drop_all_but(bundles[-1])
            return SpooledFile(bundles[-1], bundles[-1].stat().st_size)
        except OSError:
            return None

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


_ROUND_SECONDS: Final = 780.0
"""The time in a round after which shipments end. The unit kills a round after 900 s."""
_MEMORY_BYTES: Final = 8 << 20
"""The largest bundle that is kept in memory, which counts towards the unit's `MemoryMax=`."""
_MIN_SECONDS: Final = 30.0
"""The least remaining time with which a shipment begins."""


class BundleQueue:
    """Makes, stores and ships the bundle of one round."""

    def __init__(
        self, places: Places, environ: Mapping[str, str], say: Log, settings: Settings, evidence: HostEvidence
    ) -> None:
        self.leak: Leak | None = None
        """The place of a secret that was found in the finished bundle. Such a bundle is deleted."""
        self.is_spent = False
        """True if this round has made a bundle or failed to: it makes no other."""
        self._places = places
        self._environ = environ
        self._say = say
        self._settings = settings
        self._evidence = evidence
        self._until = monotonic() + _ROUND_SECONDS
        self._spool = Spool(places.spool_directory, settings.disk_bytes)
        self._in_memory = Spool(places.volatile.spool_directory, _MEMORY_BYTES)
        self._cursor: str | None = None

    def gather(self, state: ReporterState, most_bytes: int) -> ReporterState:
        """Make a bundle, keep it in the spool, and return the new state.

        On a full or read-only disk, which may be why the host fails, a smaller bundle is made in memory.
        """
        if self.is_spent:
            return state
        self.is_spent = True
        for places, spool in ((self._places, self._spool), (self._places.volatile, self._in_memory)):
            try:
                bundled = self._make_bundle(places, state, min(most_bytes, spool.most_bytes))
            except OSError as error:
                shutil.rmtree(places.work_directory, ignore_errors=True)
                self._say.error(
                    f"no bundle: {error.filename or places.work_directory}: {error.strerror}",
                    MessageKind.NO_BUNDLE,
                )
                continue
            if bundled.leak is not None:
                self.leak = bundled.leak
                bundled.path.unlink(missing_ok=True)
                self._say.error(
                    f"no bundle: a secret would have left the host with it ({bundled.leak})",
                    MessageKind.NO_BUNDLE,
                )
                return withheld(state, self._evidence)
            spooled = spool.keep(bundled.path)
            if isinstance(spooled, str):
                bundled.path.unlink(missing_ok=True)
                self._say.error(f"no bundle: {spooled}", MessageKind.NO_BUNDLE)
                continue
            self._say.notice(
                f"a bundle was made: {bundled.bytes} bytes, {bundled.masked} secrets masked",
                MessageKind.BUNDLE_MADE,
            )
            if spool is self._in_memory:
                self._spool.drop()  # its bundle is older
            else:
                self._in_memory.drop()
            return with_bundle(state, self._evidence, is_volatile=spool is self._in_memory)
        return state

    def _make_bundle(self, places: Places, state: ReporterState, most_bytes: int) -> "Bundled":
        from service_record.reporter.bundling import make_bundle  # most rounds make no bundle
        from service_record.reporter.gather.collectors import COLLECTORS
        from service_record.reporter.gather.journal import newest_cursor
        from service_record.reporter.gather.model import Context

        at = datetime.now(UTC)
        service = self._settings.service
        context = Context(
            root=self._places.root,
            environ=self._environ,
            boot_id=self._evidence.boot_id,
            cursor=state.cursor if self._is_incremental() else None,
            urls=tuple(
                filter(None, (service.url if service and service.is_usable else None, self._settings.api_url))
            ),
            ca_bundle=service.ca_bundle if service else None,
        )
        self._cursor = newest_cursor(context)
        places.work_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return make_bundle(
            places.work_directory,
            COLLECTORS,
            context,
            verdict=log.render_page(self._evidence, str(self._places.records), at),
            at=at,
            most_bytes=min(most_bytes, self._settings.disk_bytes),
            redact=self._settings.redact,
            secrets=secrets_in(self._settings),
        )

    def bundle(self, shipment: Shipment) -> SpooledFile | None:
        """Return the bundle in the spool, or None if it exceeds the budget of this shipment."""
        spooled = self._in_memory.newest() or self._spool.newest()
        return spooled if spooled is not None and spooled.bytes <= shipment.most else None

    def ship(self, clients: Clients, shipment: Shipment, spooled: SpooledFile, *, is_known: bool) -> Outcome:
        """Ship the bundle if this round has time left, and log the result."""
        remaining = self._until - monotonic()
        if remaining < _MIN_SECONDS:
            return Unreachable("no time is left in this round", tries=0)
        try:
            with clients.destination(shipment, remaining, is_known=is_known) as destination:
                outcome = destination.ship(spooled.path, shipment.tries)
        except ValueError as error:
            outcome = Unreachable(str(error), tries=0)
        if succeeded(outcome):
            self._say.notice(
                f"{shipment.kind}: shipped {spooled.path.name}, {spooled.bytes} bytes", MessageKind.DELIVERED
            )
        elif classify(Call.UPLOAD, outcome) is ResponseClass.NEVER_AGAIN:
            self._say.warning(
                f"{shipment.kind}: refused, and not tried again: {outcome_text(outcome)}",
                MessageKind.UNDELIVERED,
            )
        else:
            self._say.warning(
                f"{shipment.kind}: not shipped, and kept: {outcome_text(outcome)}", MessageKind.UNDELIVERED
            )
        return outcome

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
        goes_on = self._cursor is not None and self._is_incremental()
        return replace(without_bundle(state), cursor=self._cursor if goes_on else state.cursor)

    def _is_incremental(self) -> bool:
        """Return whether a bundle may have only new entries: every destination keeps earlier bundles."""
        places = self._settings.ship_to
        return self._settings.service is None and all(to.startswith(("/", COLLECTOR)) for to in places)
