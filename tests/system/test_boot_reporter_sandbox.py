"""What the sandbox of the boot reporter takes away: nothing that it gathers."""

import json
import tarfile
from pathlib import Path

from tests.system.machine import Machine
from tests.system.reporter_host import IN_A_MACHINE, PROGRAM, UNITS

BUNDLE = "/usr/local/bin/service-record bundle -o /observed/{}.tar.gz"


def manifest(bundle: Path) -> dict[str, str]:
    """What became of each collector."""
    with tarfile.open(bundle) as archive:
        (name,) = (name for name in archive.getnames() if name.endswith("/manifest.json"))
        member = archive.extractfile(name)
        assert member is not None
        collectors = json.load(member)["collectors"]
    return {row["name"]: f"{row['status']} {row.get('reason', '')}" for row in collectors}


def test_what_is_gathered_inside_is_what_is_gathered_outside(tmp_path: Path) -> None:
    machine = Machine(tmp_path, wants=("multi-user.target", "dbus.socket"))
    machine.program("service-record", PROGRAM)
    lines = (UNITS / "boot-reporter.service").read_text().splitlines()
    confined = [line for line in lines if not line.startswith("ExecStart=")]
    confined += [f"ExecStart={BUNDLE.format('inside')}", *IN_A_MACHINE, ""]
    machine.write_unit("confined.service", "\n".join(confined))
    machine.unit("free", "Type=exec", f"ExecStart={BUNDLE.format('outside')}")
    machine.boot("for unit in free confined; do start $unit; rest $unit; done")

    outside, inside = (manifest(tmp_path / f"observed/{name}.tar.gz") for name in ("outside", "inside"))
    assert len(outside) > 50
    assert {name: what for name, what in inside.items() if what != outside[name]} == {}
