"""The table of results: a file for each minor version of bash, a line for each case."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from tests.endings.judge import run_table
from tests.matrix.cases import DIMENSIONS
from tests.matrix.runner import run_cases
from tests.shell.scripts import Bash

RESULTS: Final = Path(__file__).with_name("results")
NAMES: Final = (*DIMENSIONS, "endings")


class Outcome(Protocol):
    """Outcome of one case. Its string is its line of the table."""

    @property
    def complaints(self) -> list[str]:
        """Return the false or harmful results, which are errors even if the table has them."""


def run_dimension(bash: Bash, dimension: str) -> list[Outcome]:
    """Run every case of a dimension under a bash."""
    if dimension == "endings":
        return list(run_table(bash))
    return list(run_cases(bash, DIMENSIONS[dimension](bash)))


def get_minor_version(bash: Bash) -> str:
    """Return the version of a bash without its patch level: `5.2`."""
    return bash.version.rpartition(".")[0]


def get_path(version: str, dimension: str) -> Path:
    return RESULTS / version / f"{dimension}.txt"


def read_table(version: str, dimension: str) -> list[str] | None:
    """Return the lines of the table; None if it does not have the version."""
    path = get_path(version, dimension)
    return path.read_text().splitlines() if path.exists() else None


def list_versions() -> Iterator[str]:
    """Yield the versions that the table has, oldest first."""
    yield from sorted(path.name for path in RESULTS.iterdir())
