"""The rows of all bundles judged so far: Parquet files in a folder or an object store, read by DuckDB."""

import time
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec
import pyarrow as pa
from pyarrow import dataset, fs, parquet

from service_record.triage.references import TriageError, is_store, store_of
from service_record.triage.rows import BundleRow

_SUFFIX: Final = ".parquet"
_TYPES: Final = {
    str: pa.string(),
    int: pa.int64(),
    float | None: pa.float64(),
    float: pa.float64(),
    dict[str, float]: pa.map_(pa.string(), pa.float64()),
}
_TIMES: Final = ("since", "latest", "judged")
SCHEMA: Final = pa.schema(
    (field.name, pa.timestamp("ms", "UTC") if field.name in _TIMES else _TYPES[field.type])
    for field in msgspec.structs.fields(BundleRow)
)
"""The columns of a row, as BundleRow has them."""

_LATEST: Final = """
create temp table bundles as
select * exclude (n), case when host = '' then uri || member else host end as machine from (
    select *, row_number() over (
        partition by case when digest = '' then uri else digest end, member order by judged desc, key
    ) as n
    from (
        select * exclude (v) from (
            select *, row_number() over (partition by uri, member order by judged desc, key) as v from parts
        ) where v = 1
    )
) where n = 1
"""
"""A bundle that was judged again counts as it was judged last; a copy of a bundle does not count."""
_BAD: Final = """
create temp view bad as
select * from bundles where verdict in ('failed', 'looping', 'stuck', 'interrupted') or cause <> ''
    or (verdict = 'unknown' and line <> '')
"""


class Index:
    """Parquet files with a row for each host of each bundle. Each is added whole, and never changed."""

    def __init__(self, place: str, *, create: bool = False) -> None:
        """Raise TriageError where the folder is not there, unless it is to be made."""
        self.place = place
        if is_store(place):
            self._files, self._path = store_of(place)
        else:
            if create:
                Path(place).mkdir(parents=True, exist_ok=True)
            elif not Path(place).is_dir():
                raise TriageError(f"{place}: no such index; triage --index {place} SOURCE makes it")
            self._files, self._path = fs.LocalFileSystem(), str(Path(place).absolute())

    def known_keys(self) -> set[str]:
        names = self._names()
        if not names:
            return set()
        table = dataset.dataset(names, SCHEMA, filesystem=self._files).to_table(columns=["key"])
        return set(table.column("key").unique().to_pylist())

    def add(self, rows: Sequence[BundleRow]) -> None:
        """Write rows as one more file. Raises OSError."""
        if not rows:
            return
        table = pa.Table.from_pylist([_columns(row) for row in rows], SCHEMA)
        name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{uuid.uuid4().hex}"
        path = f"{self._path}/{name}{_SUFFIX}"
        if isinstance(self._files, fs.LocalFileSystem):
            part = f"{path}.part"
            parquet.write_table(table, part, filesystem=self._files, compression="zstd")
            self._files.move(part, path)
        else:  # an object is there when all of it has been sent
            parquet.write_table(table, path, filesystem=self._files, compression="zstd")

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Return a database with the table `bundles`: the latest row of each bundle."""
        connection = duckdb.connect(":memory:", config={"threads": 2, "preserve_insertion_order": False})
        names = self._names()
        parts: Any = dataset.dataset(names, SCHEMA, filesystem=self._files) if names else SCHEMA.empty_table()
        connection.register("parts", parts)
        connection.execute("set timezone = 'UTC'")
        connection.execute(_LATEST)
        connection.execute(_BAD)
        connection.unregister("parts")
        return connection

    def _names(self) -> list[str]:
        """Return the files of the index. Raises TriageError where there is no such place."""
        try:
            infos = self._files.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        except OSError as error:
            raise TriageError(f"{self.place}: {error}") from None
        return sorted(each.path for each in infos if each.path.endswith(_SUFFIX))


def ask(index: Index, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and rows that a query of somebody's comes to. Raises TriageError.

    The query sees the table `bundles` and no file of this machine.
    """
    connection = index.connect()
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    try:
        answer = connection.execute(query)
        columns = [column[0] for column in answer.description or ()]
        return columns, answer.fetchall()
    except duckdb.Error as error:
        raise TriageError(f"the query failed: {str(error).splitlines()[0]}") from None


def _columns(row: BundleRow) -> dict[str, Any]:
    columns = msgspec.structs.asdict(row)
    columns["stages"] = list(row.stages.items())
    for name in _TIMES:
        columns[name] = None if columns[name] is None else round(columns[name] * 1000)
    return columns


def add_in_parts(index: Index, answers: Iterable[tuple[BundleRow, ...]], rows_each: int) -> Iterable[int]:
    """Write rows as they come, so many in a file, and yield how many bundles have been judged so far."""
    waiting: list[BundleRow] = []
    count = 0
    try:
        for rows in answers:
            waiting += rows
            count += 1
            if len(waiting) >= rows_each:
                index.add(waiting)
                waiting = []
            yield count
    finally:
        index.add(waiting)
