"""A bootstrap host in miniature: its services, the programs that they call, and what is gathered of it."""

import shutil
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from testing.machine import REPOSITORY, Machine

SCRIPTS: Final = {
    "release-image": "release-image-download.sh",
    "crio-configure": "crio-configure.sh",
    "kubelet": "kubelet.sh",
    "bootkube": "bootkube.sh",
    "approve-csr": "approve-csr.py",
    "report-progress": "report-progress.sh",
    "install-to-disk": "install-to-disk.sh",
}
"""Service -> its script."""

_HERE: Final = REPOSITORY / "examples"
_ONCE: Final = ("Type=oneshot", "RemainAfterExit=yes")
_SETTINGS: Final = {
    "release-image": _ONCE,
    "crio-configure": _ONCE,
    "kubelet": ("Type=exec", "ExecStartPre=/usr/local/bin/kubelet-pause-image.sh", "Restart=always"),
}
_PRELUDE: Final = """
await() { until "$@"; do sleep 0.05; done; }
recorded() { (($(grep --count --no-messages "$2" "/var/log/openshift/$1.json") >= ${3:-1})); }
gather() { cp --archive /var/log/openshift/. /gathered/; }
"""


class Host:
    """A machine with the services of a bootstrap host, recorded by the shim, the library and the drop-in.

    One like upstream's is recorded by what imitates upstream's shim, in New York, and has no drop-in.
    """

    def __init__(self, root: Path, *, is_like_upstream: bool = False) -> None:
        self.machine = Machine(root, is_its_own_clock=Path("/proc/self/ns/time").exists())
        self.gathered = root / "gathered"
        self.gathered.mkdir()
        self.machine.bind(self.gathered, "/gathered")
        self._is_like_upstream = is_like_upstream
        for directory in ("scripts", "standins", *(["upstream"] if is_like_upstream else [])):
            for program in sorted((_HERE / directory).iterdir()):
                self.machine.program(program.name, program.read_text())

    def services(self, *names: str) -> None:
        """Add services that nothing troubles."""
        for name in names:
            self.service(name)

    def service(self, name: str, *settings: str, trouble: str = "") -> None:
        """Add one service. The scripts are the same everywhere: TROUBLE tells the stand-ins to make some."""
        program = f"ExecStart=/usr/local/bin/{SCRIPTS[name]}"
        usual = (*_SETTINGS.get(name, ("Type=exec",)), program, f"Environment=TROUBLE={trouble}")
        if self._is_like_upstream:
            self.machine.unit(name, *usual, *settings, "Environment=TZ=America/New_York")
        else:
            self.machine.unit(name, *usual, *settings)
            self.machine.drop_in(name)

    def boot(self, scenario: str, *, seconds: float = 60) -> None:
        """Boot and run the scenario, which has these functions and those of the machine.

        `await COMMAND...` waits until the command is true, `recorded SERVICE TEXT [TIMES]` is true when the
        record has the text that often, and `gather` copies the records, as of now and as a person would.
        """
        self.machine.boot(f"{_PRELUDE}\n{scenario}", seconds=seconds)


def keep(gathered: Path, directory: Path) -> None:
    """Put the records into a directory, in the place of those that were there."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for record in sorted(gathered.iterdir()):
        shutil.copyfile(record, directory / record.name)


def keep_packed(gathered: Path, path: Path) -> None:
    """Pack the files as they are, with the times at which they were written, as OpenShift's gather does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files = sorted(gathered.iterdir())
    latest = max(file.stat().st_mtime for file in files)
    bundle = f"log-bundle-{datetime.fromtimestamp(latest, UTC):%Y%m%d%H%M%S}"
    with tarfile.open(path, "w:gz") as archive:
        for file in files:
            archive.add(file, f"{bundle}/bootstrap/services/{file.name}", filter=_as_root)


def _as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member
