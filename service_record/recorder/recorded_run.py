"""A run while it is recorded: who it is, what of it is open, and its entries on their way into the record."""

from __future__ import annotations

import os
import sys
import time
from itertools import count

from service_record.record import systemd
from service_record.record.appending import Writer, writing_path
from service_record.recorder.failure import Failure
from service_record.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from service_record.record.appending import AnyPath

_RECORDER: Final = f"python/{__version__}"

_NOTHING_KNOWN: Final = Failure()
_UNKNOWN: Final = (None, "")
_executions: Final = count(1)
"""Numbers the executions of stages in this process."""


class Kind:
    """A kind of execution with a start and an end; a phase is one of these and which of the two."""

    SERVICE = "service"
    STAGE = "stage"
    PRE_COMMAND = "pre-command"
    POST_COMMAND = "post-command"


class Part:
    """The execution of a start and an end entry. Two parts of one name are two."""

    __slots__ = ("kind", "post_command", "pre_command", "stage", "whole")

    def __init__(
        self,
        *,
        kind: str,
        stage: str | None = None,
        pre_command: str | None = None,
        post_command: str | None = None,
        whole: bool = False,
    ) -> None:
        """Take one of `Kind`, the names, and whether the run, with all that is open in it, ends with it."""
        self.kind = kind
        self.stage = stage
        self.pre_command = pre_command
        self.post_command = post_command
        self.whole = whole

    @classmethod
    def command(cls, kind: str, name: str, *, whole: bool = False) -> Part:
        name = named(name, kind)
        if kind == Kind.PRE_COMMAND:
            return cls(kind=kind, pre_command=name, whole=whole)
        return cls(kind=kind, post_command=name, whole=whole)

    def stage_within(self, name: str) -> Part:
        """Return a stage of the same run, or of the same command."""
        return Part(
            kind=Kind.STAGE,
            stage=named(name, Kind.STAGE),
            pre_command=self.pre_command,
            post_command=self.post_command,
        )

    def is_of_same(self, other: Part) -> bool:
        """Return whether both are of the same command, or of none."""
        return (self.pre_command, self.post_command) == (other.pre_command, other.post_command)

    def __str__(self) -> str:
        name = self.stage or self.pre_command or self.post_command
        return f"{self.kind} {name!r}" if name else f"the {self.kind}"


class RecordedRun:
    """One run of a service, seen from the process that records it.

    Safe to share between threads. A forked child records the stages it starts itself as the run's; what its
    parent started only the parent ends.
    """

    def __init__(self, service: str, directory: AnyPath | None = None, recorder: str = _RECORDER) -> None:
        self.service = service
        self._directory = directory
        self._recorder = recorder
        self._pid = os.getpid()
        self._boot_id = systemd.boot_id()
        self._invocation_id = systemd.invocation_id()
        self._open: dict[Part, int] = {}
        self._ids: dict[Part, tuple[str, str | None]] = {}
        """For stages that know the stage around them: the id of this execution, and the id of that stage."""
        self._journal: tuple[int, str | None] | None = None
        self._writer: Writer | None = None

    def start(self, part: Part) -> None:
        """Record the start of a part, which is open from here on."""
        self._journal = None
        self._open[part] = os.getpid()
        self._append(part, "start")

    def identify(self, stage: Part, around: Part) -> None:
        """Give a stage an id for its next execution, and with it that of the stage around it.

        `around` is what it is entered in. Readers put a stage without an id into whatever is open. So a stage
        gets none when it is in one without, or may be in one that `start_stage` has left open.
        """
        parent = None
        if around.kind == Kind.STAGE and around in self._open and around.is_of_same(stage):
            parent = self._ids.get(around, (None, None))[0]
            if parent is None:
                return
        elif not all(part in self._ids for part in list(self._open) if part.kind == Kind.STAGE):
            return
        self._ids[stage] = (f"{os.getpid()}.{next(_executions)}", parent)

    def is_open(self, part: Part) -> bool:
        """Return whether this very process started the part and has not ended it."""
        return self._open.get(part) == os.getpid()

    def end(self, part: Part, failure: Failure | None) -> None:
        """Record the end of a part that is open; of one that is not there is nothing to record."""
        if self._open.pop(part, None) != os.getpid():
            return
        if part.whole:
            for inner in reversed(list(self._open)):
                self.end(inner, failure)
        self._append(part, "end", "failure" if failure else "success", failure or _NOTHING_KNOWN)
        self._ids.pop(part, None)

    def with_journal(self, failure: Failure, told_by: object) -> Failure:
        """Return the failure with the last journal lines of this invocation in front of its message.

        They are older than it, and a message too long loses its oldest end. One exception that is told of a
        stage and then of its service takes one look at the journal. Its id is its own only while it lives,
        so the look is forgotten at the next start.
        """
        if self._journal is None or self._journal[0] != id(told_by):
            self._journal = (id(told_by), systemd.journal_tail(self._invocation_id))
        lines = [self._journal[1], failure.message]
        return failure.with_message("\n".join(filter(None, lines)) or None)

    def _append(
        self, part: Part, moment: str, result: str | None = None, failure: Failure = _NOTHING_KNOWN
    ) -> None:
        stage_id, parent = self._ids.get(part, (None, None))
        try:
            fields = {
                "timestamp": _now(),
                "preCommand": part.pre_command,
                "postCommand": part.post_command,
                "stage": part.stage,
                "phase": f"{part.kind} {moment}",
                "result": result,
                "errorLine": failure.error_line,
                "errorMessage": failure.message,
                "exitCode": failure.exit_code,
                "signal": failure.signal,
                "command": failure.command,
                "stack": list(failure.stack) or None,
                "bootId": self._boot_id,
                "invocationId": self._invocation_id,
                "pid": self._pid,
                "uptime": systemd.uptime(),
                "recorder": None if result or part.kind == Kind.STAGE else self._recorder,
                "stageId": stage_id,
                "parent": parent,
            }
            if self._writer is None:
                self._writer = Writer(writing_path(self.service, self._directory))
            self._writer.append({name: value for name, value in fields.items() if value not in _UNKNOWN})
        except Exception as trouble:  # noqa: BLE001  # whatever it is, it is not the service's
            complain(f"no entry for {part}: {type(trouble).__name__}")


def _now() -> str:
    """Return the time in UTC with milliseconds: `2026-11-21T01:05:10.123Z`."""
    seconds, rest = divmod(time.time_ns(), 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest // 10**6:03}Z"


def surrounding_service() -> str | None:
    """Return the service that this process is in, as $SERVICE_NAME or systemd names it."""
    return os.environ.get("SERVICE_NAME") or systemd.unit_of_process()


def own_part() -> Part:
    """Return what this process is as a whole: a service, or the command in $PRE_COMMAND or $POST_COMMAND."""
    for kind, variable in ((Kind.PRE_COMMAND, "PRE_COMMAND"), (Kind.POST_COMMAND, "POST_COMMAND")):
        name = os.environ.get(variable)
        if name:
            return Part.command(kind, name, whole=True)
    return Part(kind=Kind.SERVICE, whole=True)


def named(name: object, kind: str) -> str:
    """Return the name given to a part, or one that says that none was."""
    if isinstance(name, str) and name:
        return name
    complain(f"a {kind} needs a name; this one is recorded as 'unnamed'")
    return "unnamed"


def complain_if_outside(stage: Part, run: RecordedRun) -> None:
    """Say of a stage that is recorded without its run that no service is around either."""
    if surrounding_service() is None:
        complain(f"{stage} is outside any service; recorded as one of {run.service!r}")


def complain(text: str) -> None:
    """Say what was done wrong in one line on standard error, the same thing once."""
    if text in _warnings or sys.stderr is None:
        return
    _warnings.add(text)
    try:
        sys.stderr.write(f"service-record: {text}\n")
    except Exception:  # noqa: BLE001  # closed, full, or replaced by the service with whatever it likes
        return


_warnings: Final[set[str]] = set()
