"""One round of the boot reporter, with each of its system calls on the host's files and on the network made
to fail.

Whatever fails, the round ends by itself, well, and without a traceback; the host's records are as they were;
and the next round makes it good: every fact is told once, the bundle is shipped, nothing lies about.
"""

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from subprocess import TimeoutExpired
from threading import local
from typing import Final

from tests.assisted_installation import LOCAL_IGNITION
from tests.assisted_rules import AssistedRules
from tests.assisted_server import AssistedServer
from tests.reporting_host import TOKEN, ReportingHost
from tests.torture.injection import (
    CLOSE,
    ERRORS,
    KILL,
    ON_FILES,
    RETRIED,
    Fault,
    attached,
    faults_of_call,
    injected,
)
from tests.torture.preloaded import Preloaded, Ran, Run, preloaded
from tests.torture.tally import Tally, Until, at_once, sample, shuffled, summed

_GOOD: Final = 0
_MOST_VERDICTS: Final = 3
"""Tries: a round that is killed between the answer and its state tells the verdict once more."""
_KILLED: Final = -9
_UPTIME: Final = 60
_PATIENCE: Final = 5.0
"""Seconds, of the service with a request of which no more comes."""
_LINE: Final = re.compile(r"^(\d+) +([a-z]\w*)\((.*)")
_ABOUT: Final = re.compile(r'<(?:/|TCP|socket)[^>]*|"/[^"]*')
_VARYING: Final = re.compile(r"[\d:]{3,}.*")
_SIZES: Final = (*range(1024), *range(1024, 16384, 128))
"""In bytes, at which writes are cut short: each of those of the state, and some of those of a bundle."""
_PROGRAMS: Final = {"systemctl": "true", "journalctl": "echo", "ip": "echo"}
"""The only ones of a host. They say nothing, or what they were asked: those of this machine make many more
calls than the round, and it is not they who are tortured.
"""


def cannot_report() -> str | None:
    """Return why no round can be run here; None where it can."""
    return "a round with a clock of its own takes root" if os.geteuid() != 0 else None


class Rounds:
    """Rounds of hosts of one service, each host in a directory of its own."""

    def __init__(self, server: AssistedServer, opened: ExitStack) -> None:
        self.server = server
        self._opened = opened
        self._here = local()

    @property
    def _program(self) -> Preloaded:
        """One for each thread."""
        known: Preloaded | None = getattr(self._here, "program", None)
        if known is None or not known.is_usable:
            program: Preloaded = self._opened.enter_context(preloaded())
            with self.host() as host:
                ran = program.run(replace(_run(host), is_first=True))
                assert ran.status == _GOOD, ran
            known = self._here.program = program
        return known

    @contextmanager
    def host(self) -> Iterator[ReportingHost]:
        """A host on which something has failed, so that there is all to be done that a round may do."""
        installed = self.server.rules.add_host(stage="Rebooting")
        token = f"{TOKEN}-{installed.id}"
        self.server.rules.tokens[token] = installed.infra_env_id
        with tempfile.TemporaryDirectory() as place:
            host = ReportingHost(Path(place) / "host", installed, self.server.url)
            host.write("/etc/service-record/token", token)
            host.places.at("/bin").mkdir()
            for name, program in _PROGRAMS.items():
                host.places.at(f"/bin/{name}").symlink_to(str(shutil.which(program)))
            host.fail()
            yield host

    def _round(
        self, host: ReportingHost, options: tuple[str, ...] | None = None, file_size: int | None = None
    ) -> Ran:
        """One round; with options, under strace. The token is in nothing that it says."""
        run = replace(_run(host), file_size=file_size)
        if options is None:
            ran = self._program.run(run)
        else:
            ran = self._program.run(run, partial(attached, _trace(host), options))
        assert TOKEN not in ran.said
        return ran

    @cached_property
    def _calls(self) -> tuple["_Call", ...]:
        with self.host() as host:
            ran = self._round(host, ("-y",))
            assert ran.status == _GOOD, ran
            return tuple(dict.fromkeys(_calls(_trace(host), str(host.places.root))))

    def faults(self, about: str = "") -> list[Fault]:
        """All there are, as one round without any shows them; first one of each call on each file, then its
        like. Or only those of files with this in their names.
        """
        seen = [call for call in self._calls if about in call.on]
        first = {(each.name, each.on): each for each in reversed(seen)}
        others = [each for each in seen if each not in first.values()]
        return [*shuffled(_faults(first.values())), *shuffled(_faults(others))]

    def judged(self, fault: Fault) -> tuple[bool, list[str]]:
        """Return whether the fault came about, and what is wrong after it."""
        with self.host() as host:
            before = _records(host)
            try:
                faulty = self._round(host, fault.options)
            except TimeoutExpired:
                return True, [f"reporter round, {fault}: it does not end"]
            wrong = [*_ended_badly(faulty, may_be_killed=fault.what == KILL)]
            if _records(host) != before:
                wrong.append("the host's records have changed")
            wrong += self._not_made_good(host)
            return injected(_trace(host), fault), [f"reporter round, {fault}: {each}" for each in wrong]

    def judged_when_cut(self, size: int) -> tuple[bool, list[str]]:
        """Return the faults after a round in which no file could be written beyond so many bytes."""
        with self.host() as host:
            before = _records(host)
            try:
                wrong = [*_ended_badly(self._round(host, file_size=size))]
            except TimeoutExpired:
                return True, [f"reporter round, files cut at {size}: it does not end"]
            if _records(host) != before:
                wrong.append("the host's records have changed")
            wrong += self._not_made_good(host)
            return True, [f"reporter round, files cut at {size}: {each}" for each in wrong]

    def _not_made_good(self, host: ReportingHost) -> Iterator[str]:
        next_one = self._round(host)
        if next_one.status != _GOOD:
            yield f"the next round ended with {next_one.status}: {next_one.said[-200:]}"
        events = [event for event in self.server.rules.events if event.host_id == host.installed.id]
        told = sum(event.message.endswith(LOCAL_IGNITION) for event in events)
        if told != 1:
            yield f"the fact was told {told} times"
        verdicts = sum(f"{LOCAL_IGNITION}. " in event.message for event in events)
        if verdicts > _MOST_VERDICTS:
            yield f"the verdict was told {verdicts} times"
        shipped = sum(event.name == "host_logs_uploaded" for event in events)
        if shipped not in {1, 2}:
            yield f"the bundle was shipped {shipped} times"
        if any(host.places.work_directory.glob("*")):
            yield "something was left of the work"
        if host.spooled():
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
        yield from faults_of_call(call.name, call.number, RETRIED["python"])


def _calls(trace: Path, root: str) -> Iterator[_Call]:
    """The calls on files below the root and on connections, of the process that reports."""
    counted = Counter[str]()
    found = [line.groups() for line in map(_LINE.match, trace.read_text().splitlines()) if line]
    reporter = found[0][0]
    for process, name, arguments in found:
        if process != reporter:
            continue
        counted[name] += 1
        # Of the root itself only the command line asks.
        about = [
            on for on in _ABOUT.findall(arguments) if f"{root}/" in on or on.startswith(("<TCP", "<socket"))
        ]
        if about and (name in ON_FILES or name == CLOSE):
            yield _Call(name, counted[name], _VARYING.sub("", about[0].replace(root, "")))


def _run(host: ReportingHost) -> Run:
    variables = host.environment() | {"PATH": str(host.places.at("/bin"))}
    return Run(("report", "--root", str(host.places.root)), variables, _UPTIME)


def _trace(host: ReportingHost) -> Path:
    return host.places.root.parent / "trace"


def _records(host: ReportingHost) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in host.places.records.iterdir()}


def _ended_badly(ran: Ran, *, may_be_killed: bool = False) -> Iterator[str]:
    if may_be_killed and ran.status == _KILLED:
        return
    if ran.status != _GOOD:
        yield f"it ended with {ran.status}: {ran.said[-300:]}"
    if "Traceback" in ran.said:
        yield f"a traceback: {ran.said[-300:]}"


@contextmanager
def rounds() -> Iterator[Rounds]:
    """With a service on loopback."""
    with ExitStack() as opened:
        server = opened.enter_context(
            AssistedServer(AssistedRules(auth_type="local"), timeout_seconds=_PATIENCE)
        )
        yield Rounds(server, opened)


def tortured(of: Rounds, most: int | None = None, until: Until | None = None) -> Tally:
    """Every fault of a round, or as many of them as asked for, or as there is time for."""
    faults = of.faults()
    cases, findings = summed(at_once(of.judged, faults[:most], until))
    return Tally(
        target="one round of the reporter",
        calls=len({(fault.call, fault.number) for fault in faults}),
        faults=2 * len(ERRORS) + 1,
        cases=cases,
        all_cases=len(faults),
        findings=findings,
    )


def cut_short(of: Rounds, most: int | None = None, until: Until | None = None) -> Tally:
    """Rounds in which writes are cut short, of sizes in an order of their own; see `tortured`."""
    cases, findings = summed(at_once(of.judged_when_cut, sample(_SIZES, most), until))
    return Tally(
        target="one round of the reporter, cut short",
        cases=cases,
        all_cases=len(_SIZES),
        findings=findings,
    )
