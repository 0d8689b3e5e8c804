"""`service-record run`: any command as a recorded service, command or stage.

The child process keeps the standard streams, the process group and so the terminal. It gets the signals sent
to us, and we end as it ends: nobody can tell it from the command itself.
"""

import os
import resource
import shlex
import signal
from contextlib import suppress
from typing import Final

import click

from service_record.cli.options import complete_services, complete_stages
from service_record.recorder.failure import Failure
from service_record.recorder.recorded_run import (
    Kind,
    Part,
    RecordedRun,
    complain_if_outside,
    own_part,
    surrounding_service,
)
from service_record.recorder.recording import Recording, Service
from service_record.version import __version__

_OURS: Final = frozenset(
    {signal.SIGCHLD, signal.SIGSTOP, signal.SIGKILL, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
)
"""Signals that are not passed on: news of the child, those that no process can hold back, and those that
stop a whole job of a shell.
"""

_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)


class Child:
    """Runs one command. From here on signals wait for the command, and none ends this process before it."""

    def __init__(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the child's status away
        self._awaited = (signal.valid_signals() - _OURS) | {signal.SIGCHLD}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._awaited)

    def run(self, arguments: tuple[str, ...]) -> int:
        """Return the exit status of the command, or the number of the signal that killed it, negative.

        Raises OSError when the command cannot be started.
        """
        child = os.posix_spawnp(
            arguments[0], arguments, os.environ, setsigmask=self._mask, setsigdef=_IGNORED_BY_PYTHON
        )
        while True:
            info = signal.sigwaitinfo(self._awaited)
            if info.si_signo == signal.SIGCHLD:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    return os.waitstatus_to_exitcode(status)
            elif _is_sent_by_process(info):
                with suppress(PermissionError):  # it runs as another user now
                    os.kill(child, info.si_signo)


def _is_sent_by_process(info: signal.struct_siginfo) -> bool:
    """Return whether a process sent it, and not the terminal, whose signals reach the whole foreground
    group; see si_code in sigaction(2).
    """
    return info.si_code <= 0


def die_of(number: int) -> None:
    """Die of a signal, without a core of our own; returns when that does not kill, as in PID 1."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):  # SIGKILL has no disposition to set
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def signal_name(number: int) -> str:
    """Return the name in systemd's and the record's form, without SIG; a number if there is no name."""
    with suppress(ValueError):
        return signal.Signals(number).name.removeprefix("SIG")
    return str(number)


_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
_SIGNAL_BASE = 128


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option(
    "--service", metavar="NAME", shell_complete=complete_services, help="Record a run of this service."
)
@click.option(
    "--stage",
    metavar="NAME",
    shell_complete=complete_stages,
    help="Record a stage: of that run, or of the service around.",
)
@click.option("--pre-command", metavar="NAME", help="Record a pre-command of the service instead of a run.")
@click.option("--post-command", metavar="NAME", help="Record a post-command of the service instead of a run.")
@click.argument("arguments", metavar="CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    service: str | None,
    stage: str | None,
    pre_command: str | None,
    post_command: str | None,
    arguments: tuple[str, ...],
) -> None:
    """Run CMD as a recorded service or stage, and end as it ends.

    Without --service the name is $SERVICE_NAME, else the systemd unit's, else CMD's. With --stage alone a
    stage of the service around is recorded, as in a script that records itself.

    \b
    Examples:
      service-record run -- /usr/local/bin/etcd-bootstrap
      service-record run --service image --stage pull -- podman pull quay.io/x
    """  # noqa: D301  # click takes a backspace for a paragraph that stays as it is
    if pre_command and post_command:
        raise click.UsageError("--pre-command and --post-command exclude each other; give one of them")

    run = RecordedRun(service or surrounding_service() or arguments[0], recorder=f"run/{__version__}")
    whole = _part(pre_command, post_command)
    if stage is None:
        recordings: list[Recording] = [Service(run, whole)]
    elif service or pre_command or post_command:
        recordings = [Service(run, whole), Recording(run, whole.stage_within(stage))]
    else:
        part = whole.stage_within(stage)
        complain_if_outside(part, run)
        recordings = [Recording(run, part)]
    _end_as(_recorded(recordings, arguments))


def _part(pre_command: str | None, post_command: str | None) -> Part:
    if pre_command:
        return Part.command(Kind.PRE_COMMAND, pre_command, whole=True)
    if post_command:
        return Part.command(Kind.POST_COMMAND, post_command, whole=True)
    return own_part()


def _recorded(recordings: list[Recording], arguments: tuple[str, ...]) -> int:
    """Return the end of the command: its exit status, or minus the number of its signal."""
    child = Child()
    for recording in recordings:
        recording.start()
    message = None
    try:
        ended = child.run(arguments)
    except (OSError, ValueError) as error:
        ended, message = _not_started(arguments[0], error)
    recordings[0].end(_failure(ended, message, arguments))
    if message is not None:
        click.echo(f"service-record run: {message}", err=True)
    return ended


def _not_started(program: str, error: OSError | ValueError) -> tuple[int, str]:
    """Return the exit status and the reason in a shell's form; see "Exit Status" in bash(1)."""
    if isinstance(error, FileNotFoundError):
        return _NOT_FOUND, f"{program}: command not found"
    reason = error.strerror if isinstance(error, OSError) else error
    return _NOT_EXECUTABLE, f"{program}: {reason}"


def _failure(ended: int, message: str | None, arguments: tuple[str, ...]) -> Failure | None:
    if ended == 0:
        return None
    return Failure(
        message=message,
        command=shlex.join(arguments),
        exit_code=ended if ended > 0 else None,
        signal=signal_name(-ended) if ended < 0 else None,
    )


def _end_as(ended: int) -> None:
    if ended < 0:
        die_of(-ended)
    click.get_current_context().exit(ended if ended >= 0 else _SIGNAL_BASE - ended)
