"""The packages for Debian and Fedora: their files, what lintian and rpmlint say, what they do to a root."""

import gzip
import os
import re
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from packages import deb, rpm
from packages.manual import pages
from packages.stage import Package, items_of
from packages.standalone.__main__ import StandaloneError, leave_out
from packages.standalone.glibc import host_libraries, needs_of, written
from service_record.cli import main
from service_record.deploy.delivered import Option, choose_layout, contents
from service_record.record.directory import Records
from service_record.version import __version__
from tests.programs import REPOSITORY, skip_without
from tests.standalone import can_be_built
from tests.trees import read_tree

pytestmark = [
    pytest.mark.xdist_group("executable"),
    pytest.mark.timeout(900),  # the first of them may have to make the executable
]
LAYOUT = choose_layout("/usr")
PAGES = tuple(pages(main))
ITEMS = {package: items_of(package, LAYOUT, PAGES) for package in Package}
TIMER = "boot-reporter.timer"
ENABLED = f"etc/systemd/system/timers.target.wants/{TIMER}"
needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="no dpkg-deb")
needs_rpm = pytest.mark.skipif(not shutil.which("rpmbuild"), reason="no rpmbuild")
BOTH = ["shim", pytest.param("command", marks=pytest.mark.slow)]


@pytest.fixture(scope="session")
def program(request: pytest.FixtureRequest) -> Path:
    """The standalone executable, where it can be built."""
    if not can_be_built():
        pytest.skip("no gcc, Python.h or shared libpython: it cannot be had here")
    executable: Path = request.getfixturevalue("executable")
    return executable


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deb.build_shim(tmp_path_factory.mktemp("deb"))


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory, program: Path) -> Path:
    return deb.build_command(tmp_path_factory.mktemp("deb"), program)


@pytest.fixture
def debian(request: pytest.FixtureRequest) -> Path:
    package: Path = request.getfixturevalue(request.param)
    return package


@pytest.fixture(scope="module")
def fedora(tmp_path_factory: pytest.TempPathFactory, program: Path) -> dict[Package, Path]:
    built = rpm.build(tmp_path_factory.mktemp("rpm"), program)
    return dict(zip((Package.SHIM, Package.COMMAND), built, strict=True))


def run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def package_of(path: Path) -> Package:
    return Package.SHIM if "-shim" in path.name else Package.COMMAND


def delivered(package: Package) -> dict[str, tuple[int, str | None]]:
    """Path -> mode and target of a link: what a package has to have."""
    listed = {
        f"{item.path}.gz" if "/man/" in item.path else item.path: (
            0o777 if item.target else item.mode,
            item.target,
        )
        for item in ITEMS[package]
    }
    return listed | ({"/usr/bin/service-record": (0o755, None)} if package is Package.COMMAND else {})


def content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def test_files_and_man_pages_are_in_one_package() -> None:
    assert sorted([*ITEMS[Package.SHIM], *ITEMS[Package.COMMAND]], key=lambda item: item.path) == list(
        contents([Option.SHIM, Option.REPORTER], LAYOUT, PAGES)
    )
    for package in Package:
        programs = {Path(path).name for path in delivered(package) if path.startswith("/usr/bin/")}
        named = {Path(path).name for path in delivered(package) if "/man1/" in path}
        assert programs == {
            name.removesuffix(".1.gz") for name in named if not name.startswith("service-record-")
        } | ({"service-record-exit.sh"} if package is Package.SHIM else set())


@needs_dpkg
@pytest.mark.parametrize("debian", BOTH, indirect=True)
def test_debian_package_has_its_files(tmp_path: Path, debian: Path) -> None:
    run("dpkg-deb", "--extract", debian, tmp_path)
    package = package_of(debian)
    found = {
        f"/{path.relative_to(tmp_path)}": (
            path.lstat().st_mode & 0o7777,
            str(path.readlink()) if path.is_symlink() else None,
        )
        for path in tmp_path.rglob("*")
        if not path.is_dir() and "/share/doc/" not in str(path)
    }
    assert found == delivered(package)
    for item in ITEMS[package]:
        path = tmp_path / item.path.lstrip("/")
        path = path if path.exists() else path.with_name(f"{path.name}.gz")
        assert item.target or content(path) == item.data


@needs_dpkg
@pytest.mark.parametrize("debian", BOTH, indirect=True)
def test_debian_package_names_the_maintainer(debian: Path) -> None:
    (author,) = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["authors"]
    assert run("dpkg-deb", "--field", debian, "Maintainer") == f"{author['name']} <{author['email']}>\n"


@needs_dpkg
@pytest.mark.parametrize("debian", BOTH, indirect=True)
def test_lintian_passes_without_overrides(debian: Path) -> None:
    skip_without("lintian")
    assert run("lintian", "--allow-root", "--no-override", "--fail-on", "error,warning", debian) == ""


@needs_dpkg
def test_debian_package_is_reproducible(tmp_path: Path, shim: Path) -> None:
    assert deb.build_shim(tmp_path).read_bytes() == shim.read_bytes()


@needs_rpm
@pytest.mark.slow
def test_rpm_packages_are_reproducible(tmp_path: Path, fedora: dict[Package, Path], program: Path) -> None:
    again = rpm.build(tmp_path, program)
    assert [each.read_bytes() for each in again] == [each.read_bytes() for each in fedora.values()]


@needs_dpkg
def test_dpkg_removes_all_but_the_records(tmp_path: Path, shim: Path) -> None:
    root, dpkg = empty_debian(tmp_path)
    before = files(root)
    run(*dpkg, "--install", shim)
    assert (root / "usr/share/service-record/10-service-record.conf").exists()
    records = root / "var/log/openshift"
    if shutil.which("systemd-tmpfiles"):
        assert records.stat().st_mode & 0o777 == 0o750
    of_systemd = (f"SERVICE_RECORDS_DIR={records}", "SERVICE_NAME=job", f"INVOCATION_ID={'7' * 32}")
    script = f". {root}/usr/bin/bootstrap-service-record.sh; record_service_stage_start first; kill -KILL $$"
    subprocess.run(["env", *of_systemd, "bash", "-c", script], check=False)
    result = ("SERVICE_RESULT=signal", "EXIT_CODE=killed", "EXIT_STATUS=KILL")
    run("env", *of_systemd, *result, root / "usr/bin/service-record-exit.sh")
    run(*dpkg, "--purge", "service-record-shim")
    assert files(root) - before == {"var/log/openshift/job.json"}
    assert len(list(Records(records).read("job"))) == 4


@needs_dpkg
@pytest.mark.slow
def test_debian_packages_work_with_their_dependencies(
    tmp_path: Path, shim: Path, command: Path, program: Path
) -> None:
    root, dpkg = empty_debian(tmp_path)
    run(*dpkg, "--install", shim, command)
    assert not (root / ENABLED).is_symlink(), "it is for an administrator to enable it"
    fields = run("dpkg-deb", "--show", "--showformat", "${Depends}", command).split(", ")
    assert f"libc6 (>= {written(needs_of(program)[0].version)})" in fields
    assert f"service-record-shim (= {__version__})" in fields
    assert ("libexpat1" in fields) == ("libexpat.so.1" in host_libraries(program))
    copy_libraries(root, (field.split(" ")[0] for field in fields if not field.startswith("service-record")))

    script = root / "usr/bin/job.sh"
    script.write_text(
        ". bootstrap-service-record.sh\nrecord_service_stage_start first\ncp /no/such/file /tmp\n"
    )
    environment = (f"SERVICE_RECORDS_DIR={root}/var/log/openshift", "SERVICE_NAME=job")
    failing = ["env", *environment, f"PATH={root}/usr/bin:{os.environ['PATH']}", "bash", "-e", str(script)]
    assert subprocess.run(failing, check=False, capture_output=True).returncode == 1
    assert inside(root, "--version") == f"service-record, version {__version__}\n"
    shown = inside(root, "show")
    assert "✗ job failed in stage first" in shown
    assert "job.sh:3 in main" in re.sub(r"\n +", "", shown)

    if shutil.which("systemctl"):
        run("systemctl", "--root", root, "enable", TIMER)
        assert (root / ENABLED).is_symlink()
    run(*dpkg, "--purge", "service-record")
    assert not (root / ENABLED).is_symlink()


@needs_dpkg
@pytest.mark.slow
def test_reporter_unit_runs_the_packaged_program(tmp_path: Path, command: Path) -> None:
    run("dpkg-deb", "--extract", command, tmp_path)
    unit = (tmp_path / "usr/lib/systemd/system/boot-reporter.service").read_text()
    programs = re.findall(r"^(?:ExecStart|ConditionFileIsExecutable)=(\S+)", unit, re.MULTILINE)
    assert len(programs) == 2
    for path in programs:
        assert os.access(tmp_path / path.lstrip("-/"), os.X_OK)  # `-`: a failure is not one of the unit


@pytest.mark.slow
def test_only_installed_libraries_are_left_out(tmp_path: Path, program: Path) -> None:
    with pytest.raises(StandaloneError, match=r"does not hold libnone\.so\.1"):
        leave_out("libnone.so.1", program, tmp_path / "made")


def empty_debian(directory: Path) -> tuple[Path, tuple[object, ...]]:
    """A root of dpkg without a package, and the dpkg of it."""
    if os.geteuid() != 0:
        pytest.skip("dpkg wants to be root")
    root = directory / "root"
    for name in ("info", "updates"):
        (root / "var/lib/dpkg" / name).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    options = ("--force-depends", "--force-script-chrootless", "--log=/dev/null")
    return root, ("dpkg", "--root", root, *options)


def copy_libraries(root: Path, packages: Iterable[str]) -> None:
    """Have a root hold the shared libraries of these packages, as this host has them."""
    for package in packages:
        listed = subprocess.run(["dpkg", "--listfiles", package], check=False, capture_output=True, text=True)
        if listed.returncode != 0:
            pytest.skip(f"this host has no package {package}")
        for path in map(Path, listed.stdout.split()):
            if ".so" in path.suffixes and path.is_file():
                place = root / str(path).lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, place)


def inside(root: Path, *arguments: str) -> str:
    """Return the output of the installed command in the root, which has no shell and no Python."""
    (root / "proc").mkdir(exist_ok=True)
    enter = 'mount -t proc proc "$0/proc" && exec chroot "$0" /usr/bin/service-record "$@"'
    return run("unshare", "--mount", "--pid", "--fork", "sh", "-c", enter, root, *arguments)


def files(root: Path) -> set[str]:
    """The files below a root, without dpkg's own and the locks of programs that it ran."""
    own = ("var/lib/dpkg/", "run/")
    found = read_tree(root, with_times=False)
    return {path for path in found if (root / path).is_file() and not path.startswith(own)}


@needs_rpm
@pytest.mark.slow
def test_rpm_packages_name_the_maintainer(fedora: dict[Package, Path]) -> None:
    (author,) = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["authors"]
    for package in fedora.values():
        assert query(package, "%{PACKAGER}") == f"{author['name']} <{author['email']}>"


@needs_rpm
@pytest.mark.slow
@pytest.mark.parametrize("package", Package)
def test_rpm_package_has_its_files(package: Package, fedora: dict[Package, Path]) -> None:
    listed = query(fedora[package], "[%{FILENAMES} %{FILEMODES:octal} %{FILELINKTOS}\n]").splitlines()
    rows = [line.split(" ") for line in listed if not line.startswith("/usr/share/licenses/")]
    directories = {path: int(mode, 8) & 0o7777 for path, mode, _ in rows if stat.S_ISDIR(int(mode, 8))}
    assert "/usr/share/service-record" in directories
    assert all("service-record" in path and mode == 0o755 for path, mode in directories.items())
    found = {path: (int(mode, 8) & 0o7777, target or None) for path, mode, target in rows}
    assert {path: what for path, what in found.items() if path not in directories} == delivered(package)


@needs_rpm
@pytest.mark.slow
def test_rpmlint_finds_no_error(fedora: dict[Package, Path]) -> None:
    """But for the signature, which is made with the key of whoever publishes them."""
    if shutil.which("rpmlint") is None:
        pytest.skip("no rpmlint: it cannot be had here")
    output = subprocess.run(["rpmlint", *fedora.values()], check=False, capture_output=True, text=True).stdout
    assert "packages: 2" in output
    assert [
        line for line in output.splitlines() if ": E: " in line and not line.endswith("E: no-signature")
    ] == []


@needs_rpm
@pytest.mark.slow
def test_rpm_requires_the_glibc_of_its_executable(program: Path, fedora: dict[Package, Path]) -> None:
    needed = query(fedora[Package.COMMAND], "[%{REQUIRENEVRS}\n]").splitlines()
    assert f"glibc >= {written(needs_of(program)[0].version)}" in needed
    assert f"service-record-shim = {__version__}" in needed


@needs_rpm
@pytest.mark.slow
def test_rpm_installs_and_removes_both_packages(tmp_path: Path, fedora: dict[Package, Path]) -> None:
    if os.geteuid() != 0:
        pytest.skip("rpm wants to be root")
    root = tmp_path / "root"
    root.mkdir()
    command = ("rpm", "--root", root, "--nodeps", "--noscripts")
    run(*command, "--ignoreos", "--ignorearch", "--install", *fedora.values())
    shim = root / "usr/bin/bootstrap-service-record.sh"
    assert "record_service_stage_start" in shim.read_text()
    assert run(root / "usr/bin/service-record", "--version") == f"service-record, version {__version__}\n"
    assert not (root / ENABLED).is_symlink(), "it is for an administrator to enable it"
    run(*command, "--erase", "service-record", "service-record-shim")
    assert not shim.is_symlink()
    assert not (root / "usr/share/service-record").exists()


@needs_rpm
@pytest.mark.slow
@pytest.mark.parametrize(
    ("versions_left", "expected"), [(1, ""), (0, "--no-reload disable --now boot-reporter.timer\n")]
)
def test_rpm_disables_timer_only_on_removal(
    versions_left: int, expected: str, tmp_path: Path, fedora: dict[Package, Path]
) -> None:
    script = query(fedora[Package.COMMAND], "%{PREUN}")
    systemctl, calls = tmp_path / "systemctl", tmp_path / "calls"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >>{calls}\n')
    systemctl.chmod(0o755)
    calls.touch()
    run("env", f"PATH={tmp_path}:/usr/bin:/bin", "sh", "-c", script, "preun", versions_left)
    assert calls.read_text() == expected


def query(package: Path, form: str) -> str:
    return run("rpm", "--query", "--package", "--queryformat", form, package)
