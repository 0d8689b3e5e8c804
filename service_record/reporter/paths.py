"""Places of the reporter's files on a host. Everything that touches the host takes them from here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from service_record.record.appending import DEFAULT_DIRECTORY


@dataclass(frozen=True, slots=True)
class Places:
    """The files and directories of the reporter below a root, which is another than `/` in tests."""

    root: Path = Path("/")
    records_directory: str = DEFAULT_DIRECTORY
    """An absolute path of the host."""
    is_volatile: bool = False
    """True while state and bundle are in memory, because the disk is full or read-only."""

    @property
    def volatile(self) -> Self:
        """Return the same places with state and bundle in memory."""
        return replace(self, is_volatile=True)

    @classmethod
    def of_environment(cls, root: Path, environ: Mapping[str, str]) -> Self:
        """Return the places below a root; the records are where $SERVICE_RECORDS_DIR says."""
        return cls(root, environ.get("SERVICE_RECORDS_DIR") or DEFAULT_DIRECTORY)

    def at(self, path: str | Path) -> Path:
        """Return an absolute path of the host, below the root."""
        return self.root / str(path).lstrip("/")

    @property
    def settings_file(self) -> Path:
        return self.at("/etc/service-record/reporter.toml")

    @property
    def credential_file(self) -> Path:
        """Return the token, which root alone may read; the unit hands it on by `LoadCredential=`."""
        return self.at("/etc/service-record/token")

    @property
    def collector_credential_file(self) -> Path:
        """Return the token for collectors, where the settings ship to any; root alone may read it, too."""
        return self.at("/etc/service-record/collector-token")

    @property
    def ca_bundle(self) -> Path:
        """Return where the assisted-service puts its authority's certificate in a host's ignition."""
        return self.at("/etc/assisted-service/service-ca-cert.crt")

    @property
    def state_directory(self) -> Path:
        # Not /run/service-record: docs/read-only.md puts records there, and this one is removed in the end.
        return self.at("/run/boot-reporter" if self.is_volatile else "/var/lib/service-record")

    @property
    def state_file(self) -> Path:
        return self.state_directory / "reporter.json"

    @property
    def tombstone(self) -> Path:
        """Return where this file is, the reporter never runs again."""
        return self.state_directory / "reporter.stopped"

    @property
    def spool_directory(self) -> Path:
        """Return the last bundle that nobody took yet."""
        return self.state_directory / "spool"

    @property
    def work_directory(self) -> Path:
        """Return the directory that a round makes and removes again."""
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
        """Return the links that enable the units, whatever target pulls them in, and wherever they point."""
        names = (self.service.name, self.timer.name)
        pulls = (self.unit_directory.glob(f"*.{kind}") for kind in ("wants", "requires"))
        links = (directory / name for wanted_by in pulls for directory in wanted_by for name in names)
        return tuple(sorted(link for link in links if link.is_symlink() or link.exists()))

    @property
    def issue(self) -> Path:
        """Return the verdict on the consoles, above their login prompts; see issue(5)."""
        return self.at("/etc/issue.d/80-service-record.issue")

    @property
    def records(self) -> Path:
        """Return the records of this host's services."""
        return self.at(self.records_directory)


def is_there(path: Path) -> bool:
    """Return whether there is such a file. Of a disk that cannot tell, `exists` would raise."""
    try:
        return path.exists()
    except OSError:
        return False
