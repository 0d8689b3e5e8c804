"""The database works again after a temporary fault of the disk."""

import subprocess
import sys
from pathlib import Path

import pytest

from service_record.collector.store.database import FILE, Database, sqlite_url
from tests.collector.serving import RunningCollector
from tests.full_disk import limit_file_size
from tests.programs import REPOSITORY
from tests.torture.injection import find_tracing_obstacle

WRITER = """
import sys, time
from service_record.collector.domain.access import TokenKind
from service_record.collector.store import tokens
from service_record.collector.store.database import Database, sqlite_url
from service_record.collector.store.row_writer import DatabaseWriter, Unavailable
from pathlib import Path

database = Database(sqlite_url(Path(sys.argv[1])))
writer = DatabaseWriter(database)
for _ in range(2):
    try:
        new = tokens.TokenRequest(kind=TokenKind.ADMIN)
        writer.change(lambda connection: tokens.create(connection, new, time.time())).result()
        print("kept")
    except Unavailable:
        print("unavailable")
writer.close()
"""
pytestmark = pytest.mark.skipif(
    find_tracing_obstacle() is not None, reason=f"not available here: {find_tracing_obstacle()}"
)


def change_with_fault(call: str, folder: Path) -> list[str]:
    """Return the results of two changes of a database. A system call on its file fails once."""
    database = Database(sqlite_url(folder))
    database.migrate()
    database.close()
    trace, file = folder / "trace", folder / FILE
    once = ("-P", file, "-e", f"trace={call}", "-e", f"inject={call}:error=EIO:when=1")
    strace = ("strace", "-f", "-qq", "-e", "signal=none", "-o", trace)
    program = subprocess.run(
        [*strace, *once, sys.executable, "-c", WRITER, folder],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "(INJECTED)" in trace.read_text()
    return program.stdout.split()


def test_write_works_again_after_failed_open(tmp_path: Path) -> None:
    """SQLite then opens the file read-only, and this connection stays read-only."""
    assert change_with_fault("openat", tmp_path) == ["unavailable", "kept"]


def test_collector_that_cannot_write_is_not_ready(sqlite_server: RunningCollector) -> None:
    stranger = sqlite_server.stranger
    assert stranger.get("/readyz").status == 200

    with limit_file_size(1):
        refused = stranger.get("/readyz")
        alive = stranger.get("/healthz")

    assert (refused.status, refused.body) == (503, b"the database cannot be written\n")
    assert alive.status == 200
    assert stranger.get("/readyz").status == 200
