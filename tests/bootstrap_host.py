"""A bootstrap host in a directory: scripts that use the shim as upstream's do, and what upstream reads."""

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
STAND_INS: Final = ("curl", "kubelet", "oc", "podman", "shutdown", "systemd-notify")
INVOCATION_ID: Final = "1f" * 16
AT: Final = datetime(2026, 11, 21, 2, tzinfo=UTC)


def install(programs: Path) -> None:
    """Put the scripts of tests/patterns, and what stands for the programs that they run, into a directory."""
    for script in PATTERNS.glob("*.sh"):
        shutil.copy(script, programs)
    for name in STAND_INS:
        shutil.copy(PATTERNS / "stand-in.sh", programs / name)


def read_by_upstream(records: Path, layout: str) -> UpstreamReader:
    """Gather a directory of records, all in one layout, for upstream's readers.

    Files in the array layout are gathered as they are, lines as `export` makes arrays of them. A bundle that
    we pack must tell the same.
    """
    gathered = UpstreamReader.of_gathered(records if layout == "array" else exported(records))
    bundled = UpstreamReader.of_bundle(packed(records))
    assert bundled.services == gathered.services
    for service in gathered.services:
        assert bundled.entries(service) == gathered.entries(service)
        assert bundled.attempts(service) == gathered.attempts(service)
    return gathered


def packed(records: Path) -> bytes:
    """The bundle that we make of the records in a directory."""
    bundle = BytesIO()
    pack(open_source([str(records)]).records, bundle, AT)
    return bundle.getvalue()


def exported(records: Path) -> Path:
    """A new directory beside the records, with an array of each."""
    directory = Path(mkdtemp(prefix="exported-", dir=records.parent))
    answer = service_record("export", "--to", "array", "--from", records, "--directory", directory)
    assert answer.status == 0, answer.err
    return directory


class BootstrapHost:
    """One host, its scripts run by one bash, with records in one layout."""

    def __init__(self, directory: Path, bash: Bash, layout: str) -> None:
        self.records = directory / "records"
        self.journal = directory / "journal"
        self._directory = directory
        self._programs = directory / "bin"
        self._bash = bash
        self.layout = layout
        self._programs.mkdir()
        install(self._programs)
        shutil.copy(SHIM, self._programs / "bootstrap-service-record.sh")
        shutil.copy(FINDER, self._programs)
        shutil.copy(PATTERNS / "journalctl.sh", self._programs / "journalctl")

    def run(self, unit: str, script: str = "", **surroundings: str) -> int:
        """Run a script, UNIT.sh unless named, as systemd would for that unit; return its exit status."""
        process = self.start(unit, script, **surroundings)
        try:
            return process.wait(60)
        finally:
            kill_group(process.pid)

    def start(self, unit: str, script: str = "", **surroundings: str) -> Popen[bytes]:
        """Start it, in a process group of its own; what it says is in the journal, which begins anew."""
        path = self._programs / f"{script or unit}.sh"
        with self.journal.open("wb") as journal:
            return Popen(
                [self._bash.path, path],
                cwd=self._directory,
                env=self._environment(unit) | surroundings,
                stdin=DEVNULL,
                stdout=journal,
                stderr=STDOUT,
                start_new_session=True,
            )

    def _environment(self, unit: str) -> dict[str, str]:
        """Return the variables that the manager gives a service; the unit's name stands for its control
        group.
        """
        given = environment(self._directory)
        given |= {"PATH": f"{self._programs}:{given['PATH']}", "BIN": str(self._programs)}
        given |= {"SERVICE_NAME": unit, "INVOCATION_ID": INVOCATION_ID}
        return given if self.layout == "lines" else given | {"SERVICE_RECORDS_LAYOUT": self.layout}

    def entries(self, service: str) -> list[Entry]:
        """The entries of a record in which nothing is damaged."""
        pieces = list(Records(self.records).read(service))
        entries = [piece for piece in pieces if isinstance(piece, Entry)]
        assert entries == pieces
        return entries

    def read_by_upstream(self) -> UpstreamReader:
        """Return the files of this host that upstream's readers get."""
        return read_by_upstream(self.records, self.layout)
