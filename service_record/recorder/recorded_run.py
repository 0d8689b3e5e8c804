"""Runs as this process records them, and the environment variable that shows a run to child processes.

A child that Python forks shares the memory of its parent and has its run. A child that is a new program does
not: one that `multiprocessing` spawns, a worker of Dask, a Python program started by `subprocess`. These find
the run in $SERVICE_RECORD_RUN, which is set from the start of a run to its end. It has five fields, separated
by colons: the processes that share the run (`PID@UPTIME`, separated by commas), $SERVICE_NAME and
$INVOCATION_ID at the start of the run, the service, and the directory of records.
"""

from __future__ import annotations

import os
import sys
import time

from service_record.record import is_foreign, systemd
from service_record.record.appending import Writer, process_id, writing_path
from service_record.record.line import encode_text, encoded
from service_record.recorder.failure import Failure
from service_record.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Final

    from service_record.record.appending import AnyPath

_RECORDER: Final = f"python/{__version__}"
_BOOT_ID: Final = systemd.boot_id()  # read at the import: after a chroot there may be no /proc
_execution_numbers: Final = iter(range(1, 1 << 62))  # next() of it is safe between threads


class Kind:
    """The kinds of parts. A phase is a kind and `start` or `end`."""

    SERVICE = "service"
    STAGE = "stage"
    PRE_COMMAND = "pre-command"
    POST_COMMAND = "post-command"


class Part:
    """A run, a command or a stage: each has an entry for its start and one for its end.

    Parts are compared by identity: two stages of the same name are two parts. A `whole` part is all that this
    process does: when it ends, the open parts of the run end with it.
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

    @classmethod
    def of_stage(cls, name: str, attributes: Mapping[str, object] | None = None) -> Part:
        return cls(kind=Kind.STAGE, stage=check_name(name, Kind.STAGE), attributes=attributes)

    def place_within(self, around: Part) -> Part:
        """Put a stage into the command, if any, that `around` is or belongs to."""
        self.pre_command, self.post_command = around.pre_command, around.post_command
        return self

    def copy(self, attributes: Mapping[str, object] | None) -> Part:
        """Return a part of the same name with these attributes."""
        return Part(
            kind=self.kind,
            stage=self.stage,
            pre_command=self.pre_command,
            post_command=self.post_command,
            whole=self.whole,
            attributes=attributes,
        )

    def is_in_same_command(self, other: Part) -> bool:
        """Return True if both belong to the same command, or to none."""
        return self.pre_command == other.pre_command and self.post_command == other.post_command

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
        self._ids: dict[Part, tuple[str, str | None, str]] = {}
        """For stages whose surrounding stage is known: the ids of this execution and of that stage, and the
        fields with both in an entry.
        """
        self.open_parts = self._open.keys()
        """The open parts, including those that another process will end."""
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
        if around.stage is not None and around in self._open and around.is_in_same_command(stage):
            identity = self._ids.get(around)
            if identity is None:
                return
            parent = identity[0]
        else:
            for part in list(self._open):
                if part.stage is not None and part not in self._ids:
                    return
        own = f"{process_id()}.{next(_execution_numbers)}"
        text = f',"stageId":"{own}"' if parent is None else f',"stageId":"{own}","parent":"{parent}"'
        self._ids[stage] = (own, parent, text)

    def is_open(self, part: Part) -> bool:
        """Return True if the part is open and this process is the one to end it.

        That is the process that started it. But if that process is gone and this one has a session of its
        own, the service has become a daemon (`fork`, `setsid`, and the parent exits), and the daemon ends it.
        """
        starter = self._open.get(part)
        if starter is None:
            return False
        if starter == process_id():
            return True
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
        self._append(part, "end", "failure" if failure else "success", failure, written)
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
        failure: Failure | None = None,
        written: list[int] | None = None,
    ) -> None:
        try:
            writer = self._writer
            if writer is None:
                writer = self._writer = Writer(writing_path(self.service, self.directory))
            line = None
            if failure is None and part.stage is not None and not writer.dropped:
                line = self._encode_quickly(part, moment, result)
            writer.append(line or self._make_fields(part, moment, result, failure), written)
        except Exception as error:
            if is_foreign(error):
                raise
            complain(f"no entry for {part}: {type(error).__name__}")

    def _encode_quickly(self, stage: Part, moment: str, result: str | None) -> bytes | None:
        """Return the line that `_make_fields` and `encode_line` make, in a third of the time.

        Nearly all entries are starts and successful ends of stages. None if a text might have to be cut.
        """
        name, ids, uptime = stage.stage or "", self._ids.get(stage), systemd.uptime_text()
        if len(name) > _MAX_QUICK_NAME or not uptime:
            return None
        if stage.pre_command or stage.post_command or stage.attributes:
            return None
        phase = f'{moment}"' if result is None else f'{moment}","result":"{result}"'
        line = (
            f'{{"timestamp":"{format_time(time.time_ns())}","stage":{encode_text(name)},'
            f'"phase":"stage {phase},{self._identity_text},"uptime":{uptime}{ids[2] if ids else ""}}}\n'
        )
        try:
            return line.encode()
        except UnicodeEncodeError:  # a lone surrogate in the name
            return None

    def _make_fields(
        self, part: Part, moment: str, result: str | None, failure: Failure | None
    ) -> dict[str, object]:
        """Return the fields of an entry, in the order of writing, without those that are not known."""
        failure = failure or Failure()
        ids = self._ids.get(part)
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


RUN_VARIABLE: Final = "SERVICE_RECORD_RUN"
_IDENTITY: Final = ("SERVICE_NAME", "INVOCATION_ID")
_FIELDS: Final = 5
_ESCAPES: Final = (("%", "%25"), (":", "%3A"), ("\n", "%0A"))

_exported: tuple[RecordedRun, str] | None = None
_joined: tuple[str, RecordedRun | None] = ("", None)


def export_run(run: RecordedRun) -> None:
    """Put the run into the environment, unless an earlier one of this process is there."""
    global _exported  # noqa: PLW0603  # one environment, one run in it
    if _exported is not None:
        return
    try:
        fields = [*(os.environ.get(name, "") for name in _IDENTITY), run.service, _absolute(run)]
        text = ":".join([f"{run.pid}@{systemd.uptime() or 0}", *map(_escape, fields)])
        _exported = (run, text)
        os.environ[RUN_VARIABLE] = text
    except Exception as error:
        if is_foreign(error):
            raise


def withdraw_run(run: RecordedRun) -> None:
    """Take the run out of the environment if it is there."""
    global _exported  # noqa: PLW0603
    if _exported is not None and _exported[0] is run:
        if os.environ.get(RUN_VARIABLE) == _exported[1]:
            del os.environ[RUN_VARIABLE]
        _exported = None


def _share_after_fork() -> None:
    """Add a forked child to the processes that share the run: it may outlive the others, as a daemon does."""
    global _exported  # noqa: PLW0603
    if _exported is not None and os.environ.get(RUN_VARIABLE) == _exported[1]:
        run, text = _exported
        processes, _, rest = text.partition(":")
        text = f"{processes.partition(',')[0]},{process_id()}@{systemd.uptime() or 0}:{rest}"
        _exported = (run, text)
        os.environ[RUN_VARIABLE] = text


os.register_at_fork(after_in_child=_share_after_fork)


def find_joined_run() -> RecordedRun | None:
    """Return the run of the process that started this one; None if it is over, or not meant for this one.

    It is not meant for a process with another $SERVICE_NAME or $INVOCATION_ID: that is a service of its own.
    """
    global _joined  # noqa: PLW0603
    text = os.environ.get(RUN_VARIABLE)
    if text is None:
        return None
    if text != _joined[0]:
        _joined = (text, _read_run(text))
    return _joined[1]


def _read_run(text: str) -> RecordedRun | None:
    processes, *fields = text.split(":")
    if len(fields) != _FIELDS - 1:
        return None
    *identity, service, directory = map(_unescape, fields)
    if not service or identity != [os.environ.get(name, "") for name in _IDENTITY]:
        return None
    pids = []
    for each in processes.split(","):
        pid, _, uptime = each.partition("@")
        try:
            pids.append((int(pid), float(uptime)))
        except ValueError:  # no handler of the service raises this in between: nothing here takes long
            return None
    if all(systemd.is_alive(pid, uptime) is False for pid, uptime in pids):
        return None
    return RecordedRun(service, directory or None, pid=pids[0][0])


def _absolute(run: RecordedRun) -> str:
    """Return the directory that was given for the run; empty for the default."""
    if not run.directory:
        return ""
    return os.path.abspath(os.fsdecode(run.directory))  # noqa: PTH100  # pathlib takes 3 ms to load


def _escape(text: str) -> str:
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text


def _unescape(text: str) -> str:
    for character, escape in reversed(_ESCAPES):
        text = text.replace(escape, character)
    return text
