"""`make deb`: packages for Debian and its relatives, of the shim and of the command, below /usr.

Made by dpkg-deb alone: nothing is compiled, and no script of ours has to run before it is unpacked. The same
sources and executable give the same bytes; see https://reproducible-builds.org/specs/source-date-epoch.
"""

import gzip
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Final

from packages.project import homepage, licences, maintainer
from packages.stage import Package, place_package
from packages.standalone.__main__ import leave_out
from packages.standalone.glibc import host_libraries, needs_of, written
from service_record.version import RELEASED, __version__

_HERE: Final = Path(__file__).parent / "debian"
_ZLIB: Final = "libz.so.1"
"""Of zlib1g. Debian wants its own copy of a library to be used. Other libraries stay in: their names
differ between releases, and one package should install on all of them."""
_LIBRARIES: Final = {"libexpat.so.1": "libexpat1"}
"""Library that libpython may take from the host -> its package."""
_RELEASED: Final = datetime.fromisoformat(RELEASED).replace(tzinfo=UTC)


def build_shim(directory: Path) -> Path:
    """Make the package of the shim in a directory, which is made when missing; return its path."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        place_package(Package.SHIM, root)
        return _pack(Package.SHIM, root, directory, "all", {})


def build_command(directory: Path, executable: Path) -> Path:
    """Make the package of the command in a directory, which is made when missing; return its path.

    The architecture is this host's. Raises StandaloneError or BadZipFile for a file that is no standalone
    executable.
    """
    with tempfile.TemporaryDirectory() as scratch:
        root, program = Path(scratch, "root"), Path(scratch, "service-record")
        root.mkdir()
        leave_out(_ZLIB, executable, program)
        place_package(Package.COMMAND, root, program)
        values = {
            "@GLIBC@": written(needs_of(program)[0].version),
            "@LIBRARIES@": "".join(
                f", {_LIBRARIES[name]}" for name in host_libraries(program) if name != _ZLIB
            ),
            "@LICENCES@": "".join(f"\n   {line}" for line in licences()),
        }
        return _pack(Package.COMMAND, root, directory, _architecture(), values)


def _pack(
    package: Package, root: Path, directory: Path, architecture: str, values: Mapping[str, str]
) -> Path:
    root.chmod(0o755)
    _add_documents(package, root, values)
    _add_control(package, root, {**values, "@ARCHITECTURE@": architecture})
    directory.mkdir(parents=True, exist_ok=True)
    package_file = directory / f"{package.value}_{__version__}_{architecture}.deb"
    # gzip: the executable is compressed already, and xz takes twenty times as long to make it 3 % smaller.
    command = ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(root), str(package_file)]
    epoch = {"SOURCE_DATE_EPOCH": str(int(_RELEASED.timestamp()))}
    subprocess.run(command, check=True, env=os.environ | epoch, stdout=subprocess.DEVNULL)
    return package_file


def _architecture() -> str:
    command = ["dpkg", "--print-architecture"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _add_documents(package: Package, root: Path, values: Mapping[str, str]) -> None:
    documents = root / "usr/share/doc" / package.value
    changelog = (
        f"{package.value} ({__version__}) unstable; urgency=medium\n\n"
        "  * What users notice is in the changelog of the project, CHANGELOG.md.\n\n"
        f" -- {maintainer()}  {format_datetime(_RELEASED)}\n"
    )
    _write(documents / "changelog.gz", _compressed(changelog.encode()))
    _write(documents / "copyright", _filled(_HERE / package.value / "copyright", values).encode())


def _add_control(package: Package, root: Path, values: Mapping[str, str]) -> None:
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    kilobytes = sum(-(-path.stat().st_size // 1024) for path in files)
    url = homepage()
    common = {
        "@VERSION@": __version__,
        "@SIZE@": str(kilobytes),
        "@MAINTAINER@": maintainer(),
        "@HOMEPAGE@": f"Homepage: {url}\n" if url else "",
    }
    control = _filled(_HERE / package.value / "control", {**common, **values})
    sums = "".join(f"{_md5(path)}  {path.relative_to(root)}\n" for path in files)
    _write(root / "DEBIAN/control", control.encode())
    _write(root / "DEBIAN/md5sums", sums.encode())
    for script in sorted((_HERE / package.value).glob("*.sh")):
        _write(root / "DEBIAN" / script.stem, script.read_bytes(), 0o755)


def _filled(template: Path, values: Mapping[str, str]) -> str:
    text = template.read_text()
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def _write(path: Path, data: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def _compressed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


if __name__ == "__main__":
    print(build_shim(Path(sys.argv[1])))
    print(build_command(Path(sys.argv[1]), Path(sys.argv[2])))
