"""The hosts that a collector knows: a line for each, and why where one is in trouble."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta
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
from service_record.record.visible import visible

Time = Annotated[float, Meta(ge=0, le=1e11)]
"""Seconds since 1970, of a year of four digits."""
MOST: Final = 5
"""Clusters above the hosts of a whole fleet."""
_CLUSTER_INKS: Final = {
    "error": Ink.BAD,
    "insufficient": Ink.WORRYING,
    "pending-for-input": Ink.WORRYING,
    "installed": Ink.GOOD,
    "cancelled": Ink.FAINT,
}
_SINCE: Final = 5
_NODES: Final = len("Nodes joined")


class Cluster(msgspec.Struct, frozen=True):
    """A cluster as a collector tells of it. Times are seconds since 1970 by the collector's clock."""

    id: str
    status: str
    name: str = ""
    reason: str = ""
    since: Time | None = None
    hosts: int = 0
    joined: int = 0
    needed_control_planes: int = 0
    installed_control_planes: int = 0
    defined_workers: int = 0
    installed_workers: int = 0
    csrs_approved: int | None = None
    finalizing_stage: str = ""

    @property
    def label(self) -> str:
        return self.name or self.id


class ClustersAnswer(msgspec.Struct, frozen=True):
    """Clusters, those that need somebody first."""

    clusters: tuple[Cluster, ...]


def cluster_table(clusters: Sequence[Cluster], now: float, view: View) -> Iterator[Line]:
    """Yield a line for each cluster, and below it what it waits for."""
    if not clusters:
        return
    states = max(len("State"), *(cell_len(visible(cluster.status)) for cluster in clusters))
    room = view.width - 2 - states - _SINCE - _NODES - 3 * len(_GAP)
    longest = max(len("Cluster"), *(cell_len(visible(cluster.label)) for cluster in clusters))
    width = max(min(longest, room), len("Cluster"))
    heading = ("Cluster", width), ("State", states), ("Since", _SINCE), ("Nodes joined", 0)
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
            (f"{_pad(since, _SINCE)}{_GAP}{cluster.joined} of {cluster.hosts}", Ink.PLAIN),
        )
        if cluster.status != "installed":
            yield from wrap_lines(one_line(cluster.reason), Ink.FAINT, view, 4, _REASON_LINES)


def more_clusters(number: int) -> Line:
    return ((f"  and {count(number, 'cluster')} more: --cluster NAME shows one", Ink.FAINT),)


VERDICTS: Final = ("failed", "looping", "stuck", "silent", "progressing", "done")
"""As a collector has them, those with trouble first."""
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
_BAR: Final = 7
_SHORTEST_MESSAGE: Final = 10
"""Columns: with fewer, messages have lines of their own."""
_LONGEST_MESSAGE: Final = 60
_NARROW: Final = 72
_REASON_LINES: Final = 3


class Host(msgspec.Struct, frozen=True):
    """A host as a collector tells of it. Times are seconds since 1970 by the collector's clock."""

    name: str
    verdict: str
    group: str = ""
    release: str = ""
    build: int = 0
    action: str = ""
    percentage: Annotated[float, Meta(ge=0, le=100)] | None = None
    message: str = ""
    started_at: Time | None = None
    updated_at: Time | None = None
    ended_at: Time | None = None
    reason: str = ""
    verdict_since: Time | None = None
    revision: int = 0

    @property
    def is_bad(self) -> bool:
        return self.verdict not in {"progressing", "done"}


class EarlierBuild(msgspec.Struct, frozen=True):
    """An earlier build of a host. Times are seconds since 1970 by the collector's clock."""

    number: int
    verdict: str
    started_at: Time
    updated_at: Time
    ended_at: Time | None = None
    action: str = ""
    reason: str = ""
    key: str = ""

    @property
    def stopped_at(self) -> float:
        return self.ended_at or self.updated_at

    @property
    def seconds(self) -> float:
        return max(self.stopped_at - self.started_at, 0.0)


class HostsAnswer(msgspec.Struct, frozen=True):
    """Hosts, and how many there are of each verdict."""

    hosts: tuple[Host, ...]
    counts: Mapping[str, int]
    total: int
    now: Time
    """The time of the collector's clock."""
    earlier: Mapping[str, tuple[EarlierBuild, ...]] = {}
    """Name of a host -> its earlier builds of a month, latest first, where that was asked for."""
    clusters: tuple[Cluster, ...] = ()
    """Those that the hosts are of."""
    next: str = ""
    """The beginning of the next page; empty on the last page."""


def stopped_at(host: Host) -> float | None:
    """Return when its build ended, or was last reported on if it will not go on by itself; None while it goes
    on.
    """
    return host.ended_at or (host.updated_at if host.verdict in {"failed", "silent"} else None)


def seconds_of(host: Host, now: float) -> float | None:
    """Return how long its build has taken, or takes until now."""
    if host.started_at is None:
        return None
    return max((stopped_at(host) or now) - host.started_at, 0.0)


def tally(answer: HostsAnswer) -> str:
    """Return how many hosts there are of each verdict: `30 hosts: 2 failed, 28 done`."""
    counts = [f"{answer.counts[verdict]} {verdict}" for verdict in VERDICTS if answer.counts.get(verdict)]
    whole = sum(answer.counts.values())
    listing = f", {answer.total} shown" if answer.total != whole else ""
    return f"{count(whole, 'host')}{': ' if counts else ''}{', '.join(counts)}{listing}"


def table(answer: HostsAnswer, source: str, view: View) -> Iterator[Line]:
    yield from _heading(answer, source, view)
    yield from _clusters(answer, view)
    if not answer.hosts:
        return
    answer = with_builds(answer)
    layout = _Layout.of(answer, view)
    yield BLANK
    yield from layout.heading()
    for host in answer.hosts:
        yield from layout.lines(host)


def with_builds(answer: HostsAnswer) -> HostsAnswer:
    """Return the same hosts with a row for each earlier build below the row of its host."""
    if not answer.earlier:
        return answer
    rows = ((host, *map(_as_row, answer.earlier.get(host.name, ()))) for host in answer.hosts)
    return replace(answer, hosts=tuple(row for of_host in rows for row in of_host))


def _as_row(build: EarlierBuild) -> Host:
    return Host(
        name=f"  build {build.number}",
        verdict=build.verdict,
        action=build.action,
        percentage=100.0 if build.verdict == "done" else None,
        started_at=build.started_at,
        updated_at=build.updated_at,
        ended_at=build.stopped_at,
        reason=build.reason,
    )


def wide(answer: HostsAnswer, source: str, view: View) -> Iterator[Line]:
    """Yield all that is known of each host in the fleet, a block for each."""
    yield from _heading(answer, source, view)
    yield from _clusters(answer, view)
    for host in answer.hosts:
        yield BLANK
        yield from describe(host, answer.earlier.get(host.name, ()), answer.now, view)


def describe(
    host: Host, earlier: Sequence[EarlierBuild], now: float, view: View, more: Sequence[tuple[str, str]] = ()
) -> Iterator[Line]:
    """Yield all that is known of one host in the fleet, with `more` facts, and its earlier builds."""
    yield from wrap_lines(f"{sign(host, view.glyphs)} {visible(host.name)}", ink(host), view)
    builds = (("earlier", _build(build, view)) for build in earlier)
    facts = ((label, one_line(text)) for label, text in more)
    for label, text in (*_facts(host, now, view), *facts, *builds):
        for number, line in enumerate(wrap(text, view.width - 14)):
            yield ((f"  {'' if number else label:<10}  ", Ink.FAINT), (line, Ink.PLAIN))


def _heading(answer: HostsAnswer, source: str, view: View) -> Iterator[Line]:
    yield from wrap_lines(tally(answer), Ink.STRONG, view)
    yield from wrap_lines(visible(source), Ink.FAINT, view)


def _clusters(answer: HostsAnswer, view: View) -> Iterator[Line]:
    yield from cluster_table(answer.clusters[:MOST], answer.now, view)
    if len(answer.clusters) > MOST:
        yield more_clusters(len(answer.clusters) - MOST)


def change(host: Host, now: float, view: View) -> Line:
    """Return one host after a change of it, in a line."""
    at = moment_at(now, view)
    message = host.reason if host.is_bad else host.message
    far = f" {host.percentage:.0f}%" if host.percentage is not None else ""
    text = f"{sign(host, view.glyphs)} {visible(host.name)} {host.verdict}{far}"
    rest = max(view.width - cell_len(at) - cell_len(text) - 4, _SHORTEST_MESSAGE)
    return (
        (f"{at}  ", Ink.FAINT),
        (text, ink(host)),
        (f"  {cut(one_line(message), rest, view.glyphs.cut)}", Ink.PLAIN),
    )


def ink(host: Host) -> Ink:
    return _INKS.get(host.verdict, Ink.PLAIN)


def sign(host: Host, glyphs: Glyphs) -> str:
    glyph: str = getattr(glyphs, _SIGNS[ink(host)])
    return glyph


class _Layout(msgspec.Struct, frozen=True):
    """The width of each column."""

    view: View
    now: float
    machine: int
    action: int
    message: int
    """0: messages have lines of their own."""

    @classmethod
    def of(cls, answer: HostsAnswer, view: View) -> "_Layout":
        """Names get what they need, messages the rest, and where there is little nobody gets actions."""
        least = 2 + _BAR + 5 + len("update") + len("duration") + len("progressing") + 4 * len(_GAP)
        action = 0 if view.width < _NARROW else _widest("Action", [host.action for host in answer.hosts], 12)
        least += action + len(_GAP) if action else 0
        machine = _widest("Machine", [host.name for host in answer.hosts], view.width - least)
        message = _widest("Last message", [one_line(host.message) for host in answer.hosts], _LONGEST_MESSAGE)
        room = view.width - least - machine - len(_GAP)
        return cls(view, answer.now, machine, action, min(room, message) if room >= _SHORTEST_MESSAGE else 0)

    def heading(self) -> Iterator[Line]:
        upper = {"Last": 6, "Total": 8, "": 0}
        lower = {"update": 6, "duration": 8, "Verdict": 0}
        widths = {"Machine": self.machine, "Action": self.action, "Progress": _BAR + 5}
        widths |= {"Last message": self.message}
        columns = {name[:width]: width for name, width in widths.items() if width}
        blank = _GAP.join(" " * width for width in columns.values())
        for before, right in (
            (blank, upper),
            (_GAP.join(_pad(*column) for column in columns.items()), lower),
        ):
            yield ((f"  {before}{_GAP}{_GAP.join(_pad(*column) for column in right.items())}", Ink.FAINT),)

    def lines(self, host: Host) -> Iterator[Line]:
        mark, text = self.view.glyphs.cut, one_line(host.message)
        took = seconds_of(host, self.now)
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
            yield from wrap_lines(one_line(host.reason), Ink.FAINT, self.view, 4, _REASON_LINES)
        elif text and not self.message:
            yield from wrap_lines(text, Ink.FAINT, self.view, 4, 1)

    def _progress(self, host: Host) -> Sequence[tuple[str, Ink]]:
        if host.percentage is None:
            return ((" " * (_BAR + 5) + _GAP, Ink.PLAIN),)
        full = round(_BAR * host.percentage / 100)
        return (
            (self.view.glyphs.bar * full + " " * (_BAR - full), ink(host)),
            (f"{host.percentage:4.0f}%{_GAP}", Ink.PLAIN),
        )


def _facts(host: Host, now: float, view: View) -> Iterator[tuple[str, str]]:
    took = seconds_of(host, now)
    times = [f"{name} {moment_at(at, view)}" for name, at in _times(host) if at is not None]
    facts = {
        "verdict": f"{host.verdict}{_since(host, view)}",
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


def _build(build: EarlierBuild, view: View) -> str:
    named = ", ".join(text for text in (f"build {build.number}", build.key, build.action) if text)
    begun, took = moment_at(build.started_at, view), duration(build.seconds)
    sentence = f"{named}: {build.verdict}, begun {begun}, {took}"
    return visible(f"{sentence}; {one_line(build.reason)}" if build.reason else sentence)


def _times(host: Host) -> tuple[tuple[str, float | None], ...]:
    return ("begun", host.started_at), ("last update", host.updated_at), ("complete", host.ended_at)


def _since(host: Host, view: View) -> str:
    return "" if host.verdict_since is None else f" since {moment_at(host.verdict_since, view)}"


def moment_at(at: float, view: View) -> str:
    """Return a time, given in seconds since 1970."""
    return moment(datetime.fromtimestamp(at, UTC), view.clock, view.now)


def _widest(heading: str, texts: Sequence[str], most: int) -> int:
    return max(len(heading), min(max((cell_len(visible(text)) for text in texts), default=0), most))


def _cell(text: str, width: int) -> str:
    """Return a column; none where it has no width."""
    return _pad(text, width) + _GAP if width else ""


def _pad(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
