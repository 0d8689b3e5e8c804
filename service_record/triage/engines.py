"""Judging many bundles at once: by programs of this machine, or on a Dask cluster."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Final

import msgspec

from service_record.http.address import CollectorError
from service_record.triage.judge import JudgeRequest
from service_record.triage.references import local_file
from service_record.triage.rows import BundleRow, Reference, unreadable_row

_TRIES: Final = 3
_AHEAD: Final = 4
"""The number of bundles that wait for each worker, so that memory does not grow with their number."""
_PROGRAM: Final = (sys.executable, "-m", "service_record.triage.judge")

Rows = tuple[BundleRow, ...]


class JudgeProgram:
    """A program that judges one bundle after another. It is started again when it has died."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def rows(self, request: JudgeRequest) -> Rows:
        """Return the rows of a bundle; after three deaths of the program, a row that says so."""
        for _ in range(_TRIES):
            line = self._ask(msgspec.json.encode(request) + b"\n")
            if line.endswith(b"\n"):
                return msgspec.json.decode(line, type=Rows)
            self.close()
        return (unreadable_row(request.reference, f"not judged: its reader died {_TRIES} times"),)

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _ask(self, line: bytes) -> bytes:
        """Return the line that answers; one without an end when the program has died."""
        if self._child is None:
            self._child = subprocess.Popen(_PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        stdin, stdout = self._child.stdin, self._child.stdout
        if stdin is None or stdout is None:
            return b""
        try:
            stdin.write(line)
            stdin.flush()
            return stdout.readline()
        except BrokenPipeError:
            return b""


_OF_THREAD = threading.local()


def judge_reference(reference: Reference) -> Rows:
    """Return the rows of a bundle, by a program that this thread keeps for the next one, too."""
    if not hasattr(_OF_THREAD, "program"):
        _OF_THREAD.program = JudgeProgram()
    program: JudgeProgram = _OF_THREAD.program
    try:
        with local_file(reference) as path:
            return program.rows(JudgeRequest(reference, str(path)))
    except (OSError, CollectorError) as reason:
        return (unreadable_row(reference, str(reason)),)


def judge_here(references: Iterable[Reference], workers: int) -> Iterator[Rows]:
    """Yield the rows of each bundle as they come, by so many programs at once."""
    with ThreadPoolExecutor(workers) as pool:
        yield from _windowed(references, workers * _AHEAD, lambda one: pool.submit(judge_reference, one))


def judge_on_dask(references: Iterable[Reference], address: str) -> Iterator[Rows]:
    """Yield the rows of each bundle as they come, judged by the workers of a Dask scheduler.

    The workers need this package, and see the bundles under the same names. A task whose worker dies is given
    to another. Raises OSError when the scheduler does not answer.
    """
    from distributed import Client, as_completed  # an extra

    with Client(address) as client:
        window = _AHEAD * max(sum(client.nthreads().values()), 1)
        waiting = iter(references)
        submit: Callable[[Reference], object] = lambda one: client.submit(  # noqa: E731
            judge_reference, one, key=f"triage-{one.key}", retries=_TRIES
        )
        running = as_completed([submit(one) for one in islice(waiting, window)])
        for done in running:
            reference = next(waiting, None)
            if reference is not None:
                running.add(submit(reference))
            yield done.result()


def _windowed(
    references: Iterable[Reference], window: int, submit: Callable[[Reference], "Future[Rows]"]
) -> Iterator[Rows]:
    """Yield results as they come, with at most so many references under way."""
    waiting = iter(references)
    running = {submit(one) for one in islice(waiting, window)}
    while running:
        done, running = wait(running, return_when=FIRST_COMPLETED)
        running.update(submit(one) for one in islice(waiting, len(done)))
        yield from (one.result() for one in done)
