"""The library with which Python services record themselves: context managers, decorators and plain
functions.
"""

from __future__ import annotations

import atexit
import sys

from service_record.recorder.recorded_run import (
    Kind,
    Part,
    RecordedRun,
    check_name,
    complain,
    own_part,
    surrounding_service,
)
from service_record.recorder.recording import (
    FoundStage,
    Recording,
    Service,
    check_attributes,
    current,
    open_services,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from service_record.record.appending import AnyPath
    from service_record.recorder.recording import AttributeValue, Cause


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
        make_another=lambda: service(name, directory=directory, record_sigterm=record_sigterm),
    )


def stage(name: str, /, **attributes: AttributeValue) -> Recording:
    """Return a stage, to be entered with `with`, or to decorate a function.

    It belongs to the recording in which it is entered: the surrounding stage or service, or the service of
    the process, or the run of the process that started this one. Otherwise, as in a program that a recorded
    script starts, it belongs to the service that `$SERVICE_NAME` or systemd names.

    `attributes` are texts and numbers that describe this execution: `stage("pull", image="quay.io/x")`.
    """
    checked = check_attributes(attributes) if attributes else None
    around = current()
    if around is not None:
        run, part = around.run, around.part.stage_within(name, checked)
    else:
        run, part = _make_run(None, None), own_part().stage_within(name, checked)
    return FoundStage(run, part, around, lambda: stage(name, **attributes))


def pre_command(name: str) -> Recording:
    """Return a pre-command of the caller's service. Outside of a service, the whole process is the
    command.
    """
    around = current()
    if around is not None:
        return around.pre_command(name)
    part = Part.command(Kind.PRE_COMMAND, name, whole=True)
    return Service(_make_run(None, None), part, make_another=lambda: pre_command(name))


def post_command(name: str) -> Recording:
    """Return a post-command (`ExecStartPost=`, `ExecStopPost=`), as `pre_command` does."""
    around = current()
    if around is not None:
        return around.post_command(name)
    part = Part.command(Kind.POST_COMMAND, name, whole=True)
    return Service(_make_run(None, None), part, make_another=lambda: post_command(name))


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
