"""Steps of a host's clock, as times and uptimes of its records tell them."""

from service_record.history import build_history
from service_record.history.results import ClockStep
from service_record.record.entry import Entry, Phase
from tests.builders import BOOT_ID, UPTIME, entry

OTHER_BOOT = "c1" * 16
FIVE_HOURS = 5 * 3600


def steps(**records: list[Entry]) -> tuple[ClockStep, ...]:
    return build_history(records.items()).clock_steps


def run(start: float, end: float, ahead: float = 0, ahead_at_end: float | None = None) -> list[Entry]:
    """A run whose clock is so many seconds ahead of what its uptime says, at its start and at its end."""
    later = ahead if ahead_at_end is None else ahead_at_end
    return [
        entry(at=start + ahead, uptime=UPTIME + start, pid=round(start) + 1),
        entry(Phase.SERVICE_END, end + later, uptime=UPTIME + end, pid=round(start) + 1),
    ]


def test_a_clock_that_goes_on_has_no_step() -> None:
    assert steps(a=[*run(0, 5), *run(100, 9000, 1.5)], b=run(50, 60, 0.7)) == ()


def test_clock_step_is_reported_once() -> None:
    found = steps(
        a=run(0, 500, ahead_at_end=FIVE_HOURS),
        b=[*run(10, 90), *run(100, 400, ahead=FIVE_HOURS)],
        c=[*run(1, 2), *run(95, 96)],
    )
    (step,) = found
    assert (step.seconds, step.uptime, step.boot_id) == (FIVE_HOURS, UPTIME + 100, BOOT_ID)
    assert step.before == entry(at=96).time
    assert step.after == entry(at=100 + FIVE_HOURS).time


def test_clock_set_back_twice_has_two_steps() -> None:
    found = steps(a=[*run(0, 10), *run(20, 30, -60), *run(40, 50, 3.456)])
    assert [(step.seconds, step.uptime) for step in found] == [(-60, UPTIME + 20), (63.46, UPTIME + 40)]


def test_the_least_step_is_of_two_seconds() -> None:
    assert [step.seconds for step in steps(a=[*run(0, 10), *run(20, 30, 2), *run(40, 50, 0.01)])] == [2]


def test_a_boot_does_not_step_the_clock() -> None:
    again = [entry(at=5000, uptime=1.0, boot_id=OTHER_BOOT, pid=9)]
    assert steps(a=[*run(0, 10), *again]) == ()


def test_entries_without_uptime_say_nothing_of_the_clock() -> None:
    assert steps(a=[entry(uptime=None), entry(Phase.SERVICE_END, 9000, uptime=None)]) == ()
