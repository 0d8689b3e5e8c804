"""A command as a child process that nobody can tell from the command itself.

It keeps the standard streams, the process group and so the terminal; it gets the signals sent to us, and its
end becomes ours.
"""

import os
import resource
import signal
from contextlib import suppress
from typing import Final

_OURS: Final = frozenset(
    {signal.SIGCHLD, signal.SIGSTOP, signal.SIGKILL, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
)
"""Not passed on: news of the child, what no process can hold back, and what stops a whole job of a shell."""

_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)


class Child:
    """Runs one command. From here on signals wait for the command, and none ends this process before it."""

    def __init__(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the child's status away
        self._awaited = (signal.valid_signals() - _OURS) | {signal.SIGCHLD}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._awaited)

    def run(self, arguments: tuple[str, ...]) -> int:
        """The exit status of the command, or the number of the signal that killed it, negative.

        Raises OSError when the command cannot be started.
        """
        child = os.posix_spawnp(
            arguments[0], arguments, os.environ, setsigmask=self._mask, setsigdef=_IGNORED_BY_PYTHON
        )
        while True:
            arrived = signal.sigwaitinfo(self._awaited)
            if arrived.si_signo == signal.SIGCHLD:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    return os.waitstatus_to_exitcode(status)
            elif _is_sent_by_process(arrived):
                with suppress(PermissionError):  # it runs as another user now
                    os.kill(child, arrived.si_signo)


def _is_sent_by_process(arrived: signal.struct_siginfo) -> bool:
    """Not by the terminal, whose signals reach the whole foreground group; see si_code in sigaction(2)."""
    return arrived.si_code <= 0


def die_of(number: int) -> None:
    """Die of a signal, without a core of our own; returns when that does not kill, as in PID 1."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):  # SIGKILL has no disposition to set
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def signal_name(number: int) -> str:
    """The name as systemd and the record have it, without SIG; a number where there is no name."""
    with suppress(ValueError):
        return signal.Signals(number).name.removeprefix("SIG")
    return str(number)
