"""What the sandbox of the boot reporter takes away: nothing that it gathers."""

import json
import tarfile
from pathlib import Path

from testing.machine import Machine
from tests.system.reporter_host import IN_A_MACHINE, PROGRAM, UNITS

PODMAN = r"""#!/bin/bash
capabilities=$(sed -n 's/^CapEff:\t//p' /proc/self/status)
if ! ((0x$capabilities & 1 << 21)); then # without CAP_SYS_ADMIN, podman takes a root for an ordinary user
  echo 'cannot re-exec process' >&2
  exit 125
fi
case "$*" in
*--format=json*) echo '[{"Id": "0123456789abc", "Names": ["bootkube"], "State": "exited", "Created": 1}]' ;;
logs*) echo 'rendering manifests' ;;
*) echo 'CONTAINER ID  NAMES' ;;
esac
"""
BUNDLE = "/usr/local/bin/service-record bundle -o /observed/{}.tar.gz"


def members(bundle: Path) -> dict[str, bytes]:
    """The files of a bundle, without the directory at its top."""
    with tarfile.open(bundle) as archive:
        files = {name: archive.extractfile(name) for name in archive.getnames()}
        return {name.partition("/")[2]: file.read() for name, file in files.items() if file is not None}


def came_of(files: dict[str, bytes]) -> dict[str, str]:
    """Return the result of each collector."""
    rows = json.loads(files["manifest.json"])["collectors"]
    return {row["name"]: f"{row['status']} {row.get('reason', '')}" for row in rows}


def test_sandbox_does_not_change_gathered_files(tmp_path: Path) -> None:
    machine = Machine(tmp_path, wants=("multi-user.target", "dbus.socket"))
    machine.program("service-record", PROGRAM)
    machine.program("podman", PODMAN)
    lines = (UNITS / "boot-reporter.service").read_text().splitlines()
    confined = [line for line in lines if not line.startswith("ExecStart=")]
    confined += [f"ExecStart={BUNDLE.format('inside')}", *IN_A_MACHINE, ""]
    machine.write_unit("confined.service", "\n".join(confined))
    machine.unit("free", "Type=exec", f"ExecStart={BUNDLE.format('outside')}")
    machine.boot("for unit in free confined; do start $unit; rest $unit; done")

    outside, inside = (members(tmp_path / f"observed/{name}.tar.gz") for name in ("outside", "inside"))
    expected = came_of(outside)
    assert len(expected) > 50
    assert {name: what for name, what in came_of(inside).items() if what != expected[name]} == {}
    assert inside["bootstrap/pods/bootkube-0123456789abc.log"] == b"rendering manifests\n"
    assert mounts(inside) == mounts(outside)


def mounts(files: dict[str, bytes]) -> list[str]:
    """The host's mounts, but for the credentials of the unit that asks."""
    lines = files["bootstrap/storage/mounts.txt"].decode().splitlines()
    return [line for line in lines if not line.startswith("ramfs /run/credentials/")]
