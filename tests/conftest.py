"""What holds for every test."""

import signal

from hypothesis import HealthCheck, settings

# On a machine that is busy, or that runs hypothesis for the first time, a slow draw or case is no failure.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

# Whoever starts the tests in the background may ignore these; a shell cannot undo what was ignored before it.
for name in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(name) is signal.SIG_IGN:
        signal.signal(name, signal.default_int_handler if name is signal.SIGINT else signal.SIG_DFL)
