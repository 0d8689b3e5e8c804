"""Count the rows of an index: causes, new and rising ones, and lines that no rule names."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import exp, lgamma
from typing import TYPE_CHECKING, Any, Final

from service_record.diagnosis.failures import signature

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DEFAULT_PERIOD: Final = timedelta(days=7)
FALSE_DISCOVERY_RATE: Final = 0.1
"""The share of the causes shown as rising that may be there by chance, on average."""
_MAX_NAMES: Final = 5
_SIMILARITY: Final = 0.6
"""The share of equal words that makes two signatures of one length similar. Drain's default, 0.4, joins lines
that have only their form in common.
"""
_MAX_CHILDREN: Final = 1000
"""The limit of different words in a node of Drain's tree. All other words count as one."""


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
    """The latest bundle with this cause."""
    line: str = ""
    """The telling line of that bundle."""
    is_new: bool = False
    is_rising: bool = False
    before: int = 0
    """Hosts that had it in the time, or the index, of the comparison."""
    now: int = 0
    """Hosts that have it now."""
    probability: float | None = None
    """The probability that chance alone makes it this much more frequent; None without a comparison."""
    days: tuple[int, ...] = ()
    """Bundles that had it on each day of the trend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """The answer of `triage`."""

    bundles: int
    hosts: int
    verdicts: dict[str, int]
    since: datetime | None
    """The time from which something is new; None if all bundles are compared with another index."""
    compared_with: str
    """The reference for `is_new` and `is_rising`, in words."""
    first_day: datetime | None
    """The first day of the trend."""
    hosts_now: int = 0
    hosts_before: int = 0
    """The hosts on both sides of the comparison."""
    causes: tuple[Cause, ...] = ()
    unknown: tuple[Cause, ...] = ()
    unexpected: tuple[Cause, ...] = ()
    """Telling lines of hosts that are not in trouble by their verdict."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """Bundles that could not be judged, with the reason."""
    incomplete: tuple[tuple[str, str], ...] = ()
    """Bundles that were judged, with the parts that could not be read."""
    wrong_clocks: tuple[tuple[str, str], ...] = ()
    """Bundles whose host had a wrong clock, with the time it showed: they are in no trend."""
    copies: tuple[tuple[str, str], ...] = ()
    """Bundles with the content of another one, and that one; they are not counted."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Files that are no evidence of a host, with the reason."""
    bad: int = field(default=0)


_DAYS: Final = 28

_GROUPS: Final = """
select cause, case when cause = '' then signature else '' end as what,
       any_value(cause_says order by moment desc, uri, member) as says,
       count(distinct cause_says) as variants,
       any_value(rank order by moment desc, uri, member) as rank,
       count(*) as n, list(distinct machine) as hosts,
       min(case when moment is not null then coalesce(since, moment) end) as first, max(moment) as last,
       list(distinct release) filter (release <> '') as releases,
       list(distinct platform) filter (platform <> '') as platforms,
       list(distinct service) filter (service <> '') as services,
       any_value(
           uri || case when member = '' then '' else ': ' || member end order by moment desc, uri, member
       ) as example,
       any_value(line order by moment desc, uri, member) as line,
       list(distinct machine) filter (moment >= $since) as now,
       list(distinct machine) filter (moment < $since and moment >= $earliest) as before,
       list(date_diff('day', $first_day, moment)) filter (moment >= $first_day) as days
from {table} group by all
"""
_OTHER_GROUPS: Final = """
select cause, case when cause = '' then signature else '' end as what, list(distinct machine) as before
from bad group by all
"""
_UNEXPECTED: Final = """(
    select * from bundles where verdict in ('succeeded', 'running', 'stopped') and cause = '' and line <> ''
)"""
_LISTS: Final = ("hosts", "now", "before", "releases", "platforms", "services", "days")
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


def summarise(
    connection: "DuckDBPyConnection",
    since: datetime | None = None,
    against: "DuckDBPyConnection | None" = None,
    against_name: str = "",
    period: timedelta | None = None,
) -> Triage:
    """Count the causes of all bundles of an index, and compare the recent ones with earlier ones.

    Recent are bundles from `since` on, by default those of the seven days before the latest bundle. They are
    compared with all earlier ones, or with those of a `period` right before. With another index `against`,
    they are compared with all bundles of that; then, without `since`, all are recent.
    """
    latest = _query_one(connection, "select max(moment) from bundles where verdict <> 'unreadable'")[0]
    if since is None and against is None:
        since = latest - DEFAULT_PERIOD if latest else datetime.now(UTC)
    last_day = latest or since or datetime.now(UTC)
    first_day = (last_day - timedelta(days=_DAYS - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    start = since or _NEVER
    times = {"since": start, "earliest": start - period if period else _NEVER}
    verdicts = dict(
        connection.execute("select verdict, count(*) from bundles group by all order by 2 desc, 1").fetchall()
    )
    bundles = sum(verdicts.values())
    judged = bundles - verdicts.get("unreadable", 0)
    hosts_now, hosts_before = _query_one(
        connection,
        """select count(distinct machine) filter (moment >= $since),
        count(distinct machine) filter (moment < $since and moment >= $earliest)
        from bundles where verdict <> 'unreadable'""",
        times,
    )
    rows = _query_groups(connection, "bad", times | {"first_day": first_day})
    if against is not None:
        hosts_before = _query_one(
            against, "select count(distinct machine) from bundles where verdict <> 'unreadable'"
        )[0]
        for row in rows:
            row["before"] = []
        # The other index's lines join the same clusters, or a known line with another word would seem new.
        rows += [_make_empty_row(row) for row in _query_rows(against, _OTHER_GROUPS)]
    explained = _merge_rows(row for row in rows if row["cause"])
    clusters = _cluster_rows([row for row in rows if not row["cause"]])
    groups = [row for row in (*explained, *clusters) if row["n"]]
    _compare(groups, hosts_now, hosts_before)
    causes = [_make_cause(row, judged) for row in groups]
    hosts = _query_one(connection, "select count(distinct machine) from bundles")[0]
    unexpected = _cluster_rows(_query_groups(connection, _UNEXPECTED, times | {"first_day": first_day}))
    return Triage(
        bundles=bundles,
        hosts=hosts,
        verdicts=verdicts,
        since=since if latest else None,
        compared_with=(against_name or "all earlier bundles") if latest else "",
        first_day=first_day,
        hosts_now=hosts_now,
        hosts_before=hosts_before,
        causes=_sort_causes(cause for cause in causes if cause.name),
        unknown=_sort_causes(cause for cause in causes if not cause.name),
        unexpected=_sort_causes(_make_cause(row, judged) for row in unexpected),
        unreadable=_query_places(connection, "left_out", "verdict = 'unreadable'"),
        incomplete=_query_places(connection, "left_out", "verdict <> 'unreadable' and left_out <> ''"),
        wrong_clocks=_query_places(
            connection,
            "strftime(latest, '%Y-%m-%dT%H:%M:%SZ')",
            "verdict <> 'unreadable' and moment is null and latest is not null",
        ),
        copies=_query_places(connection, "original", "true", "copies"),
        bad=sum(row["n"] for row in groups),
    )


def _query_places(
    connection: "DuckDBPyConnection", column: str, condition: str, table: str = "bundles"
) -> tuple[tuple[str, str], ...]:
    """Return bundles under a condition, with the text of a column."""
    query = f"""
        select uri || case when member = '' then '' else ': ' || member end, {column}
        from {table} where {condition} order by 1
    """  # noqa: S608  # all are written above
    return tuple(connection.execute(query).fetchall())


def _query_groups(
    connection: "DuckDBPyConnection", table: str, values: dict[str, Any]
) -> list[dict[str, Any]]:
    rows = _query_rows(connection, _GROUPS.format(table=table), values)
    return [row | {name: row[name] or [] for name in _LISTS} for row in rows]


def _make_empty_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the other index: it has only hosts that had the cause before."""
    texts = dict.fromkeys(("says", "rank", "example", "line"), "")
    lists: dict[str, Any] = {name: [] for name in _LISTS}
    return {**texts, **lists, "n": 0, "variants": 0, "first": None, "last": None, **row}


def _sort_causes(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    return tuple(sorted(causes, key=lambda cause: (-cause.bundles, cause.name, cause.says)))


def _compare(groups: Sequence[dict[str, Any]], all_now: int, all_before: int) -> None:
    """Mark each group as new or rising, with the probability that the rise is chance."""
    probabilities = []
    for row in groups:
        now, before = len(set(row["now"])), len(set(row["before"]))
        row["is_new"] = now > 0 and before == 0 and all_before > 0
        row["probability"] = None
        if now + before and before <= all_before and not row["is_new"] and all_now and all_before:
            row["probability"] = compute_probability_of_rise(now, all_now, before, all_before)
        # A cause with too few cases could never be significant, and would only weaken the others.
        cases = min(now + before, all_now)
        if (
            compute_probability_of_rise(cases, all_now, now + before - cases, all_before)
            <= FALSE_DISCOVERY_RATE
        ):
            probabilities.append(row["probability"])
    limit = find_significance_limit([one for one in probabilities if one is not None])
    for row in groups:
        row["is_rising"] = row["probability"] is not None and row["probability"] <= limit


def find_significance_limit(probabilities: Sequence[float]) -> float:
    """Return the largest probability that still counts, by Benjamini and Hochberg (1995); -1 if none does.

    Among the causes at or below it, a share of FALSE_DISCOVERY_RATE is there by chance, on average. Requiring
    that not a single one is there by chance (Bonferroni) hid every rise from 2 to 9 in 100.
    """
    ordered = sorted(probabilities)
    counts = [
        one
        for rank, one in enumerate(ordered, 1)
        if one <= FALSE_DISCOVERY_RATE * rank / max(len(ordered), 1)
    ]
    return max(counts, default=-1.0)


def compute_probability_of_rise(now: int, all_now: int, before: int, all_before: int) -> float:
    """Return the probability that a cause is at least this much more frequent now by chance alone.

    Fisher's exact test, one-sided, with the mid-p correction (half the probability of the observed table):
    without it the test is too strict for small numbers.
    """
    cases, total = now + before, all_now + all_before
    if not cases or now > all_now or before > all_before:
        return 1.0
    term = exp(_log_choose(all_now, now) + _log_choose(all_before, before) - _log_choose(total, cases))
    tail = term / 2
    for k in range(now, min(cases, all_now)):
        term *= (all_now - k) * (cases - k) / ((k + 1) * (all_before - cases + k + 1))
        tail += term
    return min(tail, 1.0)


def _log_choose(whole: int, part: int) -> float:
    """Return the logarithm of the binomial coefficient, which itself may be too large for a float."""
    return lgamma(whole + 1) - lgamma(part + 1) - lgamma(whole - part + 1)


def _make_cause(row: dict[str, Any], judged: int) -> Cause:
    days = [0] * _DAYS
    for day in row["days"]:
        if 0 <= day < _DAYS:
            days[day] += 1
    says = row["what"] or row["says"]
    return Cause(
        name=row["cause"],
        says=signature(says) if row["cause"] and row["variants"] > 1 else says,
        rank=row["rank"] or "",
        bundles=row["n"],
        hosts=len(set(row["hosts"])),
        share=row["n"] / max(judged, 1),
        first=row["first"],
        last=row["last"],
        releases=_choose_names(row["releases"]),
        platforms=_choose_names(row["platforms"]),
        services=_choose_names(row["services"]),
        example=row["example"] or "",
        line=row["line"] or "",
        is_new=row.get("is_new", False),
        is_rising=row.get("is_rising", False),
        before=len(set(row["before"])),
        now=len(set(row["now"])),
        probability=row.get("probability"),
        days=tuple(days),
    )


def _choose_names(names: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(sorted(set(names or ()))[:_MAX_NAMES])


def _cluster_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the signatures that a template miner finds similar. The most frequent one names the cluster."""
    if not rows:
        return []
    from drain3.drain import Drain  # only where no rule knows a line

    miner = Drain(sim_th=_SIMILARITY, max_children=_MAX_CHILDREN)
    numbered: list[tuple[int, dict[str, Any]]] = []
    for row in sorted(rows, key=lambda row: (-row["n"], row["what"])):
        cluster, _ = miner.add_log_message(row["what"])
        numbered.append((cluster.cluster_id, row))
    templates = {cluster.cluster_id: cluster.get_template() for cluster in miner.clusters}
    return _merge_rows({**row, "what": templates[number] or NOTHING_SAID} for number, row in numbered)


NOTHING_SAID: Final = "(nothing was said)"


def _merge_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the rows of one cause or one pattern; texts are those of the first row that has them."""
    joined: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        first = joined.setdefault(
            (row["cause"], row["what"]), {**row, **{name: [] for name in _LISTS}, "n": 0}
        )
        first["n"] += row["n"]
        for name in _LISTS:
            first[name] = [*first[name], *row[name]]
        first["first"] = min(filter(None, (first["first"], row["first"])), default=None)
        if row["last"] and (first["last"] is None or row["last"] > first["last"]):
            first |= {name: row[name] for name in ("last", "example", "line")}
    return list(joined.values())


def _query_rows(
    connection: "DuckDBPyConnection", query: str, values: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    answer = connection.execute(query, values or {})
    columns = [column[0] for column in answer.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]


def _query_one(
    connection: "DuckDBPyConnection", query: str, values: dict[str, Any] | None = None
) -> tuple[Any, ...]:
    row = connection.execute(query, values or {}).fetchone()
    return row if row is not None else (None,)


def find_bundles(connection: "DuckDBPyConnection", cause: str) -> list[dict[str, Any]]:
    """Return the bundles with a cause, the latest first.

    The cause is a rule's name, or words as `triage` prints them: of a cause's sentence, of a pattern with
    `<*>` for any words, or of a telling line.
    """
    rows = _query_rows(
        connection,
        """select uri, member, host, cluster, release, verdict, service, stage, latest, line, cause,
        cause_says, signature from bundles where cause <> '' or line <> '' or verdict in
        ('failed', 'looping', 'stuck', 'interrupted') order by latest desc nulls last, uri""",
    )
    words = cause.strip().removesuffix("…").split()
    pattern = re.compile(
        r"\s+".join(r"\S.*?" if word == "<*>" else re.escape(word) for word in words), re.IGNORECASE
    )

    def has_cause(row: dict[str, Any]) -> bool:
        if row["cause"] == cause or not words:
            return bool(words)
        texts = (
            row["cause_says"],
            signature(row["cause_says"]),
            row["signature"] or NOTHING_SAID,
            row["line"],
        )
        return any(pattern.search(text) for text in texts)

    hidden = ("cause", "cause_says", "signature")
    return [
        {name: value for name, value in row.items() if name not in hidden} for row in rows if has_cause(row)
    ]
