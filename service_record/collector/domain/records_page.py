"""The part of a page that records fill: the cause, the whole analysis, and when each service ran. Pure.

The parts of pages are those of `analyze --output html`, but for what a policy forbids that allows no style
within a page.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final
from xml.etree.ElementTree import Element, tostring

import msgspec

from service_record.collector.domain.summary_of_records import JudgedRecords
from service_record.display.charts import charts
from service_record.display.html.diagnosis_page import analysis_sections, verdict_line
from service_record.display.html.frame import Section, element, inked, section_element
from service_record.display.phrases import summary
from service_record.display.text import View
from service_record.history import History, ServiceHistory
from service_record.history.build import true_time
from service_record.history.outcome import Outcome, Run

_CAUSE: Final = frozenset({"cause", "evidence", "running"})
"""The sections that a host's page shows; an analysis of its own shows the rest."""
_MOST_ROWS: Final = 200
_MOST_RUNS: Final = 60
_WIDE: Final = 1 << 16


class ServiceRan(msgspec.Struct, frozen=True):
    """The time in which a service ran, in seconds since 1970 by the clock of its host."""

    name: str
    runs: tuple[tuple[float, float | None, str], ...]
    """Begin, end and outcome of the latest; None while it runs."""


class Analysis(msgspec.Struct, frozen=True):
    """The analysis of records, as parts of a page."""

    verdict: str = ""
    """A sentence, as HTML; empty where no service has a run."""
    lead: str = ""
    """A summary, as HTML."""
    is_explained: bool = False
    """True if there is a root cause, which says what the verdict does and more."""
    cause: str = ""
    """The sections that say what went wrong, as HTML."""
    rest: str = ""
    """All sections, as HTML."""
    services: tuple[ServiceRan, ...] = ()
    left_out: tuple[str, ...] = ()
    """The parts that could not be read, with the reason."""


def analyse(judged: JudgedRecords, source: str, now: datetime) -> Analysis:
    """Return the parts of a page about the records of `source`; `now` is the time of display."""
    history, diagnosis = judged.history, judged.diagnosis
    analysis = Analysis(services=tuple(_ran(history)), left_out=judged.left_out)
    if diagnosis is None:
        return analysis
    view = View(now=now, width=_WIDE)
    sections = analysis_sections(diagnosis, history, charts(history, judged.moment), view)
    return msgspec.structs.replace(
        analysis,
        verdict=_html([verdict_line(diagnosis, view)]),
        lead=_html(element("p", *inked(line)) for line in summary(history, source, view)),
        is_explained=diagnosis.root is not None,
        cause=_html(_elements(section for section in sections if section.id in _CAUSE)),
        rest=_html(_elements(sections)),
    )


def _elements(sections: Iterable[Section]) -> Iterator[Element]:
    return map(section_element, sections)


def _html(elements: Iterable[Element]) -> str:
    return "".join(tostring(_without_style(one), encoding="unicode", method="html") for one in elements)


def _without_style(root: Element) -> Element:
    """Return the same element without styles of its own."""
    for one in root.iter():
        one.attrib.pop("style", None)
    return root


def _ran(history: History) -> Iterator[ServiceRan]:
    for service in history.services[:_MOST_ROWS]:
        if service.runs:
            runs = (_run(run, service) for run in service.runs[-_MOST_RUNS:])
            yield ServiceRan(service.name, tuple(run for run in runs if run is not None))


def _run(run: Run, service: ServiceHistory) -> tuple[float, float | None, str] | None:
    """Return begin, end and outcome of a run; None when it has no time."""
    begin, last = true_time(run.first_entry, service), true_time(run.last_entry, service)
    if begin is None or last is None:
        return None
    return begin.timestamp(), None if run.outcome is Outcome.RUNNING else last.timestamp(), run.outcome.value
