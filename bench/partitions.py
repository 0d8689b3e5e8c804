"""`python -m bench.partitions`: compare steps in weekly partitions with one table, for docs/project/scale.md.

Retention deletes the builds of a week, except the latest build of each host and its first and last failure.
Their steps must be moved out of a partition before it is dropped. Their number depends on the fleet: hosts
that are rebuilt often leave few steps, hosts that are installed once leave all.
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from sqlalchemy import Connection, Engine, text

from bench.machine import machine
from bench.scale import PAGE
from bench.table import Row, markdown, replace_between
from service_record.collector.domain.retention import StoredBuild
from service_record.collector.store import purge
from service_record.collector.store.database import Database
from testing import postgresql

WEEKS: Final = 13
BUILDS: Final = 1_000
"""Number of builds in each week."""
STEPS: Final = 100
"""Number of steps in each build."""
ROUNDS: Final = 3
SHARES: Final = (0.1, 0.5, 0.9)
"""Shares of the builds of a week that are kept."""
_BATCH: Final = 64
_STORED: Final = 0
_COLUMNS: Final = "id, host_id, build, label, name, status, logs, received_at"
_LOGS: Final = "repeat('Installing: kernel-core-5.14.0-570.el9.x86_64' || chr(10), 4)"
_TABLES: Final = f"""
CREATE TABLE weekly (LIKE steps INCLUDING DEFAULTS, week integer NOT NULL) PARTITION BY LIST (week);
ALTER TABLE weekly ADD PRIMARY KEY (id, week);
ALTER TABLE weekly ADD FOREIGN KEY (host_id) REFERENCES hosts (id) ON DELETE CASCADE;
CREATE INDEX ON weekly (host_id, build, id);
CREATE TABLE weekly_{_STORED} PARTITION OF weekly FOR VALUES IN ({_STORED});
INSERT INTO hosts (id, name, first_seen, last_seen)
SELECT n, 'host' || n, 0, 0 FROM generate_series(1, {BUILDS}) n;
"""
_WEEK: Final = f"""
INSERT INTO builds (host_id, number, started_at, updated_at)
SELECT n, {{week}}, {{week}}, {{week}} FROM generate_series(1, {BUILDS}) n;
CREATE TABLE weekly_{{week}} PARTITION OF weekly FOR VALUES IN ({{week}});
INSERT INTO steps ({_COLUMNS})
SELECT nextval('step_numbers'), n, {{week}}, 'step' || s, 'step', 'done', {_LOGS}, {{week}}
FROM generate_series(1, {BUILDS}) n, generate_series(1, {STEPS}) s;
INSERT INTO weekly ({_COLUMNS}, week)
SELECT {_COLUMNS}, build FROM steps WHERE build = {{week}};
"""
_MOVE: Final = f"UPDATE weekly SET week = {_STORED} WHERE week = :week AND host_id <= :most"
_PAGE: Final = "SELECT * FROM {table} WHERE host_id = :host AND build = :build ORDER BY id DESC LIMIT 500"
_INSERT: Final = f"""
INSERT INTO {{table}} ({_COLUMNS}{{more}})
SELECT nextval('step_numbers'), n, {WEEKS}, 'step', 'step', 'done', {_LOGS}, 0{{value}}
FROM generate_series(1, {_BATCH}) n
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an operation: seconds, and bytes of the write-ahead log."""

    seconds: float
    written: int


def measured() -> list[Row]:
    """Fill both layouts, and measure the same operations on both in turns."""
    with postgresql.cluster({"synchronous_commit": "on"}) as running, running.migrated() as url:
        database = Database(url)
        _do(database.engine, _TABLES)
        for week in range(1, WEEKS + 1):
            _do(database.engine, _WEEK.format(week=week))
        _do(database.engine, "ANALYZE steps; ANALYZE weekly; ANALYZE builds")
        rows = [*_everyday(database.engine), *_forgetting(database.engine)]
        database.close()
    return rows


def _everyday(engine: Engine) -> Iterator[Row]:
    """Compare frequent operations: writing a batch, and reading the steps of a build."""
    plain = _INSERT.format(table="steps", more="", value="")
    weekly = _INSERT.format(table="weekly", more=", week", value=f", {WEEKS}")
    yield _row(
        f"{_BATCH} steps in a transaction",
        [_cost(engine, lambda connection: connection.execute(text(weekly))) for _ in range(200)],
        [_cost(engine, lambda connection: connection.execute(text(plain))) for _ in range(200)],
    )
    of_tables = [
        [_cost(engine, lambda connection: _look(connection, table, host)) for host in range(1, 201)]  # noqa: B023
        for table in ("weekly", "steps")
    ]
    yield _row("the steps of a build, for a page", *of_tables)


def _look(connection: Connection, table: str, host: int) -> None:
    connection.execute(text(_PAGE.format(table=table)), {"host": host, "build": WEEKS // 2}).all()


def _forgetting(engine: Engine) -> Iterator[Row]:
    """Compare housekeeping. Each measurement deletes another week, oldest first."""
    weeks = iter(range(1, WEEKS))
    for share in SHARES:
        stays = round(BUILDS * share)
        by_partition, by_row = [], []
        for _ in range(ROUNDS):
            week = next(weeks)
            by_partition.append(_total(_dropping(engine, week, stays)))
            by_row.append(_total(_deleting(engine, week, stays)))
        yield _row(f"a week is forgotten of which {share:.0%} stays", by_partition, by_row)


def _dropping(engine: Engine, week: int, stays: int) -> Iterator[Cost]:
    values = {"week": week, "most": stays}
    yield _cost(engine, lambda connection: connection.execute(text(_MOVE), values))
    yield _cost(engine, lambda connection: connection.execute(text(f"DROP TABLE weekly_{week}")))


def _deleting(engine: Engine, week: int, stays: int) -> Iterator[Cost]:
    going = [
        StoredBuild(
            host_id=host,
            number=week,
            updated_at=0,
            is_failure=False,
            is_latest=False,
            steps=STEPS,
            bundles=0,
            size=0,
        )
        for host in range(stays + 1, BUILDS + 1)
    ]
    for batch in purge.batches(going):
        yield _cost(engine, lambda connection: purge.delete_builds(connection, batch))  # noqa: B023


def _do(engine: Engine, statements: str) -> None:
    with engine.begin() as connection:
        for statement in filter(str.strip, statements.split(";")):
            connection.exec_driver_sql(statement)


def _cost(engine: Engine, do: Callable[[Connection], object]) -> Cost:
    """Measure a transaction until it is on disk."""
    with engine.connect() as connection:
        before = _written(connection)
        begun = time.perf_counter()
        with connection.begin():
            do(connection)
        seconds = time.perf_counter() - begun
        return Cost(seconds, _written(connection) - before)


def _written(connection: Connection) -> int:
    with connection.begin():
        place = text("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")
        return int(connection.execute(place).scalar_one())


def _total(costs: Iterator[Cost]) -> Cost:
    done = list(costs)
    return Cost(sum(one.seconds for one in done), sum(one.written for one in done))


def _row(what: str, weekly: list[Cost], plain: list[Cost]) -> Row:
    first, second = (
        (median(one.seconds for one in costs), median(one.written for one in costs))
        for costs in (weekly, plain)
    )
    return Row(
        what=f"{what}: partitions",
        measured=_text(*first),
        against="one table",
        reference=_text(*second),
        ratio=f"{first[0] / second[0]:.2f}",
    )


def _text(seconds: float, written: float) -> str:
    took = f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"
    return f"{took}, {written / 1e6:.1f} MB written" if written >= 5e4 else took


def main() -> int:
    """Return the exit status: 1 if PostgreSQL is not installed."""
    if postgresql.programs() is None:
        print("PostgreSQL is not installed", file=sys.stderr)
        return 1
    table = f"{machine()}\n\n{markdown(measured())}"
    replace_between(PAGE, "partitions", table)
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
