"""Measure a boot storm: many hosts that report with the real snippets and one token of their group.

Each host is a shell with the snippet's functions, which run curl or wget. Starting the shells usually takes
longer than storing their reports, so the row also has the processor time of the shells.
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
PARALLEL_SHELLS: Final = 64
REPORTS_PER_HOST: Final = 2
MAX_SECONDS: Final = 60.0
_TIMEOUT_SECONDS: Final = 300.0
_STEPS: Final = """
service_record_step 'Disk setup' init
service_record_step 'Disk setup' "done" 50
wait
"""


def rows(folder: Path, collector: Callable[[Path], AbstractContextManager[tuple[int, int]]]) -> list[Row]:
    """Run the storm. Return its duration, and the numbers of stored hosts and reports.

    `collector` runs a collector with a folder, and yields its port and process id.
    """
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
        shells = _child_processor_seconds()
        began = time.monotonic()
        with ThreadPoolExecutor(PARALLEL_SHELLS) as pool:
            list(pool.map(lambda number: _run_host(folder, text, f"storm{number}"), range(HOSTS)))
        expected, until = (HOSTS, HOSTS * REPORTS_PER_HOST), began + _TIMEOUT_SECONDS
        while (stored := _count_stored(database)) != expected and time.monotonic() < until:
            time.sleep(0.1)
        seconds, shells = time.monotonic() - began, _child_processor_seconds() - shells
    database.close()
    return [
        Row(
            what=f"collector: {HOSTS:,} hosts boot with the snippets, until all reports are stored",
            measured=f"{seconds:.0f} s",
            against="processor time of the shells",
            reference=f"{shells:.0f} s",
            limit=f"{MAX_SECONDS:.0f} s",
            holds=seconds <= MAX_SECONDS,
        ),
        Row(
            what="the same: hosts, reports stored",
            measured=f"{stored[0]:,}, {stored[1]:,}",
            limit=f"{expected[0]:,}, {expected[1]:,}",
            holds=stored == expected,
        ),
    ]


def _run_host(folder: Path, text: str, name: str) -> None:
    """Report two steps of a host in a shell, and wait until the shell ends."""
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


def _child_processor_seconds() -> float:
    """Return the processor time of all children of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _count_stored(database: Database) -> tuple[int, int]:
    """Return the numbers of stored hosts and reports."""
    with database.reading() as connection:
        return (
            int(connection.execute(select(func.count()).select_from(hosts)).scalar_one()),
            int(connection.execute(select(func.count()).select_from(steps)).scalar_one()),
        )
