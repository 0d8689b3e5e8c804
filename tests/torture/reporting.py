"""One round of the boot reporter, with each of its system calls on the host's files and on the network made
to fail.

Whatever fails, the round ends by itself, well, and without a traceback; the host's records are as they were;
and the next round makes it good: every fact is told once, the bundle is shipped, nothing lies about.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from tests.assisted_installation import LOCAL_IGNITION, Claim
from tests.assisted_rules import AssistedRules
from tests.assisted_server import AssistedServer
from tests.command_line import Answer
from tests.programs import REPOSITORY as ROOT
from tests.reporting_host import TOKEN, ReportingHost
from tests.torture.injection import ERRORS, KILL, ON_FILES, Fault, injected
from tests.torture.tally import Tally, Until, at_once, shuffled

_GOOD: Final = 0
_KILLED: Final = (-9, 137)
_LINE: Final = re.compile(r"^(\d+) +([a-z]\w*)\((.*)")
_ABOUT: Final = re.compile(r'<(?:/|TCP|socket)[^>]*|"/[^"]*')
_VARYING: Final = re.compile(r"[\d:]{3,}.*")
_ITSELF: Final = ("site-packages", str(ROOT), sys.prefix)
"""The reporter's own program: where it cannot be loaded there is no round, and no end of it to judge."""
_STRACE: Final = ("strace", "-f", "-qq", "-s", "256", "-e", "signal=none", "-o")


def cannot_report() -> str | None:
    """Why no round can be run here; None where it can."""
    return "a round with a clock of its own takes root" if os.geteuid() != 0 else None


class Rounds:
    """Rounds of hosts of one service, each host in a directory of its own.

    Python's compiled modules are in `cache`, all of them: so each round makes the same calls.
    """

    def __init__(self, server: AssistedServer, cache: Path) -> None:
        self.server = server
        self._variables = {"PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": str(cache)}
        with self.host() as host:
            answer = host.report()
            assert answer.status == _GOOD, answer
        self._variables["PYTHONDONTWRITEBYTECODE"] = "1"

    @contextmanager
    def host(self) -> Iterator[ReportingHost]:
        """A host on which something has failed, so that there is all to be done that a round may do."""
        installed = self.server.rules.add_host(stage="Rebooting")
        token = f"{TOKEN}-{installed.id}"
        self.server.rules.tokens[token] = Claim(installed.infra_env_id)
        with tempfile.TemporaryDirectory() as place:
            host = ReportingHost(Path(place) / "host", installed, self.server.url)
            host.write("/etc/service-record/token", token)
            host.variables |= self._variables
            host.fail()
            yield host

    @cached_property
    def _calls(self) -> tuple["_Call", ...]:
        with self.host() as host:
            trace = host.places.root.parent / "trace"
            answer = host.report(before=(*_STRACE, str(trace), "-y"))
            assert answer.status == _GOOD, answer
            return tuple(dict.fromkeys(_calls(trace, str(host.places.root))))

    def faults(self, about: str = "") -> list[Fault]:
        """All there are, as one round without any shows them; first one of each call on each file, then its
        like. Or only those of files with this in their names.
        """
        seen = [call for call in self._calls if about in call.on]
        first = {(each.name, each.on): each for each in reversed(seen)}
        others = [each for each in seen if each not in first.values()]
        return [*shuffled(_faults(first.values())), *shuffled(_faults(others))]

    def judged(self, fault: Fault) -> tuple[bool, list[str]]:
        """Whether the fault came about, and what is wrong after it."""
        with self.host() as host:
            trace = host.places.root.parent / "trace"
            before = _records(host)
            options = (*_STRACE, str(trace), "--seccomp-bpf", *fault.options)
            try:
                faulty = host.report(before=options)
            except subprocess.TimeoutExpired:
                return True, [f"reporter round, {fault}: it does not end"]
            wrong = [*_ended_badly(faulty, fault)]
            if _records(host) != before:
                wrong.append("the host's records have changed")
            wrong += self._not_made_good(host, fault)
            return injected(trace, fault), [f"reporter round, {fault}: {each}" for each in wrong]

    def _not_made_good(self, host: ReportingHost, fault: Fault) -> Iterator[str]:
        answer = host.report()
        if answer.status != _GOOD:
            yield f"the next round ended with {answer.status}: {answer.err[-200:]}"
        events = [event for event in self.server.rules.events if event.host_id == host.installed.id]
        told = sum(LOCAL_IGNITION in event.message for event in events)
        if told != 1:
            yield f"the fact was told {told} times"
        shipped = sum(event.name == "host_logs_uploaded" for event in events)
        if shipped not in {1, 2}:
            yield f"the bundle was shipped {shipped} times"
        if any(host.places.work_directory.glob("*")):
            yield "something was left of the work"
        if host.spooled() and fault.call != "unlink":  # else it goes with the directory
            yield "something was left in the spool"
        left = [name for name in host.files() if name.endswith((".new", ".part"))]
        if left:
            yield f"torn files are left: {left}"


@dataclass(frozen=True, slots=True)
class _Call:
    """The n-th call of a name, and what it is about."""

    name: str
    number: int
    on: str


def _faults(calls: Iterable[_Call]) -> Iterator[Fault]:
    for call in calls:
        for what in ERRORS:
            yield Fault(call.name, call.number, what)
            yield Fault(call.name, call.number, what, persistent=True)
        yield Fault(call.name, call.number, KILL)


def _calls(trace: Path, root: str) -> Iterator[_Call]:
    """The calls on files below the root and on connections, of the process that reports."""
    counted: Counter[tuple[str, str]] = Counter()
    found = [line.groups() for line in map(_LINE.match, trace.read_text().splitlines()) if line]
    reporter = next(process for process, _, arguments in found if "reporter.toml" in arguments)
    for process, name, arguments in found:
        counted[process, name] += 1
        # Of the root itself only the command line asks.
        about = [
            on for on in _ABOUT.findall(arguments) if f"{root}/" in on or on.startswith(("<TCP", "<socket"))
        ]
        if about and process == reporter and name in ON_FILES:
            yield _Call(name, counted[process, name], _VARYING.sub("", about[0].replace(root, "")))


def _records(host: ReportingHost) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in host.places.records.iterdir()}


def _ended_badly(answer: Answer, fault: Fault) -> Iterator[str]:
    is_itself = any(path in answer.err for path in _ITSELF) or (fault.persistent and "read" in fault.call)
    if (fault.what == KILL and answer.status in _KILLED) or is_itself:
        return
    if answer.status != _GOOD:
        yield f"it ended with {answer.status}: {answer.err[-300:]}"
    if "Traceback" in answer.err:
        yield f"a traceback: {answer.err[-300:]}"


@contextmanager
def rounds() -> Iterator[Rounds]:
    """With a service on loopback."""
    with AssistedServer(AssistedRules(auth_type="local")) as server, tempfile.TemporaryDirectory() as cache:
        yield Rounds(server, Path(cache))


def tortured(of: Rounds, most: int | None = None, until: Until | None = None) -> Tally:
    """Every fault of a round, or as many of them as asked for, or as there is time for."""
    faults = of.faults()
    cases, findings = 0, list[str]()
    for happened, wrong in at_once(of.judged, faults[:most], until):
        cases += happened
        findings += wrong
    return Tally(
        target="one round of the reporter",
        promises=(6, 7),
        calls=len({(fault.call, fault.number) for fault in faults}),
        faults=2 * len(ERRORS) + 1,
        cases=cases,
        all_cases=len(faults),
        findings=tuple(findings),
    )
