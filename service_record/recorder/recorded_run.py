"""One run while it is recorded: its identity, its open parts, and its entries on their way into the
record.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import count

from service_record.record import systemd
from service_record.record.appending import Writer, process_id, writing_path
from service_record.record.line import encode_text, encoded
from service_record.record.own_errors import is_foreign
from service_record.recorder.failure import Failure
from service_record.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Final

    from service_record.record.appending import AnyPath

_RECORDER: Final = f"python/{__version__}"
_NOTHING_KNOWN: Final = Failure()
_BOOT_ID: Final = systemd.boot_id()  # read at the import: after a chroot there may be no /proc
_execution_numbers: Final = count(1)


class Kind:
    """The kinds of parts. A phase is one of these and `start` or `end`."""

    SERVICE = "service"
    STAGE = "stage"
    PRE_COMMAND = "pre-command"
    POST_COMMAND = "post-command"


class Part:
    """A run, a command or a stage: all that a start and an end entry belong to.

    Parts are compared by identity: two stages of the same name are two parts. The run, with everything that
    is open in it, ends with a part that is `whole`.
    """

    __slots__ = ("attributes", "kind", "post_command", "pre_command", "stage", "whole")

    def __init__(
        self,
        *,
        kind: str,
        stage: str | None = None,
        pre_command: str | None = None,
        post_command: str | None = None,
        whole: bool = False,
        attributes: Mapping[str, object] | None = None,
    ) -> None:
        self.kind = kind
        self.stage = stage
        self.pre_command = pre_command
        self.post_command = post_command
        self.whole = whole
        self.attributes = attributes

    @classmethod
    def command(cls, kind: str, name: str, *, whole: bool = False) -> Part:
        name = check_name(name, kind)
        if kind == Kind.PRE_COMMAND:
            return cls(kind=kind, pre_command=name, whole=whole)
        return cls(kind=kind, post_command=name, whole=whole)

    def stage_within(self, name: str, attributes: Mapping[str, object] | None = None) -> Part:
        """Return a stage of the same run or, if this is (part of) a command, of the same command."""
        return Part(
            kind=Kind.STAGE,
            stage=check_name(name, Kind.STAGE),
            pre_command=self.pre_command,
            post_command=self.post_command,
            attributes=attributes,
        )

    def is_in_same_command(self, other: Part) -> bool:
        """Return True if both belong to the same command, or to none."""
        return (self.pre_command, self.post_command) == (other.pre_command, other.post_command)

    def __str__(self) -> str:
        name = self.stage or self.pre_command or self.post_command
        return f"{self.kind} {name!r}" if name else f"the {self.kind}"


class RecordedRun:
    """One run of a service, as this process records it.

    Threads may share it. A forked child records its own stages in the run of its parent, and only the parent
    ends what the parent started; but see `is_open` for a service that becomes a daemon.
    """

    def __init__(
        self,
        service: str,
        directory: AnyPath | None = None,
        recorder: str = _RECORDER,
        pid: int | None = None,
    ) -> None:
        """`pid` is the process that started the run, if it is not this one."""
        self.service = service
        self.directory = directory
        self.pid = pid or process_id()
        self._session = os.getsid(0)
        self._invocation_id = systemd.invocation_id()
        self._recorder = recorder
        identity = {"bootId": _BOOT_ID, "invocationId": self._invocation_id, "pid": self.pid}
        self._identity: dict[str, object] = {name: value for name, value in identity.items() if value}
        self._identity_text = encoded(self._identity).decode()[1:-2]
        self._open: dict[Part, int] = {}
        self._ids: dict[Part, tuple[str, str | None]] = {}
        """For stages whose surrounding stage is known: the id of this execution, and the id of that stage."""
        self._journal: tuple[int, str | None] | None = None
        self._writer: Writer | None = None

    def start(self, part: Part) -> None:
        """Record the start of a part, which is open from then on.

        If an exception of the service passes through, the part is open exactly if its start is recorded.
        """
        self._journal = None
        written: list[int] = []
        self._open[part] = process_id()
        try:
            self._append(part, "start", written=written)
        except BaseException:
            if not written:
                self._open.pop(part, None)
                self._ids.pop(part, None)
            raise

    def identify(self, stage: Part, around: Part) -> None:
        """Give a stage an id for its next execution, and the id of the stage around it.

        `around` is the part that the stage is entered in. Readers place a stage without an id inside the
        stages that are open. A stage gets no id if it is inside a stage without one, or may be: a stage that
        `start_stage` has left open.
        """
        parent = None
        if around.kind == Kind.STAGE and around in self._open and around.is_in_same_command(stage):
            parent = self._ids.get(around, (None, None))[0]
            if parent is None:
                return
        else:
            for part in list(self._open):
                if part.kind == Kind.STAGE and part not in self._ids:
                    return
        self._ids[stage] = (f"{process_id()}.{next(_execution_numbers)}", parent)

    def has_open(self, part: Part) -> bool:
        """Return True if the part is open, whoever is to end it."""
        return part in self._open

    def is_open(self, part: Part) -> bool:
        """Return True if the part is open and this process is the one to end it.

        That is the process that started it. But if that process is gone and this one has a session of its
        own, the service has become a daemon (`fork`, `setsid`, and the parent exits), and the daemon ends it.
        """
        starter = self._open.get(part)
        if starter is None or starter == process_id():
            return starter is not None
        return os.getsid(0) != self._session and systemd.is_alive(starter, None) is False

    def end(self, part: Part, failure: Failure | None) -> None:
        """Record the end of a part, if it is open."""
        if not self.is_open(part):
            return
        written: list[int] = []
        try:
            self._end(part, failure, written)
        except BaseException:  # of the service, from a signal handler: the end must not be lost for it
            if not written:
                self._end(part, failure, written)
            raise

    def _end(self, part: Part, failure: Failure | None, written: list[int]) -> None:
        # Before its end is written: a handler of SIGTERM that runs meanwhile must not end it again.
        self._open.pop(part, None)
        if part.whole:
            for inner in reversed(list(self._open)):
                self.end(inner, failure)
        self._append(part, "end", "failure" if failure else "success", failure or _NOTHING_KNOWN, written)
        self._ids.pop(part, None)

    def end_without_result(self, part: Part) -> None:
        """Record the end of a run whose result is unknown. Its open stages get no ends of their own."""
        if self.is_open(part):
            self._open.clear()
            self._append(part, "end")

    def add_last_lines(self, failure: Failure, cause: object) -> Failure:
        """Return the failure with the last lines that the service printed in front of its message.

        These are the last journal lines of this invocation; outside of the journal, the lines that
        `RecentLinesHandler` has kept. They are older than the message, and a message that is too long loses
        its oldest end.

        The journal is asked once for an exception that fails a stage and then its service. The id of an
        exception is its own only while it exists, so the lines are forgotten at the next start.
        """
        if self._journal is None or self._journal[0] != id(cause):
            self._journal = (id(cause), systemd.journal_tail(self._invocation_id))
        lines = self._journal[1] or "\n".join(line for lines in recent_lines for line in lines())
        return failure.with_message("\n".join(filter(None, [lines, failure.message])) or None)

    def _append(
        self,
        part: Part,
        moment: str,
        result: str | None = None,
        failure: Failure = _NOTHING_KNOWN,
        written: list[int] | None = None,
    ) -> None:
        ids = self._ids.get(part)
        try:
            if self._writer is None:
                self._writer = Writer(writing_path(self.service, self.directory))
            line = None
            if part.kind == Kind.STAGE and failure is _NOTHING_KNOWN and not self._writer.dropped:
                line = self._encode_quickly(part, moment, result, ids)
            self._writer.append(line or self._make_fields(part, moment, result, failure, ids), written)
        except Exception as error:
            if is_foreign(error):
                raise
            complain(f"no entry for {part}: {type(error).__name__}")

    def _encode_quickly(
        self, part: Part, moment: str, result: str | None, ids: tuple[str, str | None] | None
    ) -> bytes | None:
        """Return the line that `_make_fields` and `encode_line` make, in a third of the time.

        Nearly all entries are starts and successful ends of stages. None if a text might have to be cut.
        """
        name, uptime = part.stage or "", systemd.uptime()
        if len(name) > _MAX_QUICK_NAME or part.pre_command or part.post_command or part.attributes:
            return None
        text = f'{{"timestamp":"{format_time(time.time_ns())}","stage":{encode_text(name)},"phase":"stage '
        text += f'{moment}"' if result is None else f'{moment}","result":"success"'
        text += f",{self._identity_text}"
        if uptime is not None:
            text += f',"uptime":{uptime}'
        if ids is not None:
            text += f',"stageId":"{ids[0]}"'
            if ids[1] is not None:
                text += f',"parent":"{ids[1]}"'
        try:
            return f"{text}}}\n".encode()
        except UnicodeEncodeError:  # a lone surrogate in the name
            return None

    def _make_fields(
        self,
        part: Part,
        moment: str,
        result: str | None,
        failure: Failure,
        ids: tuple[str, str | None] | None,
    ) -> dict[str, object]:
        """Return the fields of an entry, in the order of writing, without those that are not known."""
        fields = {
            "timestamp": format_time(time.time_ns()),
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
            **self._identity,
            "uptime": systemd.uptime(),
            "stopRequest": failure.stop_request,
            "recorder": self._recorder if moment == "start" and part.kind != Kind.STAGE else None,
            "stageId": ids[0] if ids else None,
            "parent": ids[1] if ids else None,
            "attributes": dict(part.attributes) if part.attributes else None,
        }
        return {name: value for name, value in fields.items() if value is not None and value != ""}


_MAX_QUICK_NAME: Final = 60  # characters, at most 240 bytes: within the limit of a name


_formatted_second: tuple[int, str] = (0, "1970-01-01T00:00:00")


def format_time(nanoseconds: int) -> str:
    """Return a time in UTC with milliseconds: `2026-11-21T01:05:10.123Z`."""
    global _formatted_second  # noqa: PLW0603  # formatting each time would be a tenth of the cost of an entry
    seconds, rest = divmod(nanoseconds, 10**9)
    second, text = _formatted_second
    if second != seconds:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        _formatted_second = (seconds, text)
    return f"{text}.{rest // 10**6:03}Z"


recent_lines: Final[list[Callable[[], list[str]]]] = []
"""Functions that return the last lines of the service's log; `RecentLinesHandler` adds one."""


def surrounding_service() -> str | None:
    """Return the service that this process belongs to, by $SERVICE_NAME or systemd."""
    return os.environ.get("SERVICE_NAME") or systemd.unit_of_process()


def own_part() -> Part:
    """Return this process as a whole: a service, or the command in $PRE_COMMAND or $POST_COMMAND."""
    for kind, variable in ((Kind.PRE_COMMAND, "PRE_COMMAND"), (Kind.POST_COMMAND, "POST_COMMAND")):
        name = os.environ.get(variable)
        if name:
            return Part.command(kind, name, whole=True)
    return Part(kind=Kind.SERVICE, whole=True)


def check_name(name: object, kind: str) -> str:
    """Return the name of a part, or `unnamed` if it is not a text."""
    if isinstance(name, str) and name:
        return name
    complain(f"a {kind} needs a name; this one is recorded as 'unnamed'")
    return "unnamed"


def complain_if_outside(stage: Part, run: RecordedRun) -> None:
    """Complain about a stage that belongs to no service."""
    if surrounding_service() is None:
        complain(f"{stage} is outside any service; recorded as one of {run.service!r}")


def complain(text: str) -> None:
    """Write one line about wrong use on standard error, each text once.

    Not through `sys.stderr`: that stream may be the service's own object, and while the interpreter shuts
    down, a daemon thread that writes to it aborts the process.
    """
    if text in _complaints or sys.stderr is None:
        return
    _complaints.add(text)
    try:
        os.write(2, f"service-record: {text}\n".encode(errors="replace"))
    except OSError as error:
        if is_foreign(error):
            raise


_complaints: Final[set[str]] = set()
