"""The parts of a page about the records of a host: cause, whole analysis, and times of services. Pure.

They are those of `analyze --output html`, without the parts that need inline styles: the
Content-Security-Policy of the collector's pages forbids these.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from service_record.collector.domain.summary_of_records import JudgedRecords
from service_record.display.charts import charts
from service_record.display.html.diagnosis_page import analysis_sections, verdict_line
from service_record.display.html.rendering import UNWRAPPED, Section, draw
from service_record.display.phrases import summary
from service_record.display.text import View
from service_record.history import History, ServiceHistory
from service_record.history.build import true_time
from service_record.history.outcome import Outcome, Run

_CAUSE: Final = frozenset({"cause", "evidence", "running"})
"""The sections on the page of a host. The page of its analysis shows all sections."""
_MOST_ROWS: Final = 200
_MOST_RUNS: Final = 60


class ServiceSpan(msgspec.Struct, frozen=True):
    """The time in which a service ran, in seconds since 1970 by the clock of its host."""

    name: str
    runs: tuple[tuple[float, float | None, str], ...]
    """Begin, end and outcome of the latest runs. The end is None while a run is running."""


class Analysis(msgspec.Struct, frozen=True):
    """The analysis of records, as parts of a page."""

    verdict: str = ""
    """A sentence, as HTML; empty if no service has a run."""
    lead: str = ""
    """A summary, as HTML."""
    is_explained: bool = False
    """True if there is a root cause. It repeats the verdict, with more details."""
    cause: str = ""
    """The sections about failures, as HTML."""
    rest: str = ""
    """All sections, as HTML."""
    services: tuple[ServiceSpan, ...] = ()
    left_out: tuple[str, ...] = ()
    """The parts that could not be read, with the reason."""


def analyse(judged: JudgedRecords, source: str, now: datetime) -> Analysis:
    """Return the parts of a page about the records of `source`; `now` is the time of display."""
    history, diagnosis = judged.history, judged.diagnosis
    analysis = Analysis(services=tuple(_list_service_runs(history)), left_out=judged.left_out)
    if diagnosis is None:
        return analysis
    view = View(now=now, width=UNWRAPPED)
    name = f"{source}: {judged.node}" if judged.node else source
    drawn = charts(history, judged.moment)
    sections = analysis_sections(
        diagnosis, history, drawn, view, has_styles=False, other_hosts=judged.other_hosts
    )
    return msgspec.structs.replace(
        analysis,
        verdict=verdict_line(diagnosis, view),
        lead=draw("parts.html", "paragraphs", lines=list(summary(history, name, view))),
        is_explained=diagnosis.root is not None,
        cause=_html(section for section in sections if section.id in _CAUSE),
        rest=_html(sections),
    )


def _html(sections: Iterable[Section]) -> str:
    return "".join(draw("parts.html", "section", section=section) for section in sections)


def _list_service_runs(history: History) -> Iterator[ServiceSpan]:
    for service in history.services[:_MOST_ROWS]:
        if service.runs:
            runs = (_run(run, service) for run in service.runs[-_MOST_RUNS:])
            yield ServiceSpan(service.name, tuple(run for run in runs if run is not None))


def _run(run: Run, service: ServiceHistory) -> tuple[float, float | None, str] | None:
    """Return begin, end and outcome of a run; None when it has no time."""
    begin, last = true_time(run.first_entry, service), true_time(run.last_entry, service)
    if begin is None or last is None:
        return None
    return begin.timestamp(), None if run.outcome is Outcome.RUNNING else last.timestamp(), run.outcome.value
