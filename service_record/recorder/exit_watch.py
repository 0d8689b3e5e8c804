"""Learn with which status `sys.exit` ends the program, for a run that `start_service` has started.

At the end of the interpreter nothing tells a function of `atexit` the exit status. So while such a run is
open, `sys.exit` raises a `SystemExit` that notices when the interpreter itself reads its `code`. That happens
once, to end the program, and no function of Python is on the stack then. An exit that the service catches is
not noticed, and neither is one that the service raises without `sys.exit`.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from service_record.recorder.failure import Failure, describe_error, describe_place, exit_status, find_caller

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, NoReturn

_python_exit: Final = sys.exit
_code: Final[Any] = SystemExit.__dict__["code"]
_starter = 0
_noticed: Final[list[Failure | None]] = []


class WatchedExit(SystemExit):
    """A `SystemExit` in all but its class. A copy, such as one that goes to another process, is a plain one.

    Do not simplify: only a subclass can notice who reads `code`. When a plain exception is freed, its owner
    cannot be told from a later `SystemExit` with this one as its context, and that may have another status.
    """

    __slots__ = ("failure",)
    failure: Failure | None

    def __reduce__(self) -> tuple[object, ...]:
        return SystemExit, self.args, vars(self)

    @property
    def code(self) -> Any:  # an attribute of SystemExit, which CPython reads by its name
        if sys._getframe().f_back is None and not _noticed:  # noqa: SLF001
            # In words: a reference to the exception would keep the objects of the service alive.
            _noticed.append(self.failure)
        return _code.__get__(self)

    @code.setter
    def code(self, value: object) -> None:
        _code.__set__(self, value)


WatchedExit.__name__ = WatchedExit.__qualname__ = SystemExit.__name__
WatchedExit.__module__ = SystemExit.__module__


def _exit(status: object = None, /) -> NoReturn:
    if get_ident() != _starter:
        _python_exit(status)  # type: ignore[arg-type]  # as the service gave it; this ends a thread only
    error = WatchedExit(*(() if status is None else status if isinstance(status, tuple) else (status,)))
    number = exit_status(_code.__get__(error))
    error.failure = (
        describe_place(find_caller(), message=describe_error(error), exit_code=number) if number else None
    )
    raise error


def watch_exit() -> None:
    """Have exits of this thread noticed. An exit of any other thread does not end the program."""
    global _starter  # noqa: PLW0603  # there is one `sys.exit`
    if sys.exit is _python_exit:
        _starter = get_ident()
        sys.exit = _exit


def unwatch_exit() -> None:
    if sys.exit is _exit:
        sys.exit = _python_exit


def find_exit() -> list[Failure | None]:
    """Return what `sys.exit` ended the program with, None for a success; empty if it did not."""
    return _noticed
