"""The hosts of a collector as a page, and as a document for programs.

docs/collector-reference.md has the fields of the document. Unknown values are left out. Times are UTC with
milliseconds, durations are seconds.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta
from msgspec.structs import replace

from service_record.display.fleet_table import (
    VERDICTS,
    FleetListing,
    format_moment,
    ink,
    list_rows,
    sign,
    table,
    tally,
)
from service_record.display.machine import ProgramDocument
from service_record.display.show_document import VERSION, Count, Time
from service_record.display.text import Ink, View, duration, utc
from service_record.http.collector_answers import BuildSummary, ClusterSummary, Hosts, HostSummary

_TEMPLATE: Final = "hosts.html"
Verdict: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": [*VERDICTS, "abandoned"]})]


def hosts_html(listing: FleetListing, view: View) -> str:
    """Return the page of `hosts --output html`: the hosts as they were at one moment."""
    from service_record.display.html.rendering import SUMMARY_COLUMNS, page, section  # only for a page

    def moment_text(at: float | None) -> str:
        return "" if at is None else format_moment(at, view)

    answer, rows = listing.answer, []
    for host in list_rows(answer):
        took = host.seconds(answer.now)
        verdict = ((f"{sign(host, view.glyphs)} {host.verdict}", ink(host)),)
        rows.append((host, moment_text(host.updated_at), "" if took is None else duration(took), verdict))
    sections = [section("hosts", "Hosts", _TEMPLATE, "hosts", rows=rows)]
    if listing.clusters:
        clusters = [(cluster, moment_text(cluster.since)) for cluster in listing.clusters]
        sections.insert(0, section("clusters", "Clusters", _TEMPLATE, "clusters", rows=clusters))
    lead = [((tally(answer), Ink.STRONG),), ((f"as of {moment_text(answer.now)}", Ink.FAINT),)]
    plain = table(listing, replace(view, width=SUMMARY_COLUMNS))
    return page(f"Hosts of {listing.source}", lead, sections, view.now, summary=plain)


class BuildDocument(ProgramDocument, frozen=True, kw_only=True):
    """An earlier build of a host."""

    build: Count
    key: str = ""
    action: str = ""
    verdict: Verdict
    reason: str = ""
    started: Time
    updated: Time
    ended: Time | None = None
    duration: float
    """Seconds."""


class HostDocument(ProgramDocument, frozen=True, kw_only=True):
    """A host, and a line of --output jsonl."""

    machine: str
    verdict: Verdict
    reason: str = ""
    since: Time | None = None
    """When the verdict began."""
    group: str = ""
    release: str = ""
    build: Count = 0
    action: str = ""
    """The latest step."""
    percentage: float | None = None
    message: str = ""
    started: Time | None = None
    updated: Time | None = None
    ended: Time | None = None
    duration: float | None = None
    """Seconds."""
    earlier: tuple[BuildDocument, ...] = ()
    """Earlier builds of the last month, with --all."""


class ClusterDocument(ProgramDocument, frozen=True, kw_only=True, rename=None):
    cluster: str
    name: str = ""
    status: str
    reason: str = ""
    since: Time | None = None
    hosts: Count
    joined: Count
    control_planes: Count
    installed_control_planes: Count
    workers: Count
    installed_workers: Count
    csrs_approved: Count | None = None
    finalizing_stage: str = ""


class FleetDocument(ProgramDocument, frozen=True, kw_only=True):
    version: Literal[1]
    source: str
    """The collector's address."""
    time: Time
    """The collector's clock."""
    counts: dict[str, Count]
    """Verdict -> number of hosts."""
    clusters: tuple[ClusterDocument, ...] = ()
    hosts: tuple[HostDocument, ...]


def hosts_document(listing: FleetListing) -> FleetDocument:
    """Return the document of `hosts --output json` and `yaml`."""
    answer = listing.answer
    return FleetDocument(
        version=VERSION,
        source=listing.source,
        time=utc(datetime.fromtimestamp(answer.now, UTC)),
        counts={verdict: answer.counts.get(verdict, 0) for verdict in VERDICTS},
        clusters=tuple(map(_cluster, listing.clusters)),
        hosts=tuple(host_lines(answer)),
    )


def _cluster(cluster: ClusterSummary) -> ClusterDocument:
    return ClusterDocument(
        cluster=cluster.id,
        name=cluster.name,
        status=cluster.status,
        reason=cluster.reason,
        since=_time(cluster.since),
        hosts=cluster.hosts,
        joined=cluster.joined,
        control_planes=cluster.needed_control_planes,
        installed_control_planes=cluster.installed_control_planes,
        workers=cluster.defined_workers,
        installed_workers=cluster.installed_workers,
        csrs_approved=cluster.csrs_approved,
        finalizing_stage=cluster.finalizing_stage,
    )


def host_lines(answer: Hosts) -> Iterator[HostDocument]:
    """Yield the documents of `hosts --output jsonl`, one for each host."""
    for host in answer.hosts:
        yield host_document(host, answer.now, answer.earlier.get(host.name, ()))


def host_document(host: HostSummary, now: float, earlier: Iterable[BuildSummary] = ()) -> HostDocument:
    seconds = host.seconds(now)
    return HostDocument(
        machine=host.name,
        verdict=host.verdict,
        reason=host.reason,
        since=_time(host.verdict_since),
        group=host.group,
        release=host.release,
        build=host.build,
        action=host.action,
        percentage=host.percentage,
        message=host.message,
        started=_time(host.started_at),
        updated=_time(host.updated_at),
        ended=_time(host.ended_at),
        duration=None if seconds is None else round(seconds, 3),
        earlier=tuple(map(_build, earlier)),
    )


def _build(build: BuildSummary) -> BuildDocument:
    return BuildDocument(
        build=build.number,
        key=build.key,
        action=build.action,
        verdict=build.verdict,
        reason=build.reason,
        started=utc(datetime.fromtimestamp(build.started_at, UTC)),
        updated=utc(datetime.fromtimestamp(build.updated_at, UTC)),
        ended=_time(build.ended_at),
        duration=round(build.seconds, 3),
    )


def _time(at: float | None) -> str | None:
    return None if at is None else utc(datetime.fromtimestamp(at, UTC))
