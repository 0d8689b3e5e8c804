"""`python -m bench.pages`: what a browser waits for at 10,000 hosts and 1,000,000 steps, on SQLite.

The collector runs as it does elsewhere, in a process of its own; pages are asked by a session, over HTTP.
"""

import contextlib
import http.client
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

from sqlalchemy import func, select

from bench.fleet import filled
from service_record.collector.access import Kind
from service_record.collector.store import tokens
from service_record.collector.store.database import Database, sqlite_url
from service_record.collector.store.schema import hosts

_TIMES: Final = 11
_PAGES: Final = {
    "fleet, the first 100 of 10,000": "/?all=1",
    "fleet, the last 100": "/?all=1&page=100",
    "fleet, the failed ones of a group": "/?all=1&verdict=failed&group=dc1",
    "host with 100 steps": "/hosts/node05000.example.com",
    "statistics": "/statistics?by=group&by=release",
}


class Visitor:
    """Somebody with a session."""

    def __init__(self, url: str, token: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
        self._cookie = ""
        form = urlencode({"token": token, "next": "/"})
        headers = {"Origin": url, "Content-Type": "application/x-www-form-urlencoded"}
        self._connection.request("POST", "/login", form, headers)
        answer = self._connection.getresponse()
        answer.read()
        self._cookie = answer.headers["Set-Cookie"].partition(";")[0]

    def milliseconds(self, path: str) -> float:
        """How long a whole page takes to come."""
        began = time.perf_counter()
        self._connection.request("GET", path, headers={"Cookie": self._cookie, "Accept": "text/html"})
        answer = self._connection.getresponse()
        answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise SystemExit(f"{path}: {answer.status}")
        return (time.perf_counter() - began) * 1000


@contextlib.contextmanager
def _collector(data: Path) -> Iterator[tuple[str, int]]:
    """A collector that serves a folder: its URL, and its process."""
    run = "from service_record.cli import main; main()"
    command = [sys.executable, "-c", run, "collector", "serve", "--data", str(data), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        url = next(line.split()[-1] for line in serving.stderr if "listening on" in line)
        yield url, serving.pid
        serving.terminate()


def _wait_for_verdicts(data: Path) -> None:
    """Until every host has been judged: nothing else is to be done then but pages."""
    database = Database(sqlite_url(data))
    waiting = select(func.count()).where(hosts.c.due_at == 0)
    left = 1
    while left:
        time.sleep(1)
        with database.reading() as connection:
            left = connection.execute(waiting).scalar_one()
    database.close()


def _megabytes(process: int) -> int:
    """The most memory that a process has had."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def main() -> None:
    """Fill a database, ask for pages, and print what that took: first, in the middle, and at best."""
    with tempfile.TemporaryDirectory() as directory:
        database = Database(sqlite_url(Path(directory)))
        database.migrate()
        filled(database)
        new = tokens.NewToken(kind=Kind.READER, created_by="bench")
        with database.changing() as connection:
            token = tokens.create(connection, new, time.time())
        database.close()
        with _collector(Path(directory)) as (url, process):
            _wait_for_verdicts(Path(directory))
            visitor = Visitor(url, token)
            for name, path in _PAGES.items():
                first = visitor.milliseconds(path)
                later = [visitor.milliseconds(path) for _ in range(_TIMES)]
                middle, best = statistics.median(later), min(later)
                print(f"{name:<40}{first:>8.0f} ms{middle:>8.0f} ms{best:>8.0f} ms")
            print(f"{'memory at most':<40}{_megabytes(process):>8} MB")


if __name__ == "__main__":
    main()
