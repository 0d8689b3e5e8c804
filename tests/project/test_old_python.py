"""Under Python 3.9, the default of RHEL 9, building and installing stop at once with one line."""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from testing.machine import REPOSITORY

REQUIRED = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["requires-python"].strip(
    ">="
)
MUST_PARSE = ("hatch_build.py", "packages/__init__.py", "packages/stage.py")


@pytest.fixture(scope="module")
def python39() -> str:
    """Path of a Python 3.9."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for candidate in ["python3.9", *map(str, pyenv.glob("versions/3.9.*/bin/python3.9"))]:
        path = shutil.which(candidate)
        if path and subprocess.run([path, "-c", ""], check=False).returncode == 0:
            return path
    pytest.skip("Python 3.9 cannot be had here")


@pytest.fixture
def only_python39(tmp_path: Path, python39: str) -> dict[str, str]:
    """An environment with the programs of this host, but no other Python than 3.9."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in Path("/usr/bin").iterdir():
        if not program.name.startswith(("python", "pip", "apt", "dnf")):
            (programs / program.name).symlink_to(program)
    # A wrapper, because a link would lose the place of its library.
    (programs / "python3").write_text(f'#!/bin/sh\nexec {python39} "$@"\n')
    (programs / "python3").chmod(0o755)
    return {"PATH": str(programs), "HOME": str(tmp_path)}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A fresh copy of the files that Git knows."""
    copy = tmp_path / "checkout"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if not name.startswith(("tests/", "docs/")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, copy / name)
    return copy


def check_refusal(output: str) -> None:
    (line,) = [line for line in output.splitlines() if not line.startswith("make")]
    assert "found Python 3.9." in line
    assert f"Python {REQUIRED} or newer is needed" in line
    assert f"dnf install python{REQUIRED}" in line


@pytest.mark.parametrize("name", MUST_PARSE)
def test_entry_points_parse_under_python_39(name: str) -> None:
    ast.parse((REPOSITORY / name).read_text(), feature_version=(3, 9))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["install", "standalone", "deb", "test", "demo"])
def test_make_refuses_an_old_python(checkout: Path, only_python39: dict[str, str], target: str) -> None:
    done = subprocess.run(
        ["make", target, f"DESTDIR={checkout.parent}/root"],
        cwd=checkout,
        env=only_python39,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert done.returncode != 0
    check_refusal(done.stdout + done.stderr)
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize("statement", ["import hatch_build", "import packages.stage"])
def test_build_scripts_refuse_an_old_python(python39: str, statement: str) -> None:
    done = subprocess.run(
        [python39, "-B", "-c", statement], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    check_refusal(done.stdout + done.stderr)


def test_python_variable_names_the_interpreter(python39: str) -> None:
    for named, status, output in ((sys.executable, 0, f"{sys.executable}\n"), (python39, 1, "")):
        done = subprocess.run(
            [REPOSITORY / ".ci/python"],
            env=os.environ | {"PYTHON": named},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (status, output)


@pytest.mark.slow
def test_setup_makes_the_environment_of_the_named_python(checkout: Path) -> None:
    """An environment that works is kept, unless PYTHON names another one."""
    system = Path("/usr/bin/python3")
    if not system.exists() or system.samefile(sys.executable):
        pytest.skip("a second Python cannot be had here")
    (checkout / ".ci/install").write_text("#!/bin/sh\n")
    made = checkout / ".cache/demo/bin/python"
    for named, expected in ((sys.executable, sys.executable), ("", sys.executable), (system, system)):
        subprocess.run(
            [".ci/setup", "demo"], cwd=checkout, env=os.environ | {"PYTHON": str(named)}, check=True
        )
        assert made.samefile(expected)
