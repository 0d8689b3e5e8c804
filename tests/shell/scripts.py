"""Bash as the tests run it: the versions found here, and one script run as a service would be."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).parents[2]
SHIM = Path(os.environ.get("SHIM", ROOT / "shell" / "bootstrap-service-record.sh"))
"""The shim under test; $SHIM names another one, such as an installed copy."""
FINDER = SHIM.with_name("service-record-failure.sh")
"""Script that the shim looks for beside itself once something has failed."""
ABSENT = Path(__file__).with_name("absent.bash")
"""Upstream's functions without the recording: what sources this runs as it would without the shim."""

NO_LOOKUP = {"SHELL": "/bin/sh"}
"""A statically linked bash looks for SHELL in the user database when it has none, and may crash over it."""

Entry: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bash:
    """One bash to test under; prints as `bash-5.2.15`."""

    path: Path
    version: str

    def __str__(self) -> str:
        return f"bash-{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """End of a script and its record: the whole lines, and the damaged ones."""

    returncode: int
    stdout: bytes
    stderr: bytes
    entries: list[Entry] = field(default_factory=list)
    damaged: list[bytes] = field(default_factory=list)

    def of(self, phase: str) -> list[Entry]:
        """Return the entries of one phase."""
        return [entry for entry in self.entries if entry["phase"] == phase]

    @property
    def behaviour(self) -> tuple[int, bytes, bytes]:
        """All that somebody outside sees of the script: what must be the same with and without the shim."""
        return self.returncode, self.stdout, self.stderr


@cache
def bashes() -> tuple[Bash, ...]:
    """Return the bash on PATH, and the oldest and newest of all: a change between two has both sides."""
    first, *others = every_bash()
    others.sort(key=lambda bash: [int(part) for part in bash.version.split(".")])
    return (first, *others[:1], *others[1:][-1:])


@cache
def every_bash() -> tuple[Bash, ...]:
    """Return the bash on PATH and those that SERVICE_RECORD_BASHES names, each version once."""
    named = os.environ.get("SERVICE_RECORD_BASHES", "").split(":")
    paths = [path for path in (shutil.which("bash"), *named) if path]
    found = {version_of(path): Path(path) for path in reversed(paths)}
    return tuple(Bash(path, version) for version, path in reversed(found.items()))


def version_of(path: str) -> str:
    """Return `5.2.15` for a bash of that version."""
    asked = [path, "-c", 'IFS=.; printf %s "${BASH_VERSINFO[*]:0:3}"']
    return subprocess.run(asked, check=True, capture_output=True, text=True, env=NO_LOOKUP).stdout


def environment(directory: Path) -> dict[str, str]:
    """Return what a unit would give the service: little, and nothing of the test run's own."""
    return NO_LOOKUP | {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "SHIM": str(directory / "shim.sh"),
        "SERVICE_NAME": "service",
        "SERVICE_RECORDS_DIR": str(directory / "records"),
    }


def run_script(
    bash: Bash,
    text: str,
    directory: Path,
    env: Mapping[str, str] | None = None,
    *,
    shim: Path = SHIM,
    name: str = "service.sh",
    how: str = "file",
    wrapper: tuple[str, ...] = (),
    timeout: float = 120,
) -> Completed:
    """Run the script in the directory and read what it recorded as `service`.

    It is run from a file of that name, or as said by `how`: `-c`, or `stdin`, from standard input. It has a
    process group of its own, which is killed afterwards: a script may leave a child behind.
    """
    directory.joinpath(name).write_text(text)
    directory.joinpath("shim.sh").symlink_to(shim)
    if shim == SHIM:
        directory.joinpath(FINDER.name).symlink_to(FINDER)
    arguments = {"file": [name], "-c": ["-c", text], "stdin": []}[how]
    with subprocess.Popen(
        [*wrapper, bash.path, *arguments],
        cwd=directory,
        env=environment(directory) | dict(env or {}),
        stdin=subprocess.PIPE if how == "stdin" else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(text.encode() if how == "stdin" else None, timeout)
        finally:
            kill_group(process.pid)
    entries, damaged = read_record(directory / "records" / "service.json")
    return Completed(
        returncode=process.returncode, stdout=stdout, stderr=stderr, entries=entries, damaged=damaged
    )


def kill_group(leader: int) -> None:
    """Kill what is left of a process group, if anything is."""
    assert leader > 1, "that would be everybody's"
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def read_record(path: Path) -> tuple[list[Entry], list[bytes]]:
    """Return the whole entries of a file in the lines layout, and the lines that are none."""
    if not path.is_file():
        return [], []

    entries: list[Entry] = []
    damaged: list[bytes] = []
    for line in path.read_bytes().split(b"\n"):
        if not line:
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            damaged.append(line)
        else:
            entries.append(entry)
    return entries, damaged
