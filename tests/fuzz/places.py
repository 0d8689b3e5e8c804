"""Places to read from in a directory of their own, as they were before and after."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_MAX_NAME_BYTES: Final = 255
_MEMORY: Final = "/dev/shm"  # where it is there, a directory comes and goes ten times as fast

KINDS: Final[Mapping[str, Callable[[Path], object]]] = {
    "directory": Path.mkdir,
    "FIFO": os.mkfifo,
    "link to itself": lambda path: path.symlink_to(path),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to a file": lambda path: path.symlink_to("/etc/passwd"),
}
"""Kind that a file can be instead of one -> the function that makes it so."""


@contextmanager
def around() -> Iterator[Path]:
    """A directory for one example, with a place for what a command writes, `out`, and for temporary files."""
    with TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as name:
        directory = Path(name).resolve()
        (directory / "out").mkdir()
        (directory / "scratch").mkdir()
        yield directory


@contextmanager
def inside(directory: Path) -> Iterator[None]:
    """The directory that relative paths begin in; like all of the process, of one thread at a time."""
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def write_all(directory: Path, files: Mapping[str, bytes], odd: Mapping[str, str] | None = None) -> Path:
    """The files, and odd ones of these `KINDS`, in a new directory, as far as they can be called so."""
    directory.mkdir(parents=True)
    for name, content in files.items():
        if _can_be_called(name):
            (directory / name).write_bytes(content)
    for name, kind in (odd or {}).items():
        if _can_be_called(name) and not os.path.lexists(directory / name):
            KINDS[kind](directory / name)
    return directory


def _can_be_called(name: str) -> bool:
    return not {"/", "\0"} & set(name) and len(os.fsencode(name)) <= _MAX_NAME_BYTES


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
