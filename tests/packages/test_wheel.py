"""The wheel and the source distribution, as people get them: with nothing of the checkout."""

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
from tests.trees import picture

EVERYTHING = ("--shim", "--all-services", "--array", "--reporter")
WHAT_ELSE_IT_NEEDS = sysconfig.get_path("purelib")


def built(directory: Path, kind: str, source: Path = REPOSITORY, umask: int = -1, **environment: str) -> Path:
    """The wheel or sdist that hatchling, which pip has build it, makes of a source tree."""
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(directory), "--target", kind]
    there = os.environ | environment
    subprocess.run(build, cwd=source, env=there, umask=umask, check=True, capture_output=True)
    (made,) = directory.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """The directory that pip unpacked the wheel to."""
    directory = tmp_path_factory.mktemp("library") / "packages"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", "--target", directory, wheel], check=True)
    return directory


def test_examples_come_with_the_wheel(library: Path, tmp_path: Path) -> None:
    command = "from service_record.cli import main; main(prog_name='service-record')"
    there = os.environ | {"PYTHONPATH": f"{library}:{WHAT_ELSE_IT_NEEDS}"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", command, "show", "example:failed-stage"],
        cwd=tmp_path,
        env=there,
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.startswith("6 services: 2 failed")


def test_the_description_has_no_link_that_an_index_could_not_follow(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        description = archive.read(name).decode()
    assert "# service-record" in description
    assert "Install, upgrade and remove" in description
    assert not re.findall(r"\]\((?!https?://|#)", description)


def test_links_of_the_description_lead_to_the_source_where_one_is_named() -> None:
    text = "[a](docs/a.md#b), [c](https://example.org/), [d](#e)"
    absolute = "[a](https://forge.example/x/blob/HEAD/docs/a.md#b), [c](https://example.org/), [d](#e)"
    assert with_absolute_links(text, "https://forge.example/x/") == absolute
    assert with_absolute_links(text, None) == "a, [c](https://example.org/), [d](#e)"


def from_wheel(library: Path, *arguments: object) -> Answer:
    """`service-record` of the wheel. -I and -S keep the checkout, which is installed as editable, away."""
    program = f"""
import sys
sys.path += {[str(library), WHAT_ELSE_IT_NEEDS]!r}
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


def test_the_wheel_puts_onto_a_host_what_the_checkout_does(tmp_path: Path, library: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for root in (ours, theirs):
        root.mkdir()
    answer = from_wheel(library, "install", "--root", theirs, *EVERYTHING)
    assert answer.status == 0, answer.err
    assert service_record("install", "--root", ours, *EVERYTHING).status == 0
    note = Path("var/lib/service-record/installed.json")
    for root in (ours, theirs):
        (root / note).unlink()  # it has the times of directories in it
    assert (theirs / "usr/local/share/man").is_dir()
    # A checkout has man pages and completions once `make man` has made them.
    from_wheel_only, from_checkout = (
        {
            path: facts
            for path, facts in picture(root, with_times=False).items()
            if not path.startswith("usr/local/share")
        }
        for root in (theirs, ours)
    )
    assert from_wheel_only == from_checkout


def test_the_wheel_has_a_command_and_shows_records(library: Path) -> None:
    assert (library / "bin/service-record").exists()
    answer = from_wheel(library, "show", "--from", REPOSITORY / "docs/examples/failed-stage")
    assert answer.status == 0, answer.err
    assert "bootkube failed" in answer.out


def test_a_wheel_without_one_of_its_files_says_so_in_a_line(tmp_path: Path, library: Path) -> None:
    incomplete = tmp_path / "library"
    shutil.copytree(library, incomplete)
    (incomplete / "service_record/host/shell/service-record-exit.sh").unlink()
    root = tmp_path / "root"
    root.mkdir()
    answer = from_wheel(incomplete, "install", "--root", root)
    assert (answer.status, answer.out) == (3, "")
    assert answer.err == (
        "Error: shell/service-record-exit.sh: missing from this installation of service-record; "
        "install it anew\n"
    )
    assert list(root.iterdir()) == []


def test_the_wheel_has_nothing_of_the_tests_or_of_the_build(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"service_record"}


def test_wheel_has_the_parsed_rules(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"service_record/diagnosis/{PARSED}") == parse_rules()


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, unpacked."""
    directory = tmp_path_factory.mktemp("sources")
    with tarfile.open(built(directory / "sdist", "sdist")) as archive:
        extract_all(archive, directory / "unpacked")
    (folder,) = (directory / "unpacked").iterdir()
    return folder


def test_source_archive_makes_the_same_wheel(tmp_path: Path, wheel: Path, unpacked: Path) -> None:
    again = built(tmp_path / "wheel", "wheel", unpacked)
    assert again.read_bytes() == wheel.read_bytes()


@pytest.fixture
def without_click(tmp_path: Path) -> str:
    """PYTHONPATH of a build as if click were not installed."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "click.py").write_text("raise ModuleNotFoundError(\"No module named 'click'\", name='click')\n")
    return str(hidden)


def test_wheel_is_the_same_without_runtime_libraries(
    tmp_path: Path, wheel: Path, unpacked: Path, without_click: str
) -> None:
    again = built(tmp_path / "wheel", "wheel", unpacked, PYTHONPATH=without_click)
    assert again.read_bytes() == wheel.read_bytes()


def test_checkout_without_libraries_makes_no_other_wheel(tmp_path: Path, without_click: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        built(tmp_path / "wheel", "wheel", PYTHONPATH=without_click)
    assert b"No click: man pages and completions cannot be made." in refused.value.stderr
    assert not list(tmp_path.glob("wheel/*"))


def another_checkout(directory: Path) -> Path:
    """The same files, checked out at another time by somebody whose group may write."""
    left_out = shutil.ignore_patterns(".git", ".cache", ".venv", "build", "dist", "__pycache__", ".*_cache")
    shutil.copytree(REPOSITORY, directory, symlinks=True, ignore=left_out)
    for path in directory.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o020)
            os.utime(path, (1_600_000_000, 1_600_000_000))
    # Bytecode of scripts that tests keep below names that are not UTF-8.
    (directory / os.fsdecode(b".cache/bytecode/odd-\xff")).mkdir(parents=True)
    (directory / os.fsdecode(b".cache/bytecode/odd-\xff/script.pyc")).touch()
    return directory


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_two_builds_are_the_same_bytes_wherever_and_whenever_they_are_made(tmp_path: Path, kind: str) -> None:
    source = another_checkout(tmp_path / "elsewhere")
    elsewhere = {"TZ": "Asia/Kolkata", "LC_ALL": "C", "HOME": str(tmp_path), "PYTHONHASHSEED": "7"}
    there = built(tmp_path / "theirs", kind, source, umask=0o077, **elsewhere)
    here = built(tmp_path / "ours", kind)
    assert there.name == here.name
    assert there.read_bytes() == here.read_bytes()
