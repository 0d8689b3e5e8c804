"""Run one round of the boot reporter while each of its system calls on host files and network fails.

Whatever fails, the round ends by itself, with success and without a traceback, and the host's records are
unchanged. The next round makes up for it: each fact is reported once, the bundle is shipped, and no temporary
file is left.
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
    attach,
    list_call_faults,
    was_injected,
)
from tests.torture.preloaded import PreloadedProgram, Run, RunResult, start_preloaded
from tests.torture.tally import Deadline, Tally, judge_in_parallel, sample, shuffle, sum_verdicts

_SUCCESS: Final = 0
_MAX_VERDICTS: Final = 3
"""A round that is killed between the answer and saving its state reports the verdict again."""
_KILLED: Final = -9
_UPTIME: Final = 60
_SERVER_TIMEOUT_SECONDS: Final = 5.0
"""Seconds after which the server drops an incomplete request."""
_LINE: Final = re.compile(r"^(\d+) +([a-z]\w*)\((.*)")
_ABOUT: Final = re.compile(r'<(?:/|TCP|socket)[^>]*|"/[^"]*')
_VARYING: Final = re.compile(r"[\d:]{3,}.*")
_FILE_SIZE_LIMITS: Final = (*range(1024), *range(1024, 16384, 128))
"""Limits of file size in bytes: each size of a state file, and some sizes of a bundle."""
_PROGRAMS: Final = {"systemctl": "true", "journalctl": "echo", "ip": "echo"}
"""The only programs of a host. They print nothing or their arguments: the programs of this machine would make
many more calls than the round, and are not tested here.
"""


def find_reporting_obstacle() -> str | None:
    """Return why no round can run here; None where it can."""
    return "a round with its own clock needs root" if os.geteuid() != 0 else None


class Rounds:
    """Runs rounds of hosts of one assisted-service. Each host has its own directory."""

    def __init__(self, server: AssistedServer, stack: ExitStack) -> None:
        self.server = server
        self._stack = stack
        self._thread_data = local()

    @property
    def _program(self) -> PreloadedProgram:
        """Return the preloaded program of this thread."""
        program: PreloadedProgram | None = getattr(self._thread_data, "program", None)
        if program is None or not program.is_usable:
            program = self._stack.enter_context(start_preloaded())
            with self.create_host() as host:
                result = program.run(replace(_describe_run(host), loads_modules=True))
                assert result.status == _SUCCESS, result
            self._thread_data.program = program
        return program

    @contextmanager
    def create_host(self) -> Iterator[ReportingHost]:
        """Create a host with a failure, so that a round has everything to do."""
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

    def _run_round(
        self, host: ReportingHost, options: tuple[str, ...] | None = None, file_size: int | None = None
    ) -> RunResult:
        """Run one round, under strace if there are options. The token must not be in its output."""
        run = replace(_describe_run(host), file_size=file_size)
        if options is None:
            result = self._program.run(run)
        else:
            result = self._program.run(run, partial(attach, _trace(host), options))
        assert TOKEN not in result.output
        return result

    @cached_property
    def _calls(self) -> tuple["_Call", ...]:
        with self.create_host() as host:
            result = self._run_round(host, ("-y",))
            assert result.status == _SUCCESS, result
            return tuple(dict.fromkeys(_parse_calls(_trace(host), str(host.places.root))))

    def list_faults(self, path: str = "") -> list[Fault]:
        """Return all faults of calls on files with `path` in their name, found by a round without faults. One
        fault of each call on each file comes first.
        """
        calls = [call for call in self._calls if path in call.target]
        first = {(each.name, each.target): each for each in reversed(calls)}
        others = [each for each in calls if each not in first.values()]
        return [*shuffle(_list_faults(first.values())), *shuffle(_list_faults(others))]

    def judge(self, fault: Fault) -> tuple[bool, list[str]]:
        """Return whether the fault occurred, and the findings."""
        with self.create_host() as host:
            before = _records(host)
            try:
                result = self._run_round(host, fault.options)
            except TimeoutExpired:
                return True, [f"reporter round, {fault}: it does not end"]
            findings = [*_check_end(result, may_be_killed=fault.effect == KILL)]
            if _records(host) != before:
                findings.append("the host's records have changed")
            findings += self._check_next_round(host)
            return was_injected(_trace(host), fault), [
                f"reporter round, {fault}: {each}" for each in findings
            ]

    def judge_truncation(self, size: int) -> tuple[bool, list[str]]:
        """Return True and the findings of a round with a limit of file size."""
        with self.create_host() as host:
            before = _records(host)
            try:
                findings = [*_check_end(self._run_round(host, file_size=size))]
            except TimeoutExpired:
                return True, [f"reporter round, files cut at {size}: it does not end"]
            if _records(host) != before:
                findings.append("the host's records have changed")
            findings += self._check_next_round(host)
            return True, [f"reporter round, files cut at {size}: {each}" for each in findings]

    def _check_next_round(self, host: ReportingHost) -> Iterator[str]:
        next_round = self._run_round(host)
        if next_round.status != _SUCCESS:
            yield f"the next round ended with {next_round.status}: {next_round.output[-200:]}"
        events = [event for event in self.server.rules.events if event.host_id == host.installed.id]
        reported = sum(event.message.endswith(LOCAL_IGNITION) for event in events)
        if reported != 1:
            yield f"the fact was reported {reported} times"
        verdicts = sum(f"{LOCAL_IGNITION}. " in event.message for event in events)
        if verdicts > _MAX_VERDICTS:
            yield f"the verdict was reported {verdicts} times"
        shipped = sum(event.name == "host_logs_uploaded" for event in events)
        if shipped not in {1, 2}:
            yield f"the bundle was shipped {shipped} times"
        if any(host.places.work_directory.glob("*")):
            yield "the working directory is not empty"
        if host.list_spooled():
            yield "the spool is not empty"
        leftover = [name for name in host.files() if name.endswith((".new", ".part"))]
        if leftover:
            yield f"incomplete files are left: {leftover}"


@dataclass(frozen=True, slots=True)
class _Call:
    """The n-th call with its name, and the file or socket that it is on."""

    name: str
    number: int
    target: str


def _list_faults(calls: Iterable[_Call]) -> Iterator[Fault]:
    for call in calls:
        yield from list_call_faults(call.name, call.number, RETRIED["python"])


def _parse_calls(trace: Path, root: str) -> Iterator[_Call]:
    """Yield the calls of the reporter's process on connections and on files below the root."""
    counts = Counter[str]()
    lines = [line.groups() for line in map(_LINE.match, trace.read_text().splitlines()) if line]
    reporter = lines[0][0]
    for process, name, arguments in lines:
        if process != reporter:
            continue
        counts[name] += 1
        # Only the command line looks at the root itself.
        targets = [
            target
            for target in _ABOUT.findall(arguments)
            if f"{root}/" in target or target.startswith(("<TCP", "<socket"))
        ]
        if targets and (name in ON_FILES or name == CLOSE):
            yield _Call(name, counts[name], _VARYING.sub("", targets[0].replace(root, "")))


def _describe_run(host: ReportingHost) -> Run:
    variables = host.environment() | {"PATH": str(host.places.at("/bin"))}
    return Run(("report", "--root", str(host.places.root)), variables, _UPTIME)


def _trace(host: ReportingHost) -> Path:
    return host.places.root.parent / "trace"


def _records(host: ReportingHost) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in host.places.records.iterdir()}


def _check_end(result: RunResult, *, may_be_killed: bool = False) -> Iterator[str]:
    if may_be_killed and result.status == _KILLED:
        return
    if result.status != _SUCCESS:
        yield f"it ended with {result.status}: {result.output[-300:]}"
    if "Traceback" in result.output:
        yield f"a traceback: {result.output[-300:]}"


@contextmanager
def open_rounds() -> Iterator[Rounds]:
    """Start an assisted-service on loopback for the rounds."""
    with ExitStack() as stack:
        server = stack.enter_context(
            AssistedServer(AssistedRules(auth_type="local"), timeout_seconds=_SERVER_TIMEOUT_SECONDS)
        )
        yield Rounds(server, stack)


def torture(rounds: Rounds, limit: int | None = None, deadline: Deadline | None = None) -> Tally:
    """Try every fault of a round, at most `limit` of them, until the deadline."""
    faults = rounds.list_faults()
    cases, findings = sum_verdicts(judge_in_parallel(rounds.judge, faults[:limit], deadline))
    return Tally(
        target="one round of the reporter",
        calls=len({(fault.call, fault.number) for fault in faults}),
        faults=2 * len(ERRORS) + 1,
        cases=cases,
        all_cases=len(faults),
        findings=findings,
    )


def torture_truncation(rounds: Rounds, limit: int | None = None, deadline: Deadline | None = None) -> Tally:
    """Try limits of file size in a round, at most `limit` of them, until the deadline."""
    cases, findings = sum_verdicts(
        judge_in_parallel(rounds.judge_truncation, sample(_FILE_SIZE_LIMITS, limit), deadline)
    )
    return Tally(
        target="one round of the reporter, cut short",
        cases=cases,
        all_cases=len(_FILE_SIZE_LIMITS),
        findings=findings,
    )
