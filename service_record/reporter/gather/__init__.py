"""What explains the state of a host, gathered into a bundle; docs/boot-reporter.md says what that is."""

from service_record.reporter.gather.collectors import COLLECTORS, RECORDS
from service_record.reporter.gather.gathering import ROUND_SECONDS, gather
from service_record.reporter.gather.journal import newest_cursor
from service_record.reporter.gather.manifest import MANIFEST, add_manifest
from service_record.reporter.gather.model import (
    Bundle,
    Collector,
    Context,
    Gathered,
    GatherError,
    Given,
    Member,
    Status,
)

__all__ = [
    "COLLECTORS",
    "MANIFEST",
    "RECORDS",
    "ROUND_SECONDS",
    "Bundle",
    "Collector",
    "Context",
    "GatherError",
    "Gathered",
    "Given",
    "Member",
    "Status",
    "add_manifest",
    "gather",
    "newest_cursor",
]
