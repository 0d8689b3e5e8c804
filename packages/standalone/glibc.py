"""Find the glibc that an executable of `make standalone` needs: `python3 -m packages.standalone.glibc FILE`.

The dynamic linker refuses a program or library when the host's glibc lacks one of the versions that its
symbols name (https://akkadia.org/drepper/symbol-versioning). Uses readelf, of binutils.
"""

import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

PLACE: Final = struct.Struct("<QQ")
"""The last bytes of an executable: where in it libpython begins, and how long it is."""
LIBC: Final = re.compile(r"(libc|libm|libdl|libpthread|librt|libutil|ld-linux.*)\.so.*")
_VERSION: Final = re.compile(r"\bGLIBC_(\d+(?:\.\d+)+)")
_SYMBOL: Final = re.compile(r"\bUND (\S+?)@{1,2}GLIBC_(\d+(?:\.\d+)+)")


@dataclass(frozen=True, slots=True)
class Need:
    """The newest version of glibc that one file asks for."""

    version: tuple[int, ...]
    file: str
    symbols: tuple[str, ...]
    """Those of that version; none where the linker's own rules ask for it."""

    def __str__(self) -> str:
        return f"{self.file}: {', '.join(self.symbols) or 'its relocations'}"


def needs(files: Iterable[Path]) -> tuple[Need, ...]:
    """Return the needs of these files, newest first. Raises CalledProcessError if readelf cannot read one."""
    candidates = (_need(file) for file in files)
    return tuple(sorted(filter(None, candidates), key=lambda need: (need.version, need.file), reverse=True))


def _need(file: Path) -> Need | None:
    command = ["readelf", "--version-info", "--dyn-syms", "--wide", str(file)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    versions = [parsed(version) for version in _VERSION.findall(output)]
    if not versions:
        return None
    newest = max(versions)
    symbols = {name for name, version in _SYMBOL.findall(output) if parsed(version) == newest}
    return Need(newest, file.name, tuple(sorted(symbols)))


def parsed(version: str) -> tuple[int, ...]:
    """`2.34` as numbers, to compare. Raises ValueError."""
    return tuple(map(int, version.split(".")))


def written(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def inside(executable: Path, directory: Path) -> list[Path]:
    """Write the launcher and all libraries of it into a directory. Raises BadZipFile for another file."""
    data = executable.read_bytes()
    with zipfile.ZipFile(executable) as archive:
        begins, size = PLACE.unpack(archive.comment[-PLACE.size :])
        parts = {"the launcher": data[:begins], "libpython": data[begins : begins + size]}
        libraries = [name for name in archive.namelist() if ".so" in Path(name).suffixes]
        parts |= {Path(name).name: archive.read(name) for name in libraries}
    for name, part in parts.items():
        (directory / name).write_bytes(part)
    return [directory / name for name in parts]


def needs_of(executable: Path) -> tuple[Need, ...]:
    """Return what the launcher and all libraries of an executable ask for, the newest first."""
    with TemporaryDirectory() as directory:
        return needs(inside(executable, Path(directory)))


def host_libraries(executable: Path) -> tuple[str, ...]:
    """Return the libraries besides glibc that libpython takes from the host.

    They cannot be in the executable, which loads libpython first. Debian's libpython takes `libexpat.so.1`
    and `libz.so.1`; one that is compiled with its own copies takes none.
    """
    with TemporaryDirectory() as directory:
        python = next(file for file in inside(executable, Path(directory)) if file.name == "libpython")
        return tuple(name for name in needed_libraries(python) if not LIBC.fullmatch(name))


def needed_libraries(library: Path) -> list[str]:
    """Return the names of the libraries that a library is linked with."""
    command = ["readelf", "--dynamic", str(library)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output)


def main(executable: Path) -> None:
    """Print the version, and a line for each file that asks for no older one."""
    all_needs = needs_of(executable)
    newest = all_needs[0].version
    print(f"{executable} needs glibc {written(newest)}")
    for need in all_needs:
        if need.version == newest:
            print(f"  {need}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
