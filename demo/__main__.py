"""`make demo`: record a small bootstrap that really fails, and show what its records say.

As root with systemd-nspawn the services run under a systemd and a journald of their own; else as plain
processes, whose records have no journal lines.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from testing.machine import REPOSITORY, BootError, Machine, why_not

SCRIPTS = {
    "crio-configure": "crio-configure.sh",
    "release-image": "release-image-download.sh",
    "bootkube": "bootkube.sh",
}
RESTARTED = ("Restart=on-failure", "RestartSec=100ms", "StartLimitBurst=3")
WAITING = "approve_csr.py"
DEMO = REPOSITORY / "demo"


def under_systemd(root: Path, show: list[str]) -> str:
    """Boot a machine with the demo's services, and return what `service-record show` says on it."""
    machine = Machine(root)
    for service, script in SCRIPTS.items():
        machine.program(script, (DEMO / script).read_text())
        machine.unit(service, "Type=exec", f"ExecStart={script}", *RESTARTED)
        machine.drop_in(service)
    machine.unit("approve-csr", f"ExecStart=/venv/bin/python /src/demo/{WAITING}")
    columns, lines = shutil.get_terminal_size()
    return machine.boot(f"""
        start approve-csr crio-configure release-image; rest crio-configure release-image
        start bootkube; rest bootkube
        COLUMNS={columns} LINES={lines} /venv/bin/python /venv/bin/service-record {" ".join(show)}
    """)


def as_processes(root: Path, show: list[str]) -> str:
    """Run the demo's programs one after the other, and return what `service-record show` says of them."""
    environment = {name: value for name, value in os.environ.items() if name != "INVOCATION_ID"} | {
        "PATH": f"{REPOSITORY / 'shell'}:{os.environ['PATH']}",
        "TMPDIR": str(root),
        "SERVICE_RECORDS_DIR": str(root / "records"),
    }
    with subprocess.Popen([sys.executable, DEMO / WAITING], env=environment) as waiting:
        for service, script in [*SCRIPTS.items(), ("bootkube", SCRIPTS["bootkube"])]:
            subprocess.run(
                [DEMO / script], env=environment | {"SERVICE_NAME": service}, check=False, capture_output=True
            )
        time.sleep(0.5)
        result = subprocess.run(
            [Path(sys.executable).with_name("service-record"), *show],
            env=environment,
            check=False,
            stdout=subprocess.PIPE,
            text=True,
        )
        waiting.kill()
    return result.stdout


def recorded(root: Path, show: list[str]) -> str:
    """Return the output of `show` for the demo, run in the most real way that this machine allows."""
    obstacle = why_not()
    if obstacle is None:
        note("Four services under a real systemd (demo/), then: service-record show")
        return under_systemd(root, show)
    note(f"No systemd to boot here ({obstacle}):\nplain processes, whose records have no journal lines")
    return as_processes(root, show)


def note(text: str) -> None:
    sys.stderr.write(f"{text}\n\n")


def main() -> None:
    """Run the demo. Standard error says what runs; standard output has the records."""
    show = ["show", "--no-pager", "--color", "always" if sys.stdout.isatty() else "never"]
    with tempfile.TemporaryDirectory(prefix="service-record-demo-") as directory:
        sys.stdout.write(recorded(Path(directory), show))


if __name__ == "__main__":
    try:
        main()
    except BootError as error:
        sys.exit(f"demo: the machine did not come up: {error}")
