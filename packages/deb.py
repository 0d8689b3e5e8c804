"""`make deb`: a package for Debian and its relatives, of the files of `make install` below /usr.

Made by dpkg-deb alone: nothing is compiled, and no script of ours has to run before it is unpacked. The same
sources give the same bytes; see https://reproducible-builds.org/specs/source-date-epoch.
"""

import gzip
import hashlib
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Final

from packages.project import homepage, maintainer
from packages.stage import main as stage
from service_record.version import RELEASED, __version__

_HERE: Final = Path(__file__).parent / "debian"
_NAME: Final = "service-record"
_RELEASED: Final = datetime.fromisoformat(RELEASED).replace(tzinfo=UTC)


def build(directory: Path) -> Path:
    """Make the package in a directory, which is made when missing; its path."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        root.mkdir(mode=0o755)
        stage([str(root), "--prefix", "/usr", "--reporter"])
        _compress_manual(root)
        _add_documents(root)
        _add_control(root)
        directory.mkdir(parents=True, exist_ok=True)
        package = directory / f"{_NAME}_{__version__}_all.deb"
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(package)]
        epoch = {"SOURCE_DATE_EPOCH": str(int(_RELEASED.timestamp()))}
        subprocess.run(command, check=True, env=os.environ | epoch, stdout=subprocess.DEVNULL)
    return package


def _compress_manual(root: Path) -> None:
    for page in sorted((root / "usr/share/man").rglob("*.[15]")):
        _write(page.with_name(f"{page.name}.gz"), _compressed(page.read_bytes()))
        page.unlink()


def _add_documents(root: Path) -> None:
    documents = root / "usr/share/doc" / _NAME
    changelog = (
        f"{_NAME} ({__version__}) unstable; urgency=medium\n\n"
        "  * What users notice is in the changelog of the project, CHANGELOG.md.\n\n"
        f" -- {maintainer()}  {format_datetime(_RELEASED)}\n"
    )
    _write(documents / "changelog.gz", _compressed(changelog.encode()))
    _write(documents / "copyright", _template("copyright").encode())
    _write(root / "usr/share/lintian/overrides" / _NAME, _template("lintian-overrides").encode())


def _add_control(root: Path) -> None:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    kilobytes = sum(-(-path.stat().st_size // 1024) for path in files)
    url = homepage()
    values = {
        "@VERSION@": __version__,
        "@SIZE@": str(kilobytes),
        "@MAINTAINER@": maintainer(),
        "@HOMEPAGE@": f"Homepage: {url}\n" if url else "",
    }
    control = _template("control")
    for name, value in values.items():
        control = control.replace(name, value)
    sums = "".join(f"{_md5(path)}  {path.relative_to(root)}\n" for path in files)
    _write(root / "DEBIAN/control", control.encode())
    _write(root / "DEBIAN/md5sums", sums.encode())
    for script in ("postinst", "prerm", "postrm"):
        _write(root / "DEBIAN" / script, _template(f"{script}.sh").encode(), 0o755)


def _template(name: str) -> str:
    return (_HERE / name).read_text()


def _write(path: Path, data: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def _compressed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
