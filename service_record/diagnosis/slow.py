"""What took much longer than in a good run. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final

from service_record.diagnosis.budget import durations, runs_of
from service_record.diagnosis.findings import Slow
from service_record.diagnosis.now import Now
from service_record.diagnosis.services import running_spans
from service_record.history import History, ServiceHistory
from service_record.history.outcome import Outcome, Run, Stage

TIMES_USUAL: Final = 2.0
LEAST_SECONDS: Final = 5.0
"""Both have to be exceeded: twice a moment is no delay, and five seconds of an hour are none."""


def slow(services: Iterable[ServiceHistory], baseline: History, now: Now) -> tuple[Slow, ...]:
    """The stages, and then the whole runs, of each service's latest run that were slow; the slowest first."""
    found = [slow for service in services for slow in _of(service, baseline, now)]
    return tuple(sorted(found, key=lambda slow: slow.usual - slow.seconds))


def _of(service: ServiceHistory, baseline: History, now: Now) -> Iterator[Slow]:
    run = service.runs[-1]
    good = runs_of(baseline, service.name)
    took = durations(good)
    for name, (seconds, is_running) in _longest(run, service, now).items():
        usual = max(took.get(name, ()), default=None)
        if usual is not None and _is_slow(seconds, usual):
            yield Slow(service=service.name, stage=name, seconds=seconds, usual=usual, is_running=is_running)
    whole = [one.duration for one in good if one.outcome is Outcome.SUCCESS and one.duration is not None]
    if run.duration is not None and whole and _is_slow(run.duration, max(whole)):
        yield Slow(service=service.name, stage=None, seconds=run.duration, usual=max(whole), is_running=False)


def _longest(run: Run, service: ServiceHistory, now: Now) -> dict[str, tuple[float, bool]]:
    """Stage -> the seconds of its longest execution, and whether that goes on."""
    longest: dict[str, tuple[float, bool]] = {}
    taken = [(stage.name, stage.duration, False) for stage in run.stages]
    taken += [
        (span.name, now.since(span, run, service), True)
        for span in running_spans(run)
        if isinstance(span, Stage)
    ]
    for name, seconds, is_running in taken:
        if seconds is not None and seconds > longest.get(name, (-1.0, False))[0]:
            longest[name] = (seconds, is_running)
    return longest


def _is_slow(seconds: float, usual: float) -> bool:
    return seconds > TIMES_USUAL * usual and seconds > usual + LEAST_SECONDS
