"""The bundle that nobody took yet: one, the newest, until a later round ships it."""

import os
from dataclasses import dataclass
from pathlib import Path

from service_record.reporter.answers import printable
from service_record.reporter.durable import clear_the_way, place_by_moving, remove_torn, sync_names


@dataclass(frozen=True, slots=True)
class Kept:
    """A bundle in the spool."""

    path: Path
    bytes: int


@dataclass(frozen=True, slots=True)
class NotKept:
    """The spool is as it was; the reason is one line."""

    reason: str


@dataclass(frozen=True, slots=True)
class Spool:
    """A directory of its own. Nothing here raises on account of a disk."""

    directory: Path
    most_bytes: int
    """Of the one bundle. While a newer one takes its place there are two."""

    def keep(self, bundle: Path) -> Kept | NotKept:
        """Move the bundle into the spool, in the place of the one there. It is there whole, or the old one
        is.
        """
        try:
            size = bundle.stat().st_size
            if size > self.most_bytes:
                return NotKept(f"{bundle.name}: {size} bytes are more than the spool's {self.most_bytes}")
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
            return NotKept(printable(f"{bundle.name}: {fault.strerror or fault}"))
        return Kept(target, size)

    def newest(self) -> Kept | None:
        """The bundle in the spool; what a loss of power left beside it is removed."""
        try:
            bundles = self._bundles()
            self._remove_torn()
            if not bundles:
                return None
            self._drop_all_but(bundles[-1])
            return Kept(bundles[-1], bundles[-1].stat().st_size)
        except OSError:
            return None

    def drop(self) -> None:
        """Empty the spool, as far as the disk lets us; what stays is for the next round to drop."""
        try:
            self._remove_torn()
            self._drop_all_but(None)
        except OSError:
            return

    def _remove_torn(self) -> None:
        if not self.directory.is_symlink():
            remove_torn(self.directory)

    def _bundles(self) -> list[Path]:
        """The newest last, by when they were kept. No link is followed: it could lead to anything."""
        if self.directory.is_symlink():
            return []
        files = [path for path in self.directory.glob("[!.]*") if path.is_file() and not path.is_symlink()]
        return sorted(files, key=lambda path: (path.stat().st_mtime_ns, path.name))

    def _drop_all_but(self, kept: Path | None) -> None:
        dropped = [path for path in self._bundles() if path != kept]
        for path in dropped:
            path.unlink(missing_ok=True)
        if dropped:
            sync_names(self.directory)


def _make_newest(bundle: Path, others: list[Path]) -> None:
    """Order by time also on a host whose clock was set back between two bundles."""
    latest = max((path.stat().st_mtime_ns for path in others), default=0)
    if bundle.stat().st_mtime_ns <= latest:
        os.utime(bundle, ns=(latest + 1_000_000_000,) * 2)
