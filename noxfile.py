"""`make matrix`: tests under each Python, with the lowest and the newest libraries that are allowed.

`make matrix MATRIX='--python 3.13'` is one Python, `MATRIX="--session 'tests-3.11(lowest)'"` one session.
What follows `--` goes to pytest.
"""

import os
from pathlib import Path

import nox

PYTHONS = ["3.11", "3.12", "3.13"]
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
"""Resolutions by uv's names. Lowest: the versions that we name. Newest: the newest that those allow."""

SAME_UNDER_EVERY_PYTHON = [
    "tests/shell",
    "tests/system",
    "tests/fuzz",
    "tests/test_shim_concurrency.py",
    "tests/test_shim_harm.py",
    "tests/test_shim_matrix.py",
    "tests/test_array_harm.py",
    "tests/test_packages.py",
    "tests/test_requirements.py",
    "tests/test_standalone.py",
    "tests/test_container.py",
]
"""These test bash, systemd and packages, or take their time; `make test-all` has them."""

# A `python3.13` of pyenv on PATH may run nothing: those behind it are looked for themselves.
PYENV = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
folders = [str(path) for version in PYTHONS for path in PYENV.glob(f"versions/{version}.*/bin")]
os.environ["PATH"] = os.pathsep.join([*folders, os.environ["PATH"]])

nox.options.default_venv_backend = "uv"
nox.options.reuse_existing_virtualenvs = True
nox.options.envdir = ".cache/nox"


@nox.session(python=PYTHONS)
@nox.parametrize("libraries", list(RESOLUTIONS), ids=list(RESOLUTIONS))
def tests(session: nox.Session, libraries: str) -> None:
    """Test what depends on Python and its libraries."""
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
