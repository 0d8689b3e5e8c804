"""docs/openshift.md: its command puts our files into an Ignition config, and what it names is there."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.programs import REPOSITORY

PAGE = (REPOSITORY / "docs" / "openshift.md").read_text()
INTO_IGNITION = re.search(
    r"^### In the Ignition config\n.*?^```bash\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE
)
SHIM = "/usr/local/bin/bootstrap-service-record.sh"
UPSTREAMS_SHIM = {"path": SHIM, "mode": 0o555, "overwrite": True, "contents": {"source": "data:,upstream"}}
ANOTHER = {"path": "/usr/local/bin/bootkube.sh", "mode": 0o555, "contents": {"source": "data:,bootkube"}}
CONFIG = {
    "ignition": {"version": "3.2.0"},
    "storage": {"files": [ANOTHER, UPSTREAMS_SHIM], "directories": []},
    "systemd": {"units": [{"name": "bootkube.service", "contents": "[Service]\n"}]},
}


@pytest.fixture
def recorded(tmp_path: Path) -> dict[str, Any]:
    """The config that the page makes of CONFIG."""
    assert INTO_IGNITION
    for directory in ("shell", "units"):
        (tmp_path / directory).symlink_to(REPOSITORY / directory)
    (tmp_path / "bootstrap.ign").write_text(json.dumps(CONFIG))
    subprocess.run(["bash", "-euc", INTO_IGNITION[1]], cwd=tmp_path, check=True)
    made: dict[str, Any] = json.loads((tmp_path / "bootstrap-recorded.ign").read_text())
    return made


def content(file: dict[str, Any]) -> str:
    kind, data = file["contents"]["source"].split(",", 1)
    assert kind == "data:text/plain;charset=utf-8;base64"
    return base64.b64decode(data).decode()


needs_jq = pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")


@needs_jq
def test_config_replaces_the_shim_of_upstream(recorded: dict[str, Any]) -> None:
    (shim,) = [file for file in recorded["storage"]["files"] if file["path"] == SHIM]

    assert content(shim) == (REPOSITORY / "shell" / "bootstrap-service-record.sh").read_text()
    assert (shim["mode"], shim["overwrite"]) == (0o555, True)


@needs_jq
def test_config_has_the_drop_ins(recorded: dict[str, Any]) -> None:
    files = {file["path"]: file for file in recorded["storage"]["files"]}

    for path, origin, mode in [
        ("/usr/local/bin/service-record-exit.sh", "shell/service-record-exit.sh", 0o555),
        ("/usr/local/bin/service-record-close.sh", "shell/service-record-close.sh", 0o555),
        ("/usr/local/bin/service-record-failure.sh", "shell/service-record-failure.sh", 0o644),
        (
            "/etc/systemd/system/bootkube.service.d/10-service-record.conf",
            "units/10-service-record.conf",
            0o644,
        ),
        (
            "/etc/systemd/system/service.d/20-service-record-array.conf",
            "units/20-service-record-array.conf",
            0o644,
        ),
    ]:
        assert content(files[path]) == (REPOSITORY / origin).read_text()
        assert files[path]["mode"] == mode


@needs_jq
def test_rest_of_the_config_is_unchanged(recorded: dict[str, Any]) -> None:
    ours = [file for file in recorded["storage"]["files"] if "service-record" in file["path"]]

    assert [file for file in recorded["storage"]["files"] if file not in ours] == [ANOTHER]
    recorded["storage"]["files"] = CONFIG["storage"]["files"]  # type: ignore[index]
    assert recorded == CONFIG


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`((?:tests|units|shell)/[^`\s]*)`", PAGE))))
def test_paths_of_the_page_exist(named: str) -> None:
    assert (REPOSITORY / named).exists()
