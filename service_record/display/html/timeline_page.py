"""The timeline as a page: a chart of each boot, and every failure with its journal lines."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.diagnosis.failures import FailureGroup, group_failures
from service_record.display.charts import Chart
from service_record.display.html.rendering import (
    SUMMARY_COLUMNS,
    UNWRAPPED,
    Section,
    chart_sections,
    damage_sections,
    limit_items,
    page,
    section,
)
from service_record.display.phrases import VERBS, damages, headline, name, run_summary, step_name, summary
from service_record.display.text import View, count
from service_record.display.timeline import timeline_page
from service_record.history import History, ServiceHistory
from service_record.history.build import true_time
from service_record.history.outcome import Facts, Outcome, order, repeats

_ID: Final = "failures"


def timeline_html(
    history: History, source: str, charts: Sequence[Chart], view: View, *, flat: bool = False
) -> str:
    view = replace(view, width=UNWRAPPED)
    targets = {service.name: place for place, service in _bad_services(history).items()}
    sections = [*chart_sections(history, charts, targets, view, flat=flat)]
    if (failed := failure_section(history, view)) is not None:
        sections.append(failed)
    sections += damage_sections(damages(history, view, whole=True))
    plain = timeline_page(history, source, charts, replace(view, width=SUMMARY_COLUMNS), flat=flat)
    lead = summary(history, source, view)
    return page(f"Timeline of {source}", lead, sections, view.now, summary=plain)


def _bad_services(history: History) -> dict[str, ServiceHistory]:
    """Map ids on the page to the services that failed or were interrupted."""
    return {
        f"{_ID}-{number}": service
        for number, service in enumerate(history.services)
        if any(run.outcome.is_bad for run in service.runs) or group_failures(service.runs)
    }


def failure_section(history: History, view: View) -> Section | None:
    """Return the section of all failures and interruptions, including failed stages of runs that succeeded.

    None if there are none. The service that failed first comes first: it may be the cause of the others.
    """
    bad = _bad_services(history)
    if not bad:
        return None
    shown, more = limit_items(sorted(bad.items(), key=lambda item: _first_end(item[1])))
    services = [
        (place, name(service.name), *limit_items(list(_cards(service, view)))) for place, service in shown
    ]
    return section(_ID, "Failures", "parts.html", "failures", services=services, more=more)


def _first_end(service: ServiceHistory) -> float:
    """Return the end of the first bad run, or of the last run if none is bad."""
    ends = (true_time(run.last_entry, service) for run in service.runs if run.outcome.is_bad)
    return order(next(ends, service.runs[-1].last_entry))


class _Card(msgspec.Struct, frozen=True):
    look: str
    heading: str
    note: str
    facts: Facts | None = None


def _cards(service: ServiceHistory, view: View) -> Iterator[_Card]:
    for failure in group_failures(service.runs):
        yield _failure(failure, view)
    for repeat in repeats(service.runs):
        if repeat.last.outcome is Outcome.INTERRUPTED:
            heading = f"{view.glyphs.interrupted} {headline(repeat.last)}"
            yield _Card("interrupted", heading, _times(repeat.count) + run_summary(repeat.last, view))


def _failure(failure: FailureGroup, view: View) -> _Card:
    what = step_name(failure.step) if failure.step is not None else "the service"
    run = failure.last
    went_on = "" if run.outcome is Outcome.FAILURE else f"; the run {VERBS[run.outcome]}"
    note = f"{_times(failure.count)}{run_summary(run, view)}{went_on}"
    return _Card("failure", f"{view.glyphs.failure} {what} failed", note, failure.facts)


def _times(number: int) -> str:
    return f"{count(number, 'time')}, the last: " if number > 1 else ""
