"""Find the versions of bash, and run a script under one of them as a service."""

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
"""The file that the shim reads after a failure."""
ABSENT = Path(__file__).with_name("absent.bash")
"""A file with functions that do nothing, to source in place of the shim."""

NO_LOOKUP = {"SHELL": "/bin/sh"}
"""Without SHELL, a statically linked bash reads the user database and may crash."""

Entry: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bash:
    """A bash executable and its version, printed as `bash-5.2.15`."""

    path: Path
    version: str

    def __str__(self) -> str:
        return f"bash-{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The result of a script, and its record: the entries and the damaged lines."""

    returncode: int
    stdout: bytes
    stderr: bytes
    entries: list[Entry] = field(default_factory=list)
    damaged: list[bytes] = field(default_factory=list)

    def find_entries(self, phase: str) -> list[Entry]:

        return [entry for entry in self.entries if entry["phase"] == phase]

    @property
    def behaviour(self) -> tuple[int, bytes, bytes]:
        """The exit status and output, which must be the same with and without the shim."""
        return self.returncode, self.stdout, self.stderr


@cache
def bashes() -> tuple[Bash, ...]:
    """Return the bash on PATH, the oldest and the newest version."""
    first, *others = every_bash()
    others.sort(key=lambda bash: [int(part) for part in bash.version.split(".")])
    return (first, *others[:1], *others[1:][-1:])


@cache
def every_bash() -> tuple[Bash, ...]:
    """Return the bash on PATH and those in SERVICE_RECORD_BASHES, each version once."""
    named = os.environ.get("SERVICE_RECORD_BASHES", "").split(":")
    paths = [path for path in (shutil.which("bash"), *named) if path]
    found = {get_version(path): Path(path) for path in reversed(paths)}
    return tuple(Bash(path, version) for version, path in reversed(found.items()))


def get_version(path: str) -> str:
    """Return the version of a bash, such as `5.2.15`."""
    command = [path, "-c", 'IFS=.; printf %s "${BASH_VERSINFO[*]:0:3}"']
    return subprocess.run(command, check=True, capture_output=True, text=True, env=NO_LOOKUP).stdout


def environment(directory: Path) -> dict[str, str]:
    """Return the environment of a service: small, without the variables of the test run."""
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
    """Run the script in the directory and read the record of `service`.

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
    """Kill the remaining processes of a process group."""
    assert leader > 1, f"{leader} is not the leader of a process group"
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def read_record(path: Path) -> tuple[list[Entry], list[bytes]]:
    """Return the entries of a JSON Lines file, and its lines that are not entries."""
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
