"""The sandbox of the boot reporter does not change the gathered files."""

import json
import tarfile
from pathlib import Path

from testing.machine import Machine
from tests.system.reporter_host import MACHINE_SETTINGS, PROGRAM, UNITS

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


def read_bundle(bundle: Path) -> dict[str, bytes]:
    """Return the files of a bundle, without its top directory."""
    with tarfile.open(bundle) as archive:
        files = {name: archive.extractfile(name) for name in archive.getnames()}
        return {name.partition("/")[2]: file.read() for name, file in files.items() if file is not None}


def list_results(files: dict[str, bytes]) -> dict[str, str]:
    """Return the result of each collector."""
    rows = json.loads(files["manifest.json"])["collectors"]
    return {row["name"]: f"{row['status']} {row.get('reason', '')}" for row in rows}


def test_sandbox_does_not_change_gathered_files(tmp_path: Path) -> None:
    machine = Machine(tmp_path, wants=("multi-user.target", "dbus.socket"))
    machine.program("service-record", PROGRAM)
    machine.program("podman", PODMAN)
    lines = (UNITS / "boot-reporter.service").read_text().splitlines()
    lines_in_sandbox = [line for line in lines if not line.startswith("ExecStart=")]
    lines_in_sandbox += [f"ExecStart={BUNDLE.format('inside')}", *MACHINE_SETTINGS, ""]
    machine.write_unit("confined.service", "\n".join(lines_in_sandbox))
    machine.unit("free", "Type=exec", f"ExecStart={BUNDLE.format('outside')}")
    machine.boot("for unit in free confined; do start $unit; rest $unit; done")

    outside, inside = (read_bundle(tmp_path / f"observed/{name}.tar.gz") for name in ("outside", "inside"))
    expected = list_results(outside)
    assert len(expected) > 50
    assert {name: result for name, result in list_results(inside).items() if result != expected[name]} == {}
    assert inside["bootstrap/pods/bootkube-0123456789abc.log"] == b"rendering manifests\n"
    assert list_mounts(inside) == list_mounts(outside)


def list_mounts(files: dict[str, bytes]) -> list[str]:
    """Return the host's mounts, without those for credentials of the unit that gathers."""
    lines = files["bootstrap/storage/mounts.txt"].decode().splitlines()
    return [line for line in lines if not line.startswith("ramfs /run/credentials/")]
