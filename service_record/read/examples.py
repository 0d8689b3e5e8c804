"""The examples that come with service-record, so that each verb can be tried on a host without records."""

import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

PREFIX: Final = "example:"
"""`example:failed-stage` is a place to read from."""


def example_path(place: str) -> Path:
    """Return where an example is. Raises FileNotFoundError, which names those that there are."""
    # README.md describes them. An archive may be named without its suffix.
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
    """Return the directory of the examples: the wheel carries them, a checkout has them in its docs."""
    installed = files("service_record").joinpath("host", "examples")
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "docs/examples"


@cache
def _directory_of_copies() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="service-record-examples-")  # removed at the exit


def _unpacked(example: "Traversable") -> Path:
    """Copy an example out of the standalone executable, which is a zip file, and return where it is."""
    target = Path(_directory_of_copies().name, example.name)
    if example.is_file():
        target.write_bytes(example.read_bytes())
        return target
    target.mkdir(exist_ok=True)
    for file in example.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target
