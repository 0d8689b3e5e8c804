"""Describe a failure, from an exception, a reason in words, or a place in the code."""

from __future__ import annotations

import os
import sys

from service_record.record import comes_from_signal_handler, is_foreign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType
    from typing import Final

MAX_FRAMES: Final = 16  # enough to see the way, and the message keeps its room in the entry
_MAX_INNER: Final = 8  # library frames in front of the service's own, so that its callers keep their room
_PACKAGE_DIRECTORIES: Final = ("/site-packages/", "/dist-packages/")
_STANDARD_LIBRARY: Final = "the standard library"
# Not by sysconfig, which is slow. The standalone executable has no such directory: its modules are not files.
_STANDARD_FILE: Final[str | None] = getattr(os, "__file__", None)
_STANDARD_DIRECTORY: Final = os.path.dirname(_STANDARD_FILE) + "/" if _STANDARD_FILE else None  # noqa: PTH120
_OWN_MODULES: Final = "service_record.recorder"
_MAX_CHAIN: Final = 5
_MAX_TEXT_CHARACTERS: Final = 2000
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_MAX_SOURCE_BYTES: Final = 4 << 20
_MAX_EXIT_CODE: Final = 1 << 63
CANCELLED: Final = "cancel"
"""`stopRequest` of work that the program itself cancelled, such as a task of asyncio."""


class Failure:
    """Why a run, a command or a stage failed. Unknown fields are left out.

    `message` is the reason in words, oldest line first. `error_line` is `LINE FUNCTION FILE` of the innermost
    frame in the service's own code; FUNCTION is `main` at top level. `stack` has such frames, innermost
    first, at most 16; those of a library that the service called come first. `command` is the source line at
    `error_line`, as written. `signal` has no SIG: `TERM`. `stop_request` says that it did not fail but was
    stopped: `stop`, `restart`, `shutdown`, or `cancel`.
    """

    __slots__ = ("command", "error_line", "exit_code", "message", "signal", "stack", "stop_request")

    def __init__(
        self,
        *,
        message: str | None = None,
        error_line: str | None = None,
        stack: tuple[str, ...] = (),
        command: str | None = None,
        exit_code: int | None = None,
        signal: str | None = None,
        stop_request: str | None = None,
    ) -> None:
        self.message = message
        self.error_line = error_line
        self.stack = stack
        self.command = command
        self.exit_code = exit_code
        self.signal = signal
        self.stop_request = stop_request

    def __repr__(self) -> str:
        fields = (f"{name}={getattr(self, name)!r}" for name in self.__slots__ if getattr(self, name))
        return f"Failure({', '.join(fields)})"

    def with_message(self, message: str | None) -> Failure:
        """Return a copy with another message."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return Failure(**{**fields, "message": message})


def describe_exception(error: BaseException) -> Failure | None:
    """Return the failure that an exception means; None for `sys.exit(0)`, which is not a failure.

    The line is where the service's own code raised it, or called the library that did. The callers of the
    recorded block come behind it in the stack. An exception group has the line of its first exception that
    was raised. Of the end of the process only what is certain is recorded: the status of `SystemExit`, and
    SIGINT for `KeyboardInterrupt`.
    """
    code = exit_status(error.code) if isinstance(error, SystemExit) else None
    if code == 0:
        return None

    origin = _find_origin(error)
    return _describe(
        _walk_frames(origin),
        _find_home(origin.__traceback__),
        message="\n".join(_describe_chain(error)),
        exit_code=code,
        signal="INT" if isinstance(error, KeyboardInterrupt) else None,
        stop_request=CANCELLED if is_cancellation(error) else None,
    )


def describe_place(
    frame: FrameType | None,
    *,
    home: str | None = None,
    message: str | None = None,
    exit_code: int | None = None,
    signal: str | None = None,
) -> Failure:
    """Return a failure without an exception, at the line that a frame is executing.

    `home` is a file that certainly belongs to the service, by default the file of the frame.
    """
    if home is None and frame is not None:
        home = frame.f_code.co_filename
    return _describe(_walk_callers(frame), home, message=message, exit_code=exit_code, signal=signal)


def _describe(
    places: Iterator[tuple[FrameType, int]],
    home: str | None,
    *,
    message: str | None = None,
    exit_code: int | None = None,
    signal: str | None = None,
    stop_request: str | None = None,
) -> Failure:
    """Return the failure at the innermost place in the service's own code."""
    inner: list[tuple[FrameType, int]] = []
    own = None
    for place in places:
        if is_own_code(place[0].f_code.co_filename, home):
            own = place
            break
        inner.append(place)
    stack = inner[:MAX_FRAMES] if own is None else [*inner[:_MAX_INNER], own]
    for place in places:
        if len(stack) == MAX_FRAMES:
            break
        stack.append(place)
    at = own or (stack[0] if stack else None)
    return Failure(
        message=message,
        error_line=_format_place(*at) if at else None,
        stack=tuple(_format_place(frame, line) for frame, line in stack),
        command=_read_source_line(*at) if at else None,
        exit_code=exit_code,
        signal=signal,
        stop_request=stop_request,
    )


def is_own_code(file: str, home: str | None = None) -> bool:
    """Return True if a file belongs to the service itself, and not to Python or to an installed package.

    A service may itself be an installed package: the one that has the file `home`.
    """
    library = _find_library(file)
    return library is None or (home is not None and library == _find_library(home) != _STANDARD_LIBRARY)


def _find_library(file: str) -> str | None:
    """Return the installed package or module that a file belongs to; None for a file that is not
    installed.
    """
    for directory in _PACKAGE_DIRECTORIES:
        before, separator, path = file.rpartition(directory)
        if separator:
            return before + separator + path.partition("/")[0]
    if _STANDARD_DIRECTORY is None or not file.startswith(_STANDARD_DIRECTORY):
        return None
    return _STANDARD_LIBRARY


def exit_status(code: object) -> int:
    """Return the exit status that the interpreter makes of `SystemExit.code`; see exit(3) for the eight
    bits.
    """
    if code is None:
        return 0
    if not isinstance(code, int):
        return 1
    # A number that does not fit into a C long becomes -1 in the interpreter.
    return code & 0xFF if -_MAX_EXIT_CODE <= code < _MAX_EXIT_CODE else 0xFF


def is_cancellation(error: BaseException) -> bool:
    """Return True if the exception only says that the work was cancelled, or a generator closed early."""
    if isinstance(error, GeneratorExit):
        return True
    for module, name in (("asyncio.exceptions", "CancelledError"), ("trio", "Cancelled")):
        kind = getattr(
            sys.modules.get(module), name, None
        )  # an exception of a module that is not loaded is not raised
        if isinstance(kind, type) and isinstance(error, kind):
            return True
    return False


def _find_origin(error: BaseException) -> BaseException:
    """Return the first exception of a group that was raised, or the exception itself."""
    while isinstance(error, BaseExceptionGroup):
        raised = [each for each in error.exceptions if _was_raised(each)]
        if not raised:
            return error
        error = raised[0]
    return error


def _was_raised(error: BaseException) -> bool:
    if error.__traceback__ is not None:
        return True
    return isinstance(error, BaseExceptionGroup) and any(map(_was_raised, error.exceptions))


def _find_home(trace: TracebackType | None) -> str | None:
    """Return the file of the outermost frame that an exception passed, which is where the recorded block
    is.
    """
    while trace is not None and _is_ours(trace.tb_frame):
        trace = trace.tb_next  # a decorated function is called by a function of ours
    return trace.tb_frame.f_code.co_filename if trace else None


def _walk_frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames an exception passed, innermost first, then those that called the outermost."""
    trace = error.__traceback__
    callers = _walk_callers(trace.tb_frame.f_back) if trace else iter(())
    passed = []
    while trace:
        if not _is_ours(trace.tb_frame):
            passed.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    yield from reversed(passed)
    yield from callers


def _walk_callers(frame: FrameType | None) -> Iterator[tuple[FrameType, int]]:
    """Yield a frame and its callers, without the import machinery, which tracebacks leave out too."""
    while frame:
        if not (frame.f_code.co_filename.startswith("<frozen ") or _is_ours(frame)):
            yield frame, frame.f_lineno
        frame = frame.f_back


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith(_OWN_MODULES)


def find_caller() -> FrameType | None:
    """Return the innermost frame outside of the recorder."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001  # `inspect` returns the same, and is slow to load
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


def _format_place(frame: FrameType, line: int) -> str:
    name = frame.f_code.co_name
    return f"{line} {'main' if name == '<module>' else name} {frame.f_code.co_filename}"


def _read_source_line(frame: FrameType, number: int) -> str | None:
    """Return a line of a source file, or of the text that the module's loader has.

    Not by `linecache`: it takes several milliseconds to load, and cannot be loaded after a chroot.
    """
    path, module_path = frame.f_code.co_filename, frame.f_globals.get("__file__")
    name = path.rpartition("/")[2]
    if not path.startswith("/") and isinstance(module_path, str) and module_path.endswith(name):
        path = module_path  # the program may have changed its directory since
    opened: list[int] = []
    closing = map(os.close, opened)
    try:
        opened.extend(map(os.open, (path,), (_READ,)))
        text = os.read(opened[0], _MAX_SOURCE_BYTES)
    except (OSError, ValueError) as error:
        if is_foreign(error):
            raise
        text = _read_from_loader(frame)
    finally:
        for _ in closing:  # see appending.open_into
            pass
    lines = text.splitlines()[number - 1 : number]
    return lines[0].decode(errors="replace").strip() or None if lines else None


def _read_from_loader(frame: FrameType) -> bytes:
    """Return the source of a module that is in an archive; empty if there is none."""
    get_source = getattr(frame.f_globals.get("__loader__"), "get_source", None)
    if get_source is None or frame.f_code.co_filename.startswith("<"):
        return b""
    try:
        return (get_source(frame.f_globals["__name__"]) or "").encode(errors="replace")
    except Exception as error:
        if comes_from_signal_handler(error):
            raise
        return b""


def _describe_chain(error: BaseException | None) -> list[str]:
    """Return the texts of an exception and of those that led to it, the first cause first."""
    texts: list[str] = []
    while error is not None and len(texts) < _MAX_CHAIN:
        texts.append(describe_error(error))
        error = _find_cause(error)
    return texts[::-1]


def _find_cause(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        return error.exceptions[0]
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


def describe_error(error: BaseException) -> str:
    """Return `Type: text`, as in a traceback. A very long text keeps its end."""
    kind = type(error)
    plain = kind.__module__ in {"builtins", "__main__"}
    name = kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}"
    try:
        text = str(error)
    except BaseException as trouble:
        # `__str__` is the service's code and may raise anything, SystemExit too. Without the recorder nobody
        # might have called it, so that is the recorder's to bear, as it is the `traceback` module's.
        if comes_from_signal_handler(trouble):
            raise
        text = "<its text cannot be shown>"
    if len(text) > _MAX_TEXT_CHARACTERS:
        text = "\u2026" + text[-_MAX_TEXT_CHARACTERS:]
    return f"{name}: {text}" if text else name
