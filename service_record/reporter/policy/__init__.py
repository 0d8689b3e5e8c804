"""What a round of the reporter does: pure rules over settings, state, the server's view and local evidence.

`arrive` -> save -> `asks` -> `decide` -> for each step: `before` -> save -> do it -> `after` -> save; and
again from `decide` until the plan `is_last`. Each rule is a row of a table here, and of one in
docs/boot-reporter.md.
"""

from service_record.reporter.policy.deciding import decide
from service_record.reporter.policy.learning import Call, Meaning, learn
from service_record.reporter.policy.moment import asks, is_due
from service_record.reporter.policy.plan import Fact, Plan, Result, Shipment, StageReport, Stop
from service_record.reporter.policy.stages import PLACE
from service_record.reporter.policy.transitions import (
    after,
    arrive,
    before,
    has_moved,
    heard,
    kept,
    not_kept,
    withheld,
)

__all__ = [
    "PLACE",
    "Call",
    "Fact",
    "Meaning",
    "Plan",
    "Result",
    "Shipment",
    "StageReport",
    "Stop",
    "after",
    "arrive",
    "asks",
    "before",
    "decide",
    "has_moved",
    "heard",
    "is_due",
    "kept",
    "learn",
    "not_kept",
    "withheld",
]
