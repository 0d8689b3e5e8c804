"""Measure a boot storm: many hosts that report through the real snippets with one token of their group.

Each host is a shell with the snippet's functions, and curl or wget. One machine can only start so many at a
time, so the row has the processor time of the shells beside the time that it took.
"""

import os
import resource
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from sqlalchemy import func, select

from bench.table import Row
from service_record.collector.domain.access import TokenKind
from service_record.collector.store import tokens
from service_record.collector.store.database import Database, sqlite_url
from service_record.collector.store.schema import hosts, steps
from service_record.deploy.snippets import SnippetValues, snippet

HOSTS: Final = 1_000
AT_ONCE: Final = 64
"""Shells that run at the same time."""
REPORTS: Final = 2
MOST_SECONDS: Final = 60.0
_LONGEST_WAIT: Final = 300.0
_STEPS: Final = """
service_record_step 'Disk setup' init
service_record_step 'Disk setup' "done" 50
wait
"""


def rows(folder: Path, collector: Callable[[Path], AbstractContextManager[tuple[int, int]]]) -> list[Row]:
    """Run the storm; every report must be stored once."""
    folder.mkdir(parents=True)
    database = Database(sqlite_url(folder))
    database.migrate()
    with database.changing() as connection:
        new = tokens.TokenRequest(kind=TokenKind.GROUP, scope="dc1")
        token = tokens.create(connection, new, time.time())
    (folder / "token").write_text(token)
    with collector(folder) as (port, _):
        values = SnippetValues(
            service="bash",
            url=f"http://127.0.0.1:{port}",
            host="NAME-OF-THE-HOST",
            token_file=str(folder / "token"),
        )
        text = snippet("bash", values, ())
        shells = _processor()
        began = time.monotonic()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda number: _boot(folder, text, f"storm{number}"), range(HOSTS)))
        until = began + _LONGEST_WAIT
        while (found := _counts(database)) != (HOSTS, HOSTS * REPORTS) and time.monotonic() < until:
            time.sleep(0.1)
        seconds, shells = time.monotonic() - began, _processor() - shells
    database.close()
    is_whole = found == (HOSTS, HOSTS * REPORTS)
    return [
        Row(
            what=f"collector: {HOSTS:,} hosts boot with the snippets, until all reports are stored",
            measured=f"{seconds:.0f} s",
            against="processor time of the shells",
            reference=f"{shells:.0f} s",
            limit=f"{MOST_SECONDS:.0f} s",
            holds=seconds <= MOST_SECONDS,
        ),
        Row(
            what="the same: hosts, reports stored",
            measured=f"{found[0]:,}, {found[1]:,}",
            limit=f"{HOSTS:,}, {HOSTS * REPORTS:,}",
            holds=is_whole,
        ),
    ]


def _boot(folder: Path, text: str, name: str) -> None:
    environment = {**os.environ, "SERVICE_RECORDS_DIR": str(folder / "records" / name)}
    script = text.replace("NAME-OF-THE-HOST", name) + _STEPS
    subprocess.run(
        ["bash", "-c", script],
        env=environment,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _counts(database: Database) -> tuple[int, int]:
    with database.reading() as connection:
        return (
            int(connection.execute(select(func.count()).select_from(hosts)).scalar_one()),
            int(connection.execute(select(func.count()).select_from(steps)).scalar_one()),
        )
