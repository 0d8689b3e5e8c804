"""The hosts that a collector knows as a page, and as one plain document for programs.

docs/collector-reference.md has the fields of the document. What is not known is left out. Times are UTC with
milliseconds, durations seconds.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from service_record.display.fleet_table import (
    VERDICTS,
    FleetListing,
    ink,
    moment_at,
    rows_with_builds,
    sign,
    table,
    tally,
)
from service_record.display.machine import Document
from service_record.display.text import Ink, View, duration, utc
from service_record.http.collector_answers import BuildSummary, ClusterSummary, Hosts, HostSummary

_SCHEMA_VERSION: Final = 1
_TEMPLATE: Final = "hosts.html"


def hosts_html(listing: FleetListing, view: View) -> str:
    """Return the page of `hosts --output html`: the hosts as they were at one moment."""
    from service_record.display.html.rendering import SUMMARY_COLUMNS, page, section  # only for a page

    def moment_of(at: float | None) -> str:
        return "" if at is None else moment_at(at, view)

    answer, rows = listing.answer, []
    for host in rows_with_builds(answer):
        took = host.seconds(answer.now)
        verdict = ((f"{sign(host, view.glyphs)} {host.verdict}", ink(host)),)
        rows.append((host, moment_of(host.updated_at), "" if took is None else duration(took), verdict))
    sections = [section("hosts", "Hosts", _TEMPLATE, "hosts", rows=rows)]
    if listing.clusters:
        clusters = [(cluster, moment_of(cluster.since)) for cluster in listing.clusters]
        sections.insert(0, section("clusters", "Clusters", _TEMPLATE, "clusters", rows=clusters))
    lead = [((tally(answer), Ink.STRONG),), ((f"as of {moment_of(answer.now)}", Ink.FAINT),)]
    plain = table(listing, replace(view, width=SUMMARY_COLUMNS))
    return page(f"Hosts of {listing.source}", lead, sections, view.now, summary=plain)


def hosts_document(listing: FleetListing) -> Document:
    """Return the document of `hosts --output json` and `yaml`."""
    answer = listing.answer
    clusters = [_cluster_document(cluster) for cluster in listing.clusters]
    return {
        "version": _SCHEMA_VERSION,
        "source": listing.source,
        "time": _time(answer.now),
        "counts": {verdict: answer.counts.get(verdict, 0) for verdict in VERDICTS},
        **({"clusters": clusters} if clusters else {}),
        "hosts": list(host_lines(answer)),
    }


def _cluster_document(cluster: ClusterSummary) -> Document:
    document = {
        "cluster": cluster.id,
        "name": cluster.name,
        "status": cluster.status,
        "reason": cluster.reason,
        "since": _time(cluster.since),
        "hosts": cluster.hosts,
        "joined": cluster.joined,
        "control_planes": cluster.needed_control_planes,
        "installed_control_planes": cluster.installed_control_planes,
        "workers": cluster.defined_workers,
        "installed_workers": cluster.installed_workers,
        "csrs_approved": cluster.csrs_approved,
        "finalizing_stage": cluster.finalizing_stage,
    }
    return {name: value for name, value in document.items() if value not in (None, "")}


def host_lines(answer: Hosts) -> Iterator[Document]:
    """Yield the same as `--output jsonl` has it: a line for each host."""
    for host in answer.hosts:
        document = host_document(host, answer.now)
        if builds := answer.earlier.get(host.name):
            document["earlier"] = [_build_document(build) for build in builds]
        yield document


def host_document(host: HostSummary, now: float) -> Document:
    took = host.seconds(now)
    document = {
        "machine": host.name,
        "verdict": host.verdict,
        "reason": host.reason,
        "since": _time(host.verdict_since),
        "group": host.group,
        "release": host.release,
        "build": host.build or None,
        "action": host.action,
        "percentage": host.percentage,
        "message": host.message,
        "started": _time(host.started_at),
        "updated": _time(host.updated_at),
        "ended": _time(host.ended_at),
        "duration": None if took is None else round(took, 3),
    }
    return {name: value for name, value in document.items() if value not in (None, "")}


def _build_document(build: BuildSummary) -> Document:
    document = {
        "build": build.number,
        "key": build.key,
        "action": build.action,
        "verdict": build.verdict,
        "reason": build.reason,
        "started": _time(build.started_at),
        "updated": _time(build.updated_at),
        "ended": _time(build.ended_at),
        "duration": round(build.seconds, 3),
    }
    return {name: value for name, value in document.items() if value not in (None, "")}


def _time(at: float | None) -> str | None:
    return None if at is None else utc(datetime.fromtimestamp(at, UTC))
