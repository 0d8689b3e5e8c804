"""Collect each `@test` of the .bats files in this folder as a pytest test, once for each bash.

The first of a file's tests runs the whole file; each test then reports its own case.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.shell.scripts import NO_LOOKUP, SHIM, Bash, bashes, kill_group

BATS = Path(sys.executable).with_name("bats")
CASE = re.compile(r'^@test "(.*)" \{', re.MULTILINE)
PLAN = re.compile(r"^1\.\.(\d+)$", re.MULTILINE)
REPORT = re.compile(r"^(ok|not ok) \d+ (.*?)(?: # skip ?(.*))?$")
RUN_SECONDS = float(os.environ.get("BATS_RUN_SECONDS", "900"))
"""The time limit for one file under one bash. Cases without a report by then have failed."""


class BatsError(Exception):
    """A failed case, or a run that did not report the case. The message has the output of bats."""


@dataclass(frozen=True, slots=True)
class Report:
    passed: bool
    skipped: str | None
    output: str


class BatsRun:
    """A run of one file under one bash, which starts when its first report is needed."""

    def __init__(self, path: Path, bash: Bash, cases: list[str]) -> None:
        self.path = path
        self.bash = bash
        self.cases = cases

    def report(self, case: str) -> Report:
        """Return the report of a case. Raises BatsError if it is missing, or if there are unknown cases."""
        unknown = self.reports.keys() - self.cases
        if case not in self.reports or unknown:
            wrong = f"reported the unknown {sorted(unknown)}" if unknown else "did not report this case"
            raise BatsError(f"{self.path}: bats {wrong}:\n{self.output}")
        return self.reports[case]

    @cached_property
    def reports(self) -> dict[str, Report]:
        return dict(parse_tap(self.output))

    @cached_property
    def output(self) -> str:
        """The output of bats, written to a file: processes left by a script would keep a pipe open."""
        own = {"SHIM": str(SHIM), "PYTHON": sys.executable, "TEST_BASH": str(self.bash.path)}
        with tempfile.TemporaryFile() as output:
            with subprocess.Popen(
                [BATS, "--formatter", "tap", self.path],
                env=os.environ | NO_LOOKUP | own,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as bats:
                with suppress(subprocess.TimeoutExpired):
                    bats.wait(RUN_SECONDS)
                kill_group(bats.pid)
            output.seek(0)
            return output.read().decode(errors="replace")


def parse_tap(output: str) -> Iterator[tuple[str, Report]]:
    """Yield each case and its report from the TAP output of bats, or nothing if the plan is missing."""
    if not PLAN.search(output):
        return

    lines = output.splitlines()
    for index, line in enumerate(lines):
        if found := REPORT.match(line):
            word, name, skipped = found.groups()
            end = next((i for i in range(index + 1, len(lines)) if REPORT.match(lines[i])), len(lines))
            yield name, Report(word == "ok", skipped, "\n".join(lines[index:end]))


class BatsCase(pytest.Item):
    """One `@test` under one bash."""

    def __init__(self, *, run: BatsRun, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def runtest(self) -> None:
        report = self.run.report(self.name)
        if report.skipped is not None:
            pytest.skip(report.skipped)
        if not report.passed:
            raise BatsError(report.output)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, BatsError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.name}[{self.run.bash}]::{self.name}"


class BatsCases(pytest.Collector):
    """The cases of one file under one bash."""

    def __init__(self, *, run: BatsRun, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def collect(self) -> Iterator[BatsCase]:
        for case in self.run.cases:
            item = BatsCase.from_parent(self, name=case, run=self.run)
            item.add_marker(
                pytest.mark.timeout(RUN_SECONDS + 60)
            )  # the run's own time limit gives a better message
            yield item


class BatsFile(pytest.File):
    """A .bats file, with a collector for each bash."""

    def collect(self) -> Iterator[BatsCases]:
        cases = CASE.findall(self.path.read_text())
        for bash in bashes():
            yield BatsCases.from_parent(self, name=str(bash), run=BatsRun(self.path, bash, cases))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> BatsFile | None:
    """Collect .bats files. Pytest collects the others."""
    return BatsFile.from_parent(parent, path=file_path) if file_path.suffix == ".bats" else None
