"""Records as a page: what each service did, failures first; and the differences of two hosts."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from service_record.display.html.rendering import (
    SUMMARY_COLUMNS,
    UNWRAPPED,
    damage_sections,
    limit_items,
    page,
    section,
)
from service_record.display.html.timeline_page import failure_section
from service_record.display.phrases import damages, left_out_sentences, name, summary, title
from service_record.display.table import run_lines, sort_by_importance, table
from service_record.display.text import BLANK, Ink, Line, View, count
from service_record.history import History, ServiceHistory

_MAX_RUNS = 50
"""The runs of a service that a page shows. A service in a restart loop has thousands of similar runs."""


class _FoldedService(msgspec.Struct, frozen=True):
    """A service, folded: the line of its latest run, and the lines of its newest runs."""

    id: str
    name: str
    heading: Line
    lines: list[Line]
    note: str


class _DifferenceCard(msgspec.Struct, frozen=True):
    """The lines of a service that differs. The card of all services that are alike has no name and id."""

    lines: Sequence[Line]
    look: str
    name: str
    id: str


def show_html(history: History, source: str, units: Iterable[Line], view: View) -> str:
    """Return the page of `show`; `units` are the lines about units without a record."""
    units = list(units)
    plain = chain(table(history, source, replace(view, width=SUMMARY_COLUMNS)), units)
    view = replace(view, width=UNWRAPPED)
    sections = []
    if (failed := failure_section(history, view)) is not None:
        sections.append(failed)
    if lines := [line for line in units if line != BLANK]:
        sections.append(section("units", "Units", "parts.html", "paragraphs", lines=lines))
    services, more = limit_items(
        [_service(number, each, view) for number, each in enumerate(sort_by_importance(history.services))]
    )
    if services:
        values = {"services": services, "more": more}
        sections.append(section("services", "Services", "parts.html", "folded_services", **values))
    sections += damage_sections(damages(history, view, whole=True))
    lead = summary(history, source, view)
    return page(f"Services of {source}", lead, sections, view.now, summary=plain)


def _service(number: int, service: ServiceHistory, view: View) -> _FoldedService:
    runs = service.runs[-_MAX_RUNS:]
    columns = replace(view, width=SUMMARY_COLUMNS)
    lines = [line for run in reversed(runs) for line in (*run_lines(run, columns), BLANK)]
    notes = list(left_out_sentences(service))
    if hidden := len(service.runs) - len(runs):
        notes.insert(0, f"and {count(hidden, 'earlier run')}: --output json has them")
    heading = title(service.runs[-1], view)
    return _FoldedService(f"service-{number}", name(service.name), heading, lines[:-1], "; ".join(notes))


def difference_html(lines: Iterable[Line], hosts: tuple[str, str], view: View) -> str:
    """Return the page of `diff`: a card for each service, of the lines that the terminal shows."""
    plain = list(lines)
    lead, *groups = _groups(plain)
    cards, more = limit_items([_difference(number, group) for number, group in enumerate(groups)])
    values = {"groups": cards, "more": more}
    sections = [section("services", "Differences", "parts.html", "cards_of_lines", **values)] if cards else []
    return page(f"{hosts[1]} compared with {hosts[0]}", lead, sections, view.now, summary=plain)


def _difference(number: int, lines: Sequence[Line]) -> _DifferenceCard:
    first = lines[0]
    service = next((text for text, ink in first if ink is Ink.STRONG), "")
    look = {Ink.BAD: "failure", Ink.WORRYING: "interrupted"}.get(first[0][1], "")
    return _DifferenceCard(lines, look, service, f"difference-{number}" if service else "")


def _groups(lines: Iterable[Line]) -> Iterator[Sequence[Line]]:
    """Yield the lines between blank lines."""
    group: list[Line] = []
    for line in lines:
        if line == BLANK:
            yield group
            group = []
        else:
            group.append(line)
    yield group
