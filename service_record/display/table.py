"""The answer in one screen: what failed, in which stage, at which line, with what it said last."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len

from service_record.display.details import details, labelled
from service_record.display.headings import title, when, when_lines
from service_record.display.page import BLANK, Ink, Line, View
from service_record.display.phrases import VERBS, headline, ink, name
from service_record.display.repeats import Repeat, repeats
from service_record.display.stages import stage_lines
from service_record.display.summary import damages, left_out_sentences, summary
from service_record.display.text import count, moment, times, wrap
from service_record.history import History, ServiceHistory
from service_record.history.handled import handled_failure
from service_record.history.outcome import Outcome, Run, order

_INDENT: Final = 2
_MAX_EARLIER: Final = 3
_MAX_FAILED_STAGES: Final = 3


def table(history: History, source: str, view: View) -> Iterator[Line]:
    """The lines of the default output of `show`."""
    yield from summary(history, source, view)
    stories = sorted((_story(service) for service in history.services if service.runs), key=_urgency)
    for story in stories:
        if story.bad is not None:
            yield BLANK
            yield from _told_in_full(story, story.bad, view)
    calm = [story for story in stories if story.bad is None]
    if calm:
        yield BLANK
    for story in calm:
        yield from _told_in_short(story, view)
    yield from damages(history, view)


@dataclass(frozen=True, slots=True)
class _Story:
    """One service, and the bad end of it that wants telling in full."""

    attempts: Sequence[Run]
    bad: Run | None
    left_out: Sequence[str]
    """What rotations left out of its record."""


def _story(service: ServiceHistory) -> _Story:
    attempts = service.attempts
    return _Story(attempts, _bad_end(attempts), tuple(left_out_sentences(service)))


def _bad_end(attempts: Sequence[Run]) -> Run | None:
    """The last attempt that came to an end, when that was a bad one."""
    ended = (run for run in reversed(attempts) if run.outcome is not Outcome.RUNNING)
    last = next(ended, None)
    return last if last is not None and last.outcome.is_bad else None


def _urgency(story: _Story) -> tuple[int, float]:
    """The worst outcomes first, and of those the one that happened first: others may follow from it."""
    run = story.attempts[-1]
    return list(VERBS).index(run.outcome), order((story.bad or run).last_entry)


def _told_in_full(story: _Story, bad: Run, view: View) -> Iterator[Line]:
    latest = story.attempts[-1]
    yield title(latest, view)
    yield from when_lines(latest, view, _INDENT)
    if latest is not bad:
        yield from labelled(
            "before", [(f"{headline(bad)}, {when(bad, view)}", ink(bad.outcome))], view, _INDENT
        )
    yield from details(bad.facts, view, _INDENT)
    yield from stage_lines(bad.stages, view, _INDENT)
    same, others = _repeats(story.attempts, bad)
    if same.count > 1:
        first = moment(same.first.last_entry, view.clock, view.now)
        yield from labelled("repeated", [(f"{same.count} times, first {first}", Ink.PLAIN)], view, _INDENT)
    yield from _earlier([repeat for repeat in others if repeat.last is not latest], view)
    yield from _handled(latest, view)
    yield from _left_out(story, view)


def _told_in_short(story: _Story, view: View) -> Iterator[Line]:
    run = story.attempts[-1]
    same, others = _repeats(story.attempts, run)
    notes = [when(run, view)]
    if same.count > 1:
        first = moment(same.first.last_entry, view.clock, view.now)
        notes.append(f"{view.glyphs.times}{same.count} since {first}")
    failed = Counter(stage.name for stage in run.stages if stage.outcome.is_bad)
    if failed:
        notes.append(f"continued after {_failed_stages(failed)}")
    yield from _beside(title(run, view), ", ".join(notes), view)
    yield from _handled(run, view)
    yield from _earlier(others, view)
    yield from _left_out(story, view)


def _left_out(story: _Story, view: View) -> Iterator[Line]:
    yield from labelled("left out", [(text, Ink.FAINT) for text in story.left_out], view, _INDENT)


def _failed_stages(failed: Mapping[str, int]) -> str:
    """`stage pull failed twice, stage probe failed once`; of many the last."""
    texts = [f"stage {name(stage)} failed {times(number)}" for stage, number in failed.items()]
    hidden = len(texts) - _MAX_FAILED_STAGES
    more = [f"{count(hidden, 'other stage')} failed"] if hidden > 0 else []
    return ", ".join([*texts[-_MAX_FAILED_STAGES:], *more])


def _handled(run: Run, view: View) -> Iterator[Line]:
    """What is recorded of the failure that a run which is not over continued after."""
    handled = handled_failure(run) if run.outcome is Outcome.RUNNING else None
    if handled is not None:
        text = f"stage {name(handled.stage.name)} failed {times(handled.count)}"
        yield from labelled("handled", [(text, ink(Outcome.FAILURE))], view, _INDENT)
        yield from details(handled.stage.facts, view, _INDENT)


def _beside(line: Line, notes: str, view: View) -> Iterator[Line]:
    """The notes behind the line when there is room, and else below it."""
    taken = sum(cell_len(text) for text, _ in line)
    if taken + _INDENT + cell_len(notes) <= view.width:
        yield *line, (" " * _INDENT + notes, Ink.FAINT)
        return
    yield line
    for row in wrap(notes, view.width - _INDENT):
        yield ((" " * _INDENT + row, Ink.FAINT),)


def _repeats(attempts: Sequence[Run], run: Run) -> tuple[Repeat, list[Repeat]]:
    """The runs that came to the same as this one, and the others, latest first."""
    found = repeats(attempts)
    same = next(repeat for repeat in found if repeat.last is run)
    return same, [repeat for repeat in reversed(found) if repeat is not same]


def _earlier(others: list[Repeat], view: View) -> Iterator[Line]:
    texts = [(_in_short(repeat, view), Ink.PLAIN) for repeat in others[:_MAX_EARLIER]]
    if len(others) > len(texts):
        texts.append((f"and {len(others) - len(texts)} other ends, shown by --output wide", Ink.FAINT))
    yield from labelled("earlier", texts, view, _INDENT)


def _in_short(repeat: Repeat, view: View) -> str:
    times = [moment(repeat.last.last_entry, view.clock, view.now)]
    if repeat.count > 1:
        times = [f"first {moment(repeat.first.last_entry, view.clock, view.now)}", f"last {times[0]}"]
    return f"{count(repeat.count, 'run')} {headline(repeat.last)}, {', '.join(times)}"
