"""Run one ingest of a collector on SQLite (a step, a batch of records, a bundle) while its system calls on
files and sockets fail, or while its files cannot grow.

Whatever fails, acknowledged data is stored once and unchanged, and other data is stored whole or not at all.
After the client has tried again, the data is stored once. The collector continues, or has ended and a new one
continues with its data.
"""

import http.client
import re
import resource
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import Final

from service_record.collector.store.database import FILE
from tests.collector.fork_collectors import ForkedCollector
from tests.collector.serving import Client, Reply
from tests.torture.ingests import (
    ACCEPTED,
    BUNDLE,
    PAGE_BYTES,
    WAL,
    Collectors,
    Ingest,
    StoredData,
    make_bundle,
    read_data,
)
from tests.torture.injection import ERRORS, KILL, ON_FILES, Fault, was_injected
from tests.torture.tally import Deadline, Tally, judge_in_parallel, shuffle, sum_verdicts

REFUSED: Final = frozenset({503, 507})
"""Status codes for data that cannot be stored at the moment; see docs/collector-operation.md."""

_RECOVERY_SECONDS: Final = 20.0
"""Time in which a collector must recover after a fault."""
_DETACH_SECONDS: Final = 10.0
"""Time limit for strace to detach from a collector."""
_POLL_SECONDS, _WRITE_SECONDS = 0.01, 0.3
"""Seconds between two checks whether strace has detached, and seconds for strace to write the rest of its
trace after the collector has ended.
"""
_LINE: Final = re.compile(r"^(\d+) +([a-z]\w*)\((.*)")
_ABOUT: Final = re.compile(r'<(/[^>]*|socket:)|"(/[^"]*)"')
_VARYING: Final = re.compile(r"[0-9a-f]{12,}|(?<=upload-)\w+|(?<=look-)\w+")
_STRACE: Final = ("strace", "-f", "-s", "256", "-e", "signal=none")


@dataclass(frozen=True, slots=True)
class Case:
    """A failing call, and the file or socket that it is on."""

    fault: Fault
    target: str

    @property
    def may_break_connection(self) -> bool:
        """Return whether the fault may break a connection. Calls are counted per thread, whatever they are
        on, so a failing read or write may be on a socket.
        """
        return self.fault.call in {"read", "write"} or self.target == "socket:"

    def __str__(self) -> str:
        return f"{self.fault} ({self.target})"


@dataclass(frozen=True, slots=True)
class ShortWrite:
    """A limit of file size: the write that exceeds it is truncated."""

    size: int

    def __str__(self) -> str:
        return f"files end at {self.size} bytes"


@contextmanager
def _trace_calls(running: ForkedCollector, trace: Path, options: Sequence[str]) -> Iterator[None]:
    """Trace a collector with these options of strace during the block."""
    strace = [*_STRACE, "-o", str(trace), *options, "-p", str(running.pid)]
    with Popen(strace, stdin=DEVNULL, stderr=PIPE) as tracer:
        assert tracer.stderr
        line = tracer.stderr.readline()
        assert b"attached" in line, line
        try:
            yield
        finally:
            tracer.terminate()
            deadline = time.monotonic() + _DETACH_SECONDS
            while tracer.poll() is None and time.monotonic() < deadline and not running.is_dying:
                time.sleep(_POLL_SECONDS)
            with suppress(TimeoutExpired):  # strace may never end after its collector has
                tracer.wait(_WRITE_SECONDS)
            tracer.kill()


@contextmanager
def _limit_file_size(running: ForkedCollector, size: int) -> Iterator[None]:
    """Limit the file size of a collector during the block."""
    before = resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(running.pid, resource.RLIMIT_FSIZE, before)


def list_cases(ingest: Ingest, collectors: Collectors, path: str = "") -> list[Case]:
    """Return all cases of calls on files with `path` in their name, found by an ingest without faults. One
    case of each call on each file comes first.
    """
    with collectors.copy(ingest) as data, collectors.serve(data) as (running, client):
        trace = data.parent / "trace"
        read_data(client)
        with _trace_calls(running, trace, ("-y",)):
            assert ingest.send(client, 1).status in ACCEPTED
            tasks = running.tasks
        calls = [
            each for each in dict.fromkeys(_parse_calls(trace, tasks, str(data.parent))) if path in each[2]
        ]
    first = {(name, target): (name, number, target) for name, number, target in reversed(calls)}
    others = [each for each in calls if each not in first.values()]
    return [*shuffle(_list_call_cases(first.values())), *shuffle(_list_call_cases(others))]


def _parse_calls(trace: Path, tasks: frozenset[str], root: str) -> Iterator[tuple[str, int, str]]:
    """Yield the calls of a collector on its files and sockets: name, number in its thread, file or socket."""
    counts = Counter[tuple[str, str]]()
    for line in trace.read_text(errors="replace").splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        task, name, arguments = found.groups()
        counts[task, name] += 1
        targets = ["".join(each) for each in _ABOUT.findall(arguments)]
        own_targets = [each.replace(root, "") for each in targets if each.startswith((f"{root}/", "socket:"))]
        if own_targets and task in tasks and name in ON_FILES:
            yield name, counts[task, name], _VARYING.sub("*", own_targets[0])


def _list_call_cases(calls: Iterable[tuple[str, int, str]]) -> Iterator[Case]:
    for name, number, target in calls:
        for effect in ERRORS:
            yield Case(Fault(name, number, effect), target)
            yield Case(Fault(name, number, effect, persistent=True, is_retried=True), target)
        yield Case(Fault(name, number, KILL), target)


def list_short_writes(ingest: Ingest, collectors: Collectors, limit: int) -> list[ShortWrite]:
    """Return limits within the data that an ingest writes: to the write-ahead log, and for a bundle."""
    with collectors.copy(ingest) as data:
        begin = (data / WAL).stat().st_size
    sizes = [
        begin + part * PAGE_BYTES + offset for part in range(10) for offset in (0, 1, 12, 24, 25, 2000, 4119)
    ]
    if ingest is BUNDLE:
        sizes += [len(make_bundle(1)) * part // 20 for part in range(20)]
    return [ShortWrite(size) for size in shuffle(sizes)[:limit]]


def judge(ingest: Ingest, collectors: Collectors, case: Case | ShortWrite) -> tuple[bool, list[str]]:
    """Return whether the fault occurred, and the findings."""
    with collectors.copy(ingest) as data:
        try:
            occurred, findings = _judge_copy(ingest, collectors, data, case)
        except (AssertionError, OSError, http.client.HTTPException) as fault:
            occurred, findings = True, [f"{type(fault).__name__}: {str(fault)[:300]}"]
    return occurred, [f"{ingest}, {case}: {each}" for each in findings]


def _judge_copy(
    ingest: Ingest, collectors: Collectors, data: Path, case: Case | ShortWrite
) -> tuple[bool, list[str]]:
    before, trace = collectors.get_initial_data(ingest), data.parent / "trace"
    with collectors.serve(data) as (running, client):
        assert read_data(client) == before
        with inject_fault(running, trace, case):
            reply = _send(ingest, client, 1)
        findings = [*_check_reply(reply, case, has_ended=running.ends_within(0.2 if reply is None else 0))]
        allowed = [ingest.update(before, 1)]
        if reply is None or reply.status not in ACCEPTED:
            allowed.append(before)
        occurred = isinstance(case, ShortWrite) and reply is not None and reply.status in REFUSED
        occurred = occurred or (isinstance(case, Case) and was_injected(trace, case.fault))
        stored: StoredData | None = None
        if not running.has_ended:
            stored, new_findings = _check_retry(ingest, client, allowed)
            findings += new_findings
            allowed = [stored]
        running.kill()
    with collectors.serve(data) as (_, client):
        if stored is not None:
            found = read_data(client)
            findings += (
                [] if found == stored else [f"stored after a restart: {_describe_difference(found, stored)}"]
            )
        else:
            stored, new_findings = _check_retry(ingest, client, allowed)
            findings += new_findings
        assert ingest.send(client, 2).status in ACCEPTED
        found, stored = read_data(client), ingest.update(stored, 2)
        findings += (
            [] if found == stored else [f"stored after another ingest: {_describe_difference(found, stored)}"]
        )
    return occurred, [*findings, *_check_database(data)]


def inject_fault(
    running: ForkedCollector, trace: Path, case: Case | ShortWrite
) -> AbstractContextManager[None]:
    """Inject the fault into a collector during the block."""
    if isinstance(case, ShortWrite):
        return _limit_file_size(running, case.size)
    return _trace_calls(running, trace, case.fault.options)


def _send(ingest: Ingest, client: Client, number: int) -> Reply | None:
    """Return the reply; None where the connection broke."""
    try:
        return ingest.send(client, number)
    except TimeoutError:
        raise AssertionError("no reply") from None
    except (OSError, http.client.HTTPException):
        return None


def _check_reply(reply: Reply | None, case: Case | ShortWrite, *, has_ended: bool) -> Iterator[str]:
    if reply is None:
        if not has_ended and not (isinstance(case, Case) and case.may_break_connection):
            yield "the connection broke, but the collector runs"
        return
    if reply.status not in ACCEPTED | REFUSED:
        yield f"it answered with {reply.status}: {reply.body[:200]!r}"
    if b"Traceback" in reply.body:
        yield f"a traceback: {reply.body[:300]!r}"
    if reply.status in REFUSED and "retry-after" not in {name.lower() for name in reply.headers}:
        yield "the refusal has no Retry-After"


def _check_retry(
    ingest: Ingest, client: Client, allowed: Sequence[StoredData]
) -> tuple[StoredData, list[str]]:
    """Return the stored data after the client has tried again, and the findings."""
    found, findings = read_data(client), list[str]()
    if found not in allowed:
        findings.append(f"stored: {_describe_difference(found, allowed[0])}")
    deadline = time.monotonic() + _RECOVERY_SECONDS
    while (reply := ingest.send(client, 1)).status not in ACCEPTED and time.monotonic() < deadline:
        time.sleep(0.2)
    if reply.status not in ACCEPTED:
        return found, [*findings, f"the repeated request got {reply.status}: {reply.body[:200]!r}"]
    stored, expected = read_data(client), ingest.update(found, 1)
    if stored != expected:
        findings.append(f"stored after the repeated request: {_describe_difference(stored, expected)}")
    return stored, findings


def _describe_difference(found: StoredData, expected: StoredData) -> str:
    differences = [
        f"{getattr(found, name)!r} and not {getattr(expected, name)!r}"
        for name in ("steps", "record", "bundles")
        if getattr(found, name) != getattr(expected, name)
    ]
    return "; ".join(differences)


def _check_database(data: Path) -> list[str]:
    """Return the findings about the database that a collector leaves."""
    with closing(sqlite3.connect(data / FILE)) as database:
        rows = [row[0] for row in database.execute("PRAGMA integrity_check")]
        rows += [str(row) for row in database.execute("PRAGMA foreign_key_check")]
    return [] if rows == ["ok"] else [f"the database is damaged: {rows[:3]}"]


def torture(
    ingest: Ingest,
    collectors: Collectors,
    limit: int | None = None,
    deadline: Deadline | None = None,
    shorts: int = 90,
) -> Tally:
    """Try every fault of an ingest, at most `limit` of them, until the deadline."""
    faults = list_cases(ingest, collectors)
    cuts = list_short_writes(ingest, collectors, shorts)
    # Every fourth case is a short write: there are fewer of them, and each really writes to the disk.
    cases_to_try = list[Case | ShortWrite](faults)
    for number, cut in enumerate(cuts):
        cases_to_try.insert(4 * number, cut)
    cases, findings = sum_verdicts(
        judge_in_parallel(partial(judge, ingest, collectors), cases_to_try[:limit], deadline)
    )
    return Tally(
        target=str(ingest),
        calls=len({(case.fault.call, case.fault.number) for case in faults}),
        faults=2 * len(ERRORS) + 2,
        cases=cases,
        all_cases=len(cases_to_try),
        findings=findings,
    )
