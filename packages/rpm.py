"""`make rpm`: packages for Fedora and its relatives, by the spec beside this file.

The same sources and executable give the same bytes; see https://reproducible-builds.org/specs/source-date-epoch.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from packages.project import homepage, maintainer
from packages.standalone.glibc import host_libraries, needs_of, written
from service_record.version import RELEASED, __version__

_HERE: Final = Path(__file__).parent
_RELEASED: Final = datetime.fromisoformat(RELEASED).replace(tzinfo=UTC)


def build(directory: Path, executable: Path) -> list[Path]:
    """Make both packages in a directory, which is made when missing; return their paths, the shim's first.

    Raises BadZipFile for a file that is no standalone executable.
    """
    # The build finds this Python first, which has what the man pages are made with.
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SOURCE_DATE_EPOCH": str(int(_RELEASED.timestamp())),
    }
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        sources = [sys.executable, "-m", "hatchling", "build", "--target", "sdist"]
        sources += ["--directory", f"{top}/SOURCES"]
        subprocess.run(sources, cwd=_HERE.parent, check=True, env=environment, stdout=subprocess.DEVNULL)
        shutil.copy(executable, top / "SOURCES/service-record")
        definitions = {"_topdir": scratch, "version_of_sources": __version__, "_buildhost": "localhost"}
        definitions |= {"packager": maintainer(), **({"url_of_project": homepage()} if homepage() else {})}
        definitions["day_of_release"] = f"{_RELEASED:%a %b %d %Y}"
        definitions |= {"use_source_date_epoch_as_buildtime": "1", "clamp_mtime_to_source_date_epoch": "1"}
        if libraries := host_libraries(executable):
            definitions["libraries_of_executable"] = " ".join(f"{name}()(64bit)" for name in libraries)
        definitions["glibc_of_executable"] = written(needs_of(executable)[0].version)
        command = ["rpmbuild", "--quiet", "-bb", "--nodeps"]
        command += [text for pair in definitions.items() for text in ("--define", " ".join(pair))]
        subprocess.run([*command, _HERE / "service-record.spec"], check=True, env=environment)
        directory.mkdir(parents=True, exist_ok=True)
        packages = sorted((top / "RPMS").glob("*/*.rpm"), key=lambda package: package.parent.name != "noarch")
        return [Path(shutil.copy(package, directory)) for package in packages]


if __name__ == "__main__":
    for package in build(Path(sys.argv[1]), Path(sys.argv[2])):
        print(package)
