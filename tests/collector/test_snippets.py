"""Snippets, run against a real collector: from the boot loader to the first boot."""

import subprocess
from pathlib import Path

import pytest

from service_record.collector.serving_settings import CollectorSettings
from tests.collector.serving import served
from tests.deploy.test_snippets import Installed, Installer, shell_of, snippet_of


@pytest.mark.parametrize("kind", ["kickstart", "preseed"])
@pytest.mark.parametrize("shell", ["dash", "busybox"])
def test_host_is_visible_from_image_to_first_boot(
    kind: str, shell: str, tmp_path: Path, sqlite_settings: CollectorSettings
) -> None:
    host = Installer(tmp_path / "host", shell)
    with served(sqlite_settings) as server:
        host.token.write_text(f"{server.client('host', 'web1').token}\n")
        boot_token = server.client("boot", "web1").token
        line = snippet_of("ipxe", "--url", server.url)
        address = line.split()[3].replace("${service-record-token}", boot_token)
        # As iPXE: a GET without any header of ours, whose answer has to be 200.
        fetched = subprocess.run(["curl", "-sf", address], capture_output=True, check=True)
        given = ("--url", server.url, "--host", "web1", "--token-file", host.token)
        for piece in shell_of(kind, snippet_of(kind, *given))[: 1 if kind == "kickstart" else 2]:
            assert host.run(piece, "-eu").returncode == 0
        system = Installed(kind, host, *given[:4])
        server.settle()
        installing = server.client("admin").get("/api/v1/hosts/web1").json
        system.boot()
        server.settle()
        done = server.client("admin").get("/api/v1/hosts/web1").json

    assert fetched.stdout == b"#!ipxe\n"
    assert (installing["summary"]["verdict"], done["summary"]["verdict"]) == ("progressing", "done")
    names = [step["name"] for repeated in done["steps"] for step in repeated["first"]]
    assert names[0] == "Image downloaded"
    assert names[-1] == "Booted from disk"
    assert "Packages are installed" in names
    assert ("Partitioning" in names) == (kind == "preseed")
    assert len(done["builds"]) == 1
