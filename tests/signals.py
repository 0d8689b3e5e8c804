"""The signals that a shell under test must be able to die of."""

import signal


def heed_all() -> None:
    """Ignore none that whoever started us in the background has us ignore; a shell could not undo that."""
    for name in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(name) is signal.SIG_IGN:
            signal.signal(name, signal.default_int_handler if name is signal.SIGINT else signal.SIG_DFL)
