"""`make rpm`: a package for Fedora and its relatives, by the spec beside this file."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from packages.project import homepage, maintainer
from service_record.version import __version__

_HERE: Final = Path(__file__).parent


def build(directory: Path) -> Path:
    """Make the package in a directory, which is made when missing; its path."""
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        sources = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--directory",
            f"{top}/SOURCES",
            "--target",
            "sdist",
        ]
        subprocess.run(sources, cwd=_HERE.parent, check=True, capture_output=True)
        definitions = {"_topdir": scratch, "version_of_sources": __version__, "_buildhost": "localhost"}
        definitions |= {"packager": maintainer(), **({"url_of_project": homepage()} if homepage() else {})}
        command = ["rpmbuild", "--quiet", "-bb", "--nodeps"]
        command += [text for pair in definitions.items() for text in ("--define", " ".join(pair))]
        # The build finds this Python first, which has what the man pages are made with.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run([*command, _HERE / "service-record.spec"], check=True, env=os.environ | {"PATH": path})
        (made,) = (top / "RPMS/noarch").iterdir()
        directory.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(made, directory))


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
