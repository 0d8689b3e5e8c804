"""Kills the program that it is loaded into before a rename, the one that $DIES_AT_RENAME counts to from 1.

Python loads it where its directory is on PYTHONPATH. https://docs.python.org/3/library/site.html
"""

import itertools
import os
import signal
import sys

_renames = itertools.count(1)


def _die(event: str, _arguments: object) -> None:
    """Take note of an audit event, as https://docs.python.org/3/library/audit_events.html lists them."""
    if event == "os.rename" and next(_renames) == int(os.environ["DIES_AT_RENAME"]):
        os.kill(os.getpid(), signal.SIGKILL)


sys.addaudithook(_die)
