"""Runs, commands and stages as the service holds them: context managers and decorators.

Nothing here raises because of recording, and an exception of the service passes through unchanged.
"""

from __future__ import annotations

import os
from _contextvars import ContextVar  # the class that `contextvars`, another file to load, gives away

from service_record.record.own_errors import is_foreign
from service_record.recorder.exported_run import export_run, find_joined_run, withdraw_run
from service_record.recorder.failure import (
    Failure,
    describe_exception,
    describe_place,
    exit_status,
    find_caller,
)
from service_record.recorder.recorded_run import (
    Kind,
    Part,
    RecordedRun,
    complain,
    complain_if_outside,
    own_part,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType, TracebackType
    from typing import Any, Final, Self, TypeAlias, TypeVar

    Cause: TypeAlias = Failure | BaseException | type[BaseException] | str | int
    """Why something failed: an exception, a reason in words, an exit status, or all facts."""
    AttributeValue: TypeAlias = str | bool | int | float
    Function = TypeVar("Function", bound=Callable[..., Any])


class Recording:
    """A run, a command or a stage: one entry at its start and one at its end.

    Use it as a context manager (`with`, `async with`), as a decorator, or with `start` and `end`. An
    exception that leaves the block makes it a failure; `sys.exit(0)` does not. It can be started again after
    its end.
    """

    def __init__(
        self,
        run: RecordedRun,
        part: Part,
        around: Recording | None = None,
        make_another: Callable[[], Recording] | None = None,
    ) -> None:
        """`around` is what this is a stage of, if this process records that.

        `make_another` returns a recording for one call of a decorated function.
        """
        self._run = run
        self._part = part
        self._around = around
        self._make_another = make_another
        self._previous: Recording | None = None
        self._given_attributes = part.attributes

    @property
    def is_open(self) -> bool:
        """True from the start to the end, in the process that is to end it: not in a forked child."""
        return self._run.is_open(self._part)

    @property
    def part(self) -> Part:
        return self._part

    @property
    def run(self) -> RecordedRun:
        return self._run

    @property
    def previous(self) -> Recording | None:
        """The recording that was current when this one was entered."""
        return self._previous

    def start(self) -> Self:
        """Record the start now. Returns the recording."""
        if self.is_open:
            complain(f"{self._part} is started already")
        else:
            self._bind()
            self._begin()
        return self

    def end(self, cause: Cause | None = None) -> None:
        """Record the end now: as a success, or as a failure for the reason `cause`.

        `cause` is an exception, a reason in words, an exit status, or a `Failure` with all that is known.
        Without an exception, the recorded line is that of the call.
        """
        if not self.is_open:
            complain(f"{self._part} is not started, or has ended already")
            return
        try:
            self._conclude(cause)
        except BaseException:  # of the service, from a signal handler: the end must not be lost for it
            self._conclude(cause)
            raise

    def set(self, key: str, value: AttributeValue) -> Self:
        """Set an attribute, which the end entry will have. Returns the recording."""
        self._part.attributes = {**(self._part.attributes or {}), **check_attributes({key: value})}
        if not self.is_open:
            self._given_attributes = self._part.attributes
        return self

    def stage(self, name: str, /, **attributes: AttributeValue) -> Recording:
        """Return a stage of this run or, within a command, of the command."""
        part = self._part.stage_within(name, check_attributes(attributes))
        return Recording(self._run, part, self, lambda: self.stage(name, **attributes))

    def pre_command(self, name: str) -> Recording:
        """Return a pre-command of this run."""
        part = Part.command(Kind.PRE_COMMAND, name)
        return Recording(self._run, part, make_another=lambda: self.pre_command(name))

    def post_command(self, name: str) -> Recording:
        """Return a post-command of this run."""
        part = Part.command(Kind.POST_COMMAND, name)
        return Recording(self._run, part, make_another=lambda: self.post_command(name))

    def __call__(self, function: Function) -> Function:
        """Decorate a function, coroutine function, generator or asynchronous generator.

        Each call is one recording, from the call of a function, or from the first step of a generator, to its
        end.
        """
        from service_record.recorder.decorating import decorate  # most services use `with`

        return decorate(self._make_another or (lambda: self), function)

    def __str__(self) -> str:
        return str(self._part)

    def __enter__(self) -> Self:
        if self.is_open:
            complain(f"{self._part} is started already")
            return self
        previous = _current.get()
        try:
            self._bind()
            if self._around is not None:
                self._run.identify(self._part, self._find_outer_part(self._around))
            _current.set(self)
            self._begin()
        except BaseException as error:  # of the service, from a signal handler: `__exit__` is not called then
            self._conclude(error)
            self._leave(previous)
            raise
        self._previous = previous
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._conclude(error)
        except BaseException as interruption:  # of the service, from a signal handler
            self._conclude(error or interruption)
            raise
        finally:
            self._leave(self._previous)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _bind(self) -> None:
        """Find the run that this belongs to, if that is decided at the start."""

    def _begin(self) -> None:
        try:
            self._run.start(self._part)
        except BaseException as error:  # of the service, from a signal handler: the block is not entered then
            self._conclude(error)
            raise

    def _conclude(self, cause: object) -> None:
        """Record the end, if it is not recorded yet."""
        if self._run.is_open(self._part):
            self._finish(cause)
            self._part.attributes = self._given_attributes

    def _leave(self, previous: Recording | None) -> None:
        """Make `previous` the current recording again, unless this is another context, or left out of
        order.
        """
        if _current.get() is self:
            _current.set(previous)

    def _find_outer_part(self, around: Recording) -> Part:
        """Return the part that this stage lies in: a stage, or else the innermost part of this run that the
        caller is in.
        """
        inner = _current.get()
        if around.part.kind == Kind.STAGE or inner is None or inner.run is not self._run:
            return around.part
        return inner.part

    def _finish(self, cause: object) -> None:
        """Record the end, also if an exception of the service passes through while it is described."""
        if cause is None:
            self._run.end(self._part, None)
            return
        failure: Failure | None = Failure(message=type(cause).__name__)
        try:
            failure = _describe_cause(cause)
            if failure is not None and failure.stop_request is None:
                failure = self._run.add_last_lines(failure, cause)
        except Exception as error:
            if is_foreign(error):
                raise
            complain(f"not all is recorded of how {self._part} ended: {type(error).__name__}")
        finally:
            self._run.end(self._part, failure)


class FoundStage(Recording):
    """A stage that belongs to the recording in which it is started, which need not exist before."""

    def _find_outer_part(self, around: Recording) -> Part:
        return around.part

    def _bind(self) -> None:
        around = current()
        if around is None:
            complain_if_outside(self._part, self._run)
        elif around is not self._around:
            self._run = around.run
            self._part = around.part.stage_within(self._part.stage or "", self._part.attributes)
            self._around = around


class Service(Recording):
    """A recording that the whole run ends with: a service, or a command that is a process of its own.

    Everything that is still open in the run ends with it, in the same way. While it is open, the environment
    tells child processes which run they belong to.
    """

    def __init__(
        self,
        run: RecordedRun,
        part: Part,
        *,
        record_sigterm: bool = False,
        make_another: Callable[[], Recording] | None = None,
    ) -> None:
        super().__init__(run, part, make_another=make_another)
        self._sigterm = Sigterm(self._end_terminated) if record_sigterm else None
        self._home: str | None = None

    def _begin(self) -> None:
        caller = find_caller()
        self._home = caller.f_code.co_filename if caller is not None else None
        try:
            _services[self] = None
            if self._sigterm is not None:
                self._sigterm.install()
            super()._begin()
            export_run(self._run)
        except BaseException as error:  # of the service, from a signal handler
            self._conclude(error)
            raise

    def _conclude(self, cause: object) -> None:
        super()._conclude(cause)
        _services.pop(self, None)
        withdraw_run(self._run)
        if self._sigterm is not None:
            self._sigterm.remove()

    def _end_terminated(self, frame: FrameType | None) -> None:
        # Without the journal, which takes time.
        self._run.end(self._part, describe_place(frame, home=self._home, signal="TERM"))


class Sigterm:
    """While installed, SIGTERM calls `record` with the frame that it interrupts, and then kills as before.

    It is installed only if nothing else handles SIGTERM, and only in the main thread. There the interpreter
    runs handlers between two instructions, so a long call into C delays the death (see the `signal` module).
    """

    def __init__(self, record: Callable[[FrameType | None], None]) -> None:
        import signal  # only for services that ask for it

        self._signal = signal
        self._record = record

    def install(self) -> None:
        if self._signal.getsignal(self._signal.SIGTERM) is self._signal.SIG_DFL:
            self._set_handler(self._handle)

    def remove(self) -> None:
        """Restore the default, unless the service has installed a handler of its own meanwhile."""
        if self._signal.getsignal(self._signal.SIGTERM) == self._handle:
            self._set_handler(self._signal.SIG_DFL)

    def _set_handler(self, handler: Callable[[int, FrameType | None], None] | int) -> None:
        try:
            self._signal.signal(self._signal.SIGTERM, handler)
        except ValueError as error:  # this is not the main thread
            if is_foreign(error):
                raise

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._signal.signal(number, self._signal.SIG_DFL)
        try:
            self._record(frame)
        finally:
            os.kill(os.getpid(), number)


def current() -> Recording | None:
    """Return the innermost recording entered in the caller's context, else the process's service, else the
    run that the process was started in.

    A new thread has a context of its own, but belongs to the same service.
    """
    entered = _current.get()
    for _ in range(_MAX_LEFT):
        if entered is None:
            break
        if entered.run.has_open(entered.part):
            return entered
        entered = entered.previous  # it was left in another context, or in another order than entered
    for service in list(_services):
        return service
    return _find_joined()


def _find_joined() -> Recording | None:
    global _joined  # noqa: PLW0603
    run = find_joined_run()
    if run is None:
        return None
    if _joined is None or _joined.run is not run:
        _joined = Recording(run, own_part())
    return _joined


_joined: Recording | None = None
_MAX_LEFT: Final = 100  # recordings that were left out of order may form a circle


def open_services() -> list[Service]:
    """Return the runs that this process has started and not ended, oldest first."""
    return [service for service in list(_services) if service.is_open]


def check_attributes(attributes: Mapping[str, object]) -> dict[str, AttributeValue]:
    """Return the attributes that an entry can have: those whose values are texts or numbers."""
    checked: dict[str, AttributeValue] = {}
    for key, value in attributes.items():
        plain = _convert_attribute(value)
        if plain is not None and type(key) is str and key:
            checked[key] = plain
        else:
            complain(f"attribute {key!r:.80} is left out: {type(value).__name__} is not a text or a number")
    return checked


def _convert_attribute(value: object) -> AttributeValue | None:
    """Return the value as JSON can have it. A number that some readers of JSON cannot hold becomes a text."""
    if isinstance(value, str):
        return str.__str__(value)  # the content, also of a `StrEnum`
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        number = int.__int__(value)
        is_short = number.bit_length() < _MAX_SHOWN_BITS
        return number if abs(number) < _LARGEST_NUMBER else str(number) if is_short else hex(number)[:40]
    if isinstance(value, float):
        return float.__float__(value) if abs(value) < _LARGEST_NUMBER else float.__repr__(value)
    return None


_MAX_SHOWN_BITS: Final = 256
_LARGEST_NUMBER: Final = 2**53  # RFC 8259 section 6: up to here every JSON implementation agrees


def _describe_cause(cause: object) -> Failure | None:
    if cause is None or isinstance(cause, Failure):
        return cause
    if isinstance(cause, BaseException):
        return describe_exception(cause)
    caller = find_caller()
    if isinstance(cause, str):
        return describe_place(caller, message=cause)
    if type(cause) is int:
        status = exit_status(cause)
        return describe_place(caller, exit_code=status) if status else None
    if isinstance(cause, type) and issubclass(cause, BaseException):
        return describe_place(caller, message=cause.__name__)
    complain(f"{type(cause).__name__} is not a reason for a failure; give an exception or a text")
    return describe_place(caller, message=type(cause).__name__)


_current: Final[ContextVar[Recording | None]] = ContextVar("service_record", default=None)
_services: Final[dict[Service, None]] = {}
