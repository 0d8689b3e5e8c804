"""Judge many bundles at once, by programs on this machine or on a Dask cluster."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from itertools import islice
from queue import SimpleQueue
from typing import Final

import msgspec

from service_record.http.address import CollectorError
from service_record.triage.judge import JudgeRequest
from service_record.triage.references import local_file
from service_record.triage.rows import BundleRow, Reference, make_unreadable_row

_TRIES: Final = 3
_AHEAD: Final = 4
"""Bundles that wait for each worker; a limit keeps memory independent of the number of bundles."""
_TICK_SECONDS: Final = 5.0
_PROGRAM: Final = (sys.executable, "-m", "service_record.triage.judge")

Rows = tuple[BundleRow, ...]


class JudgeProgram:
    """A child program that judges one bundle after another. A program that has died is started again."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def judge(self, reference: Reference) -> Rows:
        """Return the rows of a bundle. Never raises for a bundle: the reason becomes its row."""
        try:
            with local_file(reference) as path:
                return self.rows(JudgeRequest(reference, path))
        except CollectorError as reason:
            return (make_unreadable_row(reference, str(reason)),)
        except OSError as reason:
            return (make_unreadable_row(reference, reason.strerror or str(reason)),)
        except Exception as fault:  # noqa: BLE001  # one bad bundle must not end the run
            return (make_unreadable_row(reference, f"not judged: {type(fault).__name__}: {fault}"),)

    def rows(self, request: JudgeRequest) -> Rows:
        """Return the rows of a bundle; after three deaths of the program, a row that says so."""
        for _ in range(_TRIES):
            line = self._ask(msgspec.json.encode(request) + b"\n")
            if line.endswith(b"\n"):
                return msgspec.json.decode(line, type=Rows)
            if self._is_stopped:
                break
            self._end()
        return (make_unreadable_row(request.reference, f"not judged: its reader died {_TRIES} times"),)

    def stop(self) -> None:
        """End the program and its children. Other threads may call this."""
        self._is_stopped = True
        self._end()

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _ask(self, line: bytes) -> bytes:
        """Return the line that answers; without a newline if the program has died."""
        if self._child is None:
            # A group of its own: Ctrl-C does not reach it, and one signal ends it with its children.
            self._child = subprocess.Popen(
                _PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
            )
        stdin, stdout = self._child.stdin, self._child.stdout
        if stdin is None or stdout is None:
            return b""
        try:
            stdin.write(line)
            stdin.flush()
            return stdout.readline()
        except BrokenPipeError:
            return b""


_THREAD = threading.local()


def judge_reference(reference: Reference) -> Rows:
    """Return the rows of a bundle; a worker of Dask keeps the program for the next bundle."""
    if not hasattr(_THREAD, "program"):
        _THREAD.program = JudgeProgram()
    program: JudgeProgram = _THREAD.program
    return program.judge(reference)


def judge_here(references: Iterable[Reference], workers: int) -> Generator[Rows, None, None]:
    """Judge bundles in `workers` programs, and yield the rows of each bundle when it is done.

    Yields nothing at least every five seconds, so that the caller can save rows while a bundle takes long.
    """
    programs = [JudgeProgram() for _ in range(workers)]
    idle: SimpleQueue[JudgeProgram] = SimpleQueue()
    for program in programs:
        idle.put(program)

    def judge(reference: Reference) -> Rows:
        program = idle.get()
        try:
            return program.judge(reference)
        finally:
            idle.put(program)

    pool = ThreadPoolExecutor(workers)
    try:
        waiting = iter(references)
        running = {pool.submit(judge, one) for one in islice(waiting, workers * _AHEAD)}
        while running:
            done, running = wait(running, _TICK_SECONDS, return_when=FIRST_COMPLETED)
            running.update(pool.submit(judge, one) for one in islice(waiting, len(done)))
            yield from [one.result() for one in done] or [()]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for program in programs:
            program.stop()
        pool.shutdown()


def judge_on_dask(references: Iterable[Reference], address: str) -> Generator[Rows, None, None]:
    """Judge bundles on the workers of a Dask scheduler, and yield the rows of each bundle when it is done.

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
