"""Policy of a round of the reporter: pure rules over settings, state, the server's view and local evidence.

`arrive` -> save -> `asks` -> `decide` -> for each step: `before` -> save -> do it -> `after` -> save; and
again from `decide` until the plan `is_last`. Each rule is a row of a table here, and of one in
docs/boot-reporter.md.
"""

from service_record.reporter.policy.deciding import PLACE, decide
from service_record.reporter.policy.moment import (
    Fact,
    RoundPlan,
    Shipment,
    StageReport,
    StepResult,
    Stop,
    asks,
    is_due,
)
from service_record.reporter.policy.transitions import (
    Call,
    Meaning,
    after,
    arrive,
    before,
    has_moved,
    learn,
    not_kept,
    with_bundle,
    with_view,
    withheld,
)

__all__ = [
    "PLACE",
    "Call",
    "Fact",
    "Meaning",
    "RoundPlan",
    "Shipment",
    "StageReport",
    "StepResult",
    "Stop",
    "after",
    "arrive",
    "asks",
    "before",
    "decide",
    "has_moved",
    "is_due",
    "learn",
    "not_kept",
    "with_bundle",
    "with_view",
    "withheld",
]
