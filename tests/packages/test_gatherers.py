"""What we bring for the gatherers of others: a plugin of sos, and the script of a must-gather image."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from service_record.deploy.delivered import Option, choose_layout, contents
from tests.programs import REPOSITORY

SYSTEM_PYTHON = "/usr/bin/python3"
SECRET = "hunter2"
FAILED = [
    {"timestamp": "2026-11-21T01:05:10.000Z", "phase": "service start"},
    {
        "timestamp": "2026-11-21T01:05:11.000Z",
        "phase": "service end",
        "result": "failure",
        "errorMessage": f'"password": "{SECRET}": no space left on device',
    },
]


def write_record(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "bootkube.json").write_text("".join(f"{json.dumps(entry)}\n" for entry in FAILED))


def sos_package() -> Path:
    """Return the directory of sos, which Debian's own Python imports."""
    code = "import sos; print(sos.__path__[0])"
    found = subprocess.run([SYSTEM_PYTHON, "-c", code], check=False, capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip("sos is not installed")
    return Path(found.stdout.strip())


@pytest.mark.skipif(os.geteuid() != 0, reason="sos needs root")
def test_sos_collects_records_and_analysis_without_passwords(tmp_path: Path) -> None:
    library = tmp_path / "library"
    shutil.copytree(sos_package(), library / "sos")
    packaged = contents([Option.REPORTER], choose_layout("/usr"))
    (plugin,) = (item for item in packaged if item.path.endswith("/sos/service_record.py"))
    (library / "sos/report/plugins/service_record.py").write_bytes(plugin.data)
    logs, output = tmp_path / "logs", tmp_path / "output"
    write_record(logs / "openshift")
    output.mkdir()
    arguments = [
        *("report", "--batch", "--build", "--quiet", "--only-plugins", "service_record"),
        *("--tmp-dir", str(output)),
    ]
    # With --sysroot, sos does not mask what a plugin names. So the host's own /var/log is another one here.
    program = f"from sos import SoS; SoS({arguments!r}).execute()"
    with_logs = 'mount --bind "$1" /var/log; exec "$2" -c "$3"'
    subprocess.run(
        ["unshare", "--mount", "sh", "-ec", with_logs, "sh", str(logs), SYSTEM_PYTHON, program],
        check=True,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": f"{library}:{os.environ.get('PYTHONPATH', '')}"},
    )

    (record,) = output.glob("*/var/log/openshift/bootkube.json")
    text = record.read_text()
    assert "no space left on device" in text
    assert SECRET not in text
    (listed,) = output.glob("*/sos_reports/manifest.json")
    commands = json.loads(listed.read_text())["components"]["report"]["plugins"]["service_record"]["commands"]
    assert any("service-record analyze" in command["exec"] for command in commands)


def test_must_gather_image_judges_each_node(tmp_path: Path) -> None:
    programs, node = tmp_path / "bin", tmp_path / "node1"
    programs.mkdir()
    write_record(node / "var/log/openshift")
    (programs / "oc").write_text(
        "#!/bin/bash\n"
        "case $* in\n"
        "'get nodes --output=name') printf 'node/node1\\nnode/node2\\n' ;;\n"
        f"*node/node1*tar*) tar -C {node} -cf - var/log/openshift ;;\n"
        "*) echo 'error: node is not ready' >&2; exit 1 ;;\n"
        "esac\n"
    )
    (programs / "service-record").symlink_to(REPOSITORY / ".venv/bin/service-record")
    (programs / "oc").chmod(0o755)
    done = subprocess.run(
        [REPOSITORY / "packages/must-gather/gather.sh", tmp_path / "must-gather"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"},
    )

    assert done.returncode == 0, done.stderr
    gathered = tmp_path / "must-gather/service-record"
    assert (gathered / "node1/var/log/openshift/bootkube.json").exists()
    assert "bootkube" in (gathered / "node1/analysis.txt").read_text()
    assert "error: node is not ready" in (gathered / "node2/errors.txt").read_text()
    assert not (gathered / "node2/records.tar").exists()
