"""Tell child processes which run they belong to.

A child that Python forks shares the memory of its parent and knows the run. A child that is a new program
does not: one that `multiprocessing` spawns, a worker of Dask, a Python program started by `subprocess`. For
these the run is in the environment, from its start to its end, in $SERVICE_RECORD_RUN.

The variable has five fields, separated by colons: the processes that share the run (`PID@UPTIME`, separated
by commas), $SERVICE_NAME and $INVOCATION_ID at the start of the run, the service, and the directory of
records.
"""

from __future__ import annotations

import os

from service_record.record import systemd
from service_record.record.appending import process_id
from service_record.record.own_errors import is_foreign
from service_record.recorder.recorded_run import RecordedRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

VARIABLE: Final = "SERVICE_RECORD_RUN"
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
        os.environ[VARIABLE] = text
    except Exception as error:
        if is_foreign(error):
            raise


def withdraw_run(run: RecordedRun) -> None:
    """Take the run out of the environment if it is there."""
    global _exported  # noqa: PLW0603
    if _exported is not None and _exported[0] is run:
        if os.environ.get(VARIABLE) == _exported[1]:
            del os.environ[VARIABLE]
        _exported = None


def _share_after_fork() -> None:
    """Add a forked child to the processes that share the run: it may outlive the others, as a daemon does."""
    global _exported  # noqa: PLW0603
    if _exported is not None and os.environ.get(VARIABLE) == _exported[1]:
        run, text = _exported
        processes, _, rest = text.partition(":")
        text = f"{processes.partition(',')[0]},{process_id()}@{systemd.uptime() or 0}:{rest}"
        _exported = (run, text)
        os.environ[VARIABLE] = text


os.register_at_fork(after_in_child=_share_after_fork)


def find_joined_run() -> RecordedRun | None:
    """Return the run of the process that started this one; None if it is over, or not meant for this one.

    It is not meant for a process with another $SERVICE_NAME or $INVOCATION_ID: that is a service of its own.
    """
    global _joined  # noqa: PLW0603
    text = os.environ.get(VARIABLE)
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
