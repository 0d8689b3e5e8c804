"""Counts over the rows of an index: causes, new ones, rising ones, and lines that no rule names."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import exp, lgamma
from typing import TYPE_CHECKING, Any, Final

from service_record.diagnosis.failures import signature

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DEFAULT_PERIOD: Final = timedelta(days=7)
_MAX_P: Final = 0.01
"""The chance, for all causes together, that one of them only seems to rise."""
_NEGLIGIBLE: Final = 1e-12
_MOST_NAMES: Final = 5
_ALIKE: Final = 0.6
"""The share of equal words that makes two signatures of one length alike. Drain's default, 0.4, joins lines
that have only their form in common.
"""
_MOST_CHILDREN: Final = 1000
"""Words that a node of Drain's tree tells apart; all others are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause, or a cluster of telling lines that no rule knows."""

    name: str
    """The rule's name; empty for a cluster."""
    says: str
    """The cause in a few words, or the pattern of the telling lines."""
    rank: str
    bundles: int
    hosts: int
    share: float
    """The share of all bundles that were judged, from 0 to 1."""
    first: datetime | None
    last: datetime | None
    releases: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    example: str = ""
    """A bundle that has it, the latest."""
    line: str = ""
    """The telling line of that bundle."""
    is_new: bool = False
    is_rising: bool = False
    before: int = 0
    """Bundles that had it in the time that it is compared with."""
    now: int = 0
    days: tuple[int, ...] = ()
    """Bundles that had it on each day of the trend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """The answer of `triage`."""

    bundles: int
    hosts: int
    verdicts: dict[str, int]
    since: datetime | None
    """The time from which something is new."""
    compared_with: str
    """The reference for `is_new` and `is_rising`, in words."""
    first_day: datetime | None
    """The first day of the trend."""
    causes: tuple[Cause, ...] = ()
    unknown: tuple[Cause, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    """Bundles that could not be judged, and why; the first of them."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Files that are no evidence of a host, and why."""
    bad: int = field(default=0)


_DAYS: Final = 28
_MOST_UNREADABLE: Final = 20

_GROUPS: Final = """
select cause, case when cause = '' then signature else '' end as what,
       any_value(cause_says order by latest desc) as says, count(distinct cause_says) as variants,
       any_value(rank order by latest desc) as rank,
       count(*) as n, count(distinct machine) as hosts,
       min(coalesce(since, latest)) as first, max(latest) as last,
       list(distinct release) filter (release <> '') as releases,
       list(distinct platform) filter (platform <> '') as platforms,
       list(distinct service) filter (service <> '') as services,
       any_value(uri || case when member = '' then '' else ': ' || member end order by latest desc)
           as example,
       any_value(line order by latest desc) as line,
       count(*) filter (latest >= $since) as now,
       count(*) filter (latest < $since and latest >= $earliest) as before,
       list(date_diff('day', $first_day, latest)) filter (latest >= $first_day) as days
from bad group by all
"""


def summarise(
    connection: "DuckDBPyConnection",
    since: datetime | None = None,
    against: "DuckDBPyConnection | None" = None,
    against_name: str = "",
    period: timedelta | None = None,
) -> Triage:
    """Return what the bundles of an index come to.

    What came from `since` on, by default in the last seven days before the latest bundle, is compared with
    all that is earlier, or with what came in a `period` right before. With the index `against`, all bundles
    are compared with those of that index.
    """
    latest = _one(connection, "select max(latest) from bundles")[0]
    since = since or (latest - DEFAULT_PERIOD if latest else datetime.now(UTC))
    last_day = latest or since
    first_day = (last_day - timedelta(days=_DAYS - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    earliest = since - period if period else datetime(1970, 1, 1, tzinfo=UTC)
    times = {"since": since, "earliest": earliest, "first_day": first_day}
    verdicts = dict(
        connection.execute("select verdict, count(*) from bundles group by all order by 2 desc, 1").fetchall()
    )
    bundles = sum(verdicts.values())
    now, before = _one(
        connection,
        """select count(*) filter (latest >= $since),
        count(*) filter (latest < $since and latest >= $earliest) from bundles""",
        {"since": since, "earliest": earliest},
    )
    compared = _Compared(now, before, {})
    if against is not None:
        groups = "select case when cause = '' then signature else cause end, count(*) from bad group by all"
        counts = dict(against.execute(groups).fetchall())
        total = _one(against, "select count(*) from bundles")[0]
        compared = _Compared(bundles, total, counts, is_other=True)
    rows = [{**row, "names": [row["cause"] or row["what"]]} for row in _rows(connection, _GROUPS, times)]
    explained = [row for row in rows if row["cause"]]
    clusters = _clustered([row for row in rows if not row["cause"]])
    tests = max(len(explained) + len(clusters), 1)
    unreadable = connection.execute(
        "select uri, left_out from bundles where verdict = 'unreadable' order by uri limit $most",
        {"most": _MOST_UNREADABLE},
    ).fetchall()
    hosts = _one(connection, "select count(distinct machine) from bundles")[0]
    return Triage(
        bundles=bundles,
        hosts=hosts,
        verdicts=verdicts,
        since=since if latest else None,
        compared_with=against_name or "all that is earlier",
        first_day=first_day,
        causes=_ranked(_cause(row, bundles, tests, compared) for row in explained),
        unknown=_ranked(_cause(row, bundles, tests, compared) for row in clusters),
        unreadable=tuple(unreadable),
        bad=sum(row["n"] for row in explained) + sum(row["n"] for row in clusters),
    )


@dataclass(frozen=True, slots=True)
class _Compared:
    """The numbers of bundles now and in the time, or the index, of the comparison."""

    now: int
    before: int
    counts: dict[str, int]
    is_other: bool = False


def _ranked(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    return tuple(sorted(causes, key=lambda cause: (-cause.bundles, cause.name, cause.says)))


def _cause(row: dict[str, Any], bundles: int, tests: int, compared: _Compared) -> Cause:
    now, before = row["now"], row["before"]
    if compared.is_other:
        now, before = row["n"], sum(compared.counts.get(name, 0) for name in row["names"])
    is_new = now > 0 and before == 0 and compared.before > 0
    days = [0] * _DAYS
    for day in row["days"] or ():
        if 0 <= day < _DAYS:
            days[day] += 1
    says = row["what"] or row["says"]
    return Cause(
        name=row["cause"],
        says=signature(says) if row["cause"] and row["variants"] > 1 else says,
        rank=row["rank"] or "",
        bundles=row["n"],
        hosts=row["hosts"],
        share=row["n"] / bundles,
        first=row["first"],
        last=row["last"],
        releases=_few(row["releases"]),
        platforms=_few(row["platforms"]),
        services=_few(row["services"]),
        example=row["example"] or "",
        line=row["line"] or "",
        is_new=is_new,
        is_rising=is_more_often(now, compared.now, before, compared.before, _MAX_P / tests),
        before=before,
        now=now,
        days=tuple(days),
    )


def is_more_often(now: int, all_now: int, before: int, all_before: int, max_p: float) -> bool:
    """Return whether a share is larger now than it was, and chance alone would hardly make it so.

    Fisher's exact test, one-sided: the probability of at least as many of the `now + before` cases among the
    bundles of now, if it were as frequent as before. What never was before is new, and not rising.
    """
    cases, total = now + before, all_now + all_before
    if not before or not all_before or not all_now or now * all_before <= before * all_now:
        return False
    term = exp(_log_choose(all_now, now) + _log_choose(all_before, before) - _log_choose(total, cases))
    tail = 0.0
    for k in range(now, min(cases, all_now) + 1):  # each term from the one before: they become ever smaller
        tail += term
        if tail > max_p or term < tail * _NEGLIGIBLE:
            break
        term *= (all_now - k) * (cases - k) / ((k + 1) * (all_before - cases + k + 1))
    return tail <= max_p


def _log_choose(whole: int, part: int) -> float:
    """Return the logarithm of the number of ways to choose so many; the number itself is too long."""
    return lgamma(whole + 1) - lgamma(part + 1) - lgamma(whole - part + 1)


def _few(names: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(sorted(names or ())[:_MOST_NAMES])


def _clustered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the signatures that a template miner takes for one template, the most frequent first."""
    if not rows:
        return []
    from drain3.drain import Drain  # only where no rule knows a line

    miner = Drain(sim_th=_ALIKE, max_children=_MOST_CHILDREN)
    joined: dict[int, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (-row["n"], row["what"])):
        cluster, _ = miner.add_log_message(row["what"])
        if cluster.cluster_id in joined:
            _merge(joined[cluster.cluster_id], row)
        else:
            joined[cluster.cluster_id] = dict(row)
    templates = {cluster.cluster_id: cluster.get_template() for cluster in miner.clusters}
    return [{**row, "what": templates[number] or "(nothing was said)"} for number, row in joined.items()]


def _merge(cluster: dict[str, Any], row: dict[str, Any]) -> None:
    """Add one signature's counts to those of a cluster, whose row was the most frequent."""
    for name in ("n", "hosts", "now", "before"):
        cluster[name] += row[name]
    for name in ("releases", "platforms", "services"):
        cluster[name] = sorted({*(cluster[name] or ()), *(row[name] or ())})
    cluster["names"] += row["names"]
    cluster["days"] = [*(cluster["days"] or ()), *(row["days"] or ())]
    cluster["first"] = min(filter(None, (cluster["first"], row["first"])), default=None)
    if row["last"] and (cluster["last"] is None or row["last"] > cluster["last"]):
        cluster |= {name: row[name] for name in ("last", "example", "line")}


def _rows(connection: "DuckDBPyConnection", query: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    answer = connection.execute(query, values)
    columns = [column[0] for column in answer.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]


def _one(
    connection: "DuckDBPyConnection", query: str, values: dict[str, Any] | None = None
) -> tuple[Any, ...]:
    row = connection.execute(query, values or {}).fetchone()
    return row if row is not None else (None,)


def bundles_of(connection: "DuckDBPyConnection", cause: str) -> list[dict[str, Any]]:
    """Return the bundles of a cause, the latest first; of an unknown one by words of its telling line."""
    return _rows(
        connection,
        """select uri, member, host, cluster, release, verdict, service, stage, latest, line from bad
        where cause = $cause or (cause = '' and contains(signature, $cause))
        order by latest desc nulls last, uri""",
        {"cause": cause},
    )
