"""The diagnosis as a page: verdict, root cause with its evidence, what follows, and when it all ran."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from markupsafe import Markup
from msgspec.structs import replace

from service_record.diagnosis.findings import Diagnosis, Trouble, host_commands, next_commands
from service_record.display.charts import Chart
from service_record.display.html.rendering import (
    SUMMARY_COLUMNS,
    UNWRAPPED,
    Section,
    chart_sections,
    damage_sections,
    draw,
    limit_items,
    page,
    section,
)
from service_record.display.phrases import damages, glyph, name, run_summary, summary
from service_record.display.sentences import (
    LOOKS,
    budget_sentence,
    findings,
    handled_sentence,
    host_sentence,
    since_lines,
    trouble_sentence,
    verdict_sentence,
)
from service_record.display.text import Ink, View, duration, moment
from service_record.display.verdict_page import analysis, other_host_lines, other_host_sentences
from service_record.history import History
from service_record.history.outcome import Stage

_TEMPLATE: Final = "diagnosis.html"
_LINES_AROUND: Final = 10
_HEADINGS: Final = {
    "missing": "Not started",
    "units": "Failed units",
    "running": "What is running",
    "stopped": "What was stopped",
    "earlier": "Earlier troubles",
    "slow": "What is slow",
    "clock": "Problems with the clock",
    "damaged": "Gaps in the records",
}


def analysis_html(
    diagnosis: Diagnosis,
    history: History,
    source: str,
    charts: Sequence[Chart],
    view: View,
    *,
    at: datetime,
    other_hosts: Sequence[tuple[str, Diagnosis]] = (),
) -> str:
    """Return the page of `analyze --output html`, as of a moment; `charts` are of the same history.

    `other_hosts` are the other hosts in the source. They are listed with their verdicts.
    """
    view = replace(view, width=UNWRAPPED)
    host = f"host {diagnosis.host_name}, " if diagnosis.host_name else ""
    as_of = f"{host}as of {moment(at, view.clock, view.now)}"
    lead = [((as_of, Ink.STRONG),), *summary(history, source, view)]
    sections = analysis_sections(
        diagnosis, history, charts, view, repeats_verdict=False, other_hosts=other_hosts
    )
    title = f"Analysis of {diagnosis.host_name or source}"
    heading = verdict_line(diagnosis, view, tag="h1")
    narrow = replace(view, width=SUMMARY_COLUMNS)
    plain = [*analysis(diagnosis, history, source, narrow), *other_host_lines(other_hosts, narrow)]
    return page(title, lead, sections, view.now, summary=plain, heading=heading)


def verdict_line(diagnosis: Diagnosis, view: View, *, tag: str = "p") -> Markup:
    """Return the verdict as a paragraph, or as another element."""
    look = LOOKS[diagnosis.verdict]
    text = f"{glyph(look, view.glyphs)} {verdict_sentence(diagnosis)}"
    return draw(_TEMPLATE, "verdict", tag=tag, look=look, text=text)


def analysis_sections(
    diagnosis: Diagnosis,
    history: History,
    charts: Sequence[Chart],
    view: View,
    *,
    repeats_verdict: bool = True,
    has_styles: bool = True,
    other_hosts: Sequence[tuple[str, Diagnosis]] = (),
) -> list[Section]:
    """Return the parts of the page, each of which can stand on a page of others, too.

    With `repeats_verdict` the root cause begins with the sentence of the verdict. `has_styles` is false where
    a policy allows no style within the page.
    """
    view = replace(view, width=UNWRAPPED)
    return [
        *_troubles(diagnosis, view, repeats_verdict=repeats_verdict),
        *_handled_section(diagnosis, view),
        *_rest(diagnosis),
        *_other_hosts(other_hosts),
        *chart_sections(history, charts, _targets(diagnosis), view, has_styles=has_styles),
        *damage_sections(damages(history, view, whole=True)),
    ]


def _troubles(diagnosis: Diagnosis, view: View, *, repeats_verdict: bool) -> Iterator[Section]:
    if diagnosis.root is not None:
        yield Section("cause", "Root cause", _card(diagnosis.root, view, has_sentence=repeats_verdict))
    elif diagnosis.host is not None:
        values = {"sentence": host_sentence(diagnosis.host), "known": diagnosis.host.cause}
        yield section("cause", "Root cause", _TEMPLATE, "host_cause", **values)
    quoted, more = limit_items(list(_list_quotes(diagnosis).items()))
    if evidence := [(place, _around(place), line) for place, line in quoted]:
        yield section("evidence", "Where it stands", _TEMPLATE, "evidence", lines=evidence, more=more)
    for place, heading, troubles in (
        ("followers", "Possible consequences", diagnosis.followers),
        ("others", "Troubles with causes of their own", diagnosis.others),
    ):
        shown, more = limit_items(troubles)
        cards = [
            (f"{place}-{number}", trouble_sentence(trouble), _card(trouble, view))
            for number, trouble in enumerate(shown)
        ]
        if cards:
            yield section(place, heading, _TEMPLATE, "folded", cards=cards, more=more)


def _targets(diagnosis: Diagnosis) -> dict[str, str]:
    """Return the place of each service's trouble on the page."""
    targets: dict[str, str] = {}
    for place, troubles in (("others", diagnosis.others), ("followers", diagnosis.followers)):
        targets |= {trouble.service: f"{place}-{n}" for n, trouble in enumerate(limit_items(troubles)[0])}
    return targets if diagnosis.root is None else {**targets, diagnosis.root.service: "cause"}


def _handled_section(diagnosis: Diagnosis, view: View) -> Iterator[Section]:
    shown, more = limit_items(diagnosis.handled)
    if shown:
        cards = [
            (
                handled_sentence(handled),
                f"{name(handled.run.service)}, {run_summary(handled.run, view)}",
                handled.stage.facts,
            )
            for handled in shown
        ]
        yield section(
            "handled", "Failures that services survived", _TEMPLATE, "handled", cards=cards, more=more
        )


def _rest(diagnosis: Diagnosis) -> Iterator[Section]:
    """Yield the remaining findings, a sentence each."""
    of_kind = findings(diagnosis)
    for kind, heading in _HEADINGS.items():
        texts, more = limit_items(of_kind[kind])
        if texts:
            yield section(kind, heading, "parts.html", "items", texts=[*texts, more] if more else texts)
    if commands := list(host_commands(diagnosis)):
        yield section("next", "Next", "parts.html", "commands", lines=commands)


def _other_hosts(hosts: Sequence[tuple[str, Diagnosis]]) -> Iterator[Section]:
    texts, more = limit_items(list(other_host_sentences(hosts)))
    if texts:
        yield section("hosts", "Other hosts", "parts.html", "items", texts=[*texts, more] if more else texts)


def _card(trouble: Trouble, view: View, *, has_sentence: bool = True) -> Markup:
    """Return all that is known of a trouble, below the sentence that says it."""
    look = LOOKS[trouble.kind]
    return draw(
        _TEMPLATE,
        "card",
        trouble=trouble,
        look=look,
        title=f"{name(trouble.service)}, {run_summary(trouble.run, view)}",
        sentence=f"{glyph(look, view.glyphs)} {trouble_sentence(trouble)}" if has_sentence else "",
        since=list(since_lines(trouble, view)),
        budget=budget_sentence(trouble.overrun.budget) if trouble.overrun is not None else "",
        stages=[_stage(stage, view) for stage in trouble.run.stages],
        next=list(next_commands(trouble)),
    )


def _list_quotes(diagnosis: Diagnosis) -> dict[str, str]:
    """Return the lines that are quoted, by the place where each stands."""
    quoted: dict[str, str] = {}
    troubles = [one for one in (diagnosis.root, *diagnosis.followers, *diagnosis.others) if one is not None]
    causes = [one.cause for one in troubles] + ([diagnosis.host.cause] if diagnosis.host is not None else [])
    for cause in causes:
        if cause is not None and cause.place is not None:
            quoted[cause.place] = cause.line or ""
    return quoted | {one.telling.place: one.telling.line for one in troubles if one.telling is not None}


def _around(place: str) -> str:
    """Return the command that shows the lines around a place; empty where the place has no line."""
    path, _, line = place.rpartition(":")
    if not path or not line.isdecimal():
        return ""
    first = max(int(line) - _LINES_AROUND, 1)
    return f"sed -n {first},{int(line) + _LINES_AROUND}p {shlex.quote(path)}"


def _stage(stage: Stage, view: View) -> str:
    took = f" {duration(stage.duration)}" if stage.duration is not None else ""
    return f"{glyph(stage.outcome, view.glyphs)} {name(stage.name)}{took}"
