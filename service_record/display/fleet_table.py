"""Tables of a collector's hosts and clusters: one line each, with the reason below a host in trouble."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.display.text import (
    BLANK,
    Glyphs,
    Ink,
    Line,
    View,
    age,
    cell_len,
    count,
    cut,
    cut_within,
    duration,
    moment,
    one_line,
    wrap,
    wrap_lines,
)
from service_record.http.collector_answers import BuildSummary, ClusterSummary, Hosts, HostSummary
from service_record.record.visible import visible

MOST: Final = 5
"""Maximum number of clusters that are listed above the hosts."""
_CLUSTER_INKS: Final = {
    "error": Ink.BAD,
    "insufficient": Ink.WORRYING,
    "pending-for-input": Ink.WORRYING,
    "installed": Ink.GOOD,
    "cancelled": Ink.FAINT,
}
_SINCE_CELLS: Final = 5
_NODES_CELLS: Final = len("Nodes joined")


class FleetListing(msgspec.Struct, frozen=True):
    """The hosts of a collector, and the clusters to show above them."""

    answer: Hosts
    source: str
    """The collector's URL."""
    clusters: tuple[ClusterSummary, ...] = ()


def cluster_table(clusters: Sequence[ClusterSummary], now: float, view: View) -> Iterator[Line]:
    """Yield a line for each cluster and, until it is installed, the reason for its status."""
    if not clusters:
        return
    states = max(len("State"), *(cell_len(visible(cluster.status)) for cluster in clusters))
    room = view.width - 2 - states - _SINCE_CELLS - _NODES_CELLS - 3 * len(_GAP)
    longest = max(len("Cluster"), *(cell_len(visible(cluster.label)) for cluster in clusters))
    width = max(min(longest, room), len("Cluster"))
    heading = ("Cluster", width), ("State", states), ("Since", _SINCE_CELLS), ("Nodes joined", 0)
    yield BLANK
    yield ((f"  {_GAP.join(_pad(*column) for column in heading)}", Ink.FAINT),)
    for cluster in clusters:
        ink = _CLUSTER_INKS.get(cluster.status, Ink.BUSY)
        since = "" if cluster.since is None else age(now - cluster.since)
        label = cut_within(visible(cluster.label), width, view.glyphs.cut)
        yield (
            (f"{getattr(view.glyphs, _SIGNS[ink])} ", ink),
            (_pad(label, width) + _GAP, Ink.STRONG),
            (_pad(visible(cluster.status), states) + _GAP, ink),
            (f"{_pad(since, _SINCE_CELLS)}{_GAP}{cluster.joined} of {cluster.hosts}", Ink.PLAIN),
        )
        if cluster.status != "installed":
            yield from wrap_lines(one_line(cluster.reason), Ink.FAINT, view, 4, _MAX_REASON_LINES)


VERDICTS: Final = ("failed", "looping", "stuck", "silent", "progressing", "done")
"""The verdicts of a collector, those of hosts in trouble first."""
_INKS: Final = {
    "failed": Ink.BAD,
    "looping": Ink.BAD,
    "stuck": Ink.WORRYING,
    "silent": Ink.WORRYING,
    "progressing": Ink.BUSY,
    "done": Ink.GOOD,
    "abandoned": Ink.WORRYING,
}
_SIGNS: Final = {
    Ink.BAD: "failure",
    Ink.WORRYING: "interrupted",
    Ink.BUSY: "running",
    Ink.GOOD: "success",
    Ink.PLAIN: "damaged",
    Ink.FAINT: "stopped",
}
"""Glyph of each ink."""
_GAP: Final = "  "
_BAR_CELLS: Final = 7
_MIN_MESSAGE_CELLS: Final = 10
"""If fewer cells are left in the row, the message gets a line of its own."""
_MAX_MESSAGE_CELLS: Final = 60
_NARROW_CELLS: Final = 72
_MAX_REASON_LINES: Final = 3


def tally(answer: Hosts) -> str:
    """Return the number of hosts of each verdict: `30 hosts: 2 failed, 28 done`."""
    counts = [f"{answer.counts[verdict]} {verdict}" for verdict in VERDICTS if answer.counts.get(verdict)]
    whole = sum(answer.counts.values())
    listing = f", {answer.total} shown" if answer.total != whole else ""
    return f"{count(whole, 'host')}{': ' if counts else ''}{', '.join(counts)}{listing}"


def table(listing: FleetListing, view: View) -> Iterator[Line]:
    """Yield a table with one row for each host."""
    yield from _make_heading(listing, view)
    rows = list_rows(listing.answer)
    if not rows:
        return
    layout = _Layout.fit(rows, listing.answer.now, view)
    yield BLANK
    yield from layout.heading()
    for host in rows:
        yield from layout.lines(host)


def list_rows(answer: Hosts) -> list[HostSummary]:
    """Return the hosts, each followed by a row for each of its earlier builds."""
    rows = []
    for host in answer.hosts:
        rows.append(host)
        rows += (_make_row(host, build) for build in answer.earlier.get(host.name, ()))
    return rows


def _make_row(host: HostSummary, build: BuildSummary) -> HostSummary:
    return replace(
        host,
        name=f"  build {build.number}",
        verdict=build.verdict,
        action=build.action,
        percentage=100.0 if build.verdict == "done" else None,
        message="",
        started_at=build.started_at,
        updated_at=build.updated_at,
        ended_at=build.stopped_at,
        reason=build.reason,
    )


def wide(listing: FleetListing, view: View) -> Iterator[Line]:
    """Yield all facts about the hosts, in one block for each host."""
    answer = listing.answer
    yield from _make_heading(listing, view)
    for host in answer.hosts:
        yield BLANK
        yield from describe(host, answer.earlier.get(host.name, ()), answer.now, view)


def describe(
    host: HostSummary,
    earlier: Sequence[BuildSummary],
    now: float,
    view: View,
    more: Sequence[tuple[str, str]] = (),
) -> Iterator[Line]:
    """Yield all facts about one host, then `more` facts (label and text), then its earlier builds."""
    yield from wrap_lines(f"{sign(host, view.glyphs)} {visible(host.name)}", ink(host), view)
    builds = (("earlier", _describe_build(build, view)) for build in earlier)
    facts = ((label, one_line(text)) for label, text in more)
    for label, text in (*_list_facts(host, now, view), *facts, *builds):
        for number, line in enumerate(wrap(text, view.width - 14)):
            yield ((f"  {'' if number else label:<10}  ", Ink.FAINT), (line, Ink.PLAIN))


def _make_heading(listing: FleetListing, view: View) -> Iterator[Line]:
    """Yield the number of hosts of each verdict, the collector, and the table of clusters."""
    yield from wrap_lines(tally(listing.answer), Ink.STRONG, view)
    yield from wrap_lines(visible(listing.source), Ink.FAINT, view)
    yield from cluster_table(listing.clusters[:MOST], listing.answer.now, view)
    if len(listing.clusters) > MOST:
        more = count(len(listing.clusters) - MOST, "cluster")
        yield ((f"  and {more} more: --cluster NAME shows one", Ink.FAINT),)


def change(host: HostSummary, now: float, view: View) -> Line:
    """Return a line with the state of a host that has changed."""
    at = format_moment(now, view)
    message = host.reason if host.is_bad else host.message
    far = f" {host.percentage:.0f}%" if host.percentage is not None else ""
    text = f"{sign(host, view.glyphs)} {visible(host.name)} {host.verdict}{far}"
    rest = max(view.width - cell_len(at) - cell_len(text) - 4, _MIN_MESSAGE_CELLS)
    return (
        (f"{at}  ", Ink.FAINT),
        (text, ink(host)),
        (f"  {cut(one_line(message), rest, view.glyphs.cut)}", Ink.PLAIN),
    )


def ink(host: HostSummary) -> Ink:
    return _INKS.get(host.verdict, Ink.PLAIN)


def sign(host: HostSummary, glyphs: Glyphs) -> str:
    glyph: str = getattr(glyphs, _SIGNS[ink(host)])
    return glyph


class _Layout(msgspec.Struct, frozen=True):
    """The width of each column."""

    view: View
    now: float
    machine: int
    action: int
    message: int
    """0 if messages get lines of their own."""

    @classmethod
    def fit(cls, hosts: Sequence[HostSummary], now: float, view: View) -> "_Layout":
        """Return the layout for a terminal. Names come first, and messages get the remaining width.

        A narrow terminal shows no actions.
        """
        least = 2 + _BAR_CELLS + 5 + len("update") + len("duration") + len("progressing") + 4 * len(_GAP)
        is_narrow = view.width < _NARROW_CELLS
        action = 0 if is_narrow else _fit_column("Action", [host.action for host in hosts], 12)
        least += action + len(_GAP) if action else 0
        machine = _fit_column("Machine", [host.name for host in hosts], view.width - least)
        messages = [one_line(host.message) for host in hosts]
        message = _fit_column("Last message", messages, _MAX_MESSAGE_CELLS)
        room = view.width - least - machine - len(_GAP)
        return cls(view, now, machine, action, min(room, message) if room >= _MIN_MESSAGE_CELLS else 0)

    def heading(self) -> Iterator[Line]:
        upper = {"Last": 6, "Total": 8, "": 0}
        lower = {"update": 6, "duration": 8, "Verdict": 0}
        widths = {"Machine": self.machine, "Action": self.action, "Progress": _BAR_CELLS + 5}
        widths |= {"Last message": self.message}
        columns = {name[:width]: width for name, width in widths.items() if width}
        blank = _GAP.join(" " * width for width in columns.values())
        for before, right in (
            (blank, upper),
            (_GAP.join(_pad(*column) for column in columns.items()), lower),
        ):
            yield ((f"  {before}{_GAP}{_GAP.join(_pad(*column) for column in right.items())}", Ink.FAINT),)

    def lines(self, host: HostSummary) -> Iterator[Line]:
        mark, text = self.view.glyphs.cut, one_line(host.message)
        took = host.seconds(self.now)
        ago = "" if host.updated_at is None else age(self.now - host.updated_at)
        yield (
            (f"{sign(host, self.view.glyphs)} ", ink(host)),
            (_cell(cut_within(visible(host.name), self.machine, mark), self.machine), Ink.STRONG),
            (_cell(cut(one_line(host.action), self.action, mark), self.action), Ink.PLAIN),
            *self._progress(host),
            (_cell(cut(text, self.message, mark), self.message), Ink.PLAIN),
            (f"{ago:<6}{_GAP}", Ink.PLAIN),
            (f"{'' if took is None else duration(took):<8}{_GAP}", Ink.PLAIN),
            (host.verdict, ink(host)),
        )
        if host.is_bad:
            yield from wrap_lines(one_line(host.reason), Ink.FAINT, self.view, 4, _MAX_REASON_LINES)
        elif text and not self.message:
            yield from wrap_lines(text, Ink.FAINT, self.view, 4, 1)

    def _progress(self, host: HostSummary) -> Sequence[tuple[str, Ink]]:
        if host.percentage is None:
            return ((" " * (_BAR_CELLS + 5) + _GAP, Ink.PLAIN),)
        full = round(_BAR_CELLS * host.percentage / 100)
        return (
            (self.view.glyphs.bar * full + " " * (_BAR_CELLS - full), ink(host)),
            (f"{host.percentage:4.0f}%{_GAP}", Ink.PLAIN),
        )


def _list_facts(host: HostSummary, now: float, view: View) -> Iterator[tuple[str, str]]:
    took = host.seconds(now)
    moments = (("begun", host.started_at), ("last update", host.updated_at), ("complete", host.ended_at))
    times = [f"{name} {format_moment(at, view)}" for name, at in moments if at is not None]
    since = "" if host.verdict_since is None else f" since {format_moment(host.verdict_since, view)}"
    facts = {
        "verdict": f"{host.verdict}{since}",
        "reason": host.reason,
        "message": one_line(host.message),
        "progress": "" if host.percentage is None else f"{host.percentage:g}%",
        "build": ", ".join(text for text in (f"{host.build}" if host.build else "", host.action) if text),
        "group": host.group,
        "release": host.release,
        "times": ", ".join(times),
        "duration": "" if took is None else duration(took),
    }
    return ((label, visible(text)) for label, text in facts.items() if text)


def _describe_build(build: BuildSummary, view: View) -> str:
    named = ", ".join(text for text in (f"build {build.number}", build.key, build.action) if text)
    begun, took = format_moment(build.started_at, view), duration(build.seconds)
    sentence = f"{named}: {build.verdict}, begun {begun}, {took}"
    return visible(f"{sentence}; {one_line(build.reason)}" if build.reason else sentence)


def format_moment(at: float, view: View) -> str:
    """Return a time, given in seconds since 1970."""
    return moment(datetime.fromtimestamp(at, UTC), view.clock, view.now)


def _fit_column(heading: str, texts: Sequence[str], most: int) -> int:
    """Return the width of a column that fits its texts, up to `most`, and its heading."""
    return max(len(heading), min(max((cell_len(visible(text)) for text in texts), default=0), most))


def _cell(text: str, width: int) -> str:
    """Return a cell and the gap after it; empty for a column without width."""
    return _pad(text, width) + _GAP if width else ""


def _pad(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
