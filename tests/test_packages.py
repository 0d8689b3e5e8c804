"""The packages for Debian and Fedora: what is in them, what lintian says, and what they do to a root."""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from packages import deb, rpm
from service_record.cli import main
from service_record.deploy.contents import Item, Option, below, contents
from service_record.manual import pages
from service_record.records import Records
from tests.programs import REPOSITORY
from tests.trees import picture

DELIVERED = contents([Option.SHIM, Option.REPORTER], below("/usr"), pages(main))
TIMER = "boot-reporter.timer"
ENABLED = f"etc/systemd/system/timers.target.wants/{TIMER}"
needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="no dpkg-deb")
needs_rpm = pytest.mark.skipif(not shutil.which("rpmbuild"), reason="no rpmbuild")


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deb.build(tmp_path_factory.mktemp("deb"))


@pytest.fixture(scope="module")
def fedora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rpm.build(tmp_path_factory.mktemp("rpm"))


def run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compressed(item: Item) -> str:
    return f"{item.path}.gz" if "/man/" in item.path else item.path


@needs_dpkg
def test_the_debian_package_has_the_files_of_make_install(tmp_path: Path, debian: Path) -> None:
    run("dpkg-deb", "--extract", debian, tmp_path)
    found = {f"/{path.relative_to(tmp_path)}": path for path in tmp_path.rglob("*") if path.is_file()}
    own = ("/usr/share/doc/service-record/", "/usr/share/lintian/")
    assert {path for path in found if not path.startswith(own)} == set(map(compressed, DELIVERED))
    for item in DELIVERED:
        path = found[compressed(item)]
        assert path.stat().st_mode & 0o7777 == item.mode
        if path.suffix != ".gz":
            assert path.read_bytes() == item.data


@needs_dpkg
def test_the_debian_package_names_the_maintainer_of_pyproject(debian: Path) -> None:
    (author,) = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["authors"]
    assert run("dpkg-deb", "--field", debian, "Maintainer") == f"{author['name']} <{author['email']}>\n"


@needs_rpm
def test_the_rpm_package_names_the_same(fedora: Path) -> None:
    (author,) = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["authors"]
    named = run("rpm", "--query", "--package", "--queryformat", "%{PACKAGER}", fedora)
    assert named == f"{author['name']} <{author['email']}>"


@needs_dpkg
def test_lintian_has_nothing_to_say(debian: Path) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("no lintian")
    run("lintian", "--allow-root", "--fail-on", "error,warning", debian)


@needs_dpkg
def test_the_debian_package_is_the_same_each_time(tmp_path: Path, debian: Path) -> None:
    assert deb.build(tmp_path).read_bytes() == debian.read_bytes()


@needs_dpkg
def test_dpkg_installs_it_into_a_root_and_removes_all_but_the_records(tmp_path: Path, debian: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("dpkg wants to be root")
    root = tmp_path / "root"
    for directory in ("info", "updates"):
        (root / "var/lib/dpkg" / directory).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    before = files(root)
    dpkg = ("dpkg", "--root", root, "--force-depends", "--force-script-chrootless", "--log=/dev/null")
    run(*dpkg, "--install", debian)
    assert (root / "usr/share/service-record/10-service-record.conf").exists()
    assert not (root / ENABLED).is_symlink(), "it is for an administrator to enable it"
    records = root / "var/log/openshift"
    if shutil.which("systemd-tmpfiles"):
        assert records.stat().st_mode & 0o777 == 0o750
    run(
        "env", f"SERVICE_RECORDS_DIR={records}", "SERVICE_NAME=job",
        "bash", "-c", f". {root}/usr/bin/bootstrap-service-record.sh; record_service_stage_start first",
    )  # fmt: skip
    if shutil.which("systemctl"):
        run("systemctl", "--root", root, "enable", TIMER)
        assert (root / ENABLED).is_symlink()
    run(*dpkg, "--purge", "service-record")
    assert not (root / ENABLED).is_symlink()
    assert files(root) - before == {"var/log/openshift/job.json"}
    assert len(list(Records(records).read("job"))) == 4


def files(root: Path) -> set[str]:
    """The files below a root, without dpkg's own and the locks of programs that it ran."""
    own = ("var/lib/dpkg/", "run/")
    found = picture(root, with_times=False)
    return {path for path in found if (root / path).is_file() and not path.startswith(own)}


@needs_rpm
def test_the_rpm_package_has_the_files_of_make_install(fedora: Path) -> None:
    listed = run(
        "rpm", "--query", "--package", "--queryformat", "[%{FILENAMES} %{FILEMODES:octal}\n]", fedora
    )
    found = dict(line.split() for line in listed.splitlines())
    mine = {path: mode for path, mode in found.items() if not path.startswith("/usr/share/licenses/")}
    assert mine.pop("/usr/share/service-record") == "40755"
    assert {path.removesuffix(".gz"): mode for path, mode in mine.items()} == {
        item.path: f"10{item.mode:04o}" for item in DELIVERED
    }


@needs_rpm
def test_rpm_installs_it_into_a_root_and_removes_it(tmp_path: Path, fedora: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("rpm wants to be root")
    root = tmp_path / "root"
    root.mkdir()
    command = ("rpm", "--root", root, "--nodeps", "--noscripts")
    run(*command, "--ignoreos", "--install", fedora)
    shim = root / "usr/bin/bootstrap-service-record.sh"
    assert shim.stat().st_mode & 0o7777 == 0o755
    assert not (root / ENABLED).is_symlink(), "it is for an administrator to enable it"
    run(*command, "--erase", "service-record")
    assert not shim.exists()
    assert not (root / "usr/share/service-record").exists()


@needs_rpm
@pytest.mark.parametrize(
    ("versions_left", "told"), [(1, ""), (0, "--no-reload disable --now boot-reporter.timer\n")]
)
def test_rpm_disables_the_timer_with_the_last_version_and_not_with_an_upgrade(
    versions_left: int, told: str, tmp_path: Path, fedora: Path
) -> None:
    script = run("rpm", "--query", "--package", "--queryformat", "%{PREUN}", fedora)
    systemctl, calls = tmp_path / "systemctl", tmp_path / "calls"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >>{calls}\n')
    systemctl.chmod(0o755)
    calls.touch()
    run("env", f"PATH={tmp_path}:/usr/bin:/bin", "sh", "-c", script, "preun", versions_left)
    assert calls.read_text() == told
