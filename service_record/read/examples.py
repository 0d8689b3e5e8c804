"""The examples that come with service-record, so that each verb can be tried on a host without records."""

from importlib.resources import files
from pathlib import Path
from typing import Final

PREFIX: Final = "example:"
"""`example:failed-stage` is a place to read from."""


def example_path(place: str) -> Path:
    """Return where an example is. Raises FileNotFoundError, which names those that there are."""
    directory = _directory()
    # README.md describes them. An archive may be named without its suffix.
    paths = {each.name.partition(".")[0]: each for each in directory.iterdir() if each.name != "README.md"}
    path = paths.get(place.removeprefix(PREFIX).removesuffix(".tar.gz"))
    if path is None:
        names = ", ".join(f"{PREFIX}{name}" for name in sorted(paths))
        raise FileNotFoundError(2, f"no such example; there are {names}", place)
    return path


def _directory() -> Path:
    """Return the directory of the examples: the wheel carries them, a checkout has them in its docs."""
    installed = Path(str(files("service_record"))) / "host/examples"
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "docs/examples"
