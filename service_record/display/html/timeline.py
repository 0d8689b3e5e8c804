"""The timeline as a page: a chart of each boot, every failure with its journal lines, what is damaged."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from xml.etree.ElementTree import Element

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
    lead = [*_lead(history, source, view), patterns()]
    boots, targets = len(history.boots), failures_ids(history)
    sections = [chart_section(chart, boots, targets, view, flat=flat) for chart in found]
    failed = failures_section(history, view)
    damaged = list(damages(history, view, whole=True))
    if failed is not None:
        sections.append(failed)
    if damaged:
        sections.append(Section("damage", "Damaged records", [preformatted(damaged)]))
    return page(f"Timeline of {source}", lead, sections)


def _lead(history: History, source: str, view: View) -> list[Element]:
    return [element("p", *inked(line)) for line in summary(history, source, view)]
