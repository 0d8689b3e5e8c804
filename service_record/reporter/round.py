"""One round: look at the host, ask the service, do what the rules say, in small steps.

What a step came to is on disk before the next begins, so that a round that is killed is one that ended early.
Nothing here fails on account of settings, network or disk: that is said, and the next round goes on.
"""

import shutil
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from service_record import systemd
from service_record.reporter import console
from service_record.reporter.answers import Answered, Refused, Unreachable, View
from service_record.reporter.bundling import Bundled, make_bundle
from service_record.reporter.cleanup import finish, read_tombstone, stop
from service_record.reporter.evidence import Evidence, observe
from service_record.reporter.gather import COLLECTORS, Context, newest_cursor
from service_record.reporter.lock import HeldError, only_one
from service_record.reporter.log import Log
from service_record.reporter.peers import Peers
from service_record.reporter.places import Places
from service_record.reporter.policy import asks, decide, is_due
from service_record.reporter.policy.plan import Plan, Result, Shipment, StageReport
from service_record.reporter.settings import Settings, read_settings
from service_record.reporter.spool import Kept, Spool
from service_record.reporter.state import State, arrive, load, save


class Ended(StrEnum):
    """What a round came to. Each of them is as it should be but for a leak."""

    DONE = "done"
    NOT_DUE = "not due"
    BUSY = "another round is running"
    STOPPED = "stopped for good"
    LEAK = "a bundle was held back: a secret would have left the host"
