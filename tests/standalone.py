"""The standalone executable of this checkout."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from tests.programs import REPOSITORY

_EXECUTABLE: Final = Path("checkout/build/service-record")
_SAID: Final = "make.txt"


def can_be_built() -> bool:
    """Return whether there is a C compiler, and a Python with headers and a shared library."""
    has_programs = all(map(shutil.which, ("make", "cc", "readelf", "strip")))
    has_header = Path(sysconfig.get_path("include"), "Python.h").exists()
    return has_programs and has_header and ".so" in str(sysconfig.get_config_var("INSTSONAME"))


def made_before(directory: Path) -> Path | None:
    """Return the product of `standalone` in that directory, if there is one."""
    executable = directory / _EXECUTABLE
    return executable if executable.with_name(_SAID).exists() else None


def standalone(directory: Path) -> Path:
    """Run `make standalone` in a copy, so that nothing of it is left in the checkout.

    What make said is beside it, in `make.txt`.
    """
    copy = directory / "checkout"
    left_out = shutil.ignore_patterns(".git", ".cache", ".venv", "build", "tests", "__pycache__", ".*_cache")
    shutil.rmtree(copy, ignore_errors=True)  # one that could not be made
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
    executable.with_name(_SAID).write_text(made.stdout)
    return executable
