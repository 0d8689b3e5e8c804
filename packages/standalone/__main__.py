"""`make standalone`: build/service-record, which needs nothing of a host but libc.

PyInstaller finds out which modules and libraries the command needs; `launcher.c`, which is compiled here,
starts them from the executable itself. PyInstaller's own bootloader breaks one promise of docs/standalone.md:
"Nothing is unpacked." Runs in an environment that has the command and PyInstaller, and nothing else: what is
not installed cannot get into the executable.
"""

import importlib.util
import marshal
import os
import re
import statistics
import struct
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from packages.standalone import glibc

HERE: Final = Path(__file__).resolve().parent
PYTHON_LIBRARY: Final = str(sysconfig.get_config_var("INSTSONAME") or "")
# Imported by name only for other systems, other programs' tests, or colours of source code.
LEFT_OUT: Final = (
    *("PyInstaller", "pip", "pkg_resources", "setuptools"),
    *("curses", "idlelib", "lib2to3", "multiprocessing", "pydoc", "pygments", "readline", "sqlite3"),
    *("tkinter", "unittest"),
)
# Needed before anything can be decompressed.
_PLAIN: Final = re.compile(
    r"standalone_\w+\.pyc|encodings/(__init__|aliases|utf_8)\.pyc|.*/zlib\..*|libz\.so.*"
)
_A_DAY: Final = (2026, 1, 1, 0, 0, 0)
"""Of every member: the same executable each time."""


class StandaloneError(Exception):
    """The executable cannot be made here, or would not be what it has to be."""


def collected(work: Path) -> Path:
    """Return the directory in which PyInstaller has put modules, data and libraries."""
    command = [sys.executable, "-m", "PyInstaller", "--log-level=WARN", "--name=service-record"]
    command += ["--onedir", "--debug=noarchive", "--strip", "--noconfirm"]
    command += [f"--specpath={work}", f"--workpath={work}/work", f"--distpath={work}/dist"]
    command += ["--collect-submodules=service_record", "--collect-data=service_record"]
    command += [f"--exclude-module={name}" for name in LEFT_OUT]
    program = work / "program.py"
    program.write_text("from service_record.cli import main\n")
    # PYTHONPATH might name a checkout, which has no service_record/host.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # The same modules give the same bytecode: sets in it are written in the order of their hashes.
    environment["PYTHONHASHSEED"] = "0"
    subprocess.run([*command, str(program)], check=True, cwd=work, env=environment)
    return work / "dist/service-record/_internal"


def needed(library: Path, bundled: Iterable[str]) -> tuple[str, ...]:
    """Return which of the bundled libraries it needs. Raises StandaloneError if it needs one of the
    host's.
    """
    others = [name for name in glibc.needed_libraries(library) if not glibc.LIBC.fullmatch(name)]
    missing = set(others) - {*bundled, PYTHON_LIBRARY}
    if missing:
        raise StandaloneError(f"{library.name} needs {', '.join(sorted(missing))}, which was not collected")
    return tuple(name for name in others if name != PYTHON_LIBRARY)


def module_name(path: Path) -> str | None:
    """Return the module of an extension, by its path below the collected directory; None for a library."""
    for suffix in sorted(EXTENSION_SUFFIXES, key=len, reverse=True):
        if path.name.endswith(suffix) and not path.name.startswith("lib"):
            is_of_python = path.parent.name == "lib-dynload"
            parts = () if is_of_python else path.parent.parts
            return ".".join([*parts, path.name.removesuffix(suffix)])
    return None


def tables(root: Path) -> str:
    """Return the module that lists each extension and library by file, and what each needs."""
    shared = sorted(path for path in root.rglob("*.so*") if path.name != PYTHON_LIBRARY)
    libraries = {path.name: path for path in shared if module_name(path.relative_to(root)) is None}
    of_modules, of_libraries = {}, {}
    for path in shared:
        member = path.relative_to(root)
        row = (member.as_posix(), needed(path, libraries))
        if name := module_name(member):
            of_modules[name] = row
        else:
            of_libraries[path.name] = row
    return f"EXTENSIONS = {of_modules!r}\nLIBRARIES = {of_libraries!r}\n"


def members(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the members of the zip file, by path."""
    for name, text in (
        ("standalone_libraries", tables(root)),
        ("standalone_start", (HERE / "standalone_start.py").read_text()),
    ):
        yield f"{name}.pyc", bytecode(text, name)
    for path in sorted(root.rglob("*")):
        if path.match("*.dist-info/RECORD"):
            continue  # its checksums are of scripts that name the environment's directory
        if path.is_dir():  # without its entry, one that has no __init__.py would not be seen as a package
            yield f"{path.relative_to(root)}/", b""
        elif path.name != PYTHON_LIBRARY:
            yield path.relative_to(root).as_posix(), path.read_bytes()


def bytecode(text: str, name: str) -> bytes:
    """Compile a .pyc that nothing on disk can make stale (PEP 552: hash-based, unchecked)."""
    header = importlib.util.MAGIC_NUMBER + struct.pack("<I8x", 0b01)
    return header + marshal.dumps(compile(text, f"{name}.py", "exec", dont_inherit=True))


def launcher(work: Path) -> bytes:
    """Compile the launcher. Raises StandaloneError without a C compiler or Python's headers."""
    program = work / "launcher"
    include = sysconfig.get_path("include")
    compiler = os.environ.get("CC") or "cc"
    command: list[str] = [
        compiler,
        "-O2",
        "-s",
        "-Wall",
        "-Wextra",
        f"-I{include}",
        "-o",
        str(program),
        str(HERE / "launcher.c"),
        "-ldl",
    ]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        raise StandaloneError(f"no C compiler: {compiler}; install gcc") from None
    if done.returncode != 0:
        raise StandaloneError(f"{done.stderr.strip()}\nIs Python.h missing? Install Python's headers")
    return program.read_bytes()


def appended(program: bytes, root: Path, path: Path) -> None:
    """Write the executable: the launcher, libpython, the zip file, and where in it libpython is."""
    python = (root / PYTHON_LIBRARY).read_bytes()
    path.write_bytes(program + python)
    _append_archive(path, members(root), glibc.PLACE.pack(len(program), len(python)))


def leave_out(library: str, executable: Path, path: Path) -> None:
    """Write a copy of the executable that takes a library, such as `libz.so.1`, from the host.

    Raises StandaloneError when the executable does not hold it.
    """
    with zipfile.ZipFile(executable) as archive:
        parts = [(name, archive.read(name)) for name in archive.namelist() if name != library]
        if len(parts) == len(archive.namelist()):
            raise StandaloneError(f"{executable} does not hold {library}")
        place = archive.comment
    path.write_bytes(executable.read_bytes()[: sum(glibc.PLACE.unpack(place))])
    _append_archive(path, parts, place)


def _append_archive(path: Path, parts: Iterable[tuple[str, bytes]], place: bytes) -> None:
    with zipfile.ZipFile(path, "a", compresslevel=9) as archive:
        for name, data in parts:
            information = zipfile.ZipInfo(name, _A_DAY)
            is_plain = _PLAIN.fullmatch(name) is not None
            information.compress_type = zipfile.ZIP_STORED if is_plain else zipfile.ZIP_DEFLATED
            archive.writestr(information, data)
        archive.comment = place
    path.chmod(0o755)


def build(target: Path) -> str:
    """Make the executable, move it to its place when it is whole, and tell of it. Raises StandaloneError.

    The environment's GLIBC is the glibc of the hosts that it is for.
    """
    if not re.fullmatch(r"libpython.*\.so.*", PYTHON_LIBRARY):
        raise StandaloneError(
            f"{sys.base_prefix} has no shared libpython; use a Python that was built with it"
        )
    limit = os.environ.get("GLIBC", "")
    if not re.fullmatch(r"(\d+(\.\d+)+)?", limit):
        raise StandaloneError(f"GLIBC={limit}: should be a version, such as 2.34")
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".standalone-", dir=target.parent) as directory:
        work = Path(directory)
        root, path = collected(work), work / "made"
        appended(launcher(work), root, path)
        libc = oldest_libc([path, *root.rglob("*.so*")], limit)
        summary = f"{target}: {path.stat().st_size / (1 << 20):.1f} MiB, needs glibc {libc}"
        if libraries := glibc.host_libraries(path):
            summary += f"; of the host it takes {', '.join(libraries)}"
        took = start_time(path)
        path.replace(target)
    return f"{summary}; --version takes {took:.0f} ms"


def oldest_libc(files: Iterable[Path], limit: str) -> str:
    """Return the oldest glibc with which all of these load. Raises StandaloneError if it is newer than
    `limit`.
    """
    needs = glibc.needs(files)
    newer = [need for need in needs if limit and need.version > glibc.parsed(limit)]
    if newer:
        raise StandaloneError(
            f"made here, it needs glibc {glibc.written(newer[0].version)}, not {limit}"
            f" ({'; '.join(map(str, newer))}). Make it where glibc is {limit} or older"
        )
    return glibc.written(needs[0].version)


def start_time(program: Path) -> float:
    """Milliseconds that `--version` takes: the median of eleven."""
    times = []
    for _ in range(11):
        began = time.perf_counter()
        subprocess.run([program, "--version"], check=True, stdout=subprocess.DEVNULL)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


if __name__ == "__main__":
    try:
        print(build(Path(sys.argv[1]).resolve()))
    except (StandaloneError, subprocess.CalledProcessError) as error:
        sys.exit(f"Error: {error}")
