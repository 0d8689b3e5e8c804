"""The command line in this process: as a person starts it, but hundreds of times a second, and watched."""

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
"""Name of a test, behind the kind of what it is given and a colon -> how many examples it has run."""
FOUND: Final[set[str]] = set()
"""The names of those that found something."""

_CPU_SECONDS: Final = 20
"""For an example that takes milliseconds; of this process alone: other work on the machine is no failure."""
_AFTER_A_HANG: Final = 2
"""Then it is shown to be one, and hypothesis looks for the smallest, which would take it hours."""
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGING: Final = frozenset(
    {
        *("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink"),
        *("os.truncate", "os.utime", "os.setxattr", "os.removexattr"),
        *("os.exec", "os.fork", "os.posix_spawn", "os.system", "subprocess.Popen", "socket.connect"),
    }
)

_hung: set[str] = set()


class HangError(Exception):
    """An example took so long that it may well take for ever."""


@contextmanager
def bounded(test: str) -> Iterator[None]:
    """Count an example of a test, and raise HangError when it does not end."""
    EXAMPLES[test] += 1
    before = signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, _AFTER_A_HANG if test in _hung else _CPU_SECONDS)
    try:
        yield
    except UnsatisfiedAssumption:
        raise
    except Exception as fault:
        FOUND.add(test)
        if isinstance(fault, HangError):
            _hung.add(test)
        raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _give_up(_number: int, _frame: FrameType | None) -> None:
    raise HangError("still busy after seconds of CPU time")


@dataclass(frozen=True, slots=True)
class Watched:
    """Answer of the command line, and its changes of files."""

    status: int
    out: bytes
    err: str
    touched: frozenset[str]
    """The absolute paths that it made, changed or opened for writing, and the programs that it ran."""


def service_record(*arguments: str, stdin: bytes, encoding: str, scratch: Path, **variables: str) -> Watched:
    """Run a verb. `scratch` is where temporary files go, which do not count as touched."""
    out = TextIOWrapper(BytesIO(), encoding=encoding)
    err = TextIOWrapper(BytesIO(), encoding=encoding, errors="backslashreplace")  # as Python has it
    with (
        environment_is(environment(**variables)),
        _standard_input(stdin),
        redirect_stdout(out),
        redirect_stderr(err),
        _temporary_files(scratch),
        _watching() as touched,
    ):
        status = _status(arguments)
    outside = frozenset(path for path in touched if not Path(path).is_relative_to(scratch))
    return Watched(status, _bytes_of(out), _bytes_of(err).decode(), outside)


def _status(arguments: tuple[str, ...]) -> int:
    try:
        # Not `main()`, which ends this process if a daemon thread runs, such as that of a server of the test.
        main.main(arguments, prog_name="service-record")
    except SystemExit as end:
        return int(end.code or 0)


def _bytes_of(stream: TextIOWrapper) -> bytes:
    stream.flush()
    content = stream.buffer
    assert isinstance(content, BytesIO)
    return content.getvalue()


@contextmanager
def environment_is(variables: Mapping[str, str]) -> Iterator[None]:
    """These variables, and no others."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _standard_input(content: bytes) -> Iterator[None]:
    """A file without a name: it has a descriptor, and nothing of it is on the disk."""
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
def _temporary_files(directory: Path) -> Iterator[None]:
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = before


_touched: set[str] | None = None


def _see(event: str, arguments: tuple[object, ...]) -> None:
    if _touched is None:
        return
    if event == "open":
        path, _mode, flags = arguments
        if isinstance(flags, int) and flags & _WRITING and not isinstance(path, int):
            _touched.add(_absolute(path))
    elif event in _CHANGING:
        _touched.add(_absolute(arguments[0]))


def _absolute(path: object) -> str:
    return os.path.realpath(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else repr(path)


sys.addaudithook(_see)


@contextmanager
def _watching() -> Iterator[set[str]]:
    """Watch what is written meanwhile, wherever; only Python's cache of compiled code is switched off."""
    global _touched  # noqa: PLW0603  # a hook stays for ever, and is told so when to look
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    _touched = set()
    try:
        yield _touched
    finally:
        _touched = None
        sys.dont_write_bytecode = before
