"""The differences between a bad history and a good one, as lines and as a document.

docs/diff.md describes the document field by field.
"""

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
    Tolerance,
)
from service_record.diagnosis.failures import FailureGroup, RunStep
from service_record.diagnosis.trouble_facts import KnownCause
from service_record.display.machine import Document, facts_document, present
from service_record.display.phrases import (
    VERBS,
    details,
    exit_text,
    glyph,
    headline,
    ink,
    labelled,
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
    utc,
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
        yield from labelled(label, [(text, Ink.FAINT) for text in texts], view, 0)
    if evident:
        yield BLANK
        yield from labelled("evidence", _evident(evident), view, 0)
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

    def begun(self, run: Run) -> float:
        return self._of(run, run.first_entry, run.uptime)

    def first_ended(self, run: Run) -> float:
        """Return the end of the first run of its service with the same outcome in the same stage."""
        end = run.outcome, run.in_stage
        first = next(
            each for each in self._services[run.service].runs if (each.outcome, each.in_stage) == end
        )
        return self._of(first, first.last_entry, first.last_uptime)

    def _of(self, run: Run, time: datetime | None, uptime: float | None) -> float:
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
        return 0, instants.first_ended(run), one.service
    has_ended = any(isinstance(each, EndedDifferently) for each in one.differences)
    return 1 if has_ended else 2, instants.begun(run), one.service


def _service(one: ServiceComparison, view: View, most: int | None) -> Iterator[Line]:
    yield _title(one, view)
    for label, run, runs in (("good", one.good, one.good_runs), ("bad", one.bad, one.bad_runs)):
        if run is not None:
            text = f"{count(runs, 'run')}, compared: {run_summary(run, view)}"
            yield from labelled(label, [(text, Ink.FAINT)], view, _INDENT)
    for label, kinds in _SECTIONS.items():
        differences = [each for each in one.differences if isinstance(each, kinds)]
        texts = [(_sentence(each, view), Ink.PLAIN) for each in differences[:most]]
        if len(differences) > len(texts):
            texts.append((f"and {len(differences) - len(texts)} more: --output wide shows them", Ink.FAINT))
        yield from labelled(label, texts, view, _INDENT)
    for failure in one.differences:
        if isinstance(failure, FailureGroup):
            yield from labelled("failure", [(_failure(failure, view), Ink.WORRYING)], view, _INDENT)
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


_SCHEMA_VERSION: Final = 1


def comparison_document(
    services: Sequence[ServiceComparison],
    good: str,
    bad: str,
    tolerance: Tolerance,
    evident: Sequence[KnownCause] = (),
) -> Document:
    """Return the document of `diff --output json` and `yaml`."""
    return {
        "version": _SCHEMA_VERSION,
        "good": good,
        "bad": bad,
        "ratio": tolerance.ratio,
        "floor": tolerance.floor,
        "differs": bool(evident) or any(one.differs for one in services),
        **present(evidence=list(map(_evident_document, evident)) or None),
        "services": [
            {
                "service": one.service,
                **present(good=one.good and _run_document(one.good, one.good_runs)),
                **present(bad=one.bad and _run_document(one.bad, one.bad_runs)),
                "differences": list(_differences(one)),
            }
            for one in services
        ],
    }


def _evident_document(cause: KnownCause) -> Document:
    return {
        "cause": cause.name,
        "says": cause.says,
        **present(rank=cause.rank if cause.is_symptom else None, line=cause.line, place=cause.place),
    }


def difference_documents(
    services: Sequence[ServiceComparison], evident: Sequence[KnownCause] = ()
) -> Iterator[Document]:
    """Yield the lines of `diff --output jsonl`: each difference, with its service; evidence has none."""
    yield from ({"what": "evidence", **_evident_document(cause)} for cause in evident)
    for one in services:
        for difference in _differences(one):
            yield {"service": one.service, **difference}


def _run_document(run: Run, runs: int) -> Document:
    return {
        "runs": runs,
        "attempt": run.attempt,
        "outcome": run.outcome.value,
        **present(firstEntry=run.first_entry and utc(run.first_entry)),
        **present(duration=run.duration, bootId=run.boot_id, invocationId=run.invocation_id),
        **present(inStage=run.in_stage, inCommand=run.in_command),
    }


def _differences(one: ServiceComparison) -> Iterator[Document]:
    if one.bad is None and one.good is not None:
        yield {"kind": "service-missing"}
    if one.good is None and one.bad is not None:
        yield {"kind": "service-new", "outcome": one.bad.outcome.value}
    yield from (_difference(difference, one) for difference in one.differences)


def _difference(difference: Difference, one: ServiceComparison) -> Document:
    kind, fields = _kind_and_fields(difference, one)
    step = None if isinstance(difference, EndedDifferently) else difference.step
    return {"kind": kind, **_step(step), **fields}


def _kind_and_fields(difference: Difference, one: ServiceComparison) -> tuple[str, Document]:
    document: tuple[str, Document]
    match difference:
        case EndedDifferently():
            ends = {"good": one.good and one.good.outcome.value, "bad": one.bad and one.bad.outcome.value}
            document = "outcome", present(**ends)
        case StepEnded(_, outcome):
            document = "step-outcome", {"good": "success", "bad": outcome.value}
        case Missing(_, is_unreached):
            document = "missing", {"reached": not is_unreached}
        case Added():
            document = "new", {}
        case Moved(_, after, good_after):
            places = {"good": good_after and _step(good_after), "bad": after and _step(after)}
            document = "moved", {"after": present(**places)}
        case Slower(_, seconds, good_seconds, is_running):
            document = (
                "slower",
                {"good": good_seconds, "bad": seconds, **present(running=is_running or None)},
            )
        case FailureGroup(_, signature, facts, count):
            document = "failure", {"signature": signature, "count": count, **facts_document(facts)}
    return document


def _step(step: RunStep | None) -> Document:
    """Return the name of a step; an empty document for the run itself."""
    if step is None:
        return {}
    return {step.kind: step.name, **present(command=step.command)}
