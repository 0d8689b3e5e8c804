"""One ingest of a collector on SQLite (a step, a batch of records, a bundle), with each of its system calls
on files and sockets made to fail, and with files that grow no further in the midst of a write.

Whatever fails, what was acknowledged is there, once and unchanged; what was not is there whole, or not at
all; and it is there once when the client has tried again. The collector goes on, or has ended, and then the
next one goes on where it was.
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
from tests.collector.at_once import Running
from tests.collector.serving import Client, Reply
from tests.torture.ingests import ACCEPTED, BUNDLE, PAGE, WAL, Collectors, Ingest, Kept, bundle, kept_by
from tests.torture.injection import ERRORS, KILL, ON_FILES, Fault, injected
from tests.torture.tally import Tally, Until, at_once, shuffled, summed

REFUSED: Final = frozenset({503, 507})
"""Status of an answer when nothing can be kept at the moment; docs/collector-operation.md."""

_SECONDS: Final = 20.0
"""Time in which a collector has to go on after a fault is over."""
_DETACHING: Final = 10.0
"""Seconds that strace has to let go of a collector."""
_LOOK, _WRITING = 0.01, 0.3
"""Seconds between two looks whether it has, and to write what it saw of one that has ended."""
_LINE: Final = re.compile(r"^(\d+) +([a-z]\w*)\((.*)")
_ABOUT: Final = re.compile(r'<(/[^>]*|socket:)|"(/[^"]*)"')
_VARYING: Final = re.compile(r"[0-9a-f]{12,}|(?<=upload-)\w+|(?<=look-)\w+")
_STRACE: Final = ("strace", "-f", "-s", "256", "-e", "signal=none")


@dataclass(frozen=True, slots=True)
class Case:
    """A call that fails, and what it is about."""

    fault: Fault
    on: str

    @property
    def is_on_a_socket(self) -> bool:
        """Return whether a connection may break of it: calls are counted in each thread, whatever they are
        on.
        """
        return self.fault.call in {"read", "write"} or self.on == "socket:"

    def __str__(self) -> str:
        return f"{self.fault} ({self.on})"


@dataclass(frozen=True, slots=True)
class ShortWrite:
    """No file of the collector can be made longer than that: the write that would is cut short."""

    size: int

    def __str__(self) -> str:
        return f"files end at {self.size} bytes"


@contextmanager
def _traced(running: Running, trace: Path, options: Sequence[str]) -> Iterator[None]:
    """Follow a collector, with these options of strace, until the end of the block."""
    strace = [*_STRACE, "-o", str(trace), *options, "-p", str(running.pid)]
    with Popen(strace, stdin=DEVNULL, stderr=PIPE) as tracer:
        assert tracer.stderr
        attached = tracer.stderr.readline()
        assert b"attached" in attached, attached
        try:
            yield
        finally:
            tracer.terminate()
            until = time.monotonic() + _DETACHING
            while tracer.poll() is None and time.monotonic() < until and not running.is_dying:
                time.sleep(_LOOK)
            with suppress(TimeoutExpired):  # of a collector that has ended it may wait for ever
                tracer.wait(_WRITING)
            tracer.kill()


@contextmanager
def _limited(running: Running, size: int) -> Iterator[None]:
    """No file of a collector may become longer than that, until the end of the block."""
    before = resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(running.pid, resource.RLIMIT_FSIZE, before)


def cases_of(ingest: Ingest, of: Collectors, about: str = "") -> list[Case]:
    """All there are, as one ingest without any fault shows them; first one of each call on each file, then
    its like. Or only those of files with this in their names.
    """
    with of.copy(ingest) as data, of.serving(data) as (running, client):
        trace = data.parent / "trace"
        kept_by(client)
        with _traced(running, trace, ("-y",)):
            assert ingest.send(client, 1).status in ACCEPTED
            tasks = running.tasks
        seen = [each for each in dict.fromkeys(_calls(trace, tasks, str(data.parent))) if about in each[2]]
    first = {(name, on): (name, number, on) for name, number, on in reversed(seen)}
    others = [each for each in seen if each not in first.values()]
    return [*shuffled(_cases(first.values())), *shuffled(_cases(others))]


def _calls(trace: Path, tasks: frozenset[str], root: str) -> Iterator[tuple[str, int, str]]:
    """The calls of a collector on its files and on sockets: name, number in its thread, what it is about."""
    counted = Counter[tuple[str, str]]()
    for line in trace.read_text(errors="replace").splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        task, name, arguments = found.groups()
        counted[task, name] += 1
        about = ["".join(each) for each in _ABOUT.findall(arguments)]
        own = [each.replace(root, "") for each in about if each.startswith((f"{root}/", "socket:"))]
        if own and task in tasks and name in ON_FILES:
            yield name, counted[task, name], _VARYING.sub("*", own[0])


def _cases(calls: Iterable[tuple[str, int, str]]) -> Iterator[Case]:
    for name, number, on in calls:
        for what in ERRORS:
            yield Case(Fault(name, number, what), on)
            yield Case(Fault(name, number, what, persistent=True, is_retried=True), on)
        yield Case(Fault(name, number, KILL), on)


def short_writes(ingest: Ingest, of: Collectors, most: int) -> list[ShortWrite]:
    """Sizes in the midst of what an ingest writes: of the write-ahead log, and of a bundle."""
    with of.copy(ingest) as data:
        begin = (data / WAL).stat().st_size
    sizes = [begin + part * PAGE + offset for part in range(10) for offset in (0, 1, 12, 24, 25, 2000, 4119)]
    if ingest is BUNDLE:
        sizes += [len(bundle(1)) * part // 20 for part in range(20)]
    return [ShortWrite(size) for size in shuffled(sizes)[:most]]


def judged(ingest: Ingest, of: Collectors, case: Case | ShortWrite) -> tuple[bool, list[str]]:
    """Return whether the fault came about, and what is wrong after it."""
    with of.copy(ingest) as data:
        try:
            happened, wrong = _judged(ingest, of, data, case)
        except (AssertionError, OSError, http.client.HTTPException) as fault:
            happened, wrong = True, [f"{type(fault).__name__}: {str(fault)[:300]}"]
    return happened, [f"{ingest}, {case}: {each}" for each in wrong]


def _judged(ingest: Ingest, of: Collectors, data: Path, case: Case | ShortWrite) -> tuple[bool, list[str]]:
    before, trace = of.kept_before(ingest), data.parent / "trace"
    with of.serving(data) as (running, client):
        assert kept_by(client) == before
        with broken(running, trace, case):
            reply = _sent(ingest, client, 1)
        wrong = [*_said_badly(reply, case, has_ended=running.ends_within(0.2 if reply is None else 0))]
        may_be = [ingest.added(before, 1)]
        if reply is None or reply.status not in ACCEPTED:
            may_be.append(before)
        happened = isinstance(case, ShortWrite) and reply is not None and reply.status in REFUSED
        happened = happened or (isinstance(case, Case) and injected(trace, case.fault))
        now: Kept | None = None
        if not running.has_ended:
            now, told = _goes_on(ingest, client, may_be)
            wrong += told
            may_be = [now]
        running.kill()
    with of.serving(data) as (_, client):
        if now is not None:
            found = kept_by(client)
            wrong += [] if found == now else [f"after a restart there is {_differing(found, now)}"]
        else:
            now, told = _goes_on(ingest, client, may_be)
            wrong += told
        assert ingest.send(client, 2).status in ACCEPTED
        found, now = kept_by(client), ingest.added(now, 2)
        wrong += [] if found == now else [f"after another there is {_differing(found, now)}"]
    return happened, [*wrong, *_damage(data)]


def broken(running: Running, trace: Path, case: Case | ShortWrite) -> AbstractContextManager[None]:
    """A collector that meets this fault until the end of the block."""
    if isinstance(case, ShortWrite):
        return _limited(running, case.size)
    return _traced(running, trace, case.fault.options)


def _sent(ingest: Ingest, client: Client, number: int) -> Reply | None:
    """Return the answer; None where the connection broke."""
    try:
        return ingest.send(client, number)
    except TimeoutError:
        raise AssertionError("no answer came") from None
    except (OSError, http.client.HTTPException):
        return None


def _said_badly(reply: Reply | None, case: Case | ShortWrite, *, has_ended: bool) -> Iterator[str]:
    if reply is None:
        if not has_ended and not (isinstance(case, Case) and case.is_on_a_socket):
            yield "the connection broke, and it goes on"
        return
    if reply.status not in ACCEPTED | REFUSED:
        yield f"it answered with {reply.status}: {reply.body[:200]!r}"
    if b"Traceback" in reply.body:
        yield f"a traceback: {reply.body[:300]!r}"
    if reply.status in REFUSED and "retry-after" not in {name.lower() for name in reply.headers}:
        yield "it did not say when to come again"


def _goes_on(ingest: Ingest, client: Client, may_be: Sequence[Kept]) -> tuple[Kept, list[str]]:
    """Return the state once the client has tried again, and its faults."""
    found, wrong = kept_by(client), list[str]()
    if found not in may_be:
        wrong.append(f"there is {_differing(found, may_be[0])}")
    until = time.monotonic() + _SECONDS
    while (reply := ingest.send(client, 1)).status not in ACCEPTED and time.monotonic() < until:
        time.sleep(0.2)
    if reply.status not in ACCEPTED:
        return found, [*wrong, f"tried again it answered {reply.status}: {reply.body[:200]!r}"]
    now, wanted = kept_by(client), ingest.added(found, 1)
    if now != wanted:
        wrong.append(f"tried again there is {_differing(now, wanted)}")
    return now, wrong


def _differing(found: Kept, wanted: Kept) -> str:
    told = [
        f"{getattr(found, name)!r} and not {getattr(wanted, name)!r}"
        for name in ("steps", "record", "bundles")
        if getattr(found, name) != getattr(wanted, name)
    ]
    return "; ".join(told)


def _damage(data: Path) -> list[str]:
    """Return the faults of the files that a collector leaves."""
    with closing(sqlite3.connect(data / FILE)) as database:
        said = [row[0] for row in database.execute("PRAGMA integrity_check")]
        said += [str(row) for row in database.execute("PRAGMA foreign_key_check")]
    return [] if said == ["ok"] else [f"the database is damaged: {said[:3]}"]


def tortured(
    ingest: Ingest, of: Collectors, most: int | None = None, until: Until | None = None, shorts: int = 90
) -> Tally:
    """Every fault of an ingest, or as many of them as asked for, or as there is time for."""
    faults = cases_of(ingest, of)
    cuts = short_writes(ingest, of, shorts)
    # Every fourth is one: there are fewer, and each writes to the disk for real.
    mixed = list[Case | ShortWrite](faults)
    for number, cut in enumerate(cuts):
        mixed.insert(4 * number, cut)
    cases, findings = summed(at_once(partial(judged, ingest, of), mixed[:most], until))
    return Tally(
        target=str(ingest),
        calls=len({(case.fault.call, case.fault.number) for case in faults}),
        faults=2 * len(ERRORS) + 2,
        cases=cases,
        all_cases=len(mixed),
        findings=findings,
    )
