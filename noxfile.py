"""`make matrix`: run the tests under each Python, with the lowest and the newest allowed libraries.

`make matrix MATRIX='--python 3.13'` runs one Python, `MATRIX="--session 'tests-3.11(lowest)'"` one session.
Arguments after `--` go to pytest.
"""

import os
from pathlib import Path

import nox

PYTHONS = ["3.11", "3.12", "3.13"]
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
"""uv's names of the resolutions. Lowest: the lower bounds in pyproject.toml. Newest: the newest allowed."""

SAME_UNDER_EVERY_PYTHON = [
    "tests/shell",
    "tests/system",
    "tests/fuzz",
    "tests/record/test_array_harm.py",
    "tests/packages/test_packages.py",
    "tests/project/test_requirements.py",
    "tests/packages/test_standalone.py",
    "tests/packages/test_container.py",
]
"""Tests of bash, systemd and packages, or slow tests. `make test-all` runs them."""

# A `python3.13` on PATH may be a wrapper of pyenv without a Python to start, so the real ones come first.
PYENV = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
folders = [str(path) for version in PYTHONS for path in PYENV.glob(f"versions/{version}.*/bin")]
os.environ["PATH"] = os.pathsep.join([*folders, os.environ["PATH"]])

nox.options.default_venv_backend = "uv"
nox.options.reuse_existing_virtualenvs = True
nox.options.envdir = ".cache/nox"


@nox.session(python=PYTHONS)
@nox.parametrize("libraries", list(RESOLUTIONS), ids=list(RESOLUTIONS))
def tests(session: nox.Session, libraries: str) -> None:
    """Run the tests that depend on Python and its libraries."""
    resolved = f"{session.virtualenv.location}/requirements.txt"
    asked_for = (
        "--extra",
        "reporter",
        "--extra",
        "collector",
        "--extra",
        "notices",
        "--group",
        "test",
        "pyproject.toml",
    )
    session.run(
        "uv",
        "pip",
        "compile",
        "--quiet",
        f"--python-version={session.python}",
        f"--resolution={RESOLUTIONS[libraries]}",
        f"--output-file={resolved}",
        "--upgrade",
        "--no-annotate",
        "--no-header",
        *asked_for,
    )
    session.run("uv", "pip", "sync", "--quiet", resolved)
    session.install("--quiet", "--no-deps", "--editable", ".", "pip")
    session.run(
        "python",
        "-m",
        "pytest",
        "--quiet",
        "--numprocesses=auto",
        "--dist=worksteal",
        "-m",
        "not slow",
        *(f"--ignore={path}" for path in SAME_UNDER_EVERY_PYTHON),
        *session.posargs,
        env={"PYTHONPATH": None},
    )
