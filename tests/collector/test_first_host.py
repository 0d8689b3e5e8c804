"""The first commands of docs/collector.md start a collector and show a first host."""

import os
import re
import socket
import subprocess
import sys
import time
from importlib.metadata import metadata
from pathlib import Path

import pytest

from tests.collector.commands import collector_command
from tests.programs import REPOSITORY

_MAX_SECONDS = 120
_BLOCK = re.compile(r"(?:^    .*\n)+", re.MULTILINE)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_documented_commands_show_the_first_host(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/collector.md").read_text().partition("\n## ")[0]
    start, first_host = _BLOCK.findall(page)
    assert start.lstrip().startswith("python3 -m venv")
    (extras,) = re.findall(r"pip install '\.\[(.*)\]'", start)
    assert {*extras.split(",")} <= {*metadata("service-record").get_all("Provides-Extra", [])}
    port = free_port()
    script = "\n".join(
        (
            "set -e",
            start.partition("\n")[2].replace(" &", f" --port {port} 2>said &"),
            "until grep -q listening said; do sleep 0.1; done",
            first_host.replace(":8474", f":{port}").replace("//127.0.0.1\n", f"//127.0.0.1:{port}\n"),
            "kill %1",
        )
    )
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
    }
    began = time.monotonic()
    done = subprocess.run(
        ["bash", "-mc", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_MAX_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < _MAX_SECONDS
    assert re.search(r"^● web1 .*Disk setup.*progressing$", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change to a user without write access")
def test_unwritable_folder_error_suggests_another(tmp_path: Path) -> None:
    assert collector_command("token", "create", "admin", "--data", tmp_path / "mine").status == 0
    os.seteuid(65_534)
    try:
        done = collector_command("token", "create", "admin", "--data", "/var/lib/not-yours/collector")
    finally:
        os.seteuid(0)
    advice = "try as root, or name another folder with --data"
    assert (done.status, done.err) == (
        3,
        f"Error: /var/lib/not-yours/collector: Permission denied; {advice}\n",
    )
