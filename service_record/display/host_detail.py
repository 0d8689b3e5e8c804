"""The text of `hosts show`: facts about one host, the steps of one build with their logs, and last output."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from service_record.display.fleet_table import describe, format_moment
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
"""Status of a step -> the word for it, if that is different."""
_INKS: Final = {"done": Ink.GOOD, "failed": Ink.BAD, "init": Ink.BUSY}
_OTHER_CELLS: Final = 50
"""Width of a step's line without the name."""


class _Reports(msgspec.Struct):
    """The reports of one step in a build, oldest first."""

    reports: list[ShownStep]
    times: int = 0
    """The number of reports with the latest status, since another status was reported."""

    @property
    def latest(self) -> ShownStep:
        return self.reports[-1]

    @property
    def seconds(self) -> float | None:
        """Return the duration of the last time; None if its start or its end was not reported."""
        began = [each.received_at for each in self.reports[:-1] if each.status == "init"]
        if self.latest.status not in {"done", "failed"} or not began:
            return None
        return max(self.latest.received_at - began[-1], 0.0)


def host_detail(detail: HostDetail, source: str, view: View) -> Iterator[Line]:
    """Yield the lines of `hosts show`."""
    yield from wrap_lines(visible(source), Ink.FAINT, view)
    yield BLANK
    earlier = [build for build in detail.builds if build.number != detail.summary.build]
    facts = () if detail.installation is None else tuple(_list_installation(detail.installation, view))
    yield from describe(detail.summary, earlier, detail.now, view, facts)
    steps = _group_by_step(detail.steps)
    if steps:
        yield BLANK
        yield ((f"Steps of build {detail.shown_build}", Ink.STRONG),)
        width = min(max(cell_len(visible(step.latest.name)) for step in steps), view.width - _OTHER_CELLS)
        for step in steps:
            yield _format_step(step, width, view)
            yield from _list_logs(step.reports, view)
    if detail.last_words:
        yield BLANK
        yield (("Last output", Ink.STRONG),)
        for words in detail.last_words:
            yield from _format_last_words(words, view)


def _format_last_words(words: ShownLastWords, view: View) -> Iterator[Line]:
    stage = f", stage {visible(words.stage)}" if words.stage else ""
    heading = f"{visible(words.service)}{stage}, received {format_moment(words.received_at, view)}"
    yield from wrap_lines(heading, Ink.PLAIN, view, 2)
    for line in words.text.splitlines():
        yield from wrap_lines(visible(line), Ink.FAINT, view, 4)


def _list_installation(installation: ShownInstallation, view: View) -> Iterator[tuple[str, str]]:
    """Yield label and text of the facts about an installation: state, stage, agent and cluster."""
    why = installation.status_info or installation.meaning
    yield "state", ": ".join(filter(None, (installation.status, why)))
    if installation.stage:
        yield "stage", ": ".join(filter(None, (installation.stage, installation.info)))
    if installation.checked_in_at is not None:
        yield "agent", f"called {format_moment(installation.checked_in_at, view)}"
    bootstrap = ", bootstrap" if installation.is_bootstrap else ""
    yield "cluster", f"{installation.cluster_id}, {installation.role}{bootstrap}"


def _group_by_step(rounds: Sequence[Repeated[ShownStep]]) -> list[_Reports]:
    """Return the reports of each step, sorted by priority and then by the first report."""
    by_step: dict[str, _Reports] = {}
    for each in rounds:
        for report in each.first:
            step = by_step.setdefault(report.label, _Reports([]))
            if step.reports and step.latest.status != report.status:
                step.times = 0
            step.times += each.count  # all rounds have the same steps and statuses
            step.reports.append(report)
        for report in each.latest if each.count > 1 else ():
            by_step.setdefault(report.label, _Reports([])).reports.append(report)
    return sorted(by_step.values(), key=lambda step: step.latest.priority)


def _format_step(step: _Reports, width: int, view: View) -> Line:
    latest = step.latest
    name = cut(visible(latest.name), width, view.glyphs.cut)
    took = "" if step.seconds is None else duration(step.seconds)
    at = format_moment(latest.received_at, view)
    times = f"  {view.glyphs.times}{step.times}" if step.times > 1 else ""
    word = _WORDS.get(latest.status, latest.status)
    return (
        (f"{_choose_sign(latest.status, view.glyphs)} ", _INKS.get(latest.status, Ink.PLAIN)),
        (name + " " * max(width - cell_len(name), 0), Ink.PLAIN),
        (f"  {visible(word):<8}", _INKS.get(latest.status, Ink.PLAIN)),
        (f"  {took:<8}  {at}{times}", Ink.FAINT),
    )


def _choose_sign(status: str, glyphs: Glyphs) -> str:
    signs = {"done": glyphs.success, "failed": glyphs.failure, "init": glyphs.ongoing}
    return signs.get(status, " ")


def _list_logs(reports: Sequence[ShownStep], view: View) -> Iterator[Line]:
    """Yield the notes about the latest report of a step, and the latest logs."""
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
