"""Lay out the answer of `triage` for a terminal and as an HTML page. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from service_record.diagnosis.findings import POINTS_TO
from service_record.display.text import BLANK, Ink, Line, View, count, cut, wrap_lines
from service_record.record.visible import visible
from service_record.triage.counting import Cause, Triage

_BARS: Final = "▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = ".:-=+*#%"
_INDENT: Final = 2
_MAX_CAUSES: Final = 10
_MAX_LEFT_OUT: Final = 10
_MIN_SHARE: Final = 0.005  # a smaller one would be shown as 0%
_MIN_DAYS: Final = 2  # with trouble, for a trend


def answer_lines(triage: Triage, view: View, *, whole: bool = False) -> Iterator[Line]:
    """Yield the answer: what is new and rising first, then all causes, and what could not be judged.

    Without `whole`, at most ten items of each part are shown.
    """
    everything = (*triage.causes, *triage.unknown)
    new = tuple(cause for cause in everything if cause.is_new)
    rising = tuple(cause for cause in everything if cause.is_rising)
    yield (
        (f"{count(triage.bundles, 'bundle')} of {count(triage.hosts, 'host')}", Ink.STRONG),
        (f": {_describe_verdicts(triage)}", Ink.PLAIN),
    )
    if compared := _describe_comparison(triage):
        state = "new and rising" if new or rising else "nothing is new or rising"
        yield ((visible(f"{state}: {compared}"), Ink.FAINT),)
    for heading, causes in (
        ("New", new),
        ("Rising", rising),
        ("Causes", triage.causes),
        ("No rule knows", triage.unknown),
        (_UNEXPECTED, triage.unexpected),
    ):
        if causes:
            yield BLANK
            yield ((heading, Ink.STRONG),)
            listing = causes if whole else causes[:_MAX_CAUSES]
            for cause in listing:
                marks = () if heading in {"New", "Rising"} else _choose_marks(cause)
                yield from _make_cause_lines(cause, triage, view, marks)
            if len(listing) < len(causes):
                hidden = count(len(causes) - len(listing), "more cause")
                yield ((f"{' ' * _INDENT}and {hidden}: -o wide shows all", Ink.FAINT),)
    for _, heading, items in _list_left_out(triage):
        yield BLANK
        yield ((heading, Ink.STRONG),)
        listed = items if whole else items[:_MAX_LEFT_OUT]
        for place, reason in listed:
            yield from wrap_lines(visible(f"{place}: {reason}"), Ink.PLAIN, view, _INDENT)
        if len(listed) < len(items):
            more = f"{' ' * _INDENT}and {len(items) - len(listed)} more: -o wide shows all"
            yield ((more, Ink.FAINT),)


_UNEXPECTED: Final = "Errors on hosts that have not failed"


def _list_left_out(triage: Triage) -> Iterator[tuple[str, str, Sequence[tuple[str, str]]]]:
    """Yield name, heading and items of each list of bundles and files that are not counted in full."""
    for name, heading, items in (
        ("unreadable", "Not judged", triage.unreadable),
        ("incomplete", "Judged in part", triage.incomplete),
        ("clocks", "Wrong clocks, left out of new and rising", triage.wrong_clocks),
        ("copies", "Copies, not counted", [(each, f"the same as {one}") for each, one in triage.copies]),
        ("skipped", "Skipped", triage.skipped),
    ):
        if items:
            yield name, heading, items


def _describe_comparison(triage: Triage) -> str:
    """Return which bundles are compared with which; empty if there are none."""
    if not triage.compared_with:
        return ""
    if not triage.hosts_before and triage.since is not None:
        return f"no bundles from before {_format_day(triage.since)} to compare with"
    recent = f"since {_format_day(triage.since)}" if triage.since is not None else "all bundles"
    return f"{recent}, against {triage.compared_with}"


def _describe_verdicts(triage: Triage) -> str:
    return (
        ", ".join(f"{number} {verdict}" for verdict, number in triage.verdicts.items()) or "nothing to judge"
    )


def _make_cause_lines(
    cause: Cause, triage: Triage, view: View, marks: Sequence[tuple[str, Ink]]
) -> Iterator[Line]:
    head = f"{cause.bundles:>5} {_format_share(cause):>5}  "
    room = view.width - len(head) - sum(len(mark) + 2 for mark, _ in marks)
    yield (
        (head, Ink.STRONG),
        (cut(visible(cause.says), max(room, 20), view.glyphs.cut), Ink.PLAIN),
        *((f"  {mark}", ink) for mark, ink in marks),
    )
    indent = " " * len(head)
    facts = [
        cause.name if cause.rank in {"", "cause"} else f"{cause.name} ({_RANKS.get(cause.rank, cause.rank)})",
        count(cause.hosts, "host"),
        _format_days(cause),
        ", ".join(cause.releases),
        ", ".join(cause.platforms),
    ]
    yield from wrap_lines(visible(", ".join(filter(None, facts))), Ink.FAINT, view, len(indent))
    if cause.is_rising:
        yield from wrap_lines(_describe_rise(cause, triage), Ink.FAINT, view, len(indent))
    if trend := _draw_trend(cause, view):
        yield ((indent + trend, Ink.FAINT),)
    if not cause.name and cause.line:
        line = cut(visible(cause.line), view.width - len(indent), view.glyphs.cut)
        yield ((indent + line, Ink.FAINT),)


_RANKS: Final = {POINTS_TO: "likely"}  # as analyze says it


def _choose_marks(cause: Cause) -> list[tuple[str, Ink]]:
    marks = []
    if cause.is_new:
        marks.append(("NEW", Ink.BAD))
    if cause.is_rising:
        marks.append(("RISING", Ink.WORRYING))
    return marks


def _describe_rise(cause: Cause, triage: Triage) -> str:
    """Return how much more frequent a rising cause is, and the probability that this is chance."""
    times = (cause.now / triage.hosts_now) / (cause.before / triage.hosts_before)
    chance = max(cause.probability or 0.0, 0.001)
    sign = "" if cause.probability == chance else "less than "
    return (
        f"{cause.before} of {count(triage.hosts_before, 'host')} before, {cause.now} of {triage.hosts_now} "
        f"now: {times:.1f} times as frequent (by chance alone: {sign}{chance:.1%})"
    )


def _draw_trend(cause: Cause, view: View) -> str:
    """Return the last days as a row of bars; empty if all came on one day."""
    most = max(cause.days, default=0)
    if sum(1 for day in cause.days if day) < _MIN_DAYS:
        return ""
    bars = _BARS if view.glyphs.bar == "━" else _ASCII_BARS
    none = "·" if bars is _BARS else " "
    return "".join(none if not day else bars[(day * len(bars) - 1) // most] for day in cause.days)


def _format_share(cause: Cause) -> str:
    return f"{cause.share:.0%}" if cause.share >= _MIN_SHARE else "<1%"


def _format_day(moment: datetime | None) -> str:
    return "?" if moment is None else f"{moment:%Y-%m-%d}"


def _format_days(cause: Cause) -> str:
    """Return the first and the last day of a cause; one day if they are the same."""
    first, last = _format_day(cause.first), _format_day(cause.last)
    return first if first == last else f"{first} to {last}"


def bundle_lines(cause: str, bundles: Iterable[dict[str, Any]], view: View) -> Iterator[Line]:
    """Yield the bundles with a cause, two lines each."""
    number = 0
    for number, row in enumerate(bundles, 1):  # noqa: B007  # counted
        place = row["uri"] + (f": {row['member']}" if row["member"] else "")
        yield ((visible(place), Ink.STRONG),)
        where = " in stage ".join(filter(None, (row["service"], row["stage"])))
        facts = (
            _format_day(row["latest"]),
            row["host"],
            row["cluster"],
            row["release"],
            row["verdict"],
            where,
        )
        text = f"  {', '.join(filter(None, facts))}: {row['line']}"
        yield ((cut(visible(text), view.width, view.glyphs.cut), Ink.PLAIN),)
    if not number:
        yield ((visible(f"no bundle has the cause {cause}"), Ink.PLAIN),)


_TREND: Final = (168, 32)
"""The width and the height in which the last days are drawn."""


def answer_html(triage: Triage, source: str, made_at: datetime) -> str:
    """Return the answer as one HTML file."""
    from service_record.display.html.rendering import (
        SUMMARY_COLUMNS,
        limit_items,
        page,
        section,
    )  # only for a page

    everything = (*triage.causes, *triage.unknown)
    bad = count(triage.bad, "bundle with trouble", "bundles with trouble")
    lead: list[Line] = [
        ((f"{bad} among {count(triage.bundles, 'bundle')}", Ink.STRONG),),
        ((_describe_verdicts(triage), Ink.PLAIN),),
    ]
    if compared := _describe_comparison(triage):
        lead.append(((f"New and rising: {compared}.", Ink.FAINT),))
    sections = []
    for place, heading, causes in (
        ("new", "New", [cause for cause in everything if cause.is_new]),
        ("rising", "Rising", [cause for cause in everything if cause.is_rising]),
        ("causes", "Causes", triage.causes),
        ("unknown", "No rule knows", triage.unknown),
        ("unexpected", _UNEXPECTED, triage.unexpected),
    ):
        if causes:
            shown, more = limit_items(causes)
            rows = [_make_page_row(cause, triage) for cause in shown]
            values = {"first": rows[:_MAX_CAUSES], "rest": rows[_MAX_CAUSES:], "more": more}
            sections.append(section(place, heading, "triage.html", "causes", **values))
    for name, heading, items in _list_left_out(triage):
        shown_items, more = limit_items(items)
        values = {"texts": [f"{place}: {reason}" for place, reason in shown_items], "more": more}
        sections.append(section(name, heading, "triage.html", "left_out", **values))
    plain = answer_lines(triage, View(width=SUMMARY_COLUMNS, now=made_at))
    return page(f"Triage of {source}", lead, sections, made_at, summary=plain)


def _make_page_row(cause: Cause, triage: Triage) -> tuple[object, ...]:
    """Return a cause, its share, rise and times, and a bar for each day: left edge, width, height, title."""
    most = max(cause.days, default=0) or 1
    width, height = _TREND
    step = width / max(len(cause.days), 1)
    columns = []
    for day, number in enumerate(cause.days):
        if number:
            date = triage.first_day + timedelta(days=day) if triage.first_day is not None else None
            title = f"{date:%Y-%m-%d}: {number}" if date is not None else ""
            columns.append((round(day * step, 1), step - 1, round(max(number / most * height, 2), 1), title))
    rise = _describe_rise(cause, triage) if cause.is_rising else ""
    return cause, _format_share(cause), rise, _format_days(cause), most, columns
