"""The library with which Python services record themselves: context managers, decorators and plain
functions.

Nothing here raises because of recording, and an exception of the service passes through unchanged. All that
recording needs is loaded together with this package, because a service may call `os.chroot` later.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextvars import ContextVar

from service_record.record import is_foreign
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
    check_name,
    complain,
    complain_if_outside,
    export_run,
    find_joined_run,
    own_part,
    surrounding_service,
    withdraw_run,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType, TracebackType
    from typing import Any, Final, Self, TypeAlias, TypeVar

    from service_record.record.appending import AnyPath

    Cause: TypeAlias = Failure | BaseException | type[BaseException] | str | int
    """Why something failed: an exception, a reason in words, an exit status, or all facts."""
    AttributeValue: TypeAlias = str | bool | int | float
    Function = TypeVar("Function", bound=Callable[..., Any])


def service(
    name: str | None = None, *, directory: AnyPath | None = None, record_sigterm: bool = False
) -> Service:
    """Return one run of a service, to be entered with `with`, or to decorate a function.

    The default name is `$SERVICE_NAME`, else the systemd unit, else the program; the default directory is
    `$SERVICE_RECORDS_DIR`, else `/var/log/openshift`. If `$PRE_COMMAND` or `$POST_COMMAND` is set, as for a
    program in `ExecStartPre=`, the run is recorded as that command of the service.

    SIGTERM kills a Python program at once, so its end is not recorded. With `record_sigterm=True` a signal
    handler records it, in the main thread and unless the service has a handler of its own. A long call into C
    delays the handler, and with it the death.
    """
    return Service(
        _make_run(name, directory),
        own_part(),
        record_sigterm=record_sigterm,
        make_service=lambda: service(name, directory=directory, record_sigterm=record_sigterm),
    )


def stage(name: str, /, **attributes: AttributeValue) -> Recording:
    """Return a stage, to be entered with `with`, or to decorate a function.

    It belongs to the recording in which it is entered: the surrounding stage or service, or the service of
    the process, or the run of the process that started this one. Otherwise, as in a program that a recorded
    script starts, it belongs to the service that `$SERVICE_NAME` or systemd names.

    `attributes` are texts and numbers that describe this execution: `stage("pull", image="quay.io/x")`.
    """
    return FoundStage(Part.of_stage(name, check_attributes(attributes) if attributes else None))


def pre_command(name: str) -> Recording:
    """Return a pre-command of the caller's service. Outside of a service, the whole process is the
    command.
    """
    around = current()
    if around is not None:
        return around.pre_command(name)
    part = Part.command(Kind.PRE_COMMAND, name, whole=True)
    return Service(_make_run(None, None), part, make_service=lambda: pre_command(name))


def post_command(name: str) -> Recording:
    """Return a post-command (`ExecStartPost=`, `ExecStopPost=`), as `pre_command` does."""
    around = current()
    if around is not None:
        return around.post_command(name)
    part = Part.command(Kind.POST_COMMAND, name, whole=True)
    return Service(_make_run(None, None), part, make_service=lambda: post_command(name))


def start_service(
    name: str | None = None, *, directory: AnyPath | None = None, record_sigterm: bool = False
) -> Service:
    """Start a run as `service` describes it; `end_service` ends it.

    An uncaught exception ends it too. If the program ends in another way, such as by `sys.exit`, the run ends
    without a result: Python tells nobody the exit status. Use `with service()` to record it.
    """
    return service(name, directory=directory, record_sigterm=record_sigterm).start()


def end_service(cause: Cause | None = None) -> None:
    """End the run of this process: as a success, or as a failure for the reason `cause`.

    `cause` is an exception, a reason in words, an exit status, or a `Failure` with all that is known.
    """
    runs = open_services()
    if runs:
        runs[-1].end(cause)
    else:
        complain("no service is started, so none can end")


def start_stage(name: str, /, **attributes: AttributeValue) -> Recording:
    """Start a stage; `end_stage` ends it. Stages may nest."""
    started = stage(name, **attributes).start()
    _stages[:] = [*(earlier for earlier in _stages if earlier.is_open), started]
    return started


def end_stage(cause: Cause | None = None) -> None:
    """End the open stage that `start_stage` started last, as `end_service` ends the run."""
    open_stages = [started for started in _stages if started.is_open]
    if open_stages:
        open_stages[-1].end(cause)
    else:
        complain("no stage is started, so none can end")


class Recording:
    """A run, a command or a stage: one entry at its start and one at its end.

    Use it as a context manager (`with`, `async with`), as a decorator, or with `start` and `end`. An
    exception that leaves the block makes it a failure; `sys.exit(0)` does not. It can be started again after
    its end.
    """

    def __init__(self, run: RecordedRun, part: Part, around: Recording | None = None) -> None:
        """`around` is what this is a stage of, if this process records that."""
        self.run = run
        self.part = part
        self.around = around
        self.previous: Recording | None = None  # the recording that was current when this one was entered
        self._given_attributes = part.attributes  # each execution starts with these

    @property
    def is_open(self) -> bool:
        """True from the start to the end, in the process that is to end it: not in a forked child."""
        return self.run.is_open(self.part)

    def start(self) -> Self:
        """Record the start now. Returns the recording."""
        if self.is_open:
            complain(f"{self.part} is started already")
        else:
            try:
                self._find_outer_part()
                self._begin()
            except BaseException as error:  # of the service, from a signal handler
                self._conclude(error)
                raise
        return self

    def end(self, cause: Cause | None = None) -> None:
        """Record the end now: as a success, or as a failure for the reason `cause`.

        `cause` is an exception, a reason in words, an exit status, or a `Failure` with all that is known.
        Without an exception, the recorded line is that of the call.
        """
        if not self.is_open:
            complain(f"{self.part} is not started, or has ended already")
            return
        try:
            self._conclude(cause)
        except BaseException:  # of the service, from a signal handler: the end must not be lost for it
            self._conclude(cause)
            raise

    def set(self, key: str, value: AttributeValue) -> Self:
        """Set an attribute, which the end entry will have. Returns the recording."""
        self.part.attributes = {**(self.part.attributes or {}), **check_attributes({key: value})}
        if not self.is_open:
            self._given_attributes = self.part.attributes
        return self

    def stage(self, name: str, /, **attributes: AttributeValue) -> Recording:
        """Return a stage of this run or, within a command, of the command."""
        part = Part.of_stage(name, check_attributes(attributes)).place_within(self.part)
        return Recording(self.run, part, self)

    def pre_command(self, name: str) -> Recording:
        """Return a pre-command of this run."""
        return Recording(self.run, Part.command(Kind.PRE_COMMAND, name))

    def post_command(self, name: str) -> Recording:
        """Return a post-command of this run."""
        return Recording(self.run, Part.command(Kind.POST_COMMAND, name))

    def __call__(self, function: Function) -> Function:
        """Decorate a function, coroutine function, generator or asynchronous generator.

        Each call is one recording, from the call of a function, or from the first step of a generator, to its
        end.
        """
        try:
            from service_record.recorder.decorating import decorate  # most services use `with`
        except ImportError as error:  # after a chroot
            if is_foreign(error):
                raise
            complain(f"calls of {function!r:.80} are not recorded: {error}")
            return function
        return decorate(self._make_another, function)

    def _make_another(self) -> Recording:
        """Return a recording for one call of a decorated function."""
        return Recording(self.run, self.part.copy(self._given_attributes), self.around)

    def __str__(self) -> str:
        return str(self.part)

    def __enter__(self) -> Self:
        if self.part in self.run.open_parts and self.is_open:
            complain(f"{self.part} is started already")
            return self
        previous = _current.get()
        try:
            outer = self._find_outer_part()
            if outer is not None:
                self.run.identify(self.part, outer)
            _current.set(self)
            self._begin()
        except BaseException as error:  # of the service, from a signal handler: `__exit__` is not called then
            self._conclude(error)
            self._leave(previous)
            raise
        self.previous = previous
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A signal handler that raises right here, before the `try`, keeps the part open until its run ends.
        # No `__exit__` in Python can prevent that: CPython issue 74174.
        try:
            self._conclude(error)
        except BaseException as interruption:  # of the service, from a signal handler
            self._conclude(error or interruption)
            raise
        finally:
            self._leave(self.previous)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _begin(self) -> None:
        self.run.start(self.part)

    def _conclude(self, cause: object) -> None:
        """Record the end, if it is not recorded yet."""
        if cause is None:
            self.run.end(self.part, None)
        elif self.run.is_open(self.part):
            self._finish(cause)
        self.part.attributes = self._given_attributes

    def _leave(self, previous: Recording | None) -> None:
        """Make `previous` the current recording again, unless this is another context, or left out of
        order.
        """
        if _current.get() is self:
            _current.set(previous)

    def _find_outer_part(self) -> Part | None:
        """Return the part that this stage lies in: a stage, or else the innermost part of this run that the
        caller is in. None if this process does not record it, or if this is not a stage.
        """
        around, inner = self.around, _current.get()
        if around is None:
            return None
        if around.part.stage is not None or inner is None or inner.run is not self.run:
            return around.part
        return inner.part

    def _finish(self, cause: object) -> None:
        """Record an end that has a cause, also if an exception of the service passes through meanwhile."""
        failure: Failure | None = Failure(message=type(cause).__name__)
        try:
            failure = _describe_cause(cause)
            if failure is not None and failure.stop_request is None:
                failure = self.run.add_last_lines(failure, cause)
        except Exception as error:
            if is_foreign(error):
                raise
            complain(f"not all is recorded of how {self.part} ended: {type(error).__name__}")
        finally:
            self.run.end(self.part, failure)


class FoundStage(Recording):
    """A stage that belongs to the recording in which it is started, which need not exist before."""

    def __init__(self, part: Part) -> None:
        around = current()
        Recording.__init__(self, _make_run(None, None) if around is None else around.run, part, around)
        part.place_within(own_part() if around is None else around.part)

    def _make_another(self) -> Recording:
        return FoundStage(self.part.copy(self._given_attributes))

    def _find_outer_part(self) -> Part | None:
        around = current()
        if around is None:
            self.run, self.around = _make_run(None, None), None
            self.part.place_within(own_part())
            complain_if_outside(self.part, self.run)
            return None
        if around is not self.around:
            self.run, self.around = around.run, around
            self.part.place_within(around.part)
        return around.part


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
        make_service: Callable[[], Recording] | None = None,
    ) -> None:
        """`make_service` returns a recording for one call of a decorated function."""
        super().__init__(run, part)
        self._make_service = make_service
        self._sigterm = Sigterm(self._end_terminated) if record_sigterm else None
        self._home: str | None = None

    def _make_another(self) -> Recording:
        return self._make_service() if self._make_service is not None else self

    def _begin(self) -> None:
        _services[self] = None
        if self._sigterm is not None:
            caller = find_caller()
            self._home = caller.f_code.co_filename if caller is not None else None
            self._sigterm.install()
        super()._begin()
        export_run(self.run)

    def _conclude(self, cause: object) -> None:
        super()._conclude(cause)
        _services.pop(self, None)
        withdraw_run(self.run)
        if self._sigterm is not None:
            self._sigterm.remove()

    def _end_terminated(self, frame: FrameType | None) -> None:
        # Without the journal, which takes time.
        self.run.end(self.part, describe_place(frame, home=self._home, signal="TERM"))


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
    entered, left = _current.get(), 0
    while entered is not None and left < _MAX_LEFT:
        if entered.part in entered.run.open_parts:
            return entered
        entered, left = entered.previous, left + 1  # it was left in another context, or out of order
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


_stages: Final[list[Recording]] = []


def _make_run(name: str | None, directory: AnyPath | None) -> RecordedRun:
    if name is not None:
        return RecordedRun(check_name(name, Kind.SERVICE), directory)
    return RecordedRun(surrounding_service() or _find_program(), directory)


def _find_program() -> str:
    """Return the name of the running script or package."""
    directory, _, file = (sys.argv[0] if sys.argv else "").rpartition("/")
    stem = file.rpartition(".")[0] or file
    name = directory.rpartition("/")[2] if stem == "__main__" else stem
    return "python" if name in {"", "-c"} else name


def _end_at_exit() -> None:
    error = _find_uncaught()
    for recording in open_services():
        if error is not None:
            recording.end(error)
        else:
            complain(f"{recording} was started and never ended; its result is unknown")
            recording.run.end_without_result(recording.part)


def _find_uncaught() -> BaseException | None:
    """Return the exception that ends the program; None also for `SystemExit`, which Python does not keep."""
    error = getattr(sys, "last_value", None)
    trace = error.__traceback__ if isinstance(error, BaseException) else None
    if trace is None or trace.tb_frame.f_back is not None:
        return None  # `code.InteractiveInterpreter`, for one, sets the attribute while a program runs
    return error if trace.tb_frame.f_globals.get("__name__") in {"__main__", "runpy"} else None


atexit.register(_end_at_exit)
