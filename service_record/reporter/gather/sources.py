"""Sources for rows of the table: programs, files, directory trees, listings, logs of containers, clocks.

Programs run at a low priority. Files may be links, pipes, huge, growing or unreadable. The journal, failed
units and records have a module of their own.

Redaction works line by line, and cannot recognise every secret of a keyfile of NetworkManager: VPN plugins
choose the names of their secrets, and a PIN or a MACsec key looks like any number. Only the section shows
what a value may be. So values are gathered from the sections listed here only; elsewhere just the names of
settings are gathered. See nm-settings-keyfile(5) and nm-settings(5).
"""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeAlias, TypeVar

from service_record.record import programs
from service_record.record.appending import open_regular
from service_record.record.file_end import read_tail
from service_record.record.programs import Deadline, ProgramError
from service_record.reporter.gather.gathering import (
    Begin,
    GatherError,
    GatherStatus,
    Pieces,
    Task,
    resolve_in_root,
)

# The lowest priority of the best-effort class. In the idle class, a program would never finish on a host
# whose disk is always busy. -t: run the program even if the priority cannot be set.
_IONICE_OPTIONS: Final = ("-t", "-c", "2", "-n", "7")
_PRIVILEGED: Final = frozenset({"podman"})
"""Without CAP_SYS_ADMIN, podman treats root as an ordinary user, and lists no containers."""
_CAP_SYS_ADMIN: Final = 1 << 21  # capabilities(7)
_SYSTEMD_RUN: Final = (
    *("systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--property=RuntimeMaxSec=60"),
    *("--property=MemoryMax=256M", "--property=Nice=15", "--property=LogLevelMax=notice", "--"),
)
"""Runs a program outside the sandbox of our unit. RuntimeMaxSec= ends it even if this process is killed."""
_STATUSES: Final = {
    programs.NoProgramError: GatherStatus.ABSENT,
    programs.ProgramTimeoutError: GatherStatus.TIMED_OUT,
    programs.TooMuchOutputError: GatherStatus.CUT,
}


class _Program(programs.Program):
    """A running program. Its errors are raised as GatherError."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], *, is_merged: bool = False
    ) -> None:
        ionice = shutil.which("ionice")
        prefix = (
            *((ionice, *_IONICE_OPTIONS) if ionice else ()),
            *(_SYSTEMD_RUN if command[0] in _PRIVILEGED and _is_confined() else ()),
        )
        try:
            super().__init__(command, environ, is_merged=is_merged, prefix=prefix)
        except ProgramError as error:
            raise _as_gather_error(error) from error

    def chunks(self, deadline: Deadline, most: int) -> Iterator[bytes]:
        try:
            yield from super().chunks(deadline, most)
        except ProgramError as error:
            raise _as_gather_error(error) from error


def _as_gather_error(error: ProgramError) -> GatherError:
    return GatherError(_STATUSES.get(type(error), GatherStatus.FAILED), str(error))


def _is_confined() -> bool:
    """Return whether this process is root without CAP_SYS_ADMIN, and systemd-run is installed."""
    if os.geteuid() != 0 or shutil.which(_SYSTEMD_RUN[0]) is None:
        return False
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapEff:"):
                return not int(line.split()[1], 16) & _CAP_SYS_ADMIN
    return False


_MAX_DIGEST_BYTES: Final = 16 << 20
"""The size limit for SHA-256 in a listing."""

Mask: TypeAlias = Callable[[Path, bytes], bytes]
"""Returns the content of a file without its secrets, given the path and the content."""

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """The output of a program, followed by its error output. No shell is involved."""

    argv: tuple[str, ...]
    success_statuses: tuple[int, ...] = (0,)
    """Exit statuses that count as success."""
    absent: tuple[str, ...] = ()
    """Phrases of its error output. With one of them and no other output, the result is absent."""
    is_merged: bool = False
    """True to merge error output into the output, in order."""

    def __call__(self, task: Task) -> Pieces:
        """Yield the output. Raises GatherError for any other exit status."""
        program = _Program(self.argv, task.context.environ, is_merged=self.is_merged)
        is_silent, stopped = True, None
        try:
            for chunk in program.chunks(task.deadline, task.most):
                is_silent = False
                yield chunk
        except GatherError as error:
            stopped = error
        errors = _decode(program.errors)
        missing = [line for line in errors.splitlines() if any(words in line for words in self.absent)]
        if is_silent and missing:
            raise GatherError(GatherStatus.ABSENT, missing[0])
        if errors:
            yield b"" if is_silent else b"\n"
            yield f"[service-record: error output]\n{errors}\n".encode()
        if stopped is not None:
            raise stopped
        if program.status not in self.success_statuses:
            raise GatherError(GatherStatus.FAILED, _describe_exit(program.status, errors))


def run_program(argv: tuple[str, ...], task: Task) -> bytes:
    """Return the output of a program, to be parsed. Raises GatherError if it fails."""
    program = _Program(argv, task.context.environ)
    printed = b"".join(program.chunks(task.deadline, task.most))
    if program.status != 0:
        raise GatherError(GatherStatus.FAILED, _describe_exit(program.status, _decode(program.errors)))
    return printed


def _decode(errors: bytes) -> str:
    return errors.decode(errors="replace").strip()


def _describe_exit(status: int | None, errors: str) -> str:
    last_error = f": {errors.splitlines()[-1]}" if errors else ""
    if status is not None and status < 0:
        return f"killed by signal {-status}{last_error}"
    return f"exit status {status}{last_error}"


def take_each(
    items: Sequence[_Item], most: int, what: str, read: Callable[[_Item], Pieces], task: Task
) -> Pieces:
    """Yield the pieces of the first `most` items. An item that fails or is cut does not affect the others.

    Raises GatherError: the first failure after all items, cut if an item is cut or items are left out, and at
    once any other error of an item.
    """
    failure: GatherError | None = None
    cut: GatherError | None = None
    for number, item in enumerate(items[:most]):
        if task.is_late:
            raise GatherError(
                GatherStatus.TIMED_OUT, f"{number} of {len(items)} {what} were read within the time"
            )
        try:
            yield from read(item)
        except GatherError as error:
            if error.status is GatherStatus.FAILED:
                failure = failure or error
            elif error.status is GatherStatus.CUT:
                cut = cut or error
            else:
                raise
    if failure is not None:
        raise failure
    if len(items) > most:
        raise GatherError(GatherStatus.CUT, f"{most} of {len(items)} {what}")
    if cut is not None:
        raise cut


_OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_MAX_MATCHES: Final = 10_000
"""The limit of examined matches for one pattern."""


def real_path(path: Path) -> Path:
    """Return the real path. Path.resolve() raises for a loop of links in some versions of Python."""
    return Path(os.path.realpath(path))


def open_file(path: Path) -> int:
    """Return the descriptor of a regular file; the caller closes it.

    A link is not followed: resolve the path with `resolve_in_root` first. Raises GatherError: absent if the
    file is missing, failed if it is a link, not a regular file or unreadable.
    """
    try:
        return open_regular(path, _OPEN_FLAGS)
    except FileNotFoundError:
        raise GatherError(GatherStatus.ABSENT, f"no file {path}") from None
    except OSError as error:
        why = "a link" if error.errno == errno.ELOOP else error.strerror or "not a regular file"
        raise GatherError(GatherStatus.FAILED, f"{path}: {why}") from error


def find_files(task: Task, patterns: tuple[str, ...]) -> dict[Path, str]:
    """Return the files that match absolute patterns of the host, newest first.

    Each real path is mapped to the path on the host that begins like its pattern. They differ if there is a
    link before the first wildcard of the pattern: it is resolved. Matches that are links, or are below a
    link, are left out. Returns the matches found so far when the deadline expires. Raises GatherError with
    the status absent if nothing matches.
    """
    times: dict[Path, float] = {}
    names: dict[Path, str] = {}
    for pattern in patterns:
        fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]
        try:
            base = real_path(resolve_in_root(task.context.root, fixed or "/"))
        except GatherError:  # links in a circle lead to no file
            continue
        for match in islice(base.glob(pattern[len(fixed) + 1 :]), _MAX_MATCHES):
            if task.is_late:
                break
            with suppress(OSError):
                if real_path(match) == match:
                    times[match] = match.stat().st_mtime
                    names.setdefault(match, f"{fixed}/{match.relative_to(base)}")
    if not names:
        more = f", nor any of {len(patterns) - 1} others" if len(patterns) > 1 else ""
        raise GatherError(GatherStatus.ABSENT, f"no file {patterns[0]}{more}")
    return {path: names[path] for path in sorted(times, key=lambda path: (-times[path], path))}


@dataclass(frozen=True, slots=True)
class File:
    """The end of one file."""

    path: str
    fallback_path: str | None = None
    """The path to use if the first one does not exist."""

    def __call__(self, task: Task) -> Pieces:
        """Yield the end of the file. Raises GatherError: absent if it is missing, failed if unreadable."""
        path = resolve_in_root(task.context.root, self.path)
        if self.fallback_path is not None and not path.exists():
            path = resolve_in_root(task.context.root, self.fallback_path)
        yield from _read_file(task.row.member, path, task.row.bytes)


@dataclass(frozen=True, slots=True)
class Tree:
    """The ends of the newest matching files. Their paths in the bundle are relative to `base`."""

    base: str
    """The absolute path that all patterns begin with."""
    patterns: tuple[str, ...]
    most: int = 40
    """The limit for the number of files."""
    mask: Mask | None = None
    """Applied to the whole content of each file. For small files only."""

    def __call__(self, task: Task) -> Pieces:
        """Yield the files. Raises GatherError: absent if nothing matches, failed if a file is unreadable."""
        paths = find_files(task, self.patterns)

        def read(path: Path) -> Pieces:
            member = f"{task.row.member}{PurePosixPath(paths[path]).relative_to(self.base)}"
            try:
                yield from _read_file(member, path, task.row.bytes, self.mask)
            except GatherError as error:  # such as a file that was removed meanwhile
                raise GatherError(GatherStatus.FAILED, str(error)) from error

        yield from take_each(list(paths), self.most, "files", read, task)


def _read_file(member: str, path: Path, most: int, mask: Mask | None = None) -> Pieces:
    descriptor = open_file(path)
    try:
        skipped, chunks = read_tail(descriptor, most)
        yield Begin(member, os.fstat(descriptor).st_mtime, skipped)
        yield from chunks if mask is None else (mask(path, b"".join(chunks)),)
    except OSError as error:
        raise GatherError(GatherStatus.FAILED, f"{path}: {error.strerror}") from error
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Listing:
    """A line for each matching file: mode, owner, size, time, SHA-256 (optional) and path. No contents."""

    patterns: tuple[str, ...]
    has_digests: bool = True
    """False for contents that can be guessed from their digest."""

    def __call__(self, task: Task) -> Pieces:
        """Yield the lines. Raises GatherError with the status absent if nothing matches."""
        paths = find_files(task, self.patterns)
        root = real_path(task.context.root)
        for path in sorted(paths):
            if task.is_late:
                raise GatherError(GatherStatus.TIMED_OUT, "not all files were looked at within the time")
            yield f"{self._describe(path)}  /{path.relative_to(root)}\n".encode(errors="backslashreplace")

    def _describe(self, path: Path) -> str:
        try:
            status = path.lstat()
        except OSError as error:
            return f"{error.strerror}"
        written = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
        about = (
            f"{stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid} {status.st_size:>9} {written}"
        )
        if not self.has_digests or not stat.S_ISREG(status.st_mode):
            return about
        return f"{about} {_digest(path)}"


def _digest(path: Path) -> str:
    try:
        descriptor = open_file(path)
    except GatherError as error:
        return f"({error})"
    with os.fdopen(descriptor, "rb") as stream:
        if os.fstat(descriptor).st_size > _MAX_DIGEST_BYTES:
            return "(large)"
        return hashlib.sha256(stream.read(_MAX_DIGEST_BYTES)).hexdigest()


_LOG_LINES: Final = 1000
_MAX_CONTAINERS: Final = 40
_ENDED_STATES: Final = frozenset({"container_exited", "exited", "dead", "stopped"})


@dataclass(frozen=True, slots=True)
class _Container:
    id: str
    name: str
    is_running: bool
    created: str


@dataclass(frozen=True, slots=True)
class ContainerLogs:
    """`<name>-<id>.log` for the newest containers of crictl or podman. Those that have ended come first."""

    program: str

    def __call__(self, task: Task) -> Pieces:
        """Yield the logs. Raises GatherError if the list or a log cannot be read."""
        form = "--output=json" if self.program == "crictl" else "--format=json"
        containers = parse_containers(run_program((self.program, "ps", "--all", form), task))
        containers.sort(key=lambda each: each.created, reverse=True)
        containers.sort(key=lambda each: each.is_running)

        def read(container: _Container) -> Pieces:
            yield Begin(f"{task.row.member}{container.name}-{container.id[:13]}.log")
            argv = (self.program, "logs", f"--tail={_LOG_LINES}", container.id)
            try:
                yield from ProgramSource(argv, is_merged=True)(task)
            except GatherError as error:
                raise GatherError(error.status, f"{container.name}: {error}") from error

        yield from take_each(containers, _MAX_CONTAINERS, "containers", read, task)


def parse_containers(printed: bytes) -> list[_Container]:
    """Parse the JSON list of crictl or podman. Raises GatherError if it is not JSON; skips invalid rows."""
    try:
        rows: Any = json.loads(printed or b"[]")
    except ValueError as error:
        raise GatherError(
            GatherStatus.FAILED, f"the list of containers is not valid JSON: {error}"
        ) from error
    if isinstance(rows, dict):
        rows = rows.get("containers")
    found: list[_Container] = []
    for row in rows if isinstance(rows, list) else []:
        with suppress(AttributeError, KeyError, IndexError, TypeError):
            if "metadata" in row:  # crictl
                values = row["id"], row["metadata"]["name"], row["state"], row["createdAt"]
            else:  # podman
                values = row["Id"], row["Names"][0], row["State"], row["Created"]
            id_, name, state, created = map(str, values)
            if id_.isalnum():  # it becomes an argument, and must not look like an option
                is_running = state.lower() not in _ENDED_STATES
                found.append(_Container(id_, name.replace("/", "_"), is_running, created))
    return found


_RTC: Final = "/sys/class/rtc/rtc0/since_epoch"


def clocks(task: Task) -> Pieces:
    """Yield the time of the system clock and the hardware clock, and the uptime."""
    now = time.time()
    yield f"system   {datetime.fromtimestamp(now, UTC).isoformat(timespec='milliseconds')}\n".encode()
    with suppress(OSError, ValueError):
        hardware = int(resolve_in_root(task.context.root, _RTC).read_text())
        moment = datetime.fromtimestamp(hardware, UTC).isoformat()
        yield f"hardware {moment} (the system is {now - hardware:.0f} s ahead)\n".encode()
    yield f"uptime   {time.clock_gettime(time.CLOCK_BOOTTIME):.2f} s\n".encode()


WITHHELD: Final = b"<withheld>"
_HARMLESS_SECTIONS: Final = frozenset(
    {
        *(b"connection", b"ethernet", b"802-3-ethernet", b"ipv4", b"ipv6", b"match", b"link", b"hostname"),
        *(b"vlan", b"bond", b"bond-port", b"bridge", b"bridge-port", b"team", b"team-port"),
        *(b"ovs-bridge", b"ovs-port", b"ovs-interface", b"ovs-patch", b"ovs-dpdk", b"ovs-external-ids"),
        *(b"infiniband", b"ip-tunnel", b"macvlan", b"vxlan", b"vrf", b"veth", b"dummy", b"loopback", b"tun"),
        *(b"ethtool", b"sriov", b"tc", b"dcb", b"wifi", b"802-11-wireless", b".nmmeta"),
    }
)
"""Sections without secrets. Those of a wireless network are in `wifi-security`."""
_SECTION: Final = re.compile(rb"\s*\[([^\]\r\n]*)\]\s*$")
_SETTING: Final = re.compile(rb"(\s*[^=\r\n#;]{1,200}=).*", re.DOTALL)
_PLAIN_SUFFIXES: Final = frozenset({".ini", ".yaml", ".yml"})
"""Suffixes of files without secrets in /etc/assisted/network: MAC addresses, and documents of nmstate."""


_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\n?", re.ASCII
)


def extract_certificates(_path: Path, data: bytes) -> bytes:
    """Return only the certificates of a PEM file, which are public. Keys are left out."""
    return b"".join(_CERTIFICATE.findall(data))


def mask_keyfile(_path: Path, data: bytes) -> bytes:
    """Replace the values of all sections that may have secrets. The number of lines does not change.

    Values before the first section are replaced, too: the beginning of the file may be cut off.
    """
    is_harmless = False
    lines: list[bytes] = []
    for line in data.split(b"\n"):
        section = _SECTION.match(line)
        if section:
            is_harmless = section[1] in _HARMLESS_SECTIONS
            lines.append(line)
        elif is_harmless or not line.strip():
            lines.append(line)
        else:
            setting = _SETTING.match(line)
            lines.append(setting[1] + WITHHELD if setting else WITHHELD)
    return b"\n".join(lines)


def mask_assisted(path: Path, data: bytes) -> bytes:
    """Mask a file below /etc/assisted/network. Unless its suffix shows otherwise, it is a keyfile."""
    return data if path.suffix in _PLAIN_SUFFIXES else mask_keyfile(path, data)
