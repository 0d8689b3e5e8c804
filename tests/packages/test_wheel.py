"""The wheel and the source distribution, used without the checkout."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from hatch_build import with_absolute_links
from service_record.diagnosis.causes import PARSED, parse_rules
from tests.archives import extract_all
from tests.command_line import Answer, service_record
from tests.programs import REPOSITORY
from tests.trees import read_tree

ALL_PARTS = ("--shim", "--all-services", "--array", "--reporter")
SITE_PACKAGES = sysconfig.get_path("purelib")


def build_package(
    directory: Path, kind: str, source: Path = REPOSITORY, umask: int = -1, **environment: str
) -> Path:
    """Build the wheel or sdist of a source tree with hatchling, as pip does, and return its path."""
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(directory), "--target", kind]
    subprocess.run(
        build, cwd=source, env=os.environ | environment, umask=umask, check=True, capture_output=True
    )
    (made,) = directory.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_package(tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """Install the wheel with pip into a directory, and return the directory."""
    directory = tmp_path_factory.mktemp("library") / "packages"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", "--target", directory, wheel], check=True)
    return directory


def test_wheel_has_the_examples(library: Path, tmp_path: Path) -> None:
    command = "from service_record.cli import main; main(prog_name='service-record')"
    environment = os.environ | {"PYTHONPATH": f"{library}:{SITE_PACKAGES}"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", command, "show", "example:failed-stage"],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.startswith("6 services: 2 failed")


def test_description_has_only_absolute_links(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        description = archive.read(name).decode()
    assert "# service-record" in description
    assert "Install, upgrade and remove" in description
    assert not re.findall(r"\]\((?!https?://|#)", description)


def test_relative_links_become_links_to_the_source_repository() -> None:
    text = "[a](docs/a.md#b), [c](https://example.org/), [d](#e)"
    absolute = "[a](https://forge.example/x/blob/HEAD/docs/a.md#b), [c](https://example.org/), [d](#e)"
    assert with_absolute_links(text, "https://forge.example/x/") == absolute
    assert with_absolute_links(text, None) == "a, [c](https://example.org/), [d](#e)"


def run_wheel(library: Path, *arguments: object) -> Answer:
    """Run the `service-record` of the wheel. -I and -S hide the checkout, which is an editable install."""
    program = f"""
import sys
sys.path += {[str(library), SITE_PACKAGES]!r}
import service_record
assert service_record.__file__.startswith({str(library)!r}), service_record.__file__
from service_record.cli import main
main(prog_name="service-record")
"""
    done = subprocess.run(
        [sys.executable, "-ISB", "-c", program, *map(str, arguments)],
        cwd=library,
        capture_output=True,
        text=True,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def test_wheel_and_checkout_install_the_same_files(tmp_path: Path, library: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for root in (ours, theirs):
        root.mkdir()
    answer = run_wheel(library, "install", "--root", theirs, *ALL_PARTS)
    assert answer.status == 0, answer.err
    assert service_record("install", "--root", ours, *ALL_PARTS).status == 0
    note = Path("var/lib/service-record/installed.json")
    for root in (ours, theirs):
        (root / note).unlink()  # it contains the times of directories
    assert (theirs / "usr/local/share/man").is_dir()
    # The wheel always has man pages and completions; a checkout has them only after `make man`.
    wheel_files, checkout_files = (
        {
            path: facts
            for path, facts in read_tree(root, with_times=False).items()
            if not path.startswith("usr/local/share")
        }
        for root in (theirs, ours)
    )
    assert wheel_files == checkout_files


def test_wheel_has_a_command_that_shows_records(library: Path) -> None:
    assert (library / "bin/service-record").exists()
    answer = run_wheel(library, "show", "--from", REPOSITORY / "docs/examples/failed-stage")
    assert answer.status == 0, answer.err
    assert "bootkube failed" in answer.out


def test_missing_wheel_file_is_one_error_line(tmp_path: Path, library: Path) -> None:
    incomplete = tmp_path / "library"
    shutil.copytree(library, incomplete)
    (incomplete / "service_record/host/shell/service-record-exit.sh").unlink()
    root = tmp_path / "root"
    root.mkdir()
    answer = run_wheel(incomplete, "install", "--root", root)
    assert (answer.status, answer.out) == (3, "")
    assert answer.err == (
        "Error: shell/service-record-exit.sh: missing from this installation of service-record; "
        "install it anew\n"
    )
    assert list(root.iterdir()) == []


def test_wheel_has_no_tests_and_no_build_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"service_record"}


def test_wheel_has_the_parsed_rules(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"service_record/diagnosis/{PARSED}") == parse_rules()


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build and unpack the source archive, and return its top directory."""
    directory = tmp_path_factory.mktemp("sources")
    with tarfile.open(build_package(directory / "sdist", "sdist")) as archive:
        extract_all(archive, directory / "unpacked")
    (folder,) = (directory / "unpacked").iterdir()
    return folder


def test_source_archive_makes_the_same_wheel(tmp_path: Path, wheel: Path, unpacked: Path) -> None:
    again = build_package(tmp_path / "wheel", "wheel", unpacked)
    assert again.read_bytes() == wheel.read_bytes()


@pytest.fixture
def without_click(tmp_path: Path) -> str:
    """Return a PYTHONPATH that hides click, as if it were not installed."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "click.py").write_text("raise ModuleNotFoundError(\"No module named 'click'\", name='click')\n")
    return str(hidden)


def test_wheel_is_the_same_without_runtime_libraries(
    tmp_path: Path, wheel: Path, unpacked: Path, without_click: str
) -> None:
    again = build_package(tmp_path / "wheel", "wheel", unpacked, PYTHONPATH=without_click)
    assert again.read_bytes() == wheel.read_bytes()


def test_build_from_checkout_fails_without_click(tmp_path: Path, without_click: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        build_package(tmp_path / "wheel", "wheel", PYTHONPATH=without_click)
    assert b"No click: man pages and completions cannot be made." in refused.value.stderr
    assert not list(tmp_path.glob("wheel/*"))


def copy_checkout(directory: Path) -> Path:
    """Copy the checkout, with other file times and with files that the group may write."""
    left_out = shutil.ignore_patterns(".git", ".cache", ".venv", "build", "dist", "__pycache__", ".*_cache")
    shutil.copytree(REPOSITORY, directory, symlinks=True, ignore=left_out)
    for path in directory.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o020)
            os.utime(path, (1_600_000_000, 1_600_000_000))
    # The tests keep bytecode in directories whose names are not UTF-8.
    (directory / os.fsdecode(b".cache/bytecode/odd-\xff")).mkdir(parents=True)
    (directory / os.fsdecode(b".cache/bytecode/odd-\xff/script.pyc")).touch()
    return directory


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_builds_are_reproducible(tmp_path: Path, kind: str) -> None:
    source = copy_checkout(tmp_path / "elsewhere")
    elsewhere = {"TZ": "Asia/Kolkata", "LC_ALL": "C", "HOME": str(tmp_path), "PYTHONHASHSEED": "7"}
    other = build_package(tmp_path / "theirs", kind, source, umask=0o077, **elsewhere)
    own = build_package(tmp_path / "ours", kind)
    assert other.name == own.name
    assert other.read_bytes() == own.read_bytes()
