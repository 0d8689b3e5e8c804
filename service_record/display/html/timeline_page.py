"""The timeline as a page: a chart of each boot, and every failure with what its journal said."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from msgspec.structs import replace

from service_record.diagnosis.failures import FailureGroup, failures_of
from service_record.diagnosis.now import true_time
from service_record.display.html.chart import chart_section, patterns
from service_record.display.html.frame import Section, element, facts_list, inked, page, preformatted
from service_record.display.phrases import VERBS, headline, name, step_name, when
from service_record.display.summary import damages, summary
from service_record.display.table import Repeat, repeats
from service_record.display.text import View, count
from service_record.display.timeline.charts import Chart
from service_record.history import History, ServiceHistory
from service_record.history.outcome import Outcome, order

_ID: Final = "failures"


def failures_ids(history: History) -> dict[str, str]:
    """Service -> where a page has its failures; of those that have some."""
    return {
        service.name: f"{_ID}-{number}" for number, service in enumerate(history.services) if _is_bad(service)
    }


def failures_section(history: History, view: View) -> Section | None:
    """Return every failure and interruption, with those of stages that a run survived; None without any.

    The service that failed first comes first: others may follow from it.
    """
    places = failures_ids(history)
    bad = sorted((service for service in history.services if service.name in places), key=_first_end)
    content = [
        element("section", element("h3", name(each.name)), *_cards(each, view), id=places[each.name])
        for each in bad
    ]
    return Section(_ID, "Failures", content) if content else None


def _is_bad(service: ServiceHistory) -> bool:
    return any(run.outcome.is_bad for run in service.runs) or bool(failures_of(service.runs))


def _first_end(service: ServiceHistory) -> float:
    """Return when the first bad run ended; of a service that survived its failures, the last."""
    ends = (true_time(run.last_entry, service) for run in service.runs if run.outcome.is_bad)
    return order(next(ends, service.runs[-1].last_entry))


def _cards(service: ServiceHistory, view: View) -> Iterator[Element]:
    for failure in failures_of(service.runs):
        yield _failure(failure, view)
    for repeat in repeats(service.runs):
        if repeat.last.outcome is Outcome.INTERRUPTED:
            yield _interruption(repeat, view)


def _failure(failure: FailureGroup, view: View) -> Element:
    what = step_name(failure.step) if failure.step is not None else "the service"
    run = failure.last
    went_on = "" if run.outcome is Outcome.FAILURE else f"; the run {VERBS[run.outcome]}"
    times = f"{count(failure.count, 'time')}, the last: " if failure.count > 1 else ""
    return element(
        "article",
        element("h4", f"{view.glyphs.failure} {what} failed", class_="failure"),
        element("p", f"{times}{when(run, view)}{went_on}", class_="faint"),
        facts_list(failure.facts),
        class_="card failure",
    )


def _interruption(repeat: Repeat, view: View) -> Element:
    times = f"{count(repeat.count, 'time')}, the last: " if repeat.count > 1 else ""
    return element(
        "article",
        element("h4", f"{view.glyphs.interrupted} {headline(repeat.last)}", class_="interrupted"),
        element("p", times + when(repeat.last, view), class_="faint"),
        class_="card interrupted",
    )


_UNWRAPPED: Final = 1 << 16
"""Columns: browsers wrap lines themselves."""


def timeline_html(
    history: History, source: str, charts: Sequence[Chart], view: View, *, flat: bool = False
) -> str:
    """Return the page of `timeline --output html`."""
    view = replace(view, width=_UNWRAPPED)
    lead = [element("p", *inked(line)) for line in summary(history, source, view)]
    sections = chart_sections(history, charts, failures_ids(history), view, flat=flat)
    failed = failures_section(history, view)
    damaged = list(damages(history, view, whole=True))
    if failed is not None:
        sections.append(failed)
    if damaged:
        sections.append(Section("damage", "Damaged records", [preformatted(damaged)]))
    return page(f"Timeline of {source}", lead, sections, view.now)


def chart_sections(
    history: History, charts: Sequence[Chart], targets: Mapping[str, str], view: View, *, flat: bool = False
) -> list[Section]:
    """Return a section for each boot; `targets` are where the page has the failures of a service."""
    sections = [chart_section(chart, len(history.boots), targets, view, flat=flat) for chart in charts]
    if sections:
        first = sections[0]
        sections[0] = replace(first, content=[patterns(), *first.content])
    return sections
