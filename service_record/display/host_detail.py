"""One host on the terminal: what a collector knows of it, the steps of one build, and their logs."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from service_record.display.fleet_table import describe, moment_at
from service_record.display.text import BLANK, Glyphs, Ink, Line, View, cell_len, cut, duration, wrap_lines
from service_record.http.collector_answers import (
    HostDetail,
    Repeated,
    ShownInstallation,
    ShownLastWords,
    ShownStep,
)
from service_record.record.visible import visible

_WORDS: Final = {"init": "began"}
_INKS: Final = {"done": Ink.GOOD, "failed": Ink.BAD, "init": Ink.BUSY}
_BESIDE: Final = 50
"""Columns of a step's line besides its name."""


class _Reports(msgspec.Struct):
    """The reports of one step in a build, oldest first."""

    reports: list[ShownStep]
    times: int = 0
    """The number of reports of the step with its latest status."""

    @property
    def latest(self) -> ShownStep:
        return self.reports[-1]

    @property
    def seconds(self) -> float | None:
        """Return how long it took the last time; None where its beginning or its end was not reported."""
        began = [each.received_at for each in self.reports[:-1] if each.status == "init"]
        if self.latest.status not in {"done", "failed"} or not began:
            return None
        return max(self.latest.received_at - began[-1], 0.0)


def host_detail(detail: HostDetail, source: str, view: View) -> Iterator[Line]:
    """Yield the lines of `hosts show`."""
    yield from wrap_lines(visible(source), Ink.FAINT, view)
    yield BLANK
    earlier = [build for build in detail.builds if build.number != detail.summary.build]
    facts = () if detail.installation is None else tuple(_installation(detail.installation, view))
    yield from describe(detail.summary, earlier, detail.now, view, facts)
    steps = _by_step(detail.steps)
    if steps:
        yield BLANK
        yield ((f"Steps of build {detail.shown_build}", Ink.STRONG),)
        width = min(max(cell_len(visible(step.latest.name)) for step in steps), view.width - _BESIDE)
        for step in steps:
            yield _line(step, width, view)
            yield from _logs(step.reports, view)
    if detail.last_words:
        yield BLANK
        yield (("Last output", Ink.STRONG),)
        for words in detail.last_words:
            yield from _last_words(words, view)


def _last_words(words: ShownLastWords, view: View) -> Iterator[Line]:
    stage = f", stage {visible(words.stage)}" if words.stage else ""
    heading = f"{visible(words.service)}{stage}, received {moment_at(words.received_at, view)}"
    yield from wrap_lines(heading, Ink.PLAIN, view, 2)
    for line in words.text.splitlines():
        yield from wrap_lines(visible(line), Ink.FAINT, view, 4)


def _installation(installation: ShownInstallation, view: View) -> Iterator[tuple[str, str]]:
    """Yield the facts of an installation: its state and why, its stage, its cluster."""
    why = installation.status_info or installation.meaning
    yield "state", ": ".join(filter(None, (installation.status, why)))
    if installation.stage:
        yield "stage", ": ".join(filter(None, (installation.stage, installation.info)))
    if installation.checked_in_at is not None:
        yield "agent", f"called {moment_at(installation.checked_in_at, view)}"
    bootstrap = ", bootstrap" if installation.is_bootstrap else ""
    yield "cluster", f"{installation.cluster_id}, {installation.role}{bootstrap}"


def _by_step(rounds: Sequence[Repeated[ShownStep]]) -> list[_Reports]:
    """Return the reports of each step: by priority, and those of one priority as they came."""
    by_step: dict[str, _Reports] = {}
    for each in rounds:
        for number, report in enumerate((*each.first, *(each.latest if each.count > 1 else ()))):
            step = by_step.setdefault(report.label, _Reports([]))
            if step.reports and step.latest.status != report.status:
                step.times = 0
            step.times += 1 if number < len(each.first) else each.count - 1
            step.reports.append(report)
    return sorted(by_step.values(), key=lambda step: step.latest.priority)


def _line(step: _Reports, width: int, view: View) -> Line:
    latest = step.latest
    name = cut(visible(latest.name), width, view.glyphs.cut)
    took = "" if step.seconds is None else duration(step.seconds)
    at = moment_at(latest.received_at, view)
    times = f"  {view.glyphs.times}{step.times}" if step.times > 1 else ""
    word = _WORDS.get(latest.status, latest.status)
    return (
        (f"{_sign(latest.status, view.glyphs)} ", _INKS.get(latest.status, Ink.PLAIN)),
        (name + " " * max(width - cell_len(name), 0), Ink.PLAIN),
        (f"  {visible(word):<8}", _INKS.get(latest.status, Ink.PLAIN)),
        (f"  {took:<8}  {at}{times}", Ink.FAINT),
    )


def _sign(status: str, glyphs: Glyphs) -> str:
    signs = {"done": glyphs.success, "failed": glyphs.failure, "init": glyphs.ongoing}
    return signs.get(status, " ")


def _logs(reports: Sequence[ShownStep], view: View) -> Iterator[Line]:
    """Yield the latest logs of a step, and what was wrong with its latest report."""
    logged = next((report for report in reversed(reports) if report.logs.strip()), None)
    texts = [f"note: {note}" for note in reports[-1].notes.splitlines()]
    if not reports[-1].is_known:
        texts.insert(0, "note: not among the defined steps; it decides nothing")
    if logged is not None:
        if logged.logs_length > len(logged.logs):
            texts.append(f"the end of {logged.logs_length} characters of logs:")
        texts += logged.logs.strip("\n").splitlines()
    for text in texts:
        yield from wrap_lines(visible(text.rstrip()), Ink.FAINT, view, 4)
