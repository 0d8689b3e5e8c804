"""A bootstrap host in a directory, with the scripts of tests/patterns, which use the shim like upstream's.

Its records are also read as upstream's tools read them.
"""

import shutil
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from tempfile import mkdtemp
from typing import Final

from service_record.bundle import pack
from service_record.read.source import open_source
from service_record.record.directory import Records
from service_record.record.entry import Entry
from tests.command_line import service_record
from tests.shell.scripts import FINDER, SHIM, Bash, environment, kill_group
from tests.upstream_reader import UpstreamReader

LAYOUTS: Final = ("lines", "array")
PATTERNS: Final = Path(__file__).with_name("patterns")
REPLACED_PROGRAMS: Final = ("curl", "kubelet", "oc", "podman", "shutdown", "systemd-notify")
INVOCATION_ID: Final = "1f" * 16
AT: Final = datetime(2026, 11, 21, 2, tzinfo=UTC)


def install_scripts(programs: Path) -> None:
    """Copy the scripts of tests/patterns into a directory, with stand-ins for the programs that they run."""
    for script in PATTERNS.glob("*.sh"):
        shutil.copy(script, programs)
    for name in REPLACED_PROGRAMS:
        shutil.copy(PATTERNS / "stand-in.sh", programs / name)


def read_as_upstream(records: Path, layout: str) -> UpstreamReader:
    """Read a directory of records, all in one layout, as upstream's tools do.

    Files in the lines layout are exported as arrays first. Checks that our bundle has the same entries.
    """
    gathered = UpstreamReader.from_directory(records if layout == "array" else export_arrays(records))
    bundled = UpstreamReader.from_bundle(make_bundle(records))
    assert bundled.services == gathered.services
    for service in gathered.services:
        assert bundled.entries(service) == gathered.entries(service)
        assert bundled.count_attempts(service) == gathered.count_attempts(service)
    return gathered


def make_bundle(records: Path) -> bytes:
    """Return a bundle of the records in a directory."""
    bundle = BytesIO()
    pack(open_source([str(records)]).records, bundle, AT)
    return bundle.getvalue()


def export_arrays(records: Path) -> Path:
    """Export the records as arrays into a new directory, and return its path."""
    directory = Path(mkdtemp(prefix="export_arrays-", dir=records.parent))
    answer = service_record("export", "--to", "array", "--from", records, "--directory", directory)
    assert answer.status == 0, answer.err
    return directory


class BootstrapHost:
    """A host whose scripts are run by one bash and write their records in one layout."""

    def __init__(self, directory: Path, bash: Bash, layout: str) -> None:
        self.records = directory / "records"
        self.journal = directory / "journal"
        self._directory = directory
        self._programs = directory / "bin"
        self._bash = bash
        self.layout = layout
        self._programs.mkdir()
        install_scripts(self._programs)
        shutil.copy(SHIM, self._programs / "bootstrap-service-record.sh")
        shutil.copy(FINDER, self._programs)
        shutil.copy(PATTERNS / "journalctl.sh", self._programs / "journalctl")

    def run(self, unit: str, script: str = "", **variables: str) -> int:
        """Run `script`.sh, or UNIT.sh, as systemd would for the unit, and return its exit status."""
        process = self.start(unit, script, **variables)
        try:
            return process.wait(60)
        finally:
            kill_group(process.pid)

    def start(self, unit: str, script: str = "", **variables: str) -> Popen[bytes]:
        """Start the script in a new process group. Its output overwrites the file `journal`."""
        path = self._programs / f"{script or unit}.sh"
        with self.journal.open("wb") as journal:
            return Popen(
                [self._bash.path, path],
                cwd=self._directory,
                env=self._environment(unit) | variables,
                stdin=DEVNULL,
                stdout=journal,
                stderr=STDOUT,
                start_new_session=True,
            )

    def _environment(self, unit: str) -> dict[str, str]:
        # The scripts run in no unit's control group, so SERVICE_NAME names the unit.
        given = environment(self._directory)
        given |= {"PATH": f"{self._programs}:{given['PATH']}", "BIN": str(self._programs)}
        given |= {"SERVICE_NAME": unit, "INVOCATION_ID": INVOCATION_ID}
        return given if self.layout == "lines" else given | {"SERVICE_RECORDS_LAYOUT": self.layout}

    def entries(self, service: str) -> list[Entry]:
        """Return the entries of a record. Fails if a part of it is damaged."""
        pieces = list(Records(self.records).read(service))
        entries = [piece for piece in pieces if isinstance(piece, Entry)]
        assert entries == pieces
        return entries

    def read_as_upstream(self) -> UpstreamReader:
        """Return this host's records as upstream's tools read them."""
        return read_as_upstream(self.records, self.layout)
