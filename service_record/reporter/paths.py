"""The paths of the reporter's files on a host."""

import errno
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from service_record.record.appending import DEFAULT_DIRECTORY, open_regular


@dataclass(frozen=True, slots=True)
class Places:
    """The files and directories of the reporter below a root: `/`, or another directory in tests."""

    root: Path = Path("/")
    records_directory: str = DEFAULT_DIRECTORY
    """An absolute path of the host."""
    is_volatile: bool = False
    """True for state and bundles in memory, used while the disk is full or read-only."""

    @property
    def volatile(self) -> Self:
        """Return the paths for state and bundles in memory."""
        return replace(self, is_volatile=True)

    @classmethod
    def of_environment(cls, root: Path, environ: Mapping[str, str]) -> Self:
        """Return the paths below a root. $SERVICE_RECORDS_DIR names the directory of records."""
        return cls(root, environ.get("SERVICE_RECORDS_DIR") or DEFAULT_DIRECTORY)

    def at(self, path: str | Path) -> Path:
        """Return an absolute path of the host, below the root."""
        return self.root / str(path).lstrip("/")

    @property
    def settings_file(self) -> Path:
        return self.at("/etc/service-record/reporter.toml")

    @property
    def credential_file(self) -> Path:
        """The token for the assisted-service, mode 0600. The unit passes it by `LoadCredential=`."""
        return self.at("/etc/service-record/token")

    @property
    def collector_credential_file(self) -> Path:
        """The token for collectors, mode 0600."""
        return self.at("/etc/service-record/collector-token")

    @property
    def ca_bundle(self) -> Path:
        """The CA certificate that the assisted-service adds to a host's ignition."""
        return self.at("/etc/assisted-service/service-ca-cert.crt")

    @property
    def state_directory(self) -> Path:
        # Not /run/service-record: docs/read-only.md puts records there, and the clean-up removes this one.
        return self.at("/run/boot-reporter" if self.is_volatile else "/var/lib/service-record")

    @property
    def state_file(self) -> Path:
        return self.state_directory / "reporter.json"

    @property
    def tombstone(self) -> Path:
        """The file that marks the reporter as permanently stopped."""
        return self.state_directory / "reporter.stopped"

    @property
    def spool_directory(self) -> Path:
        """The directory of the bundle that is not delivered everywhere yet."""
        return self.state_directory / "spool"

    @property
    def work_directory(self) -> Path:
        """The temporary directory of a round."""
        return self.state_directory / "work"

    @property
    def unit_directory(self) -> Path:
        return self.at("/etc/systemd/system")

    @property
    def service(self) -> Path:
        return self.unit_directory / "boot-reporter.service"

    @property
    def timer(self) -> Path:
        return self.unit_directory / "boot-reporter.timer"

    @property
    def unit_links(self) -> tuple[Path, ...]:
        """The links in `*.wants` and `*.requires` that enable the units, including dangling ones."""
        names = (self.service.name, self.timer.name)
        pulls = (self.unit_directory.glob(f"*.{kind}") for kind in ("wants", "requires"))
        links = (directory / name for wanted_by in pulls for directory in wanted_by for name in names)
        return tuple(sorted(link for link in links if link.is_symlink() or link.exists()))

    @property
    def issue(self) -> Path:
        """The file with the verdict for the consoles, printed above login prompts; see issue(5)."""
        return self.at("/etc/issue.d/80-service-record.issue")

    @property
    def records(self) -> Path:
        """The directory of this host's records."""
        return self.at(self.records_directory)


def is_there(path: Path) -> bool:
    """Return whether the file exists; False if the disk fails. `Path.exists()` would raise then."""
    try:
        return path.exists()
    except OSError:
        return False


def read_small(path: Path, most: int, *, follows: bool = True) -> tuple[bytes, int]:
    """Return the content and the mode of a regular file. Never blocks, not even on a pipe.

    Raises OSError, and ValueError if it is not a regular file or has more than `most` bytes. With `follows`
    false, a link is not a regular file.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follows else os.O_NOFOLLOW)
    try:
        descriptor = open_regular(path, flags)
    except OSError as error:
        # Without a number: not a regular file. ENXIO: a socket.
        if error.errno in {None, errno.ENXIO} or (error.errno == errno.ELOOP and not follows):
            raise ValueError("no regular file") from error
        raise
    with os.fdopen(descriptor, "rb") as stream:
        data, mode = stream.read(most + 1), os.fstat(descriptor).st_mode
    if len(data) > most:
        raise ValueError(f"larger than {most:,} bytes")
    return data, stat.S_IMODE(mode)
