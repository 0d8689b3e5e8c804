"""Support `make fuzz`: repeat each test for its share of the time, then print and save a table of the
results.
"""

import os
import time
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

from bench.machine import machine
from bench.table import aligned, replace_between
from tests.conftest import FUZZ_SECONDS
from tests.fuzz.command import EXAMPLES, FOUND

PAGE: Final = os.environ.get("SERVICE_RECORD_FUZZ_PAGE", "")
"""Page whose table is updated; empty to update none, when only some tests run."""
HEAD: Final = ("what", "by", "examples", "found")
_start: Final = time.monotonic()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call the test repeatedly for its share of the time: hypothesis limits examples, not seconds. Each call
    draws new ones.
    """
    if not FUZZ_SECONDS:
        return None
    end = time.monotonic() + FUZZ_SECONDS / len(pyfuncitem.session.items)
    while time.monotonic() < end:
        pyfuncitem.obj()
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not FUZZ_SECONDS:
        return
    terminalreporter.section(f"{EXAMPLES.total():,} examples")
    rows = list(_format_rows(EXAMPLES))
    for line in aligned([HEAD, *rows]).splitlines():
        terminalreporter.line(line)
    if PAGE:
        minutes = (time.monotonic() - _start) / 60
        replace_between(
            Path(PAGE), "fuzz", f"{machine()} {minutes:,.0f} minutes.\n\n{aligned([HEAD, *rows])}"
        )


def _format_rows(examples: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """Yield a row with the totals of each kind, followed by a row for each of its tests."""
    for kind, names in groupby(sorted(examples), key=lambda name: name.partition(":")[0]):
        tests = list(names)
        found = sum(name in FOUND for name in tests)
        total = sum(examples[name] for name in tests)
        yield f"**{kind}**", "all of its tests", f"{total:,}", str(found or "none")
        for name in tests:
            yield "", name.partition(": ")[2], f"{examples[name]:,}", "yes" if name in FOUND else "none"
