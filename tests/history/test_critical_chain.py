"""The critical chain of a start-up, from the starts of the units in a journal."""

from datetime import UTC, datetime, timedelta

from service_record.history.critical_chain import critical_chain, startup_end
from service_record.history.outcome import JOURNAL_RECORDER, STARTUP, Outcome, Run

BOOT = datetime(2026, 11, 21, 1, 5, tzinfo=UTC)


def unit(
    name: str,
    start: float,
    ready: float,
    *,
    outcome: Outcome = Outcome.RUNNING,
    has_uptime: bool = True,
    recorder: str = JOURNAL_RECORDER,
) -> Run:
    """Return the run of a unit that started and became ready at these seconds after the boot."""
    started = BOOT + timedelta(seconds=start)
    return Run(
        service=name,
        attempt=1,
        outcome=outcome,
        started=started,
        ended=None,
        duration=None,
        first_entry=started,
        last_entry=started,
        uptime=start if has_uptime else None,
        attributes=((STARTUP, round(ready - start, 3)),),
        recorder=recorder,
    )


def steps(*runs: Run) -> list[tuple[str, float, float, float]]:
    chain = critical_chain(runs)
    return [(link.service, link.started, round(link.ready, 3), link.gap) for link in chain]


def test_chain_follows_the_units_ready_last() -> None:
    assert steps(
        unit("multi-user.target", 5.5, 5.501),
        unit("app", 3.25, 5.5),
        unit("network", 1.1, 3.0),
        unit("early", 0.5, 1.0),
        unit("beside", 0.6, 0.9),
        unit("late", 5.6, 9.0),
    ) == [
        ("early", 0.5, 1.0, 0.0),
        ("network", 1.1, 3.0, 0.1),
        ("app", 3.25, 5.5, 0.25),
        ("multi-user.target", 5.5, 5.501, 0.0),
    ]


def test_last_target_of_the_boot_ends_the_chain() -> None:
    targets = [unit("multi-user.target", 2.5, 2.5), unit("graphical.target", 3.5, 3.5)]
    assert steps(*targets)[-1][0] == "graphical.target"
    assert steps(unit("a", 0.5, 1.5), unit("b", 0.7, 4.5))[-1][0] == "b"


def test_chain_tolerates_a_millisecond() -> None:
    assert [name for name, *_ in steps(unit("a", 0.5, 1.001), unit("b", 1.0, 2.5))] == ["a", "b"]
    assert [name for name, *_ in steps(unit("a", 0.5, 1.002), unit("b", 1.0, 2.5))] == ["b"]


def test_units_that_started_at_once_are_named_once() -> None:
    assert [name for name, *_ in steps(unit("a", 1.5, 1.5), unit("b", 1.5, 1.5))] == ["b", "a"]


def test_first_good_run_of_a_unit_counts() -> None:
    assert steps(
        unit("a", 0.5, 0.9, outcome=Outcome.FAILURE),
        unit("a", 1.5, 1.9),
        unit("a", 2.5, 4.9),
        unit("b", 0.5, 9.5, recorder="bash/0.1.0"),
    ) == [("a", 1.5, 1.9, 0.0)]


def test_times_count_without_uptimes() -> None:
    origin = BOOT.timestamp()
    assert steps(unit("a", 0.5, 1.5, has_uptime=False)) == [("a", origin + 0.5, origin + 1.5, 0.0)]


def test_whole_seconds_have_no_chain() -> None:
    assert steps(unit("a", 1.0, 2.5), unit("b", 2.0, 3.5)) == []
    assert steps() == []


def test_startup_ends_when_last_unit_is_ready() -> None:
    assert startup_end(critical_chain([unit("a", 0.5, 1.5), unit("b", 1.5, 2.5)])) == 2.5
    assert startup_end(()) is None
