"""A machine with a disk of its own, a Debian without Python: what a boot leaves there the next one finds.

debootstrap(8) makes the tree, once; it is kept in .cache, by suite and packages. Each machine has a copy.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from service_record.record.directory import Records
from testing.machine import REPOSITORY, Machine

SUITE: Final = "bookworm"
PACKAGES: Final = ("dbus", "systemd", "systemd-sysv")
_OF_NO_USE: Final = (
    *("usr/share/doc", "usr/share/locale", "usr/share/man"),
    *("var/cache/apt", "var/lib/apt/lists"),
)
_CACHE: Final = REPOSITORY / ".cache/rootfs"
_SECONDS: Final = 600
_NO_MIRROR: Final = "Failed getting release file"
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class NoDebianError(Exception):
    """No tree can be made here; the text is one line that says why."""


class DebianMachine(Machine):
    """A machine that boots from `disk`; nothing of this host's programs is in it."""

    def __init__(self, root: Path, *, wants: tuple[str, ...] = ()) -> None:
        """Make its disk, a copy of the tree, in ROOT. Raises NoDebianError."""
        tree = rootfs()
        super().__init__(root, is_its_own_clock=True, wants=wants)
        self.disk = root / "disk"
        subprocess.run(["cp", "--archive", "--reflink=auto", tree, self.disk], check=True)
        self.records = Records(self.disk / "var/log/openshift")

    def settings(self, unit: str, *lines: str) -> None:
        """Add a drop-in for a unit of the disk, in /run."""
        directory = self._units / f"{unit}.d"
        directory.mkdir()
        (directory / "test.conf").write_text("\n".join([*lines, ""]))

    def _system(self) -> Iterator[str]:
        yield from (f"--directory={self.disk}", "--resolv-conf=off", "--timezone=off")


def rootfs(packages: tuple[str, ...] = PACKAGES) -> Path:
    """Return a tree with these packages. It is made once; others wait for it. Raises NoDebianError."""
    recipe = " ".join((SUITE, *packages, "without", *_OF_NO_USE))
    tree = _CACHE / f"{SUITE}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.exists():
            _make(tree, packages)
    return tree


def _make(tree: Path, packages: tuple[str, ...]) -> None:
    program = shutil.which("debootstrap", path=_PATH)
    if program is None:
        raise NoDebianError("debootstrap is not installed")
    part = tree.with_name("part")
    for name in ("proc", "sys"):  # left mounted if an earlier debootstrap was killed
        subprocess.run(["umount", "--lazy", part / name], check=False, stderr=subprocess.DEVNULL)
    shutil.rmtree(part, ignore_errors=True)
    command = [program, "--variant=minbase", f"--include={','.join(packages)}", SUITE, str(part), *_mirror()]
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env=os.environ | {"PATH": _PATH},
        )
    except subprocess.TimeoutExpired:
        raise NoDebianError(f"debootstrap did not end within {_SECONDS} s") from None
    if done.returncode != 0:
        raise NoDebianError(_why(done.stderr + done.stdout))
    for path in _OF_NO_USE:
        shutil.rmtree(part / path, ignore_errors=True)
    part.rename(tree)


def _why(output: str) -> str:
    """Return what went wrong. Without a mirror there is nothing to be done; all else should have worked."""
    errors = [line.removeprefix("E: ") for line in output.splitlines() if line.startswith("E: ")]
    line = errors[-1] if errors else f"its last line: {output.strip().splitlines()[-1:]}"
    without_mirror = "no mirror, so it cannot be had here" if _NO_MIRROR in line else "debootstrap failed"
    return f"{without_mirror}: {line}"


def _mirror() -> list[str]:
    """Return apt's source of this suite; nothing, which is debootstrap's own choice, where it has none."""
    command = ["apt-get", "indextargets", "--format=$(REPO_URI)", "Created-By: Packages", f"Release: {SUITE}"]
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True).stdout.split()[:1]
    except FileNotFoundError:
        return []
