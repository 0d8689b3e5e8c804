"""Select the runs to judge in a history derived from a journal, for a host without records. Pure."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from service_record.diagnosis.units import FAULTS, OTHER_SUFFIXES, Hindrance, UnitLog
from service_record.history import History, ServiceHistory
from service_record.history.outcome import Outcome

_UNIT_NAME: Final = r"[\w:.\\@-]+"
_NOT_STARTED: Final = frozenset({"dependency", "timeout"})
"""Results of a start that failed before the service ran. The unit itself shows the reason."""


def is_derived(service: ServiceHistory) -> bool:
    """Return True if all runs of the service come from a journal or an installer's log, not from a record."""
    return bool(service.runs) and all(run.is_derived for run in service.runs)


def has_records(history: History) -> bool:
    """Return True if any service of the history has a record, even a damaged one."""
    return not all(map(is_derived, history.services))


def choose_services(history: History, logs: Mapping[str, UnitLog]) -> History:
    """Return the history without derived runs that are judged as units instead.

    These are runs of mounts, devices and other units that are not services, and starts that failed before the
    service ran. Runs named by a unit's description are left out if anything else failed, because systemd logs
    the same failure with the unit's name. A failed dependency is no such failure: it follows from another.
    """
    services = [one for one in history.services if not is_derived(one) or _is_judged(one)]
    named = [one for one in services if not is_derived(one) or re.fullmatch(_UNIT_NAME, one.name)]
    has_failure = any(one.outcome is not None and one.outcome.is_bad for one in named) or any(
        log.result is not None or log.hindrance in FAULTS - {Hindrance.DEPENDENCY} for log in logs.values()
    )
    return replace(history, services=tuple(named if has_failure else services))


def _is_judged(service: ServiceHistory) -> bool:
    run = service.runs[-1]
    is_refused = run.has_no_start and run.facts.service_result in _NOT_STARTED
    return not service.name.endswith(OTHER_SUFFIXES) and not is_refused


def without_recovered(logs: Mapping[str, UnitLog], history: History) -> Mapping[str, UnitLog]:
    """Return the unit logs without services that recovered: their derived history ends without a failure.

    A refused restart (start limit) is kept: it can follow a successful run.
    """
    good = {
        f"{one.name}.service"
        for one in history.services
        if is_derived(one) and one.outcome in {Outcome.SUCCESS, Outcome.RUNNING, Outcome.STOPPED}
    }
    return {name: log for name, log in logs.items() if name not in good or log.has_hit_start_limit}
