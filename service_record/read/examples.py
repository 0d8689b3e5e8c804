"""Find the included examples, with which each command can be tried on a host without records."""

import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

PREFIX: Final = "example:"
"""Prefix of the places that name an example: `example:failed-stage`."""


def example_path(place: str) -> Path:
    """Return the path of an example. Raises FileNotFoundError, whose message lists the existing examples."""
    # README.md only describes the examples. An archive may be named without its suffix.
    examples = {
        each.name.partition(".")[0]: each for each in _directory().iterdir() if each.name != "README.md"
    }
    example = examples.get(place.removeprefix(PREFIX).removesuffix(".tar.gz"))
    if example is None:
        names = ", ".join(f"{PREFIX}{name}" for name in sorted(examples))
        raise FileNotFoundError(2, f"no such example; there are {names}", place)
    return example if isinstance(example, Path) else _unpacked(example)


def resolve_example(place: str) -> str:
    """Return the path of `example:NAME`, and any other place as it is."""
    return str(example_path(place)) if place.startswith(PREFIX) else place


def _directory() -> "Traversable":
    """Return the directory of the examples: in the installed package or, in a checkout, below docs."""
    installed = files("service_record").joinpath("host", "examples")
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "docs/examples"


@cache
def _directory_of_copies() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="service-record-examples-")  # removed when the process exits


def _unpacked(example: "Traversable") -> Path:
    """Copy an example out of the standalone executable, a zip file, and return the path of the copy."""
    target = Path(_directory_of_copies().name, example.name)
    if example.is_file():
        target.write_bytes(example.read_bytes())
        return target
    target.mkdir(exist_ok=True)
    for file in example.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target
