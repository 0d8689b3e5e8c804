"""`service-record run`: record any command as a service, a command or a stage.

The command keeps the process group and so the terminal, gets every signal sent to `run`, and `run` ends as
the command ends. Under systemd it also keeps the standard streams. Elsewhere its output is copied, so that
the last lines can be recorded: see command_output.
"""

import os
import resource
import shlex
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from service_record.cli.options import FILE_PATH, complete_services, complete_stages
from service_record.record import systemd
from service_record.record.appending import record_name
from service_record.recorder import Recording, Service
from service_record.recorder.failure import Failure
from service_record.recorder.recorded_run import (
    Kind,
    Part,
    RecordedRun,
    complain_if_outside,
    own_part,
    surrounding_service,
)
from service_record.version import __version__

if TYPE_CHECKING:
    from service_record.cli.command_output import CommandOutput
    from service_record.cli.last_lines import CollectorPlace

_OURS: Final = frozenset(
    {signal.SIGCHLD, signal.SIGSTOP, signal.SIGKILL, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
)
"""Signals that are not passed on: SIGCHLD, those that cannot be blocked, and those that stop a job."""

_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
_HARMLESS: Final = frozenset({signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH})
"""Signals that end no process by default."""
_DELIVERY_CHECK_SECONDS: Final = 0.05


class Child:
    """Runs one command. It blocks signals, so that none ends this process before the command ends."""

    def __init__(self) -> None:
        # While SIGCHLD is ignored, waitpid() does not return the child's status.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._awaited = (signal.valid_signals() - _OURS) | {signal.SIGCHLD}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._awaited)

    def run(self, arguments: tuple[str, ...], output: "CommandOutput | None") -> int:
        """Return the exit status of the command, or the number of the signal that killed it, negative.

        Raises OSError when the command cannot be started.
        """
        try:
            child = os.posix_spawnp(
                arguments[0],
                arguments,
                os.environ,
                file_actions=output.file_actions if output else (),
                setsigmask=self._mask,
                setsigdef=_IGNORED_BY_PYTHON,
            )
        finally:
            if output is not None:
                output.command_started()
        while True:
            info = signal.sigwaitinfo(self._awaited)
            if info.si_signo == signal.SIGCHLD:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    return os.waitstatus_to_exitcode(status)
                continue
            if info.si_signo == signal.SIGWINCH and output is not None:
                output.window_changed()
            elif not _must_be_passed_on(info):
                continue
            with suppress(PermissionError):  # it runs as another user now
                os.kill(child, info.si_signo)

    def last_lines(self, output: "CommandOutput") -> str | None:
        """Wait until the output is delivered and return its last lines.

        The reader of a pipe may be slow. A signal that ends a process ends the wait.
        """
        output.command_ended()
        while not output.is_delivered(_DELIVERY_CHECK_SECONDS):
            info = signal.sigtimedwait(self._awaited, 0)
            if info is not None and info.si_signo not in _HARMLESS:
                return None
        return output.last_lines()


def _must_be_passed_on(info: signal.struct_siginfo) -> bool:
    """Return True if the command did not get this signal itself. See si_code in sigaction(2).

    The terminal sends its signals to the whole foreground group, and so to the command. The exception is
    SIGHUP when the terminal goes away, which only the session leader gets.
    """
    is_of_process = info.si_code <= 0
    is_of_closed_terminal = info.si_signo == signal.SIGHUP and os.getsid(0) == os.getpid()
    return is_of_process or is_of_closed_terminal


def die_by_signal(number: int) -> None:
    """Kill this process by a signal, without a core dump. Returns if it does not kill, as in PID 1."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):  # SIGKILL has no disposition to set
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def signal_name(number: int) -> str:
    """Return the name as systemd and the record write it, without SIG: `TERM`, `RTMIN+3`."""
    with suppress(ValueError):
        return signal.Signals(number).name.removeprefix("SIG")
    if signal.SIGRTMIN < number < signal.SIGRTMAX:
        return f"RTMIN+{number - signal.SIGRTMIN}"
    return str(number)


_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
_SIGNAL_BASE = 128
_MAX_SHEBANG_BYTES = 256  # the kernel reads no more


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option(
    "--service", metavar="NAME", shell_complete=complete_services, help="Record a run of this service."
)
@click.option(
    "--stage",
    metavar="NAME",
    shell_complete=complete_stages,
    help="Record a stage of that run, or of the service that runs this command.",
)
@click.option("--pre-command", metavar="NAME", help="Record a pre-command of the service instead of a run.")
@click.option("--post-command", metavar="NAME", help="Record a post-command of the service instead of a run.")
@click.option(
    "--to",
    "url",
    metavar="URL",
    help="Send the last lines of output to this collector while CMD runs: https://HOST, or "
    "collector://HOST[:PORT][/NAME].",
)
@click.option(
    "--token-file",
    type=FILE_PATH,
    metavar="FILE",
    help="File that contains only the collector's token. [default: as for ship]",
)
@click.argument("arguments", metavar="CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    *,
    service: str | None,
    stage: str | None,
    pre_command: str | None,
    post_command: str | None,
    url: str | None,
    token_file: Path | None,
    arguments: tuple[str, ...],
) -> None:
    """Run CMD as a recorded service or stage, and end as it ends.

    Without --service the name is $SERVICE_NAME, else the systemd unit's, else CMD's. With --stage alone a
    stage of the service around is recorded, as in a script that records itself.

    \b
    Examples:
      service-record run -- /usr/local/bin/etcd-bootstrap
      service-record run --service try -- false; service-record show try
      service-record run --service image --stage pull -- podman pull quay.io/x
      service-record run --to https://c.example -- /usr/local/bin/setup-host
    """
    if pre_command and post_command:
        raise click.UsageError("--pre-command and --post-command exclude each other; give one of them")

    run = RecordedRun(service or surrounding_service() or arguments[0], recorder=f"run/{__version__}")
    if pre_command:
        whole = Part.command(Kind.PRE_COMMAND, pre_command, whole=True)
    elif post_command:
        whole = Part.command(Kind.POST_COMMAND, post_command, whole=True)
    else:
        whole = own_part()
    if stage is None:
        recordings: list[Recording] = [Service(run, whole)]
    elif service or pre_command or post_command:
        recordings = [Service(run, whole), Recording(run, Part.of_stage(stage).place_within(whole))]
    else:
        part = Part.of_stage(stage).place_within(whole)
        complain_if_outside(part, run)
        recordings = [Recording(run, part)]
    place = None
    if url is not None:
        from service_record.cli.last_lines import CollectorPlace

        place = CollectorPlace(url, token_file)
    ended = _record_command(recordings, arguments, place)
    if ended < 0:
        die_by_signal(-ended)
    click.get_current_context().exit(ended if ended >= 0 else _SIGNAL_BASE - ended)


def _record_command(
    recordings: list[Recording], arguments: tuple[str, ...], place: "CollectorPlace | None"
) -> int:
    """Return the exit status of the command, or minus the number of the signal that killed it.

    With a place, the last lines of its output are sent there meanwhile.
    """
    child = Child()
    for recording in recordings:
        recording.start()
    output = None
    if systemd.invocation_id() is None:  # under systemd the journal has the output
        from service_record.cli.command_output import CommandOutput

        output = CommandOutput(is_live=place is not None)
    control = -1 if place is None else _start_sending(place, recordings[-1], output)
    fault = message = None
    try:
        ended = child.run(arguments, output)
    except (OSError, ValueError) as error:
        ended, fault = _describe_failure(arguments[0], error)
    if output is not None:
        message = child.last_lines(output)
    failure = None
    if ended != 0:
        failure = Failure(
            message=fault or message,
            command=shlex.join(arguments),
            exit_code=ended if ended > 0 else None,
            signal=signal_name(-ended) if ended < 0 else None,
        )
    recordings[0].end(failure)
    if control >= 0:
        with suppress(OSError):  # the process that sends has ended
            if ended == 0:
                os.write(control, b"0")
            os.close(control)
    if fault is not None:
        click.echo(f"service-record run: {fault}", err=True)
    return ended


def _start_sending(place: "CollectorPlace", recording: Recording, output: "CommandOutput | None") -> int:
    """Start to send the last lines of a command; see `last_lines.start_sending`."""
    from service_record.cli.last_lines import invocation_lines, start_sending

    invocation = systemd.invocation_id()
    if output is not None:
        lines, kept = output.live_lines, output.live_descriptors
    elif invocation is not None:
        lines, kept = invocation_lines(invocation, time.time()), []
    else:
        return -1
    service = record_name(recording.run.service)
    return start_sending(place, service, recording.part.stage or "", lines, kept)


def _describe_failure(program: str, error: OSError | ValueError) -> tuple[int, str]:
    """Return the exit status and the reason in a shell's form; see "Exit Status" in bash(1)."""
    if isinstance(error, FileNotFoundError):
        path = shutil.which(program)
        if path is None:
            return _NOT_FOUND, f"{program}: command not found"
        # The file exists, so what was not found is its interpreter, or the loader of a binary.
        interpreter = _interpreter(path)
        needed = f"its interpreter {interpreter}" if interpreter else "its program loader"
        return _NOT_EXECUTABLE, f"{program}: {needed} does not exist"
    reason = error.strerror if isinstance(error, OSError) else error
    return _NOT_EXECUTABLE, f"{program}: {reason}"


def _interpreter(path: str) -> str | None:
    """Return the interpreter that the first line of a script names."""
    with suppress(OSError), Path(path).open("rb") as file:
        line = file.readline(_MAX_SHEBANG_BYTES)
        words = line.removeprefix(b"#!").split(maxsplit=1)
        if line.startswith(b"#!") and words:
            return os.fsdecode(words[0])
    return None
