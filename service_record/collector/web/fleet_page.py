"""The page of the fleet: hosts in trouble by cause, newest trouble first, then all other hosts.

The filters of the page are in its URL.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Final, Self
from urllib.parse import urlencode

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.serving import caller
from service_record.collector.assisted.cluster_rows import list_clusters
from service_record.collector.domain.mutes import Mute, find_mute
from service_record.collector.domain.silence import Absence
from service_record.collector.domain.verdicts import FleetVerdict
from service_record.collector.process import Collector
from service_record.collector.store.absences import read_absences
from service_record.collector.store.fleet import (
    MOST_CAUSES,
    SHOWN_DONE,
    CauseSummary,
    Cursor,
    Filters,
    Fleet,
    Sort,
    count_muted,
    fleet,
    groups,
    list_causes,
)
from service_record.collector.store.notices import active_mutes
from service_record.collector.web.pages import VERDICTS, LivePage, counted, reader_page, render
from service_record.display.machine import format_csv
from service_record.http.collector_answers import ClusterSummary, HostSummary

ROWS: Final = 100
"""Number of hosts on a page."""
_EXPORTED_AT_ONCE: Final = 1000
_MOST_WORDS: Final = 50
_MAX_SEARCH_CHARS: Final = 100
_NAMES: Final = re.compile(r"[\s,]+")
"""Separators of machine names in one field of the form."""
_PARAMETERS: Final = {
    "group": "groups",
    "machine": "machines",
    "verdict": "verdicts",
    "cluster": "clusters",
    "cause": "causes",
    "release": "releases",
    "hardware": "hardware",
}
"""Parameter of a query that may be repeated -> the filter with its values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFilters(Filters):
    """The filters and the order in a URL: `?group=dc1&machine=web*&verdict=failed&sort=name`."""

    each: bool = False
    """True to show each host in its own row instead of by cause."""
    all: bool = False
    """True to include hosts that were done more than `SHOWN_DONE` ago."""
    sort: Sort = Sort.VERDICT
    after: Cursor | None = None
    """The last host of the previous page; None for the first page."""

    @classmethod
    def of(cls, query: QueryParams) -> Self:
        """Parse a query. Invalid filters are dropped."""
        word = query.get("sort", "")
        sort = Sort(word) if word in set(Sort) else Sort.VERDICT
        after = Cursor.of(query.get("after", ""))
        lists: dict[str, Any] = {
            field: field_values(query.getlist(name)) for name, field in _PARAMETERS.items()
        }
        names = (name for text in query.getlist("machine") for name in _NAMES.split(text))
        lists["machines"] = field_values(names)
        lists["verdicts"] = tuple(verdict for verdict in VERDICTS if verdict in lists["verdicts"])
        return cls(
            **lists,
            sort=sort,
            search=next(iter(field_values(query.getlist("search"))), "")[:_MAX_SEARCH_CHARS],
            each=query.get("each", "") not in {"", "0"},
            all=query.get("all", "") not in {"", "0"},
            after=after if after is not None and after.sort == sort else None,
        )

    @property
    def query(self) -> str:
        """Return the query of a URL with these filters, with its question mark; empty without filters."""
        fields = [(name, value) for name, field in _PARAMETERS.items() for value in getattr(self, field)]
        fields += [("search", self.search)] * bool(self.search)
        fields += [("each", "1")] * self.each
        fields += [("all", "1")] * self.all
        fields += [("sort", self.sort)] * (self.sort is not Sort.VERDICT)
        fields += [] if self.after is None else [("after", str(self.after))]
        return f"?{urlencode(fields)}" if fields else ""

    @property
    def is_narrowed(self) -> bool:
        """Return whether the filters exclude hosts."""
        return bool(self.search) or any(getattr(self, field) for field in _PARAMETERS.values())

    @property
    def shows_clusters(self) -> bool:
        """Return whether clusters are shown above the hosts: all clusters, or the requested ones."""
        return bool(self.clusters) or (self.after is None and not self.is_narrowed)

    @property
    def is_grouped(self) -> bool:
        """Return whether hosts in trouble are shown by cause."""
        return not self.each and not self.causes and self.sort is Sort.VERDICT

    def only(self, verdict: str) -> "FleetFilters":
        """Return a copy that filters by one verdict; by none if this was already the only verdict."""
        return replace(self, verdicts=() if self.verdicts == (verdict,) else (verdict,), after=None)

    def with_cause(self, cause: str) -> "FleetFilters":
        """Return a copy for the hosts of one cause, each in its own row."""
        return replace(self, causes=(cause,), after=None)

    def sorted_by(self, sort: str) -> "FleetFilters":
        """Return a copy with another order, and each host in its own row."""
        return replace(self, sort=Sort(sort), after=None)

    def without_folding(self) -> "FleetFilters":
        """Return a copy with each host in its own row."""
        return replace(self, each=True, after=None)

    def at(self, after: Cursor | None) -> "FleetFilters":
        """Return a copy for the page that begins after a host; for the first page if it is None."""
        return replace(self, after=after)

    def filters(self, now: float, confined_to: str = "") -> Filters:
        """Return the filters for the database, for a reader who may be confined to a group."""
        ours = {field.name: getattr(self, field.name) for field in fields(Filters)}
        done_since = None if self.all else now - SHOWN_DONE
        return Filters(**{**ours, "confined_to": confined_to, "done_since": done_since})


def field_values(fields: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct values of fields, without NUL, which databases refuse."""
    words = (field.replace("\0", "").strip() for field in fields)
    return tuple(dict.fromkeys(word for word in words if word))[:_MOST_WORDS]


_DIGITS: Final = 16
_SHOWN_ABSENCES: Final = 24 * 3600.0
"""Seconds for which the page shows that the collector was down, after its return."""
_MOST_ABSENCES: Final = 3


@dataclass(frozen=True, slots=True)
class FleetPage(LivePage):
    """The content of the fleet page at one time."""

    template = "fleet_live.html"
    MOST_CAUSES: ClassVar = MOST_CAUSES
    MOST_CLUSTERS: ClassVar = 5
    """Number of clusters above the hosts. The page of clusters shows all."""

    look: FleetFilters
    fleet: Fleet
    clusters: tuple[ClusterSummary, ...]
    """The clusters to show above the hosts, including those that do not fit there."""
    causes: tuple[CauseSummary, ...]
    """The causes of the hosts in trouble, if they are shown by cause."""
    mutes: tuple[Mute, ...]
    """All active mutes."""
    muted: int
    """The number of hosts in trouble that are covered by mutes."""
    absences: tuple[Absence, ...]
    """The latest absences of the collector."""
    refused: int
    """The number of reports that this process refused within the last hour."""
    now: float

    @property
    def state(self) -> str:
        revisions = [(host.name, host.revision) for host in self.fleet.hosts]
        clusters = [(cluster.id, cluster.revision) for cluster in self.clusters]
        return digest(
            (
                revisions,
                self.surroundings,
                self.title,
                sorted(self.fleet.counts.items()),
                self.fleet.total,
                clusters,
            )
        )

    @property
    def revisions(self) -> dict[str, int]:
        return {host.name: host.revision for host in self._rows}

    @property
    def surroundings(self) -> tuple[object, ...]:
        """Return a key that changes with the content outside of the tally and of the rows of hosts."""
        return (
            [(cause.cause, cause.count, cause.revision) for cause in self.causes if cause.count > 1],
            [mute.id for mute in self.mutes],
            self.absences,
            bool(self.refused),
            self.folded,
            self.fleet.total if self.look.after or self.fleet.next else 0,
        )

    @property
    def folded(self) -> int:
        """Return the number of done hosts that the last page shows as one line."""
        is_folded = self.look.is_grouped and not self.look.verdicts and self.fleet.next is None
        return self.fleet.counts["done"] if is_folded else 0

    @property
    def _rows(self) -> tuple[HostSummary, ...]:
        """Return the hosts that have their own row."""
        return (*(cause.hosts[0] for cause in self.causes if cause.count == 1), *self.fleet.hosts)

    @property
    def heading(self) -> str:
        return "Fleet"

    @property
    def address(self) -> str:
        return f"/{self.look.query}"

    @property
    def stream(self) -> str:
        return f"/events{self.look.query}"

    @property
    def title(self) -> str:
        """Return the title of the browser's tab, with the number of unmuted hosts in trouble."""
        count = sum(number for verdict, number in self.fleet.counts.items() if FleetVerdict(verdict).is_bad)
        open_count = count - min(self.muted, count)
        return f"({open_count}) Fleet" if open_count else "Fleet"

    def find_mute(self, host: HostSummary) -> Mute | None:
        """Return the mute that covers a host, or None."""
        return find_mute(self.mutes, host.name, host.group, host.cause)

    def find_mute_of_cause(self, cause: CauseSummary) -> Mute | None:
        """Return the mute of a whole cause, or None."""
        return find_mute(self.mutes, "", "", cause.cause)

    @property
    def sentence(self) -> str:
        """Return the counts in words."""
        return counted(self.fleet.total, self.fleet.counts, self.look.verdicts)

    def row(self, name: str) -> str:
        """Return the HTML of the row of a host."""
        host = next(host for host in self._rows if host.name == name)
        return render("fleet_row.html", host=host, seen=self)

    def tally(self) -> str:
        """Return the HTML of the tally: the number of hosts of each verdict, and the clusters."""
        return render("fleet_tally.html", seen=self)


async def get_fleet(request: Request) -> Response:
    """`GET /`: the fleet, filtered by the query."""
    serving, grant = caller(request)
    look = FleetFilters.of(request.query_params)
    state = await run_in_threadpool(make_fleet_page, serving.collector, look, grant.confined_to)
    group_names = await serving.ask(lambda connection: groups(connection, grant.confined_to))
    return reader_page(
        request,
        "fleet.html",
        seen=state,
        groups=group_names,
        is_empty=not sum(state.fleet.counts.values()) and not look.is_narrowed,
        address=str(request.base_url).rstrip("/"),
        here="fleet",
    )


_COLUMNS: Final = tuple(name for name in HostSummary.__struct_fields__ if name != "revision")


async def get_export(request: Request) -> Response:
    """`GET /fleet.csv`, `GET /fleet.json`: all hosts that pass the filters, on all pages."""
    serving, grant = caller(request)
    look = FleetFilters.of(request.query_params)
    hosts = await run_in_threadpool(_read_all, serving.collector, look, grant.confined_to)
    headers = {"Cache-Control": "no-store"}
    if request.url.path.endswith(".json"):
        return Response(msgspec.json.encode(hosts), media_type="application/json", headers=headers)
    headers["Content-Disposition"] = 'attachment; filename="fleet.csv"'
    rows = (host.values() for host in hosts)
    return Response(
        await run_in_threadpool(format_csv, _COLUMNS, rows), media_type="text/csv", headers=headers
    )


def _read_all(collector: Collector, look: FleetFilters, confined_to: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    after: Cursor | None = None
    now = collector.now()
    filters = look.filters(now, confined_to)
    with collector.database.reading() as connection:  # one transaction, so that all parts are consistent
        counts = collector.counts.of(connection, filters)
        while True:
            part = fleet(connection, filters, _EXPORTED_AT_ONCE, after, counts, sort=look.sort, now=now)
            rows += ({name: getattr(host, name) for name in _COLUMNS} for host in part.hosts)
            after = part.next
            if after is None:
                return rows


def make_fleet_page(collector: Collector, look: FleetFilters, confined_to: str) -> FleetPage:
    """Read the current fleet page, for a reader who may be confined to a group."""
    now = collector.now()
    with collector.database.reading() as connection:
        filters = look.filters(now, confined_to)
        counts = collector.counts.of(connection, filters)
        hosts = fleet(
            connection,
            filters,
            ROWS,
            look.after,
            counts,
            sort=look.sort,
            now=now,
            is_grouped=look.is_grouped,
        )
        has_causes = look.is_grouped and look.after is None
        causes = list_causes(connection, filters) if has_causes else ()
        mutes = active_mutes(connection, now)
        muted = count_muted(connection, filters, mutes)
        absences = tuple(
            absence for absence in read_absences(connection, now) if absence.ended_at > now - _SHOWN_ABSENCES
        )
        clusters: tuple[ClusterSummary, ...] = ()
        if look.shows_clusters:
            clusters = list_clusters(
                connection, named=look.clusters, confined_to=confined_to, done_since=filters.done_since
            )
    return FleetPage(
        look,
        hosts,
        clusters,
        causes,
        mutes,
        muted,
        absences[-_MOST_ABSENCES:],
        collector.refusals.recent(),
        now,
    )


def digest(value: object) -> str:
    """Return a short digest of a value."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:_DIGITS]
