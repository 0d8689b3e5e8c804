"""The first module that runs in the standalone executable: after it extension modules can be imported, too.

It is in the zip file uncompressed, as are zlib and what Python starts with, because nothing can be
decompressed before it has run. It may import only what is built into Python.
"""

import posix
import sys
import zipimport
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader

import _standalone  # in launcher.c
from standalone_libraries import EXTENSIONS, LIBRARIES  # written when the executable is made

_MFD_CLOEXEC = 1
_MFD_EXEC = 0x10  # since Linux 6.3; before, every memfd may be executed

_archive = zipimport.zipimporter(sys.path[0])
_loaded: set[str] = set()


def _path_in_memory(member: str) -> str:
    """Return a path of this process for a file of the zip file. The file stays open: see launcher.c."""
    try:
        memory = posix.memfd_create(member, _MFD_CLOEXEC | _MFD_EXEC)
    except OSError:
        memory = posix.memfd_create(member, _MFD_CLOEXEC)
    rest = memoryview(_archive.get_data(f"{_archive.archive}/{member}"))
    while rest:
        rest = rest[posix.write(memory, rest) :]
    return f"/proc/self/fd/{memory}"


def _load(libraries: tuple[str, ...]) -> None:
    """Load shared libraries, those first that they need: the dynamic linker then finds them by name."""
    for name in libraries:
        if name in _loaded:
            continue
        member, needed = LIBRARIES[name]
        _load(needed)
        try:
            path = _path_in_memory(member)
        except (
            OSError
        ):  # a package left it out and depends on the host's, which the dynamic linker finds by name
            path = name
        if failure := _standalone.load(path):
            raise ImportError(failure, name=name)
        _loaded.add(name)


class _Extensions:
    """Finds extension modules, by the table of them."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004
        if name not in EXTENSIONS:
            return None
        member, needed = EXTENSIONS[name]
        _load(needed)
        place = _path_in_memory(member)
        return ModuleSpec(name, ExtensionFileLoader(name, place), origin=place)


sys.meta_path.insert(0, _Extensions)

from service_record.cli import main  # noqa: E402

main(prog_name="service-record")
