"""What explains the state of a host, gathered into a bundle; docs/boot-reporter.md says what that is."""

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

__all__ = ["Bundle", "Collector", "Context", "GatherError", "Gathered", "Given", "Member", "Status"]
