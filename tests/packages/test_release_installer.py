"""`install.sh` of a release: one command on any host that has the folder."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from testing.debian import NoDebianError, rootfs
from tests.programs import REPOSITORY
from tests.standalone import can_be_built

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("executable"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not can_be_built(), reason="no gcc, Python.h or shared libpython: it cannot be had here"
    ),
]


@pytest.fixture
def host(tmp_path: Path, executable: Path) -> Path:
    """Return the root of a Debian without Python, with the folder of a release in /release."""
    try:
        tree = rootfs()
    except NoDebianError as error:
        pytest.skip(str(error))
    root = tmp_path / "host"
    subprocess.run(["cp", "--archive", "--reflink=auto", tree, root], check=True)
    release = root / "release"
    release.mkdir()
    machine = subprocess.run(["uname", "-m"], check=True, capture_output=True, text=True).stdout.strip()
    shutil.copy(executable, release / f"service-record-{machine}")
    shutil.copy(REPOSITORY / "packages/install.sh", release)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in release.iterdir()]
    (release / "SHA256SUMS").write_text("".join(sums))
    return root


def run(host: Path, *command: str) -> subprocess.CompletedProcess[str]:
    enter = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", enter, host, *command],
        check=False,
        capture_output=True,
        text=True,
    )


def test_one_command_installs_on_a_host_without_python(host: Path) -> None:
    done = run(host, "sh", "/release/install.sh", "--all-services")

    assert (done.returncode, done.stderr.splitlines()[0][:9]) == (0, "install: "), done.stderr
    assert run(host, "service-record", "show", "example:good").stdout.startswith("6 services: ")
    checks = run(host, "service-record", "doctor").stdout.splitlines()
    assert [line[0] for line in checks[:2]] == ["\u2713", "\u2713"], checks


def test_damaged_executable_is_refused(host: Path) -> None:
    (program,) = (host / "release").glob("service-record-*")
    with program.open("r+b") as file:
        file.seek(1 << 20)
        file.write(b"damage")

    done = run(host, "sh", "/release/install.sh")

    assert done.returncode == 1
    assert "checksum" in done.stderr
    assert not (host / "usr/local/bin/service-record").exists()


def test_missing_python_and_executable_is_an_error(host: Path) -> None:
    for program in (host / "release").glob("service-record-*"):
        program.unlink()

    done = run(host, "sh", "/release/install.sh")

    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "no Python 3.11 or newer" in done.stderr


def test_missing_module_of_debian_is_named(host: Path) -> None:
    """Debian's Python has no ensurepip; its package python3-venv has it."""
    for program in (host / "release").glob("service-record-*"):
        program.unlink()
    python = host / "usr/local/bin/python3"
    python.write_text("#!/bin/sh\ncase $2 in *ensurepip*) exit 1 ;; esac\n")
    python.chmod(0o755)

    done = run(host, "sh", "/release/install.sh")

    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "python3-venv" in done.stderr
