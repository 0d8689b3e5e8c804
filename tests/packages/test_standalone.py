"""The standalone executable: small, quick, and at home where there is nothing but libc."""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from packages.standalone.__main__ import StandaloneError, oldest_libc
from packages.standalone.glibc import host_libraries, needs, parsed, written
from packages.standalone.glibc import inside as inside_of
from service_record.version import __version__
from tests.command_line import Answer, service_record
from tests.programs import REPOSITORY
from tests.standalone import can_be_built

MOST_BYTES = 25 << 20
MOST_SECONDS = 4.0
"""Ten times what is promised: other tests may run beside this one."""
EXAMPLE = REPOSITORY / "docs/examples/failed-stage"
pytestmark = [
    pytest.mark.xdist_group("executable"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not can_be_built(), reason="no gcc, Python.h or shared libpython: it cannot be had here"
    ),
]


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory, executable: Path) -> Path:
    """A root with this executable, libc, and nothing else: no Python, no shell, no /tmp."""
    if os.geteuid() != 0:
        pytest.skip("not root")
    root = tmp_path_factory.mktemp("bare")
    for library in re.findall(r"(/\S+)", run("ldd", executable).out):
        place = root / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    of_libc = Path(re.findall(r"libc\.so\.6 => (/\S+)/libc\.so\.6", run("ldd", executable).out)[0])
    for name in ("libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"):
        if (of_libc / name).exists():
            shutil.copy(of_libc / name, root / str(of_libc).lstrip("/"))
    for directory in ("proc", "usr/local/bin", "work"):
        (root / directory).mkdir(parents=True, exist_ok=True)
    shutil.copy(executable, root / "usr/local/bin")
    shutil.copytree(EXAMPLE, root / "records")
    return root


def run(*command: object, cwd: Path | None = None) -> Answer:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        cwd=cwd,
        env={"PATH": os.environ["PATH"]},
        check=False,
        timeout=120,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def inside(root: Path, *arguments: object) -> Answer:
    """The executable in the root, with a /proc and with nothing of ours in the environment."""
    enter = 'mount -t proc proc "$0/proc" && exec chroot "$0" /usr/local/bin/service-record "$@"'
    return run("unshare", "--mount", "--pid", "--fork", "sh", "-c", enter, root, *arguments)


def test_executable_is_small_and_needs_only_libc(executable: Path) -> None:
    assert executable.stat().st_size <= MOST_BYTES
    linked = run("readelf", "--dynamic", executable).out
    assert set(re.findall(r"\(NEEDED\).*\[(.+)\]", linked)) <= {"libc.so.6", "libdl.so.2"}


def test_make_names_required_glibc_and_its_symbols(tmp_path: Path, executable: Path) -> None:
    parts = inside_of(executable, tmp_path)
    found = {
        version for part in parts for version in re.findall(rb"\0GLIBC_([0-9.]+)(?=\0)", part.read_bytes())
    }
    newest = written(max(parsed(version.decode()) for version in found))
    assert f"needs glibc {newest};" in executable.with_name("make.txt").read_text()
    answer = run(sys.executable, "-m", "packages.standalone.glibc", executable, cwd=REPOSITORY)
    first, *reasons = answer.out.splitlines()
    assert first == f"{executable} needs glibc {newest}"
    names = {part.name for part in parts}
    assert reasons
    assert all(reason.strip().partition(":")[0] in names for reason in reasons)
    taken = host_libraries(executable)
    assert all(name in executable.with_name("make.txt").read_text() for name in taken)
    assert parsed(newest) <= parsed(str(os.confstr("CS_GNU_LIBC_VERSION")).removeprefix("glibc "))


def test_executable_has_the_examples(executable: Path) -> None:
    for example, services in {"example:failed-stage": 6, "example:upstream": 5}.items():
        assert run(executable, "show", example).out.startswith(f"{services} services: ")


def test_build_refuses_an_older_glibc(tmp_path: Path, executable: Path) -> None:
    parts = inside_of(executable, tmp_path)
    newest = needs(parts)[0]
    assert oldest_libc(parts, written(newest.version)) == written(newest.version)
    with pytest.raises(StandaloneError, match=f"not 2.2 .*{re.escape(str(newest))}"):
        oldest_libc(parts, "2.2")


def test_executable_starts_quickly(executable: Path) -> None:
    taken = []
    for _ in range(5):
        began = time.monotonic()
        assert run(executable, "--version").out == f"service-record, version {__version__}\n"
        taken.append(time.monotonic() - began)
    assert statistics.median(taken) < MOST_SECONDS


def test_missing_feature_is_one_error(executable: Path) -> None:
    for extra, *arguments in (
        ("otlp", "ship", "--to", "otlp+https://127.0.0.1:1"),
        ("triage", "triage", "."),
        ("collector", "collector", "serve"),
    ):
        answer = run(executable, *arguments)
        assert (answer.status, answer.err.count("\n")) == (2, 1), answer.err
        assert "not in this executable" in answer.err
        assert f"service-record[{extra}]" in answer.err


def test_executable_analyzes_with_only_libc(bare: Path) -> None:
    answer = inside(bare, "analyze", "--from", "/records")
    assert (answer.status, answer.err) == (1, "")
    assert "bootkube in stage cvo-bootstrap" in answer.out
    assert "dns-no-such-name" in answer.out


def test_executable_completes_reporting_with_only_libc(bare: Path) -> None:
    (bare / "var/log/openshift").mkdir(parents=True, exist_ok=True)
    shutil.copytree(EXAMPLE, bare / "var/log/openshift", dirs_exist_ok=True)
    (bare / "usb").mkdir(exist_ok=True)
    settings = bare / "etc/service-record/reporter.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    # The reporter ends after 24 hours of uptime by default, and this machine may have been up for longer.
    settings.write_text('ship_to = ["/usb"]\nlifetime = "720h"\nremove = ["/usr/local/bin/service-record"]\n')
    answer = inside(bare, "report")
    assert answer.status == 0, answer.err
    assert (bare / "var/lib/service-record/reporter.json").exists()
    (bundle,) = (bare / "usb").iterdir()
    with tarfile.open(bundle) as archive:
        assert "verdict.txt" in {Path(name).name for name in archive.getnames()}
    answer = inside(bare, "report", "--stop")
    assert answer.status == 0, answer.err
    assert not (bare / "usr/local/bin/service-record").exists(), "it removes itself while it runs"
    assert (bare / "var/lib/service-record/reporter.stopped").exists()


def test_executable_bundles_and_delivers_like_the_checkout(tmp_path: Path, executable: Path) -> None:
    bundled = run(executable, "bundle", "--redact", EXAMPLE, "-o", tmp_path / "bundle.tar.gz")
    assert bundled.status == 0, bundled.err
    with tarfile.open(tmp_path / "bundle.tar.gz") as archive:
        assert "failed-stage/bootkube.json" in archive.getnames()
    root = tmp_path / "root"
    root.mkdir()
    assert run(executable, "install", "--root", root, "--reporter", "--shim").status == 0
    for name in ("bootstrap-service-record.sh", "service-record-exit.sh"):
        assert (root / "usr/local/bin" / name).read_bytes() == (REPOSITORY / "shell" / name).read_bytes()
    finder = (root / "usr/local/share/service-record/service-record-failure.sh").read_bytes()
    assert finder == (REPOSITORY / "shell/service-record-failure.sh").read_bytes()
    made = run(executable, "ignition", "--role", "worker")
    assert made.status == 0, made.err
    assert "bootstrap-service-record.sh" in made.out


def test_executable_has_the_pages_of_the_checkout(executable: Path) -> None:
    page = ("analyze", "--utc", "--output", "html", "--from", EXAMPLE)
    answer = run("env", "SOURCE_DATE_EPOCH=1795564800", executable, *page)
    assert (answer.status, answer.err) == (1, "")
    assert answer.out == service_record(*page, SOURCE_DATE_EPOCH="1795564800").out


def test_executable_unpacks_nothing_and_cleans_environment(tmp_path: Path, executable: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    trace = tmp_path / "trace"
    run("strace", "-f", "-e", "trace=%file,mprotect,mmap", "-o", trace, executable, "--version")
    output = trace.read_text()
    assert not re.findall(r"O_CREAT", output)
    assert not re.findall(r"PROT_WRITE\|PROT_EXEC", output)
    records = f"SERVICE_RECORDS_DIR={tmp_path}"
    child = run("env", records, executable, "run", "--", "env")
    assert child.status == 0, child.err
    assert records in child.out
    assert "LD_LIBRARY_PATH" not in child.out
    assert "PYTHON" not in child.out
