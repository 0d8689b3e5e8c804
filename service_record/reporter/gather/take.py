"""The kinds of sources that a row of the table may name: programs, files, trees, containers' logs and more.

Records, the journal and failed units have modules of their own.
"""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from service_record.reporter.gather import files
from service_record.reporter.gather.model import Begin, GatherError, GatherStatus, Pieces, Task
from service_record.reporter.gather.running import GatheredProgram

_MOST_DIGESTED: Final = 16 << 20
"""Bytes; of a larger file only name, size and time are told."""

Mask: TypeAlias = Callable[[Path, bytes], bytes]
"""A function that returns the bytes of a file which may be gathered."""


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """The output of a program, and behind it its errors. Never a shell's command."""

    argv: tuple[str, ...]
    fine: tuple[int, ...] = (0,)
    """Exit statuses that are no failure."""
    absent: tuple[str, ...] = ()
    """Words in its error output, printed instead of anything else, that say: this host does not have it."""
    is_merged: bool = False
    """True if its error output matters as much as its other output."""

    def __call__(self, task: Task) -> Pieces:
        """Raises GatherError for an exit status that is not fine."""
        program = GatheredProgram(self.argv, task.context.environ, is_merged=self.is_merged)
        is_silent, stopped = True, None
        try:
            for chunk in program.chunks(task.deadline, task.collector.most):
                is_silent = False
                yield chunk
        except GatherError as error:
            stopped = error
        errors = _text(program.errors)
        missing = [line for line in errors.splitlines() if any(words in line for words in self.absent)]
        if is_silent and missing:
            raise GatherError(GatherStatus.ABSENT, missing[0])
        if errors:
            yield b"" if is_silent else b"\n"
            yield f"[service-record: error output]\n{errors}\n".encode()
        if stopped is not None:
            raise stopped
        if program.status not in self.fine:
            raise GatherError(GatherStatus.FAILED, _ending(program.status, errors))


def output_of(argv: tuple[str, ...], task: Task) -> bytes:
    """Return all that a program prints, to be understood. Raises GatherError when it does not end well."""
    program = GatheredProgram(argv, task.context.environ)
    printed = b"".join(program.chunks(task.deadline, task.collector.most))
    if program.status != 0:
        raise GatherError(GatherStatus.FAILED, _ending(program.status, _text(program.errors)))
    return printed


def _text(errors: bytes) -> str:
    return errors.decode(errors="replace").strip()


def _ending(status: int | None, errors: str) -> str:
    last_error = f": {errors.splitlines()[-1]}" if errors else ""
    if status is not None and status < 0:
        return f"killed by signal {-status}{last_error}"
    return f"exit status {status}{last_error}"


@dataclass(frozen=True, slots=True)
class File:
    """The end of one file."""

    path: str
    instead: str | None = None
    """The path to use if the first does not exist."""

    def __call__(self, task: Task) -> Pieces:
        """Raises GatherError, absent where there is no such file, failed where it is not ours to read."""
        path = files.below(task.context.root, self.path)
        if self.instead is not None and not path.exists():
            path = files.below(task.context.root, self.instead)
        yield from _file(task.collector.member, path, task.collector.bytes)


@dataclass(frozen=True, slots=True)
class Tree:
    """The ends of the newest files that match, in the collector's directory as they are in `base`."""

    base: str
    """An absolute path, which all patterns begin with."""
    patterns: tuple[str, ...]
    most: int = 40
    """The limit of files."""
    mask: Mask | None = None
    """Applied to each file as a whole, before anybody else sees it; for files of few bytes."""

    def __call__(self, task: Task) -> Pieces:
        """Raises GatherError, absent where nothing matches, failed where one could not be read."""
        paths = _matches(self.patterns, task)
        base = files.real(files.below(task.context.root, self.base))
        trouble: list[GatherError] = []
        for path in paths[: self.most]:
            if task.deadline.seconds_left() == 0:
                raise GatherError(GatherStatus.TIMED_OUT, "not all files were read within the time")
            try:
                member = f"{task.collector.member}{path.relative_to(base)}"
                yield from _file(member, path, task.collector.bytes, self.mask)
            except GatherError as error:
                trouble.append(error)
        if trouble:
            raise GatherError(GatherStatus.FAILED, str(trouble[0]))
        if len(paths) > self.most:
            raise GatherError(GatherStatus.CUT, f"the newest {self.most} of {len(paths)} files")


def _matches(patterns: tuple[str, ...], task: Task) -> list[Path]:
    paths = files.matches(task.context.root, patterns, task.deadline)
    if not paths:
        more = f", nor any of {len(patterns) - 1} others" if len(patterns) > 1 else ""
        raise GatherError(GatherStatus.ABSENT, f"no file {patterns[0]}{more}")
    return paths


def _file(member: str, path: Path, most: int, mask: Mask | None = None) -> Pieces:
    descriptor = files.opened(path)
    try:
        skipped, chunks = files.tail(descriptor, most)
        yield Begin(member, os.fstat(descriptor).st_mtime, skipped)
        yield from chunks if mask is None else (mask(path, b"".join(chunks)),)
    except OSError as error:
        raise GatherError(GatherStatus.FAILED, f"{path}: {error.strerror}") from error
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Listing:
    """Mode, owner, size, time and, if wanted, SHA-256 of the files that match, a line each; no contents."""

    patterns: tuple[str, ...]
    has_digests: bool = True
    """False if contents are so short that a digest reveals them."""

    def __call__(self, task: Task) -> Pieces:
        """Raises GatherError, absent where nothing matches."""
        paths = _matches(self.patterns, task)
        root = files.real(task.context.root)
        for path in sorted(paths):
            if task.deadline.seconds_left() == 0:
                raise GatherError(GatherStatus.TIMED_OUT, "not all files were looked at within the time")
            yield f"{self._described(path)}  /{path.relative_to(root)}\n".encode(errors="backslashreplace")

    def _described(self, path: Path) -> str:
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
        descriptor = files.opened(path)
    except GatherError as error:
        return f"({error})"
    with os.fdopen(descriptor, "rb") as stream:
        if os.fstat(descriptor).st_size > _MOST_DIGESTED:
            return "(large)"
        return hashlib.sha256(stream.read(_MOST_DIGESTED)).hexdigest()


_LINES: Final = 1000
_ENDED: Final = frozenset({"container_exited", "exited", "dead", "stopped"})


@dataclass(frozen=True, slots=True)
class _Container:
    id: str
    name: str
    is_running: bool
    created: str


@dataclass(frozen=True, slots=True)
class ContainerLogs:
    """`<name>-<id>.log` in the collector's directory, for the newest containers of crictl or podman."""

    program: str
    most: int = 40

    def __call__(self, task: Task) -> Pieces:
        """Raises GatherError when the containers cannot be listed, or one's log cannot be had."""
        containers = self._list_containers(task)
        trouble: list[GatherError] = []
        for container in containers[: self.most]:
            yield Begin(f"{task.collector.member}{container.name}-{container.id[:13]}.log")
            argv = (self.program, "logs", f"--tail={_LINES}", container.id)
            try:
                yield from ProgramSource(argv, is_merged=True)(task)
            except GatherError as error:
                if error.status is not GatherStatus.FAILED:
                    raise
                trouble.append(GatherError(GatherStatus.FAILED, f"{container.name}: {error}"))
        if trouble:
            raise trouble[0]
        if len(containers) > self.most:
            raise GatherError(GatherStatus.CUT, f"the newest {self.most} of {len(containers)} containers")

    def _list_containers(self, task: Task) -> list[_Container]:
        form = "--output=json" if self.program == "crictl" else "--format=json"
        containers = containers_in(output_of((self.program, "ps", "--all", form), task))
        newest_first = sorted(containers, key=lambda each: each.created, reverse=True)
        return sorted(newest_first, key=lambda each: each.is_running)


def containers_in(printed: bytes) -> list[_Container]:
    """Return the containers that crictl or podman lists. Raises GatherError for what is no such list."""
    try:
        containers = json.loads(printed or b"[]")
    except ValueError as error:
        raise GatherError(
            GatherStatus.FAILED, f"the list of containers is not valid JSON: {error}"
        ) from error
    if isinstance(containers, dict):
        containers = containers.get("containers")
    return list(_understood(containers if isinstance(containers, list) else []))


def _understood(containers: Iterable[Any]) -> Iterator[_Container]:
    for each in containers:
        with suppress(AttributeError, KeyError, IndexError, TypeError):
            container = _of_crictl(each) if "metadata" in each else _of_podman(each)
            if container.id.isalnum():  # it is to be an argument
                yield container


def _of_crictl(each: dict[str, Any]) -> _Container:
    return _container(each["id"], each["metadata"]["name"], each["state"], each["createdAt"])


def _of_podman(each: dict[str, Any]) -> _Container:
    return _container(each["Id"], each["Names"][0], each["State"], each["Created"])


def _container(id_: object, name: object, state: object, created: object) -> _Container:
    is_running = str(state).lower() not in _ENDED
    return _Container(str(id_), str(name).replace("/", "_"), is_running, str(created))
