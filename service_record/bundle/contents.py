"""Iterate over all files of an archive or a directory, in one pass and with little memory.

Compressed files are unpacked, and an inner archive becomes a directory, because redaction must see their
contents.
"""

import os
import re
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Final

import msgspec

from service_record.bundle.layers import (
    Layer,
    LimitError,
    Limits,
    ReadingBudget,
    decompressed_layer,
    is_archive,
    is_packed,
)
from service_record.bundle.members import archive_members
from service_record.bundle.opening import LeftOut
from service_record.bundle.tar import A_DIRECTORY, TarError
from service_record.record.directory import open_inside

_PACKING: Final = re.compile(r"(?<=[^/.])(?:\.(?:gz|bz2|xz|zst))+$")
"""The suffixes taken off the name of an unpacked file, if there is a name without them."""

Leave = Callable[[LeftOut], None]
"""Called with each part that is not yielded, or not completely."""


class Content(msgspec.Struct, frozen=True):
    """One file. It must be read before the iterator moves on."""

    path: str
    """Relative, without `..`, with the names of outer archives."""
    written: float
    """The time of the last write, in seconds since 1970."""
    read: Callable[[int], bytes]
    """Returns at most the given number of bytes; empty at the end."""


def archive_contents(
    stream: BufferedReader, name: str, written: float, leave: Leave, limits: Limits | None = None
) -> Iterator[Content]:
    """Yield the files in an archive, in its order. A file that is not an archive is yielded as `name`.

    Damage never raises: parts that are damaged, beyond a limit or not plain files are passed to `leave`.
    """
    layer = Layer(stream.read1, ReadingBudget(limits or Limits()))
    yield from _limited(_unpacked(layer, name, written, "", leave), "", leave)


def directory_contents(
    directory: Path, leave: Leave, limits: Limits | None = None, *, without: Path | None = None
) -> Iterator[Content]:
    """Yield the files below a directory, sorted by name. Archives are unpacked; links are not followed.

    `without` is a file to leave out, such as the one that the caller is writing. The limits apply to each
    file. Unreadable files are passed to `leave`.
    """
    for path in _files(directory, leave):
        if without and path.name == without.name and path.resolve() == without.resolve():
            continue
        below = str(path.relative_to(directory))
        try:
            stream = open_inside(directory, path)
        except OSError as error:
            leave(LeftOut(below, _refusal(path, error)))
            continue
        with stream:
            written = os.fstat(stream.fileno()).st_mtime
            layer = Layer(stream.read1, ReadingBudget(limits or Limits()))
            yield from _limited(_unpacked(layer, below, written, f"{below}/", leave), below, leave)


def _refusal(path: Path, error: OSError) -> str:
    if path.is_symlink():
        return "a symbolic link"
    return error.strerror or "not a plain file"


def _files(directory: Path, leave: Leave) -> Iterator[Path]:
    def refused(error: OSError) -> None:
        leave(LeftOut(os.path.relpath(error.filename, directory), str(error.strerror)))

    for parent, directories, names in os.walk(directory, onerror=refused):
        directories.sort()
        for name in directories:
            if Path(parent, name).is_symlink():
                leave(LeftOut(os.path.relpath(Path(parent, name), directory), "a symbolic link"))
        yield from (Path(parent, name) for name in sorted(names))


class _Limited:
    """A layer that ends at a limit of the archive, and keeps the error for the caller."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self.error: LimitError | None = None

    def read(self, size: int) -> bytes:
        if self.error is None:
            try:
                return self._layer.read(size)
            except LimitError as error:
                self.error = error
        return b""


def _limited(contents: Iterator[Content], path: str, leave: Leave) -> Iterator[Content]:
    try:
        yield from contents
    except LimitError as error:
        leave(LeftOut(path, f"{error}: the rest was not read"))


def _unpacked(outside: Layer, path: str, written: float, below: str, leave: Leave) -> Iterator[Content]:
    """Yield the content of a layer or, for an archive, its members with `below` before their names."""
    layer = decompressed_layer(outside)
    if is_archive(layer.head) and layer.depth < layer.budget.limits.layers:
        yield from _members(layer, path if below else "", below, leave)
    elif is_packed(layer.head):
        leave(LeftOut(path, "left out: an archive that is not read, and might have secrets in it"))
    else:
        path = path if layer is outside else _PACKING.sub("", path)
        limited = _Limited(layer)
        yield Content(path, written, limited.read)
        if limited.error is not None:
            raise limited.error
        if layer.damage:
            leave(LeftOut(path, layer.damage))


def _members(layer: Layer, path: str, below: str, leave: Leave) -> Iterator[Content]:
    """Yield all members, and then read to the end, where compressions have a checksum."""
    try:
        for member in archive_members(layer):
            name = "/".join(part for part in member.name.split("/") if part not in {"", "."})
            is_refused = not name or "\0" in name or ".." in name.split("/") or member.name.startswith("/")
            name = below + name
            if member.kind == A_DIRECTORY:
                continue
            if is_refused:
                leave(LeftOut(name, "refused: its name leads out of the archive"))
            elif not member.kind:
                inside = Layer(member.read, layer.budget, layer)
                yield from _unpacked(inside, name, member.written, f"{name}/", leave)
            else:
                leave(LeftOut(name, f"left out: {member.kind}, not a plain file"))
        while layer.read():
            pass
    except TarError as error:
        leave(LeftOut(path, str(error)))
        return
    if layer.damage:
        leave(LeftOut(path, layer.damage))
