"""What a disk does to the database for a moment is over when it is over."""

import subprocess
import sys
from pathlib import Path

import pytest

from service_record.collector.store.database import FILE, Database, sqlite_url
from tests.programs import REPOSITORY
from tests.torture.injection import cannot_trace

WRITER = """
import sys, time
from service_record.collector.access import Kind
from service_record.collector.store import tokens
from service_record.collector.store.database import Database, sqlite_url
from service_record.collector.store.writer import Unavailable, Writer
from pathlib import Path

database = Database(sqlite_url(Path(sys.argv[1])))
writer = Writer(database)
for _ in range(2):
    try:
        new = tokens.NewToken(kind=Kind.ADMIN)
        writer.change(lambda connection: tokens.create(connection, new, time.time())).result()
        print("kept")
    except Unavailable:
        print("unavailable")
writer.close()
"""


@pytest.mark.skipif(cannot_trace() is not None, reason=f"cannot be had here: {cannot_trace()}")
def test_a_file_that_could_once_not_be_opened_for_writing_is_written_to_the_next_time(tmp_path: Path) -> None:
    """SQLite opens it for reading then, and the connection is for reading only as long as it lasts."""
    database = Database(sqlite_url(tmp_path))
    database.migrate()
    database.close()
    once = ("-P", str(tmp_path / FILE), "-e", "trace=openat", "-e", "inject=openat:error=EIO:when=1")
    strace = ["strace", "-f", "-qq", "-e", "signal=none", "-o", str(tmp_path / "trace"), *once]

    said = subprocess.run(
        [*strace, sys.executable, "-c", WRITER, str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "(INJECTED)" in (tmp_path / "trace").read_text()
    assert said.stdout.split() == ["unavailable", "kept"], said
