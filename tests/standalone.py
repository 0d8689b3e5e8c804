"""Build the standalone executable of this checkout."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from tests.programs import REPOSITORY

_EXECUTABLE: Final = Path("checkout/build/service-record")
_MAKE_OUTPUT: Final = "make.txt"


def can_be_built() -> bool:
    """Return whether this machine has a C compiler, and a Python with headers and a shared library."""
    has_programs = all(map(shutil.which, ("make", "cc", "readelf", "strip")))
    has_header = Path(sysconfig.get_path("include"), "Python.h").exists()
    return has_programs and has_header and ".so" in str(sysconfig.get_config_var("INSTSONAME"))


def find_built_executable(directory: Path) -> Path | None:
    """Return the executable that `build_executable` made in this directory, or None."""
    executable = directory / _EXECUTABLE
    return executable if executable.with_name(_MAKE_OUTPUT).exists() else None


def build_executable(directory: Path) -> Path:
    """Run `make standalone` in a copy of the checkout, and return the executable.

    The output of make is in `make.txt` in the same directory.
    """
    copy = directory / "checkout"
    left_out = shutil.ignore_patterns(".git", ".cache", ".venv", "build", "tests", "__pycache__", ".*_cache")
    shutil.rmtree(copy, ignore_errors=True)  # remains of a failed build
    shutil.copytree(REPOSITORY, copy, ignore=left_out)
    made = subprocess.run(
        ["make", "standalone", f"PYTHON={Path(sys.executable).resolve()}"],
        cwd=copy,
        check=False,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    executable = directory / _EXECUTABLE
    executable.with_name(_MAKE_OUTPUT).write_text(made.stdout)
    return executable
