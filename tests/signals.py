"""Restore the signals that must be able to end a shell under test."""

import signal


def restore_default_signals() -> None:
    """Stop ignoring signals.

    A process that was started in the background ignores some of them, and so do its children: a shell cannot
    reset a signal that was ignored when the shell started.
    """
    for name in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(name) is signal.SIG_IGN:
            signal.signal(name, signal.default_int_handler if name is signal.SIGINT else signal.SIG_DFL)
