"""The differences between a bad history and a good one, as lines for a terminal."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from service_record.diagnosis.comparison import (
    Added,
    Difference,
    EndedDifferently,
    Missing,
    Moved,
    ServiceComparison,
    Slower,
    StepEnded,
)
from service_record.diagnosis.failures import FailureGroup, RunStep
from service_record.diagnosis.findings import KnownCause
from service_record.display.phrases import (
    VERBS,
    details,
    exit_text,
    glyph,
    headline,
    ink,
    label_lines,
    local_times,
    name,
    run_summary,
    step_name,
)
from service_record.display.text import (
    BLANK,
    Ink,
    Line,
    View,
    cell_len,
    count,
    cut,
    duration,
    wrap_lines,
)
from service_record.history import History
from service_record.history.build import boot_times, true_time
from service_record.history.outcome import Run, order
from service_record.record.visible import visible

_INDENT: Final = 2
_MAX_SHOWN: Final = 10  # differences of one kind in one service


def comparison_page(
    services: Sequence[ServiceComparison],
    good: tuple[str, History],
    bad: tuple[str, History],
    view: View,
    evident: Sequence[KnownCause] = (),
    *,
    is_wide: bool = False,
) -> Iterator[Line]:
    """Yield the lines of `diff`, given the name and the history of both sources.

    `evident` is the evidence in the files of the bad host that the good host does not have.
    """
    instants = _Instants(bad[1])
    different = sorted((one for one in services if one.differs), key=lambda one: _urgency(one, instants))
    alike = [one for one in services if not one.differs]
    if different:
        verb = "differs" if len(different) == 1 else "differ"
        yield ((f"{len(different)} of {count(len(services), 'service')} {verb}", Ink.BAD),)
    else:
        yield ((f"nothing differs in {count(len(services), 'service')}", Ink.GOOD),)
    for label, (source, history) in (("good", good), ("bad", bad)):
        parts = [visible(source), count(len(history.services), "service")]
        if history.boots:
            parts.append(count(len(history.boots), "boot"))
        if damaged := sum(service.damaged_pieces for service in history.services):
            parts.append(count(damaged, "damaged piece"))
        texts = [", ".join(parts), *local_times(history.services)]
        yield from label_lines(label, [(text, Ink.FAINT) for text in texts], view, 0)
    if evident:
        yield BLANK
        yield from label_lines("evidence", _evident(evident), view, 0)
    for one in different:
        yield BLANK
        yield from _service(one, view, None if is_wide else _MAX_SHOWN)
    if alike:
        yield BLANK
        names = f"{view.glyphs.success} alike: {', '.join(name(one.service) for one in alike)}"
        yield from wrap_lines(names, Ink.FAINT, view)


def _evident(evident: Sequence[KnownCause]) -> Iterator[tuple[str, Ink]]:
    for cause in evident:
        yield f"only in bad: {visible(cause.says)} ({visible(cause.name)})", Ink.BAD
        yield f"{visible(cause.place or '')}: {visible(cause.line or '')}", Ink.FAINT


class _Instants:
    """Times on a host as numbers that can be compared even if its clock was set: see `boot_times`."""

    def __init__(self, history: History) -> None:
        self._boots = boot_times(history)
        self._services = {service.name: service for service in history.services}

    def start(self, run: Run) -> float:
        return self._instant(run, run.first_entry, run.uptime)

    def first_end(self, run: Run) -> float:
        """Return the end of the first run of its service with the same outcome in the same stage."""
        end = run.outcome, run.in_stage
        first = next(
            each for each in self._services[run.service].runs if (each.outcome, each.in_stage) == end
        )
        return self._instant(first, first.last_entry, first.last_uptime)

    def _instant(self, run: Run, time: datetime | None, uptime: float | None) -> float:
        boot = self._boots.get(run.boot_id)
        if boot is not None and uptime is not None:
            return boot + uptime
        return order(true_time(time, self._services[run.service]))


def _urgency(one: ServiceComparison, instants: _Instants) -> tuple[int, float, str]:
    """Return a sort key: first the services that failed only in BAD, the earliest failure first.

    Others may follow from that failure. After these come services that still run in BAD and have ended in
    GOOD, then other differences, then missing services, each in the order of their starts.
    """
    run = one.bad
    if run is None:
        return 3, order(one.good.first_entry) if one.good is not None else 0.0, one.service
    is_new = one.good is None or any(
        isinstance(each, EndedDifferently | FailureGroup) for each in one.differences
    )
    if run.outcome.is_bad and is_new:
        return 0, instants.first_end(run), one.service
    has_ended = any(isinstance(each, EndedDifferently) for each in one.differences)
    return 1 if has_ended else 2, instants.start(run), one.service


def _service(one: ServiceComparison, view: View, most: int | None) -> Iterator[Line]:
    yield _title(one, view)
    for label, run, runs in (("good", one.good, one.good_runs), ("bad", one.bad, one.bad_runs)):
        if run is not None:
            text = f"{count(runs, 'run')}, compared: {run_summary(run, view)}"
            yield from label_lines(label, [(text, Ink.FAINT)], view, _INDENT)
    for label, kinds in _SECTIONS.items():
        differences = [each for each in one.differences if isinstance(each, kinds)]
        texts = [(_sentence(each, view), Ink.PLAIN) for each in differences[:most]]
        if len(differences) > len(texts):
            texts.append((f"and {len(differences) - len(texts)} more: --output wide shows them", Ink.FAINT))
        yield from label_lines(label, texts, view, _INDENT)
    for failure in one.differences:
        if isinstance(failure, FailureGroup):
            yield from label_lines("failure", [(_failure(failure, view), Ink.WORRYING)], view, _INDENT)
            yield from details(failure.facts, view, _INDENT)


_SECTIONS: Final[dict[str, type[Difference]]] = {
    "ended": StepEnded,
    "missing": Missing,
    "new": Added,
    "moved": Moved,
    "slower": Slower,
}


def _title(one: ServiceComparison, view: View) -> Line:
    if one.bad is None:
        mark, title, color = view.glyphs.damaged, "missing: only in good", Ink.WORRYING
    elif one.good is None:
        mark, color = glyph(one.bad.outcome, view.glyphs), ink(one.bad.outcome)
        title = f"{headline(one.bad)}; new: only in bad"
    else:
        mark, color = glyph(one.bad.outcome, view.glyphs), ink(one.bad.outcome)
        has_ended = any(isinstance(each, EndedDifferently) for each in one.differences)
        title = headline(one.bad) + (f"; good: {headline(one.good)}" if has_ended else "")
    service = cut(name(one.service), view.width // 2, view.glyphs.cut)
    room = view.width - len(f"{mark}  ") - cell_len(service)
    return (f"{mark} ", color), (service, Ink.STRONG), (f" {cut(title, room, view.glyphs.cut)}", color)


def _sentence(difference: Difference, view: View) -> str:
    match difference:
        case StepEnded(step, outcome):
            return f"{step_name(step)} {VERBS[outcome]}"
        case Missing(step, is_unreached):
            return step_name(step) + (" (not reached)" if is_unreached else "")
        case Added(step):
            return step_name(step)
        case Moved(step, after, good_after):
            return f"{step_name(step)} {_place(after)}; good: {_place(good_after)}"
        case Slower(step, seconds, good_seconds, is_running):
            times = f", {view.glyphs.times}{seconds / good_seconds:.1f}" if good_seconds else ""
            longer = "+" if is_running else ""
            took = f"{duration(seconds)}{longer}; good: {duration(good_seconds)}{times}"
            return f"{step_name(step) if step is not None else 'the run'} {took}"
        case _:
            return ""


def _place(after: RunStep | None) -> str:
    return f"after {step_name(after)}" if after is not None else "first"


def _failure(failure: FailureGroup, view: View) -> str:
    where = f"of {step_name(failure.step)}" if failure.step is not None else "of the run"
    times = f" {view.glyphs.times}{failure.count}" if failure.count > 1 else ""
    how = exit_text(failure.facts)
    return f"new{times}, {where}" + (f", {how}" if how else "")
