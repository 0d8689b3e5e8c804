"""Run cases with the shim and without it, and describe each result in a line."""

import os
import re
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.matrix.cases import HERE, Case
from tests.shell.scripts import ABSENT, SHIM, Bash, Completed, Entry, run_script

SIGNAL_WRAPPER: Final = Path(run_script.__code__.co_filename).with_name("signalled.py")
VISIBLE_CASES: Final = ("DEBUG a handler", "CHLD a handler")
"""Handlers that see two commands of the shim's EXIT trap, or the one process that sourcing starts.

docs/shell-guarantees.md lists both.
"""
_LABELS: Final = {"exitCode": "status", "signal": "signal"}
_PID: Final = re.compile(rb" +\d+(?= )")
"""A process id with the blanks before it: bash pads shorter ids."""
PARALLEL_RUNS: Final = 4
"""More than processors: a case mostly waits for processes to start and end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case under one bash, without the shim and with it."""

    case: Case
    plain: Completed
    recorded: Completed

    @property
    def is_unchanged(self) -> bool:
        """Return True if output and exit status are the same as without the shim."""
        return _get_visible_result(self.recorded) == _get_visible_result(self.plain)

    @property
    def exit_description(self) -> str:
        """Return how the service ended without the shim: `exited 3`, `died of TERM`."""
        if self.case.signal:
            return self.plain.stdout.decode().splitlines()[-1]
        return f"exited {self.plain.returncode}"

    @property
    def recorded_end(self) -> str:
        """Return the recorded end: `failure, status 3, line exact`."""
        ends = self.recorded.find_entries("service end")
        if not ends:
            return "no end"
        end = ends[-1]
        words = [f"{name} {end[key]}" for key, name in _LABELS.items() if key in end]
        return ", ".join([str(end["result"]), *words, *self._line(end)])

    def _line(self, end: Entry) -> list[str]:
        """Compare the recorded line with the marked one, if the case has one."""
        lines = self.case.script.split("\n")
        marked = next((number for number, text in enumerate(lines, 1) if HERE in text), None)
        if marked is None or self.exit_description == "exited 0":
            return []
        if "errorLine" not in end:
            return ["no line"]
        if end.get("errorLineApproximate"):
            return ["line approximate"]
        return ["line exact" if int(end["errorLine"].split()[0]) == marked else "line WRONG"]

    @property
    def complaints(self) -> list[str]:
        """Return the false or harmful results, which are errors even if the table has them."""
        starts, stops = (len(self.recorded.find_entries(f"stage {phase}")) for phase in ("start", "end"))
        services = [len(self.recorded.find_entries(f"service {phase}")) for phase in ("start", "end")]
        failed = self.exit_description.startswith("exited") and self.exit_description != "exited 0"
        conditions = {
            "changed": not self.is_unchanged and not self.case.title.startswith(VISIBLE_CASES),
            "a damaged line": bool(self.recorded.damaged),
            "not one start and one end": services != [1, self.recorded_end != "no end"],
            "a stage is left open": starts != stops and self.recorded_end != "no end",
            "a false result": self.recorded_end.startswith("success") and failed,
            "a false line": "WRONG" in self.recorded_end,
        }
        return [f"{self}: {complaint}" for complaint, is_met in conditions.items() if is_met]

    def __str__(self) -> str:
        suffix = "" if self.is_unchanged else " (seen)"
        return f"{self.case.title}: {self.exit_description}{suffix}; {self.recorded_end}"


def _get_visible_result(completed: Completed) -> tuple[int, bytes, bytes]:
    """Return status and output without process ids, which bash prints for a child that died of a signal."""
    return completed.returncode, completed.stdout, _PID.sub(b" ", completed.stderr)


def run_cases(bash: Bash, cases: Iterable[Case]) -> list[Result]:
    """Run the cases; return the results in the same order."""
    with ThreadPoolExecutor(PARALLEL_RUNS) as pool:
        return list(pool.map(lambda case: run_case(bash, case), cases))


def run_case(bash: Bash, case: Case) -> Result:
    return Result(case=case, plain=run(bash, case, ABSENT), recorded=run(bash, case, SHIM))


def run(bash: Bash, case: Case, shim: Path) -> Completed:
    """Run a case in its own directory, and send it its signal."""
    wrapper = (sys.executable, "-IS", str(SIGNAL_WRAPPER), *case.signal.split()) if case.signal else ()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.joinpath("records").mkdir()  # else the shim runs mkdir, and a CHLD trap sees that
        os.mkfifo(directory / "over")
        return run_script(bash, case.script, directory, shim=shim, wrapper=wrapper)
