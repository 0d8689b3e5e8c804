"""`service-record` as a person starts it: a process of its own."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.prepared import MAX_REQUEST_BYTES, Prepared, Start

PROGRAM = [sys.executable, "-c", "from service_record.cli import main; main(prog_name='service-record')"]
TIMEOUT_SECONDS: Final = 60
_TERMINAL_VARIABLES = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PAGER", "SERVICE_RECORDS_DIR"}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    out: str
    err: str


def environment(**variables: str) -> Mapping[str, str]:
    """This process's environment, in New York, without what tells programs about their terminal."""
    kept = {name: value for name, value in os.environ.items() if name not in _TERMINAL_VARIABLES}
    return kept | {"TZ": "America/New_York", "TERM": "xterm"} | variables


@cache
def prepared() -> Prepared:
    """Return the process that starts the command line for all tests of this one."""
    return Prepared()


def service_record(
    *arguments: object, stdin: bytes = b"", cwd: Path | None = None, **variables: str
) -> Answer:
    """Start `service-record` and wait for its end; it has imported already what it needs."""
    umask = os.umask(0o022)
    os.umask(umask)
    words = [*map(str, arguments)]
    start = Start(words, environment(**variables), str(cwd or Path.cwd()), umask)
    is_special = any(name.startswith("PYTHON") for name in variables)  # Python reads them as it starts
    if is_special or sum(map(len, words)) > MAX_REQUEST_BYTES / 4:
        return _started_anew(start, stdin)
    return answer_of(start, stdin)


def answer_of(start: Start, stdin: bytes = b"") -> Answer:
    """Have the prepared process start this, and wait for its end."""
    (reads, feeds), (out, outs), (err, errs) = (os.pipe() for _ in range(3))
    with ThreadPoolExecutor(3) as threads:
        try:
            started = prepared().start(start, [reads, outs, errs])
        finally:
            for descriptor in (reads, outs, errs):
                os.close(descriptor)
        killing = threading.Timer(TIMEOUT_SECONDS, os.kill, [started.pid, signal.SIGKILL])
        killing.start()
        threads.submit(_feed, feeds, stdin)
        said = [threads.submit(_drained, descriptor) for descriptor in (out, err)]
        status = started.wait()
        killing.cancel()
        return Answer(status, *(text.result().decode() for text in said))


def _feed(descriptor: int, content: bytes) -> None:
    with suppress(BrokenPipeError), open(descriptor, "wb") as stream:
        stream.write(content)


def _drained(descriptor: int) -> bytes:
    with open(descriptor, "rb") as stream:
        return stream.read()


def _started_anew(start: Start, stdin: bytes) -> Answer:
    done = subprocess.run(
        [*PROGRAM, *start.arguments],
        input=stdin,
        capture_output=True,
        env=start.environment,
        cwd=start.directory,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())
