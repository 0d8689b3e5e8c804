"""Gathering of evidence about a host into a bundle; docs/boot-reporter.md lists it."""

from service_record.reporter.gather.collectors import COLLECTORS, RECORDS
from service_record.reporter.gather.gathering import ROUND_SECONDS, gather
from service_record.reporter.gather.journal import newest_cursor
from service_record.reporter.gather.model import (
    MANIFEST,
    Context,
    Gathered,
    GatheredBundle,
    GatheredMember,
    GatherError,
    GatherRow,
    GatherStatus,
    GivenMember,
)

__all__ = [
    "COLLECTORS",
    "MANIFEST",
    "RECORDS",
    "ROUND_SECONDS",
    "Context",
    "GatherError",
    "GatherRow",
    "GatherStatus",
    "Gathered",
    "GatheredBundle",
    "GatheredMember",
    "GivenMember",
    "gather",
    "newest_cursor",
]
