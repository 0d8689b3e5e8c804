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

SIGNALLED: Final = Path(run_script.__code__.co_filename).with_name("signalled.py")
SEEN_BY_THE_SERVICE: Final = ("DEBUG a handler", "CHLD a handler")
"""Handlers that see two commands of the shim's EXIT trap, or the one process that sourcing forks.

docs/shell-guarantees.md lists both.
"""
_LABELS: Final = {"exitCode": "status", "signal": "signal"}
_PID: Final = re.compile(rb" +\d+(?= )")
"""With the blanks before it, of which bash prints more where the number is shorter."""
PARALLEL_RUNS: Final = 4
"""Most of a case is waiting for processes to begin and to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case under one bash, without the shim and with it."""

    case: Case
    without: Completed
    recorded: Completed

    @property
    def unchanged(self) -> bool:
        """Return True if output and exit status are the same as without the shim."""
        return _seen(self.recorded) == _seen(self.without)

    @property
    def ended(self) -> str:
        """Return how it ended without the shim: `exited 3`, `died of TERM`."""
        if self.case.signal:
            return self.without.stdout.decode().splitlines()[-1]
        return f"exited {self.without.returncode}"

    @property
    def ending(self) -> str:
        """Return the recorded end: `failure, status 3, line exact`."""
        ends = self.recorded.of("service end")
        if not ends:
            return "no end"
        end = ends[-1]
        words = [f"{name} {end[key]}" for key, name in _LABELS.items() if key in end]
        return ", ".join([str(end["result"]), *words, *self._line(end)])

    def _line(self, end: Entry) -> list[str]:
        """Compare the recorded line with the marked one, if the case has one."""
        lines = self.case.script.split("\n")
        true = next((number for number, text in enumerate(lines, 1) if HERE in text), None)
        if true is None or self.ended == "exited 0":
            return []
        if "errorLine" not in end:
            return ["no line"]
        if end.get("errorLineApproximate"):
            return ["line approximate"]
        return ["line exact" if int(end["errorLine"].split()[0]) == true else "line WRONG"]

    @property
    def complaints(self) -> list[str]:
        """Return the faults that no case may have, whatever the table says."""
        starts, stops = (len(self.recorded.of(f"stage {which}")) for which in ("start", "end"))
        services = [len(self.recorded.of(f"service {which}")) for which in ("start", "end")]
        failed = self.ended.startswith("exited") and self.ended != "exited 0"
        wrong = {
            "changed": not self.unchanged and not self.case.title.startswith(SEEN_BY_THE_SERVICE),
            "a damaged line": bool(self.recorded.damaged),
            "not one start and one end": services != [1, self.ending != "no end"],
            "a stage is left open": starts != stops and self.ending != "no end",
            "a false result": self.ending.startswith("success") and failed,
            "a false line": "WRONG" in self.ending,
        }
        return [f"{self}: {complaint}" for complaint, holds in wrong.items() if holds]

    def __str__(self) -> str:
        seen = "" if self.unchanged else " (seen)"
        return f"{self.case.title}: {self.ended}{seen}; {self.ending}"


def _seen(completed: Completed) -> tuple[int, bytes, bytes]:
    """Return status and output without process ids, which bash prints for a child that died of a signal."""
    return completed.returncode, completed.stdout, _PID.sub(b" ", completed.stderr)


def results(bash: Bash, cases: Iterable[Case]) -> list[Result]:
    """Run the cases; return the results in the same order."""
    with ThreadPoolExecutor(PARALLEL_RUNS) as pool:
        return list(pool.map(lambda case: result(bash, case), cases))


def result(bash: Bash, case: Case) -> Result:
    return Result(case=case, without=run(bash, case, ABSENT), recorded=run(bash, case, SHIM))


def run(bash: Bash, case: Case, shim: Path) -> Completed:
    """Run a case in a directory of its own, and send it its signal."""
    wrapper = (sys.executable, "-IS", str(SIGNALLED), *case.signal.split()) if case.signal else ()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.joinpath("records").mkdir()  # else the shim runs mkdir, and a CHLD trap sees that
        os.mkfifo(directory / "over")
        return run_script(bash, case.script, directory, shim=shim, wrapper=wrapper)
