"""The format of records: entries, their lines and layouts, damage and its recovery, and appending to them.

This file decides whether an exception is an error of recording or belongs to the recorded service. It stands
here because every recorded service loads this file anyway, and each module more costs 0.1 ms.

Python runs signal handlers between any two instructions of the main thread, also in the middle of the
recorder. An exception that such a handler raises comes out of the recorder's own calls: the usual timeout, a
SIGALRM handler that raises TimeoutError, is even an OSError. It must reach the service. Therefore each
`except` clause on the recording path that catches more than the recorder can cause begins with `if
is_foreign(error): raise`.
"""

from __future__ import annotations

import sys

# Type checkers take any variable of this name for that of `typing`, as their manuals say. `typing` itself
# takes as long to load as the whole recorder (3 ms), so the modules that every recorded service loads do
# without it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Final

_OWN_TYPES: Final = frozenset({"builtins", "service_record", "json", "subprocess", "zipimport"})
"""The top packages of exceptions that the recorder's own calls raise."""
_Frame: Final = type(sys._getframe())  # noqa: SLF001  # `types.FrameType`, without loading `types`
_VARIABLE_ARGUMENTS: Final = 0x04  # CO_VARARGS of `inspect`


def is_foreign(error: BaseException) -> bool:
    """Return True if the exception is not an error of recording, so that it has to reach the service.

    True for every exception that is not an `Exception`, for classes that the recorder's calls do not raise,
    and for everything that a signal handler or a debugger's trace function raised. Other frames do not count:
    the recorder itself may have called them, as `os.open` when a library has replaced it, or an audit hook.
    """
    if not isinstance(error, Exception) or type(error).__module__.partition(".")[0] not in _OWN_TYPES:
        return True
    return comes_from_signal_handler(error)


def comes_from_signal_handler(error: BaseException) -> bool:
    """Return True if a signal handler or a trace function raised the exception.

    Python calls these with a frame among the arguments, and calls nothing else in this way.
    """
    trace = error.__traceback__
    while trace is not None:
        if _was_given_frame(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _was_given_frame(frame: FrameType) -> bool:
    code = frame.f_code
    if str(frame.f_globals.get("__name__")).startswith("service_record."):
        return False  # the recorder passes frames to its own functions
    has_variable = bool(code.co_flags & _VARIABLE_ARGUMENTS)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + has_variable]
    values = [frame.f_locals.get(name) for name in names]
    if has_variable and isinstance(values[-1], tuple):
        values += values[-1]
    return any(type(value) is _Frame for value in values)
