"""The rows of all bundles judged so far: Parquet files in a folder or an object store, read by DuckDB."""

import errno
import time
import uuid
from collections.abc import Generator, Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec
import pyarrow as pa
from pyarrow import dataset, fs, parquet

from service_record.record.atomic_write import write_whole
from service_record.triage.references import TriageError, is_store, open_store
from service_record.triage.rows import BundleRow

_SUFFIX: Final = ".parquet"
_WRITE_SECONDS: Final = 5.0
_MAX_ROWS: Final = 2000
_REQUIRED: Final = {"key", "uri", "verdict", "judged"}
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
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
"""The columns of an index: one for each field of BundleRow."""

_BUNDLES: Final = """
create temp table everything as
select *, row_number() over same as copy,
    first_value(uri || coalesce(': ' || nullif(member, ''), '')) over same as original
from (
    select * exclude (newest, turn) from (
        select *,
            first_value(key) over (partition by uri order by judged desc, key) as newest,
            row_number() over (partition by uri, member order by judged desc, key) as turn
        from parts
    ) where key = newest and turn = 1
)
window same as (
    partition by case when digest = '' then uri || member else digest end order by judged desc, uri
);
create temp table bundles as
select * exclude (copy, original),
    case when latest between timestamptz '2010-01-01' and judged + interval 1 day then latest end as moment,
    case when lower(host) in ('', '(none)', 'localhost', 'localhost.localdomain') then uri || member
        when cluster <> '' then cluster || '/' || host else host end as machine
from everything where copy = 1;
create temp table copies as select uri, member, original from everything where copy > 1;
drop table everything
"""
"""The latest judgement of each bundle; copies of a bundle are in `copies` and do not count.

`moment` is `latest`, or empty if the host's clock was wrong: after the time of the judgement (plus a day), or
before any service was recorded. `machine` identifies the host as far as its bundle names it.
"""
_BAD: Final = """
create temp view bad as
select * from bundles where verdict in ('failed', 'looping', 'stuck', 'interrupted')
    or cause <> '' or (verdict = 'unknown' and line <> '')
"""


class Index:
    """Parquet files with a row for each host of each bundle. A file is added whole, and never changed.

    `left_out` maps the path of each file that was not read to the reason: damaged, or not an index file.
    """

    def __init__(self, place: str, *, create: bool = False) -> None:
        """Open an index. Raises TriageError if the folder does not exist and `create` is false."""
        self.place = place
        self.left_out: dict[str, str] = {}
        self.added = 0
        if is_store(place):
            self._files, self._path = open_store(place)
        else:
            if create:
                Path(place).mkdir(parents=True, exist_ok=True)
            elif not Path(place).is_dir():
                raise TriageError(f"{place}: no such index; triage --index {place} SOURCE makes it")
            self._files, self._path = fs.LocalFileSystem(), str(Path(place).absolute())

    def read_keys(self) -> set[str]:
        """Return the keys of all bundles that have a row."""
        keys: set[str] = set()
        for table in self._tables(["key"]):
            keys.update(table.column("key").to_pylist())
        return keys

    def add(self, rows: Sequence[BundleRow]) -> None:
        """Write rows as one more file. Raises TriageError if they could not be written."""
        if not rows:
            return
        self.added += len(rows)
        table = pa.Table.from_pylist([_make_columns(row) for row in rows], SCHEMA)
        data = BytesIO()
        parquet.write_table(table, data, compression="zstd")
        name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{uuid.uuid4().hex}{_SUFFIX}"
        path = f"{self._path}/{name}"
        try:
            if isinstance(self._files, fs.LocalFileSystem):
                write_whole(Path(path), data.getvalue(), 0o644)
            else:  # other readers see an object only when it is complete
                with self._files.open_output_stream(path) as stream:
                    stream.write(data.getvalue())
        except OSError as error:
            advice = "; make room there and run it again" if error.errno in _FULL else ""
            raise TriageError(
                f"{self.place}: {len(rows)} rows could not be written: {error.strerror or error}{advice}"
            ) from None

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Return a database with the tables `bundles`, `bad` and `copies`."""
        connection = duckdb.connect(":memory:", config={"threads": 2, "preserve_insertion_order": False})
        connection.register("parts", pa.concat_tables([SCHEMA.empty_table(), *self._tables()]))
        connection.execute("set timezone = 'UTC'")
        connection.execute(_BUNDLES)
        connection.execute(_BAD)
        connection.unregister("parts")
        return connection

    def _tables(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of each file. Raises TriageError if the place cannot be listed."""
        try:
            infos = self._files.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        except OSError as error:
            raise TriageError(f"{self.place}: {error}") from None
        for path in sorted(each.path for each in infos if each.path.endswith(_SUFFIX)):
            try:
                with self._files.open_input_file(path) as stream:
                    names = set(parquet.read_schema(stream).names)
                if not names >= _REQUIRED:
                    self.left_out[path] = "not a file of an index"
                    continue
                # Missing columns of an older version become empty.
                yield dataset.dataset([path], SCHEMA, filesystem=self._files).to_table(columns=columns)
            except (pa.ArrowException, OSError) as error:
                self.left_out[path] = f"damaged: {str(error).splitlines()[0]}"


def run_query(index: Index, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and rows of a user's query. Raises TriageError.

    The query sees the tables `bundles`, `bad` and `copies`, and no file of this machine.
    """
    connection = index.connect()
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    try:
        # For an empty query, duckdb returns None, although its types do not allow that.
        answer: duckdb.DuckDBPyConnection | None = connection.execute(query)
        columns = [column[0] for column in answer.description or ()] if answer is not None else []
        rows = answer.fetchall() if answer is not None and columns else []
    except duckdb.Error as error:
        raise TriageError(f"the query failed: {str(error).splitlines()[0]}") from None
    if not columns:
        raise TriageError('the query has no answer; ask for example "select count(*) from bundles"')
    return columns, rows


def _make_columns(row: BundleRow) -> dict[str, Any]:
    columns = msgspec.structs.asdict(row)
    columns["stages"] = list(row.stages.items())
    for name in _TIMES:
        columns[name] = None if columns[name] is None else round(columns[name] * 1000)
    return columns


def add_in_parts(index: Index, answers: Iterable[tuple[BundleRow, ...]]) -> Generator[int, None, None]:
    """Write rows to the index every few seconds, and yield the number of bundles judged so far.

    The last rows are written when the caller stops, even if it stops because of an error.
    """
    waiting: list[BundleRow] = []
    count = 0
    due = time.monotonic() + _WRITE_SECONDS
    try:
        for rows in answers:
            waiting += rows
            count += bool(rows)
            if waiting and (time.monotonic() >= due or len(waiting) >= _MAX_ROWS):
                written, waiting = waiting, []
                index.add(written)
                due = time.monotonic() + _WRITE_SECONDS
            yield count
    finally:
        index.add(waiting)
