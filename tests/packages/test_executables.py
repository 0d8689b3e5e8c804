"""What `make executables` made, started where there is only the glibc of Debian 11, 2.31.

To make them takes half an hour the first time, so that only `make test-executables` does it.
"""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from packages.standalone.glibc import needs_of, parsed
from service_record.version import __version__
from tests.command_line import Answer
from tests.programs import REPOSITORY

MADE = REPOSITORY / "build/executables"
DEBIAN = REPOSITORY / ".cache"
ROOTS = {"x86_64": DEBIAN / "debian11", "aarch64": DEBIAN / "debian11-aarch64"}
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
OLDEST_GLIBC = (2, 31)
"""Of Debian 11. RHCOS has 2.34 from OpenShift 4.13 on; older ones, with RHEL 8's 2.28, are not reached."""
EXAMPLE = REPOSITORY / "docs/examples/failed-stage"
PROGRAM = "usr/local/bin/service-record"
SECONDS = 300
architectures = pytest.mark.parametrize("architecture", ROOTS)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        not (MADE / "SHA256SUMS").exists(),
        reason="make test-executables makes them, in half an hour: it cannot be had here as quickly",
    ),
]


@pytest.fixture(params=ROOTS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A root with glibc 2.31 and the executable, and nothing else: no Python, no shell."""
    architecture: str = request.param
    if os.geteuid() != 0:
        pytest.skip("not root")
    debian = ROOTS[architecture]
    if not debian.exists():
        pytest.skip(f"no {debian}: make test-executables makes it; it cannot be had here as quickly")
    for library in _libraries_of_libc(debian):
        place = tmp_path / library.relative_to(debian)
        place.parent.mkdir(parents=True, exist_ok=True)
        # A link of the root, as ld-linux's in lib64, leads from that root's top.
        target = debian / str(library.readlink()).lstrip("/") if library.is_symlink() else library
        shutil.copy(target if target.exists() else library, place)
    for name in ("proc", "dev", "usr/local/bin", "var/lib"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(MADE / f"service-record-{architecture}", tmp_path / PROGRAM)
    shutil.copytree(EXAMPLE, tmp_path / "var/log/openshift")
    if architecture != os.uname().machine:
        emulator = shutil.which(f"qemu-{architecture}-static")
        if emulator is None:
            pytest.skip(f"no qemu-{architecture}-static (package qemu-user-static): it cannot be had here")
        shutil.copy(emulator, tmp_path / "emulator")
    return tmp_path


def _libraries_of_libc(debian: Path) -> list[Path]:
    """The files of the package libc6 that a program loads; the linker where programs expect it."""
    names = re.compile(r"(ld-linux.*|lib(c|m|dl|pthread|rt|util|resolv|nss_files|nss_dns))\.so\.\d+")
    found = [path for folder in ("lib", "lib64") for path in (debian / folder).rglob("*.so.*")]
    return [path for path in found if names.fullmatch(path.name)]


def run(root: Path, *arguments: str) -> Answer:
    """The executable in the root, with a /proc, by the emulator where it is of another architecture."""
    enter = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    program = [f"/{PROGRAM}"]
    if (root / "emulator").exists():
        program = ["/emulator", *program]
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", enter, str(root), *program, *arguments],
        capture_output=True,
        env={"PATH": os.environ["PATH"]},
        check=False,
        timeout=SECONDS,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_executable_prints_version_and_verbs(root: Path) -> None:
    assert run(root, "--version").out == f"service-record, version {__version__}\n"
    helped = run(root, "--help")
    assert (helped.status, helped.err) == (0, "")
    assert {"analyze", "show", "report", "snippet"} <= set(re.findall(r"^  (\w+)", helped.out, re.MULTILINE))


def test_executable_shows_records(root: Path) -> None:
    shown = run(root, "show")
    assert (shown.status, shown.err) == (0, "")
    assert "cvo-bootstrap" in shown.out


def test_executable_runs_a_dry_round(root: Path) -> None:
    (root / "etc/service-record").mkdir(parents=True)
    (root / "etc/service-record/reporter.toml").write_text('ship_to = ["/usb"]\nlifetime = "720h"\n')
    answer = run(root, "report", "--dry-run")
    assert answer.status == 0, answer.err
    assert re.match(r"verdict: .*\nservice: not asked\ndirectory:/usb: ", answer.out)
    assert not (root / "usb").exists()
    assert not (root / "var/lib/service-record").exists()


@architectures
def test_executable_has_architecture_and_glibc_limit(architecture: str) -> None:
    executable = MADE / f"service-record-{architecture}"
    header = subprocess.run(
        ["readelf", "--file-header", executable], capture_output=True, text=True, check=True
    )
    assert re.search(rf"Machine:\s+{MACHINES[architecture]}$", header.stdout, re.MULTILINE)
    assert needs_of(executable)[0].version <= OLDEST_GLIBC
    assert parsed("2.9") < OLDEST_GLIBC


def test_checksums_cover_both_executables(tmp_path: Path) -> None:
    lines = (MADE / "SHA256SUMS").read_text().splitlines()
    sums = {f"service-record-{name}": MADE / f"service-record-{name}" for name in ROOTS}
    assert lines == [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}" for name, path in sums.items()
    ]
