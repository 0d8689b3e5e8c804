"""Kills the Python process that loads it before its n-th rename, where n is $DIES_AT_RENAME.

Python loads this module if its directory is on PYTHONPATH; see https://docs.python.org/3/library/site.html.
"""

import itertools
import os
import signal
import sys

_renames = itertools.count(1)


def _kill_before_rename(event: str, _arguments: object) -> None:
    """Handle an audit event; see https://docs.python.org/3/library/audit_events.html."""
    if event == "os.rename" and next(_renames) == int(os.environ["DIES_AT_RENAME"]):
        os.kill(os.getpid(), signal.SIGKILL)


sys.addaudithook(_kill_before_rename)
