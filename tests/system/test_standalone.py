"""The standalone executable as the boot reporter, in its delivered unit under a real systemd."""

import shutil
from pathlib import Path

import pytest

from tests.assisted_installation import LOCAL_IGNITION
from tests.assisted_server import create_server_with_tokens
from tests.standalone import can_be_built
from tests.system.reporter_host import TOKEN, ReporterHost
from tests.system.unix_relay import relay

pytestmark = [
    pytest.mark.xdist_group("executable"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not can_be_built(), reason="no gcc, Python.h or shared libpython: it cannot be had here"
    ),
]


def test_reporter_works_within_its_sandbox(tmp_path: Path, executable: Path) -> None:
    with create_server_with_tokens() as server:
        installed = server.rules.add_rebooting_host(TOKEN)
        host = ReporterHost(tmp_path, installed)
        shutil.copy(executable, tmp_path / "programs/service-record")
        host.machine.bash_service("bootkube", "record_service_stage_start pull-image; ls /no/such/image")
        host.write_file("ignition-machine-config-encapsulated.json", "{}")
        with relay(host.observed / "assisted.socket", server.port):
            output = host.boot("""
                systemctl show --property=MemoryDenyWriteExecute boot-reporter
                start bootkube; rest bootkube; round
                systemctl show --property=Result boot-reporter
            """)
        assert output == "MemoryDenyWriteExecute=yes\nResult=success\n"
        assert installed.stage == "Rebooting"
        assert installed.info.startswith(f"{LOCAL_IGNITION}. failed: bootkube")
        (bundle,) = server.rules.objects.values()
        assert TOKEN.encode() not in bundle
