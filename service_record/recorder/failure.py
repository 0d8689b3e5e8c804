"""Facts of a failure, from the exception, the reason or the place in the code."""

from __future__ import annotations

import os
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Final

MAX_FRAMES: Final = 16
"""The limit of a stack: enough to see the way, and the message keeps its room in the entry."""

_MAX_INNER: Final = 8
"""The limit of library frames in front of the service's own: its callers keep their room."""
_PACKAGE_DIRECTORIES: Final = ("/site-packages/", "/dist-packages/")
"""The directories of installed packages, of a distribution and of virtual environments."""
_STANDARD_LIBRARY: Final = "the standard library"
# Not by sysconfig, which is slow. The standalone executable has no such directory: its modules are not files.
_STANDARD_FILE: Final[str | None] = getattr(os, "__file__", None)
_STANDARD_DIRECTORY: Final = os.path.dirname(_STANDARD_FILE) + "/" if _STANDARD_FILE else None  # noqa: PTH120
_MAX_CHAIN: Final = 5
_MAX_TEXT_CHARACTERS: Final = 2000


class Failure:
    """The reason why a run, a command or a stage failed. Unknown fields are left out.

    `message` says it in words, oldest line first. `error_line` is `LINE FUNCTION FILE` of the service's
    innermost own frame; FUNCTION is `main` at top level. `stack` has frames like it, innermost first, at most
    `MAX_FRAMES`, those of libraries in front. `command` is the source line of `error_line`, as written.
    `signal` is without SIG: `TERM`.
    """

    __slots__ = ("command", "error_line", "exit_code", "message", "signal", "stack")

    def __init__(
        self,
        *,
        message: str | None = None,
        error_line: str | None = None,
        stack: tuple[str, ...] = (),
        command: str | None = None,
        exit_code: int | None = None,
        signal: str | None = None,
    ) -> None:
        self.message = message
        self.error_line = error_line
        self.stack = stack
        self.command = command
        self.exit_code = exit_code
        self.signal = signal

    def __repr__(self) -> str:
        fields = (f"{name}={getattr(self, name)!r}" for name in self.__slots__ if getattr(self, name))
        return f"Failure({', '.join(fields)})"

    def with_message(self, message: str | None) -> Failure:
        """Return the same failure with another message."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return Failure(**{**fields, "message": message})


def failure_of(error: BaseException) -> Failure | None:
    """Return the failure that an exception tells; None for one that is none: `sys.exit(0)`.

    The place is where the service's own code raised it, or called the library that did, with the callers of
    the block that it left behind it. A group stands where its first exception does. Only what a process is
    sure to end with is told of its end: the status of `SystemExit`, and SIGINT for `KeyboardInterrupt`.
    """
    code = _exit_code(error.code) if isinstance(error, SystemExit) else None
    if code == 0:
        return None

    origin = _origin(error)
    trace = origin.__traceback__
    return _failure_at(
        _frames_of(origin),
        trace.tb_frame.f_code.co_filename if trace else None,
        message="\n".join(_chain(error)),
        exit_code=code,
        signal="INT" if isinstance(error, KeyboardInterrupt) else None,
    )


def failure_at(frame: FrameType | None, *, message: str | None = None, signal: str | None = None) -> Failure:
    """Return a failure that no exception tells, at the line a frame is at."""
    home = frame.f_code.co_filename if frame else None
    return _failure_at(_callers(frame), home, message=message, signal=signal)


def _failure_at(
    places: Iterator[tuple[FrameType, int]],
    home: str | None,
    *,
    message: str | None = None,
    exit_code: int | None = None,
    signal: str | None = None,
) -> Failure:
    """Return the failure at the innermost place in the service's own code; `home` is a file of that."""
    inner: list[tuple[FrameType, int]] = []
    own = None
    for place in places:
        if is_own_code(place[0].f_code.co_filename, home):
            own = place
            break
        inner.append(place)
    stack = inner[:MAX_FRAMES] if own is None else [*inner[:_MAX_INNER], own]
    stack += islice(places, MAX_FRAMES - len(stack))
    at = own or (stack[0] if stack else None)
    return Failure(
        message=message,
        error_line=_place(*at) if at else None,
        stack=tuple(_place(frame, line) for frame, line in stack),
        command=_source(*at) if at else None,
        exit_code=exit_code,
        signal=signal,
    )


def is_own_code(file: str, home: str | None = None) -> bool:
    """Return whether a file is of the service itself, and not of Python or of an installed package.

    A service may be such a package: then `home`, a file that is certainly its own, is in it.
    """
    library = _library_of(file)
    return library is None or (home is not None and library == _library_of(home) != _STANDARD_LIBRARY)


def _library_of(file: str) -> str | None:
    """Return the installed package or module that a file is of; None for one that is installed nowhere."""
    for directory in _PACKAGE_DIRECTORIES:
        before, separator, path = file.rpartition(directory)
        if separator:
            return before + separator + path.partition("/")[0]
    if _STANDARD_DIRECTORY is None or not file.startswith(_STANDARD_DIRECTORY):
        return None
    return _STANDARD_LIBRARY


def _exit_code(code: object) -> int:
    """Return the status that the interpreter makes of `SystemExit.code`; see exit(3) for the eight bits."""
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1


def _origin(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _frames_of(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames an exception passed, innermost first, then those that called the outermost."""
    trace = error.__traceback__
    callers = _callers(trace.tb_frame.f_back) if trace else iter(())
    passed = []
    while trace:
        passed.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    yield from reversed(passed)
    yield from callers


def _callers(frame: FrameType | None) -> Iterator[tuple[FrameType, int]]:
    """Yield a frame and those that called it, without the import machinery, as tracebacks leave it out."""
    while frame:
        if not frame.f_code.co_filename.startswith("<frozen "):
            yield frame, frame.f_lineno
        frame = frame.f_back


def _place(frame: FrameType, line: int) -> str:
    name = frame.f_code.co_name
    return f"{line} {'main' if name == '<module>' else name} {frame.f_code.co_filename}"


def _source(frame: FrameType, line: int) -> str | None:
    import linecache  # only a failure has a source line

    return linecache.getline(frame.f_code.co_filename, line, frame.f_globals).strip() or None


def _chain(error: BaseException | None) -> list[str]:
    """Return the texts of an exception and of what led to it, the first cause first."""
    texts: list[str] = []
    while error is not None and len(texts) < _MAX_CHAIN:
        texts.append(_text(error))
        error = _cause(error)
    return texts[::-1]


def _cause(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        return error.exceptions[0]
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


def _text(error: BaseException) -> str:
    """`Type: text` as a traceback has it, of a very long text the end."""
    kind = type(error)
    plain = kind.__module__ in {"builtins", "__main__"}
    name = kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}"
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # the service's own code, which need not be right
        text = "<its text cannot be shown>"
    if len(text) > _MAX_TEXT_CHARACTERS:
        text = "\u2026" + text[-_MAX_TEXT_CHARACTERS:]
    return f"{name}: {text}" if text else name
