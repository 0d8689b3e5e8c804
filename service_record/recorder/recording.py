"""A run, a command or a stage in the hands of the service that it belongs to.

Nothing here raises because of recording, and an exception that passes through passes unchanged.
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar

from service_record.recorder.failure import Failure, failure_at, failure_of
from service_record.recorder.recorded_run import Kind, Part, RecordedRun, complain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token
    from types import FrameType, TracebackType
    from typing import Final, Self, TypeAlias

    Cause: TypeAlias = Failure | BaseException | str
    """The description of a failure: an exception, a reason in words, or everything that is known."""


class Recording:
    """A run, a command or a stage while it is recorded: an entry at its start and one at its end.

    As a context manager it starts with its block and ends with it: as a failure when an exception leaves
    the block (`sys.exit(0)` is none), else as a success. It can be started again once it has ended.
    """

    def __init__(self, run: RecordedRun, part: Part, around: Recording | None = None) -> None:
        """Take what it is a stage of, where this process records that."""
        self._run = run
        self._part = part
        self._around = around
        self._token: Token[Recording | None] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether this process has started it and not ended it."""
        return self._run.is_open(self._part)

    def start(self) -> Self:
        """Record the start, now. Returns the recording."""
        if self.is_open:
            complain(f"{self._part} is started already")
        else:
            self._run.start(self._part)
        return self

    def end(self, cause: Cause | None = None) -> None:
        """Record the end, now: a success, or the failure that `cause` tells.

        A reason in words stands for a failure at the line that says it.
        """
        if self.is_open:
            self._finish(cause)
        else:
            complain(f"{self._part} is not started, or has ended already")

    def stage(self, name: str) -> Recording:
        """Return a stage of this run; within a command, a stage of the command."""
        return Recording(self._run, self._part.stage_within(name), self)

    def pre_command(self, name: str) -> Recording:
        """Return a pre-command of this run."""
        return Recording(self._run, Part.command(Kind.PRE_COMMAND, name))

    def post_command(self, name: str) -> Recording:
        """Return a post-command of this run."""
        return Recording(self._run, Part.command(Kind.POST_COMMAND, name))

    def __str__(self) -> str:
        return str(self._part)

    def __enter__(self) -> Self:
        if self._around is not None and self._part.kind == Kind.STAGE and not self.is_open:
            self._run.identify(self._part, self._stage_around(self._around))
        self._token = _current.set(self)
        return self.start()

    @property
    def part(self) -> Part:
        """Return the part of the run that this records."""
        return self._part

    def is_of(self, run: RecordedRun) -> bool:
        """Return whether this is a recording of that run."""
        return self._run is run

    def _stage_around(self, around: Recording) -> Part:
        """Return the parent of this stage: a stage, or else the innermost part of this run that the caller is
        in.
        """
        inner = _current.get()
        if around.part.kind == Kind.STAGE or inner is None or not inner.is_of(self._run):
            return around.part
        return inner.part

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            try:
                _current.reset(self._token)
            except (ValueError, RuntimeError):  # left in another context than entered, or twice
                self._token = None
        if self.is_open:
            self._finish(error)

    def _finish(self, cause: Cause | None) -> None:
        try:
            failure = _failure(cause)
        except Exception:  # noqa: BLE001  # what cannot be told is a failure all the same
            failure = Failure(message=type(cause).__name__)
        if failure is not None:
            try:
                failure = self._run.with_journal(failure, cause)
            except Exception as trouble:  # noqa: BLE001  # a failure without journal lines is better than none
                complain(f"no journal lines for {self._part}: {type(trouble).__name__}")
        self._run.end(self._part, failure)


class Service(Recording):
    """A recording that a whole run ends with: of a service, or of a command that is a process of its own.

    What is still open of the run when it ends has ended with it, in the same way.
    """

    def __init__(self, run: RecordedRun, part: Part, *, record_sigterm: bool = False) -> None:
        super().__init__(run, part)
        self._sigterm = Sigterm(self._end_terminated) if record_sigterm else None

    def start(self) -> Self:
        _services[self] = None
        if self._sigterm is not None:
            self._sigterm.install()
        return super().start()

    def _end_terminated(self, frame: FrameType | None) -> None:
        self._run.end(self._part, failure_at(frame, signal="TERM"))  # without the journal, which takes time

    def _finish(self, cause: Cause | None) -> None:
        super()._finish(cause)
        _services.pop(self, None)
        if self._sigterm is not None:
            self._sigterm.remove()


class Sigterm:
    """While installed, SIGTERM calls `record` with the frame it interrupts, and then kills as it would have.

    Only where nothing else handles SIGTERM, and only from the main thread: there the interpreter runs its
    handlers, between two bytecodes, so that a long call into C delays the death (see the `signal` module).
    """

    def __init__(self, record: Callable[[FrameType | None], None]) -> None:
        import signal  # only for those who ask for it

        self._signal = signal
        self._record = record
        self._pid: int | None = None

    def install(self) -> None:
        self._pid = os.getpid()
        if self._signal.getsignal(self._signal.SIGTERM) is self._signal.SIG_DFL:
            self._handle_with(self._handle)

    def remove(self) -> None:
        """Put the default back, unless the service has a handler of its own by now."""
        if self._signal.getsignal(self._signal.SIGTERM) == self._handle:
            self._handle_with(self._signal.SIG_DFL)

    def _handle_with(self, handler: Callable[[int, FrameType | None], None] | int) -> None:
        try:
            self._signal.signal(self._signal.SIGTERM, handler)
        except ValueError:  # not in the main thread
            return

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._signal.signal(number, self._signal.SIG_DFL)
        try:
            if os.getpid() == self._pid:  # in a forked child the run is its parent's
                self._record(frame)
        finally:
            os.kill(os.getpid(), number)


def current() -> Recording | None:
    """Return the innermost recording entered in the caller's context, else the process's service.

    A new thread has a context of its own, but belongs to the same service.
    """
    return _current.get() or next(iter(_services), None)


def open_services() -> list[Service]:
    """Return the runs that this process has started and not ended, oldest first."""
    return [service for service in list(_services) if service.is_open]


def _failure(cause: Cause | None) -> Failure | None:
    if isinstance(cause, str):
        return failure_at(_service_frame(), message=cause)
    return failure_of(cause) if isinstance(cause, BaseException) else cause


def _service_frame() -> FrameType | None:
    """Return where the service stands that called us."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001  # `inspect`, which is slow to load, has just that
    while frame is not None and frame.f_globals.get("__name__") in _OURS:
        frame = frame.f_back
    return frame


_OURS: Final = frozenset({"service_record.recorder", __name__})
_current: Final[ContextVar[Recording | None]] = ContextVar("service_record", default=None)
_services: Final[dict[Service, None]] = {}
