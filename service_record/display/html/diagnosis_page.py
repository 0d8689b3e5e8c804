"""The diagnosis as a page: verdict, root cause with its evidence, what follows, and when it all ran."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final
from xml.etree.ElementTree import Element

from msgspec.structs import replace

from service_record.diagnosis.findings import Diagnosis, Trouble, Verdict, next_commands, unseen_commands
from service_record.diagnosis.trouble_facts import KnownCause
from service_record.display.charts import Chart
from service_record.display.html.frame import Content, Section, element, facts_list, inked, page, preformatted
from service_record.display.html.timeline_page import chart_sections
from service_record.display.phrases import damages, glyph, name, rank_label, summary, when
from service_record.display.sentences import (
    budget_sentence,
    clock_sentence,
    damaged_sentence,
    failed_unit_sentence,
    handled_sentence,
    host_sentence,
    not_started_sentence,
    recovered_sentence,
    running_sentence,
    since,
    slow_sentence,
    stopped_sentence,
    trouble_sentence,
    verdict_sentence,
)
from service_record.display.text import View, duration, moment
from service_record.history import History
from service_record.history.outcome import Stage

_LINES_AROUND: Final = 10
_UNWRAPPED: Final = 1 << 16
"""Columns: browsers wrap lines themselves."""
_CLASSES: Final = {
    Verdict.FAILED: "failure",
    Verdict.LOOPING: "failure",
    Verdict.STUCK: "interrupted",
    Verdict.INTERRUPTED: "interrupted",
    Verdict.RUNNING: "running",
    Verdict.STOPPED: "stopped",
    Verdict.UNKNOWN: "interrupted",
    Verdict.SUCCEEDED: "success",
}


def analysis_html(
    diagnosis: Diagnosis,
    history: History,
    source: str,
    charts: Sequence[Chart],
    view: View,
    *,
    at: datetime,
) -> str:
    """Return the page of `analyze --output html`, as of a moment; `charts` are of the same history."""
    view = replace(view, width=_UNWRAPPED)
    host = f"host {diagnosis.host_name}, " if diagnosis.host_name else ""
    lead = [
        element("p", f"{host}as of {moment(at, view.clock, view.now)}", class_="strong"),
        *(element("p", *inked(line)) for line in summary(history, source, view)),
    ]
    sections = analysis_sections(diagnosis, history, charts, view, repeats_verdict=False)
    title = f"Analysis of {diagnosis.host_name or source}"
    return page(title, lead, sections, view.now, heading=verdict_line(diagnosis, view, tag="h1"))


def verdict_line(diagnosis: Diagnosis, view: View, *, tag: str = "p") -> Element:
    """Return the verdict as a paragraph, or as another element."""
    verdict = _CLASSES[diagnosis.verdict]
    sign = getattr(view.glyphs, verdict)
    return element(tag, f"{sign} {verdict_sentence(diagnosis)}", class_=f"verdict {verdict}")


def analysis_sections(
    diagnosis: Diagnosis,
    history: History,
    charts: Sequence[Chart],
    view: View,
    *,
    repeats_verdict: bool = True,
) -> list[Section]:
    """Return the parts of the page, each of which can stand on a page of others, too.

    With `repeats_verdict` the root cause begins with the sentence of the verdict.
    """
    view = replace(view, width=_UNWRAPPED)
    trouble = diagnosis.root
    root = None if trouble is None else _card(trouble, view, has_sentence=repeats_verdict)
    sections = [*_troubles(diagnosis, root, view), *_handled(diagnosis, view), *_rest(diagnosis)]
    sections += chart_sections(history, charts, {}, view)
    damaged = list(damages(history, view, whole=True))
    if damaged:
        sections.append(Section("damage", "Damaged records", [preformatted(damaged)]))
    return sections


def _troubles(diagnosis: Diagnosis, root: Element | None, view: View) -> Iterator[Section]:
    if root is not None:
        yield Section("cause", "Root cause", [root])
    elif diagnosis.host is not None:
        cause = diagnosis.host.cause
        content: list[Content] = [element("h3", host_sentence(diagnosis.host)), element("dl", *_cause(cause))]
        if cause.commands:
            content += [element("h4", "Next"), element("pre", "\n".join(cause.commands))]
        yield Section("cause", "Root cause", [element("article", *content, class_="card")])
    yield from _evidence(diagnosis)
    if diagnosis.followers:
        cards = [_folded(trouble, view) for trouble in diagnosis.followers]
        yield Section("followers", "Possible consequences", cards)
    if diagnosis.others:
        folded = [_folded(trouble, view) for trouble in diagnosis.others]
        yield Section("others", "Troubles with causes of their own", folded)


def _handled(diagnosis: Diagnosis, view: View) -> Iterator[Section]:
    cards = [
        element(
            "article",
            element("h3", handled_sentence(handled)),
            element("p", f"{name(handled.run.service)}, {when(handled.run, view)}", class_="faint"),
            facts_list(handled.stage.facts),
            class_="card",
        )
        for handled in diagnosis.handled
    ]
    if cards:
        yield Section("handled", "Failures that services survived", cards)


def _rest(diagnosis: Diagnosis) -> Iterator[Section]:
    """Yield the remaining findings, a sentence each."""
    lists: dict[tuple[str, str], Iterable[str]] = {
        ("missing", "Not started"): map(not_started_sentence, diagnosis.not_started),
        ("units", "Failed units"): map(failed_unit_sentence, diagnosis.failed_units),
        ("running", "What is running"): map(running_sentence, diagnosis.running),
        ("stopped", "What was stopped"): map(stopped_sentence, diagnosis.stopped),
        ("earlier", "Earlier troubles"): map(recovered_sentence, diagnosis.recovered),
        ("slow", "What is slow"): map(slow_sentence, diagnosis.slow),
        ("clock", "Problems with the clock"): map(clock_sentence, diagnosis.clock),
        ("lost", "Gaps in the records"): map(damaged_sentence, diagnosis.damaged),
    }
    for (place, heading), sentences in lists.items():
        items = [element("li", sentence) for sentence in sentences]
        if items:
            yield Section(place, heading, [element("ul", *items)])
    commands = "\n".join(unseen_commands(diagnosis))
    if commands:
        yield Section("next", "Next", [element("pre", commands)])


def _folded(trouble: Trouble, view: View) -> Element:
    return element("details", element("summary", trouble_sentence(trouble)), _card(trouble, view))


def _card(trouble: Trouble, view: View, *, has_sentence: bool = True) -> Element:
    """Return all that is known of a trouble, below the sentence that says it."""
    look = _CLASSES[trouble.kind]
    title = f"{name(trouble.service)}, {when(trouble.run, view)}"
    heading: list[Content] = [element("h3", title)]
    if has_sentence:
        sentence = f"{getattr(view.glyphs, look)} {trouble_sentence(trouble)}"
        heading = [element("h3", sentence, class_=look), element("p", title, class_="faint")]
    content: list[Content] = [
        *heading,
        _terms(trouble, view),
        facts_list(trouble.facts),
    ]
    commands = "\n".join(next_commands(trouble))
    if commands:
        content += [element("h4", "Next"), element("pre", commands)]
    return element("article", *content, class_=f"card {look}")


def _terms(trouble: Trouble, view: View) -> Element:
    """Return what the diagnosis adds to the facts of the failure, as a `dl`."""
    terms = element("dl")
    for text in since(trouble, view):
        terms.extend([element("dt", "since"), element("dd", text)])
    if trouble.overrun is not None:
        terms.extend([element("dt", "budget"), element("dd", budget_sentence(trouble.overrun.budget))])
    if trouble.cause is not None:
        terms.extend(_cause(trouble.cause))
    if trouble.telling is not None:
        quoted = _quoted(trouble.telling.line, trouble.telling.place)
        terms.extend([element("dt", "line"), element("dd", element("p", *quoted))])
    if trouble.run.stages:
        items = [element("li", _stage(stage, view)) for stage in trouble.run.stages]
        terms.extend([element("dt", "stages"), element("dd", element("ul", *items, class_="stages"))])
    return terms


def _cause(cause: KnownCause) -> list[Element]:
    texts = [element("p", f"{cause.says} ({cause.name})", class_="strong")]
    texts += [element("p", text) for text in (cause.explains,) if text]
    if cause.line is not None:
        texts.append(element("p", "known by: ", *_quoted(cause.line, cause.place)))
    return [element("dt", rank_label(cause.rank)), element("dd", *texts)]


def _quoted(line: str, place: str | None) -> list[Content]:
    """Return a line, with a link to where it stands."""
    code = element("code", line)
    return [code] if place is None else [element("a", place, href=f"#{_anchor(place)}"), ": ", code]


def _anchor(place: str) -> str:
    return f"at-{re.sub('[^A-Za-z0-9]+', '-', place)}"


def _evidence(diagnosis: Diagnosis) -> Iterator[Section]:
    """Yield what is quoted, where it stands, and what shows the lines around it."""
    quoted: dict[str, str] = {}
    troubles = [one for one in (diagnosis.root, *diagnosis.followers, *diagnosis.others) if one is not None]
    causes = [one.cause for one in troubles] + ([diagnosis.host.cause] if diagnosis.host is not None else [])
    for cause in causes:
        if cause is not None and cause.place is not None:
            quoted[cause.place] = cause.line or ""
    quoted |= {one.telling.place: one.telling.line for one in troubles if one.telling is not None}
    items = [
        element("article", element("h3", place), *_around(place), element("pre", line), id=_anchor(place))
        for place, line in quoted.items()
    ]
    if items:
        yield Section("evidence", "Where it stands", items)


def _around(place: str) -> Iterator[Element]:
    """Yield the command that shows the lines around a place; none where the place has no line."""
    path, _, line = place.rpartition(":")
    if path and line.isdecimal():
        first = max(int(line) - _LINES_AROUND, 1)
        show = f"sed -n {first},{int(line) + _LINES_AROUND}p {shlex.quote(path)}"
        yield element("p", element("code", show), class_="faint")


def _stage(stage: Stage, view: View) -> str:
    took = f" {duration(stage.duration)}" if stage.duration is not None else ""
    return f"{glyph(stage.outcome, view.glyphs)} {name(stage.name)}{took}"
