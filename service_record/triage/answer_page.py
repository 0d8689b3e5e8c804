"""The page of `triage --output html`, with the trend of each cause. Pure."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from xml.etree.ElementTree import Element

from service_record.display.html.frame import Content, Section, element, page
from service_record.display.text import count
from service_record.triage.counting import Cause, Triage

_HEADS = ("Cause", "Bundles", "Hosts", "First to last seen", "Releases, platforms", "Last four weeks")
_WIDTH, _HEIGHT = 168, 32


def answer_html(triage: Triage, source: str, made_at: datetime) -> str:
    """Return the page in one file: causes by count, what is new, what is rising, what no rule knows."""
    everything = (*triage.causes, *triage.unknown)
    bad = count(triage.bad, "bundle with trouble", "bundles with trouble")
    lead = [
        element("p", f"{bad} among {count(triage.bundles, 'bundle')}", class_="strong"),
        element("p", ", ".join(f"{number} {verdict}" for verdict, number in triage.verdicts.items())),
    ]
    if triage.since is not None:
        comparison = f"New and rising: since {triage.since:%Y-%m-%d}, against {triage.compared_with}."
        lead.append(element("p", comparison, class_="faint"))
    sections = [
        Section(name, heading, [_table(causes, triage)])
        for name, heading, causes in (
            ("new", "New", [cause for cause in everything if cause.is_new]),
            ("rising", "Rising", [cause for cause in everything if cause.is_rising]),
            ("causes", "Causes", triage.causes),
            ("unknown", "What no rule knows", triage.unknown),
        )
        if causes
    ]
    if triage.unreadable:
        rows = (element("li", f"{uri}: {reason}") for uri, reason in triage.unreadable)
        sections.append(Section("unreadable", "Not judged", [element("ul", *rows)]))
    return page(f"Triage of {source}", lead, sections, made_at)


def _table(causes: Iterable[Cause], triage: Triage) -> Element:
    heads = element("tr", *(element("th", head, scope="col") for head in _HEADS))
    rows = (element("tr", *_cells(cause, triage)) for cause in causes)
    return element("table", element("thead", heads), element("tbody", *rows))


def _cells(cause: Cause, triage: Triage) -> Iterator[Element]:
    marks: list[Content] = []
    if cause.is_new:
        marks += [" ", element("strong", "new", class_="bad")]
    if cause.is_rising:
        marks += [" ", element("strong", "rising", class_="worrying")]
    below = [element("div", part, class_="faint") for part in (cause.name, cause.line) if part]
    yield element("th", cause.says, *marks, *below, scope="row")
    yield element("td", f"{cause.bundles} ({cause.share:.0%})")
    yield element("td", str(cause.hosts))
    first, last = ("?" if each is None else f"{each:%Y-%m-%d}" for each in (cause.first, cause.last))
    yield element("td", f"{first} to {last}")
    yield element("td", ", ".join((*cause.releases, *cause.platforms)))
    yield element("td", _trend(cause, triage))


def _trend(cause: Cause, triage: Triage) -> Element:
    """Return a column for each day, with its count as a title."""
    most = max(cause.days, default=0) or 1
    wide = _WIDTH / max(len(cause.days), 1)
    drawing = element(
        "svg",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=str(_WIDTH),
        height=str(_HEIGHT),
        role="img",
        aria_label=f"{sum(cause.days)} in the last four weeks, at most {most} on a day",
    )
    for day, number in enumerate(cause.days):
        if not number:
            continue
        high = max(number / most * _HEIGHT, 2)
        column = element(
            "rect",
            x=f"{day * wide:.1f}",
            y=f"{_HEIGHT - high:.1f}",
            width=f"{wide - 1:.1f}",
            height=f"{high:.1f}",
            fill="currentColor",
        )
        if triage.first_day is not None:
            date = triage.first_day + timedelta(days=day)
            column.append(element("title", f"{date:%Y-%m-%d}: {number}"))
        drawing.append(column)
    return drawing
