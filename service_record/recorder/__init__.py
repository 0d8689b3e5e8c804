"""The library by which Python services record themselves: context managers and plain functions."""

from __future__ import annotations

import atexit
import sys

from service_record.recorder.recorded_run import (
    Kind,
    Part,
    RecordedRun,
    complain,
    complain_if_outside,
    named,
    own_part,
    surrounding_service,
)
from service_record.recorder.recording import Recording, Service, current, open_services

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from service_record.record.appending import AnyPath
    from service_record.recorder.recording import Cause


def service(
    name: str | None = None, *, directory: AnyPath | None = None, record_sigterm: bool = False
) -> Service:
    """Return one run of a service.

    The name is by default $SERVICE_NAME, else the systemd unit's, else the program's; the directory
    $SERVICE_RECORDS_DIR, else /var/log/openshift. Where $PRE_COMMAND or $POST_COMMAND is set, as it is for
    a program in ExecStartPre=, the run is recorded as that command of the service.

    SIGTERM kills a Python program at once, and nothing tells the record. With `record_sigterm` a handler
    does, in the main thread, where the service has none of its own; a long call into C delays it, and with
    it the death.
    """
    return Service(_run(name, directory), own_part(), record_sigterm=record_sigterm)


def stage(name: str) -> Recording:
    """Record a stage of the caller's recording, else of the process's service, else of the one around the
    process.

    The last is how a program that a recorded script starts records a stage of that script's run.
    """
    around = current()
    if around is not None:
        return around.stage(name)
    run, part = _run(None, None), own_part().stage_within(name)
    complain_if_outside(part, run)
    return Recording(run, part)


def pre_command(name: str) -> Recording:
    """Record a pre-command of the caller's service; outside one, the whole process is the command."""
    around = current()
    return around.pre_command(name) if around else _command_alone(Kind.PRE_COMMAND, name)


def post_command(name: str) -> Recording:
    """Return the same for ExecStartPost= and ExecStopPost=."""
    around = current()
    return around.post_command(name) if around else _command_alone(Kind.POST_COMMAND, name)


def start_service(
    name: str | None = None, *, directory: AnyPath | None = None, record_sigterm: bool = False
) -> Service:
    """Start a run as `service` describes it, now; `end_service` ends it."""
    return service(name, directory=directory, record_sigterm=record_sigterm).start()


def end_service(cause: Cause | None = None) -> None:
    """End the process's run: as a success, or as the failure that an exception or a reason in words tells.

    An exception that nobody catches ends it by itself.
    """
    runs = open_services()
    if runs:
        runs[-1].end(cause)
    else:
        complain("no service is started, so none can end")


def start_stage(name: str) -> Recording:
    """Start a stage, now; `end_stage` ends it. Stages may nest."""
    started = stage(name).start()
    _stages[:] = [*(earlier for earlier in _stages if earlier.is_open), started]
    return started


def end_stage(cause: Cause | None = None) -> None:
    """End the stage that `start_stage` started last and that is open, like `end_service`."""
    open_stages = [started for started in _stages if started.is_open]
    if open_stages:
        open_stages[-1].end(cause)
    else:
        complain("no stage is started, so none can end")


_stages: Final[list[Recording]] = []


def _command_alone(kind: str, name: str) -> Service:
    return Service(_run(None, None), Part.command(kind, name, whole=True))


def _run(name: str | None, directory: AnyPath | None) -> RecordedRun:
    service_name = named(name, Kind.SERVICE) if name is not None else surrounding_service() or _program()
    return RecordedRun(service_name, directory)


def _program() -> str:
    """Return the name of the script or package that runs."""
    directory, _, file = (sys.argv[0] if sys.argv else "").rpartition("/")
    stem = file.rpartition(".")[0] or file
    name = directory.rpartition("/")[2] if stem == "__main__" else stem
    return "python" if name in {"", "-c"} else name


def _end_at_exit() -> None:
    error = getattr(sys, "last_value", None)  # set by the interpreter for an exception that nobody caught
    for recording in open_services():
        if isinstance(error, BaseException):
            recording.end(error)
        else:
            complain(f"{recording} was started and never ended")


atexit.register(_end_at_exit)
