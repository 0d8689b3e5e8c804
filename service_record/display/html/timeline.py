"""The timeline as a page: a chart of each boot, every failure with its journal lines, what is damaged."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from service_record.display.html.chart import chart_section, patterns
from service_record.display.html.elements import element, inked, preformatted
from service_record.display.html.failures import failures_ids, failures_section
from service_record.display.html.frame import Section, page
from service_record.display.page import View
from service_record.display.summary import damages, summary
from service_record.display.timeline.charts import Chart
from service_record.history import History

_UNWRAPPED: Final = 1 << 16
"""Columns: browsers wrap lines themselves."""


def timeline_html(
    history: History, source: str, found: Sequence[Chart], view: View, *, flat: bool = False
) -> str:
    """The page of `timeline --output html`."""
    view = replace(view, width=_UNWRAPPED)
    lead = [element("p", *inked(line)) for line in summary(history, source, view)]
    sections = chart_sections(history, found, failures_ids(history), view, flat=flat)
    failed = failures_section(history, view)
    damaged = list(damages(history, view, whole=True))
    if failed is not None:
        sections.append(failed)
    if damaged:
        sections.append(Section("damage", "Damaged records", [preformatted(damaged)]))
    return page(f"Timeline of {source}", lead, sections)


def chart_sections(
    history: History, found: Sequence[Chart], targets: Mapping[str, str], view: View, *, flat: bool = False
) -> list[Section]:
    """A section for each boot; `targets` are where the page has the failures of a service."""
    sections = [chart_section(chart, len(history.boots), targets, view, flat=flat) for chart in found]
    if sections:
        first = sections[0]
        sections[0] = replace(first, content=[patterns(), *first.content])
    return sections
