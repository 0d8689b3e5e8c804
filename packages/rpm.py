"""`make rpm`: packages for Fedora and its relatives, by the spec beside this file."""

import os
import shutil
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Final

from packages.project import homepage, maintainer
from packages.standalone.glibc import needs_of, written
from service_record.version import RELEASED, __version__

_HERE: Final = Path(__file__).parent


def build(directory: Path, executable: Path) -> list[Path]:
    """Make both packages in a directory, which is made when missing; return their paths, the shim's first.

    Raises BadZipFile for a file that is no standalone executable.
    """
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        sources = [sys.executable, "-m", "hatchling", "build", "--target", "sdist"]
        sources += ["--directory", f"{top}/SOURCES"]
        subprocess.run(sources, cwd=_HERE.parent, check=True, stdout=subprocess.DEVNULL)
        shutil.copy(executable, top / "SOURCES/service-record")
        definitions = {"_topdir": scratch, "version_of_sources": __version__, "_buildhost": "localhost"}
        definitions |= {"packager": maintainer(), **({"url_of_project": homepage()} if homepage() else {})}
        definitions["day_of_release"] = f"{date.fromisoformat(RELEASED):%a %b %d %Y}"
        definitions["glibc_of_executable"] = written(needs_of(executable)[0].version)
        command = ["rpmbuild", "--quiet", "-bb", "--nodeps"]
        command += [text for pair in definitions.items() for text in ("--define", " ".join(pair))]
        # The build finds this Python first, which has what the man pages are made with.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run([*command, _HERE / "service-record.spec"], check=True, env=os.environ | {"PATH": path})
        directory.mkdir(parents=True, exist_ok=True)
        packages = sorted((top / "RPMS").glob("*/*.rpm"), key=lambda package: package.parent.name != "noarch")
        return [Path(shutil.copy(package, directory)) for package in packages]


if __name__ == "__main__":
    for package in build(Path(sys.argv[1]), Path(sys.argv[2])):
        print(package)
