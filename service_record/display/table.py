"""The lines of `show`: a summary for one screen, failures first, and with `wide` all facts of all runs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from service_record.display.phrases import (
    LABEL_WIDTH,
    VERBS,
    damages,
    details,
    duration_text,
    exit_text,
    glyph,
    headline,
    ink,
    label_lines,
    left_out_sentences,
    name,
    run_summary,
    span_kind,
    summary,
    title,
)
from service_record.display.text import (
    BLANK,
    Ink,
    Line,
    View,
    cell_len,
    count,
    cut,
    moment,
    set_cell_size,
    times,
    wrap_lines,
)
from service_record.history import History, ServiceHistory
from service_record.history.critical_chain import startup_seconds
from service_record.history.outcome import (
    NOTHING,
    Command,
    Outcome,
    Repeat,
    Run,
    Stage,
    nested,
    order,
    repeats,
)
from service_record.history.results import handled_failure
from service_record.record.visible import visible

_MAX_SHOWN: Final = 6
_GAP: Final = "  "


def stage_lines(stages: Sequence[Stage], view: View, indent: int) -> Iterator[Line]:
    """Yield `stages   ✓ first 1.2s  ✗ second 9.5s`, with counts. Only the latest stages are named."""
    by_name: dict[str, list[Stage]] = {}
    for stage in stages:
        by_name.setdefault(stage.name, []).append(stage)
    kinds = sorted(by_name.values(), key=_last_time)
    hidden = kinds[:-_MAX_SHOWN]
    items: list[Line] = []
    if hidden:
        failed = sum(same[-1].outcome.is_bad for same in hidden)
        text = f"{len(hidden)} before" + (f" ({failed} failed)" if failed else "")
        items.append(((text, Ink.FAINT),))
    items += [_stage_item(same, view) for same in kinds[-_MAX_SHOWN:]]
    label = "stages"
    for row in _rows(items, view.width - indent - LABEL_WIDTH):
        yield (" " * indent, Ink.PLAIN), (label.ljust(LABEL_WIDTH), Ink.FAINT), *row
        label = ""


def _last_time(same: Sequence[Stage]) -> float:
    moment = same[-1].started or same[-1].ended
    return moment.timestamp() if moment else 0.0


def _stage_item(same: Sequence[Stage], view: View) -> Line:
    last = same[-1]
    mark = (f"{glyph(last.outcome, view.glyphs)} ", ink(last.outcome))
    label = cut(name(last.name), view.width // 2, view.glyphs.cut)
    took = f" {duration_text(last)}".rstrip()
    times = f" {view.glyphs.times}{len(same)}" if len(same) > 1 else ""
    return mark, (label, Ink.PLAIN), (took + times, Ink.FAINT)


def _rows(items: Sequence[Line], width: int) -> Iterator[Line]:
    """Yield rows with as many items side by side as fit."""
    row: list[tuple[str, Ink]] = []
    used = 0
    for item in items:
        needed = sum(cell_len(text) for text, _ in item)
        if row and used + len(_GAP) + needed > width:
            yield tuple(row)
            row, used = [], 0
        if row:
            row.append((_GAP, Ink.PLAIN))
            used += len(_GAP)
        row += item
        used += needed
    if row:
        yield tuple(row)


_INDENT: Final = 2
_MAX_EARLIER: Final = 3
_MAX_FAILED_STAGES: Final = 3


def table(history: History, source: str, view: View) -> Iterator[Line]:
    """Yield the lines of `show`: each service once, failures first."""
    yield from summary(history, source, view)
    services = sorted((_summarize(service) for service in history.services if service.runs), key=_urgency)
    for service in services:
        if service.bad is not None:
            yield BLANK
            yield from _full_lines(service, service.bad, view)
    calm = [service for service in services if service.bad is None]
    shown = _select_calm(calm)
    if calm:
        yield BLANK
    for service in shown:
        yield from _short_lines(service, view)
    if len(shown) < len(calm):
        others = f"{count(len(calm) - len(shown), 'other unit')} without a failure: --output wide shows all"
        yield from wrap_lines(others, Ink.FAINT, view)
    yield from damages(history, view)


_MAX_CALM: Final = 12


def _select_calm(calm: Sequence["_ServiceSummary"]) -> Sequence["_ServiceSummary"]:
    """Return the services to show. Of many derived from a journal, only the slowest to start are kept."""
    derived = [service for service in calm if service.attempts[-1].is_derived]
    if len(derived) <= _MAX_CALM:
        return calm
    slowest = sorted(derived, key=lambda service: startup_seconds(service.attempts[-1]) or 0.0, reverse=True)
    left_out = {id(service) for service in slowest[_MAX_CALM:]}
    return [service for service in calm if id(service) not in left_out]


class _ServiceSummary(msgspec.Struct, frozen=True):
    """The facts that `show` prints about one service."""

    attempts: Sequence[Run]
    bad: Run | None
    """The last finished attempt if it failed or was interrupted. It is shown in full."""
    left_out: Sequence[str]
    """Sentences about the runs that rotations removed from the record."""


def _summarize(service: ServiceHistory) -> _ServiceSummary:
    attempts = service.attempts
    last = next((run for run in reversed(attempts) if run.outcome is not Outcome.RUNNING), None)
    bad = last if last is not None and last.outcome.is_bad else None
    return _ServiceSummary(attempts, bad, tuple(left_out_sentences(service)))


def sort_by_importance(services: Sequence[ServiceHistory]) -> list[ServiceHistory]:
    """Return the services that ran, in the order of `show`: failures first, the earliest at the top."""
    return sorted((each for each in services if each.runs), key=lambda each: _urgency(_summarize(each)))


def _urgency(service: _ServiceSummary) -> tuple[int, float]:
    """Return a sort key: the worst outcome first, then the earliest, which may have caused the others."""
    run = service.attempts[-1]
    return list(VERBS).index(run.outcome), order((service.bad or run).last_entry)


def _full_lines(service: _ServiceSummary, bad: Run, view: View) -> Iterator[Line]:
    latest = service.attempts[-1]
    yield title(latest, view)
    yield from wrap_lines(run_summary(latest, view), Ink.PLAIN, view, _INDENT)
    if latest is not bad:
        yield from label_lines(
            "before", [(f"{headline(bad)}, {run_summary(bad, view)}", ink(bad.outcome))], view, _INDENT
        )
    yield from details(bad.facts, view, _INDENT)
    yield from stage_lines(bad.stages, view, _INDENT)
    same, others = _repeats(service.attempts, bad)
    if same.count > 1:
        first = moment(same.first.last_entry, view.clock, view.now)
        yield from label_lines("repeated", [(f"{same.count} times, first {first}", Ink.PLAIN)], view, _INDENT)
    yield from _earlier_lines([repeat for repeat in others if repeat.last is not latest], view)
    yield from _handled_lines(latest, view)
    yield from _left_out_lines(service.left_out, view, _INDENT)


def _short_lines(service: _ServiceSummary, view: View) -> Iterator[Line]:
    run = service.attempts[-1]
    same, others = _repeats(service.attempts, run)
    notes = [run_summary(run, view)]
    if same.count > 1:
        first = moment(same.first.last_entry, view.clock, view.now)
        notes.append(f"{view.glyphs.times}{same.count} since {first}")
    failed = Counter(stage.name for stage in run.stages if stage.outcome.is_bad)
    if failed:
        notes.append(f"continued after {_failed_stages(failed)}")
    yield from _add_notes(title(run, view), ", ".join(notes), view)
    yield from _handled_lines(run, view)
    yield from _earlier_lines(others, view)
    yield from _left_out_lines(service.left_out, view, _INDENT)


def _left_out_lines(sentences: Iterable[str], view: View, indent: int) -> Iterator[Line]:
    yield from label_lines("left out", [(text, Ink.FAINT) for text in sentences], view, indent)


def _failed_stages(failed: Mapping[str, int]) -> str:
    """Return `stage pull failed twice, stage probe failed once`. Only the last stages are named."""
    texts = [f"stage {name(stage)} failed {times(number)}" for stage, number in failed.items()]
    hidden = len(texts) - _MAX_FAILED_STAGES
    more = [f"{count(hidden, 'other stage')} failed"] if hidden > 0 else []
    return ", ".join([*texts[-_MAX_FAILED_STAGES:], *more])


def _handled_lines(run: Run, view: View) -> Iterator[Line]:
    """Yield the recorded facts of the failure that an unfinished run continued after."""
    handled = handled_failure(run) if run.outcome is Outcome.RUNNING else None
    if handled is not None:
        text = f"stage {name(handled.stage.name)} failed {times(handled.count)}"
        yield from label_lines("handled", [(text, ink(Outcome.FAILURE))], view, _INDENT)
        yield from details(handled.stage.facts, view, _INDENT)


def _add_notes(line: Line, notes: str, view: View) -> Iterator[Line]:
    """Yield the line with the notes to its right if they fit, or else below it."""
    width = sum(cell_len(text) for text, _ in line)
    if width + _INDENT + cell_len(notes) <= view.width:
        yield *line, (" " * _INDENT + notes, Ink.FAINT)
        return
    yield line
    yield from wrap_lines(notes, Ink.FAINT, view, _INDENT)


def _repeats(attempts: Sequence[Run], run: Run) -> tuple[Repeat, list[Repeat]]:
    """Return the attempts that ended like `run`, and the other groups of attempts, latest first."""
    repeated = repeats(attempts)
    same = next(repeat for repeat in repeated if repeat.last is run)
    return same, [repeat for repeat in reversed(repeated) if repeat is not same]


def _earlier_lines(others: list[Repeat], view: View) -> Iterator[Line]:
    texts = []
    for repeat in others[:_MAX_EARLIER]:
        times = moment(repeat.last.last_entry, view.clock, view.now)
        if repeat.count > 1:
            times = f"first {moment(repeat.first.last_entry, view.clock, view.now)}, last {times}"
        text = f"{count(repeat.count, 'run')} {headline(repeat.last)}, {times}"
        texts.append((text, Ink.PLAIN))
    if len(others) > len(texts):
        texts.append((f"and {len(others) - len(texts)} other ends, shown by --output wide", Ink.FAINT))
    yield from label_lines("earlier", texts, view, _INDENT)


_MAX_NESTING: Final = 4  # the stages of threads overlap, which reads as nesting of any depth


def wide(history: History, source: str, view: View) -> Iterator[Line]:
    """Yield the lines of `show --output wide`: services by name, their runs oldest first."""
    yield from summary(history, source, view)
    for service in history.services:
        for run in service.runs:
            yield BLANK
            yield from run_lines(run, view)
        yield from _left_out_lines(left_out_sentences(service), view, 0)
    yield from damages(history, view, whole=True)


def run_lines(run: Run, view: View) -> Iterator[Line]:
    """Yield all facts of a run, as in `show --output wide`."""
    yield title(run, view)
    yield from wrap_lines(run_summary(run, view), Ink.PLAIN, view, _INDENT)
    known = {"boot": run.boot_id, "invocation": run.invocation_id, "pid": run.pid, "recorder": run.recorder}
    ids = (f"{label} {visible(str(value))}" for label, value in known.items() if value is not None)
    yield from label_lines("ids", ((text, Ink.PLAIN) for text in ids), view, _INDENT)
    yield from _attributes(run, view, _INDENT)
    yield from details(run.facts, view, _INDENT, whole=True)
    for command in run.commands:
        yield _span(command, view, _INDENT)
        yield from _attributes(command, view, _INDENT * 2)
        yield from _own_facts(command, run, view, _INDENT)
        for stage in nested(command.stages):
            yield from _stage(stage, run, view, _INDENT * 2)
    for stage in nested(run.stages):
        yield from _stage(stage, run, view, _INDENT)


def _stage(stage: Stage, run: Run, view: View, indent: int) -> Iterator[Line]:
    indent += min(stage.depth, _MAX_NESTING) * _INDENT
    yield _span(stage, view, indent)
    yield from _attributes(stage, view, indent + _INDENT)
    yield from _own_facts(stage, run, view, indent)


def _span(span: Stage | Command, view: View, indent: int) -> Line:
    """Return `✓ stage first    1.2s  2026-11-21 01:05:10Z`."""
    begin = span.started or span.ended
    at = moment(begin, view.clock, view.now)
    room = min(view.width // 2, view.width - len(f"✓  {'':8}  {at}")) - indent
    what = cut(f"{span_kind(span)} {name(span.name)}", room, view.glyphs.cut)
    return (
        (f"{' ' * indent}{glyph(span.outcome, view.glyphs)} ", ink(span.outcome)),
        (f"{set_cell_size(what, room)} {duration_text(span):>8}  ", Ink.PLAIN),
        (at, Ink.FAINT),
    )


def _attributes(span: Run | Stage | Command, view: View, indent: int) -> Iterator[Line]:
    """Yield the attributes of a span: `with     image=quay.io/x`."""
    texts = [(f"{visible(key)}={visible(str(value))}", Ink.PLAIN) for key, value in span.attributes]
    yield from label_lines("with", texts, view, indent)


def _own_facts(span: Stage | Command, run: Run, view: View, indent: int) -> Iterator[Line]:
    """Yield the facts of a failed stage or command, unless its run has the same."""
    if span.facts in {NOTHING, run.facts}:
        return
    how = exit_text(span.facts)
    if how:
        yield from label_lines("ended", [(how, Ink.PLAIN)], view, indent + _INDENT)
    yield from details(span.facts, view, indent + _INDENT, whole=True)
