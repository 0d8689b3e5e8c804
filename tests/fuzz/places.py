"""Create files and directories for an example, in a directory of their own."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_MAX_NAME_BYTES: Final = 255
_MEMORY: Final = "/dev/shm"  # directories here are ten times as fast

KINDS: Final[Mapping[str, Callable[[Path], object]]] = {
    "directory": Path.mkdir,
    "FIFO": os.mkfifo,
    "link to itself": lambda path: path.symlink_to(path),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to a file": lambda path: path.symlink_to("/etc/passwd"),
}
"""Kind of file that is not a regular one -> function that creates it."""


@contextmanager
def create_directory() -> Iterator[Path]:
    """Create a directory for one example, with `out` for the output of a command and `scratch` for temporary
    files.
    """
    with TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as name:
        directory = Path(name).resolve()
        (directory / "out").mkdir()
        (directory / "scratch").mkdir()
        yield directory


@contextmanager
def change_directory(directory: Path) -> Iterator[None]:
    """Change the working directory during the block. It belongs to the process, so only one thread may do
    this.
    """
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def write_all(directory: Path, files: Mapping[str, bytes], odd: Mapping[str, str] | None = None) -> Path:
    """Write the files, and others of these `KINDS`, into a new directory, except those with an impossible
    name.
    """
    directory.mkdir(parents=True)
    for name, content in files.items():
        if _is_valid_name(name):
            (directory / name).write_bytes(content)
    for name, kind in (odd or {}).items():
        if _is_valid_name(name) and not os.path.lexists(directory / name):
            KINDS[kind](directory / name)
    return directory


def _is_valid_name(name: str) -> bool:
    return not {"/", "\0"} & set(name) and len(os.fsencode(name)) <= _MAX_NAME_BYTES


def read_files(directory: Path) -> dict[str, bytes]:
    """Return the content of every file below a directory, by path."""
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
