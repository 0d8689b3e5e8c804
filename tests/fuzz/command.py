"""Run the command line in this process, hundreds of times a second, and watch which files it changes."""

import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Final

from hypothesis.errors import UnsatisfiedAssumption

from service_record.cli import main
from tests.command_line import environment

EXAMPLES: Final[Counter[str]] = Counter()
"""Number of examples by test name (`KIND: TEST`)."""
FOUND: Final[set[str]] = set()
"""Names of the tests that failed."""

_CPU_SECONDS: Final = 20
"""Limit of an example, which normally takes milliseconds. CPU time of this process, so that other work on the
machine does not fail it.
"""
_CPU_SECONDS_AFTER_HANG: Final = 2
"""Limit after the first hang: hypothesis then looks for the smallest example, which would take hours."""
_WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGE_EVENTS: Final = frozenset(
    {
        *("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink"),
        *("os.truncate", "os.utime", "os.setxattr", "os.removexattr"),
        *("os.exec", "os.fork", "os.posix_spawn", "os.system", "subprocess.Popen", "socket.connect"),
    }
)

_hanging_tests: set[str] = set()


class HangError(Exception):
    """An example reached its limit of CPU time."""


@contextmanager
def limit_time(test: str) -> Iterator[None]:
    """Count an example of a test and limit its CPU time. Raises HangError."""
    EXAMPLES[test] += 1
    before = signal.signal(signal.SIGPROF, _raise_hang)
    signal.setitimer(signal.ITIMER_PROF, _CPU_SECONDS_AFTER_HANG if test in _hanging_tests else _CPU_SECONDS)
    try:
        yield
    except UnsatisfiedAssumption:
        raise
    except Exception as error:
        FOUND.add(test)
        if isinstance(error, HangError):
            _hanging_tests.add(test)
        raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _raise_hang(_number: int, _frame: FrameType | None) -> None:
    raise HangError("limit of CPU time exceeded")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command, and the files that it changed."""

    status: int
    out: bytes
    err: str
    touched: frozenset[str]
    """Absolute paths that it created, changed or opened for writing, and programs that it ran."""


def service_record(
    *arguments: str, stdin: bytes, encoding: str, scratch: Path, **variables: str
) -> CommandResult:
    """Run a command. Temporary files go to `scratch` and do not count as touched."""
    out = TextIOWrapper(BytesIO(), encoding=encoding)
    err = TextIOWrapper(BytesIO(), encoding=encoding, errors="backslashreplace")  # Python's own setting
    with (
        set_environment(environment(**variables)),
        _set_standard_input(stdin),
        redirect_stdout(out),
        redirect_stderr(err),
        _set_temporary_directory(scratch),
        _watch_files() as touched,
    ):
        status = _run_main(arguments)
    outside = frozenset(path for path in touched if not Path(path).is_relative_to(scratch))
    return CommandResult(status, _read_bytes(out), _read_bytes(err).decode(), outside)


def _run_main(arguments: tuple[str, ...]) -> int:
    try:
        # Not `main()`: it ends this process if a daemon thread runs, such as a test's server.
        main.main(arguments, prog_name="service-record")
    except SystemExit as end:
        return int(end.code or 0)


def _read_bytes(stream: TextIOWrapper) -> bytes:
    stream.flush()
    content = stream.buffer
    assert isinstance(content, BytesIO)
    return content.getvalue()


@contextmanager
def set_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Replace all environment variables during the block."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _set_standard_input(content: bytes) -> Iterator[None]:
    """Replace standard input during the block by a file with a descriptor, in memory."""
    before = sys.stdin
    descriptor = os.memfd_create("stdin")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(descriptor, "rb") as stream:
        sys.stdin = TextIOWrapper(stream)
        try:
            yield
        finally:
            sys.stdin = before


@contextmanager
def _set_temporary_directory(directory: Path) -> Iterator[None]:
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = before


_touched: set[str] | None = None


def _record_event(event: str, arguments: tuple[object, ...]) -> None:
    if _touched is None:
        return
    if event == "open":
        path, _mode, flags = arguments
        if isinstance(flags, int) and flags & _WRITE_FLAGS and not isinstance(path, int):
            _touched.add(_make_absolute(path))
    elif event in _CHANGE_EVENTS:
        _touched.add(_make_absolute(arguments[0]))


def _make_absolute(path: object) -> str:
    return os.path.realpath(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else repr(path)


sys.addaudithook(_record_event)


@contextmanager
def _watch_files() -> Iterator[set[str]]:
    """Return the set of paths that are written during the block. Python does not write bytecode files
    meanwhile.
    """
    global _touched  # noqa: PLW0603  # an audit hook cannot be removed, so a global switches it on and off
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    _touched = set()
    try:
        yield _touched
    finally:
        _touched = None
        sys.dont_write_bytecode = before
