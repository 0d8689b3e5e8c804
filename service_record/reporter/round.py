"""One round: look at the host, ask the service, do what the rules say, in small steps.

What a step came to is on disk before the next begins, so that a round that is killed is one that ended early.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import Final

from service_record.reporter.cleanup import finish, read_tombstone
from service_record.reporter.lock import HeldError, only_one
from service_record.reporter.log import Log
from service_record.reporter.places import Places


class Ended(StrEnum):
    """What a round came to. Each of them is as it should be but for a leak."""

    DONE = "done"
    NOT_DUE = "not due"
    BUSY = "another round is running"
    STOPPED = "stopped for good"
    LEAK = "a bundle was held back: a secret would have left the host"
