"""docs/single-node.md as somebody follows it: its commands, in their order, in one directory.

What cannot be had here is replaced by programs that write what those would have written: `aicli`,
`openshift-install`, `coreos-installer`. Everything else is what it says.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.assisted_installation import InfraEnv
from tests.assisted_server import AssistedServer
from tests.collector.serving import RunningCollector
from tests.command_line import PROGRAM, environment
from tests.programs import REPOSITORY

PAGE = (REPOSITORY / "docs" / "single-node.md").read_text()
USER_TOKEN, REPORTER_TOKEN = "canary-of-a-user", "canary-of-the-reporter"
PULL_SECRET = json.dumps({"auths": {"cloud.openshift.com": {"auth": REPORTER_TOKEN}}})

_AICLI = """\
#!/bin/sh
case "$1 $2" in "download iso") cp discovery.json sno1.iso ;; esac
"""
_COREOS_INSTALLER = """\
#!/bin/sh
case "$*" in
  "iso ignition show "*) cat "$4" ;;
  "iso ignition embed --force --ignition-file "*) cp "$6" "$7" ;;
  *) exit 2 ;;
esac
"""
_OPENSHIFT_INSTALL = """\
#!/bin/sh
case "$*" in
  "create manifests --dir sno") mkdir -p sno/openshift ;;
  "create single-node-ignition-config --dir sno") cp bootstrap.json sno/bootstrap-in-place-for-live-iso.ign ;;
  *) exit 2 ;;
esac
"""


def blocks(heading: str) -> list[str]:
    """Return the bash of one section, a text for each block."""
    section = re.search(rf"^##+ {heading}\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert section, heading
    return re.findall(r"^```bash\n(.*?)^```", section[1], re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Followed:
    """Output of commands."""

    out: str
    err: str


@dataclass
class Desk:
    """Desk of somebody who follows the page, with a collector and an assisted-service."""

    directory: Path
    collector: RunningCollector
    service: AssistedServer
    infra_env: InfraEnv
    executable: bytes = b"#!/bin/sh\n# the executable\n"
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Names of the page -> the names here; beside the two servers."""

    def __post_init__(self) -> None:
        (self.directory / "bin").mkdir(parents=True)
        self.write("service-record", self.executable.decode())
        self.write("pull-secret.json", PULL_SECRET)
        self.write("user-token", f"{USER_TOKEN}\n")
        discovery = re.search(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
        assert discovery
        self.write("discovery.json", discovery[1])
        self.program("service-record", f'#!/bin/sh\nexec {shlex.join(PROGRAM)} "$@"\n')
        self.program("aicli", _AICLI)
        self.program("coreos-installer", _COREOS_INSTALLER)
        self.program("openshift-install", _OPENSHIFT_INSTALL)

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        return path

    def program(self, name: str, text: str) -> None:
        self.write(f"bin/{name}", text).chmod(0o755)

    def config(self, name: str) -> Any:
        return json.loads((self.directory / name).read_text())

    def follow(self, heading: str, *, status: int = 0) -> Followed:
        """Run the commands of a section as they stand there, but for addresses; each has to succeed."""
        script = "\n".join(blocks(heading))
        netloc = self.collector.url.removeprefix("http://")
        here = {
            **self.addresses,
            "--data /srv/collector": f"--data {self.collector.collector.settings.data}",
            "https://api.openshift.com": self.service.url,
            "collector+https://collector.example.com:443": f"collector+http://{netloc}",
            "https://collector.example.com": self.collector.url,
        }
        for there, place in here.items():
            script = script.replace(there, place)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.directory,
            env=environment(
                PATH=f"{self.directory / 'bin'}:{os.environ['PATH']}",
                CLUSTER_ID=self.infra_env.cluster_id or "",
                HOME=str(self.directory),
            ),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == status, f"{heading}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert not {token for token in (USER_TOKEN, REPORTER_TOKEN) if token in done.stdout + done.stderr}
        return Followed(done.stdout, done.stderr)
