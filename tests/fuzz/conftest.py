"""`make fuzz`: the tests here again and again, until each has had its share of the seconds; and the table."""

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
"""The page that has the table of it; empty for none, where only some of the tests ran."""
HEAD: Final = ("what", "by", "examples", "found")
_began: Final = time.monotonic()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Hypothesis counts examples, not seconds: each call draws as many as the profile says, and new ones."""
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
    rows = list(_rows(EXAMPLES))
    for line in aligned([HEAD, *rows]).splitlines():
        terminalreporter.line(line)
    if PAGE:
        minutes = (time.monotonic() - _began) / 60
        replace_between(
            Path(PAGE), "fuzz", f"{machine()} {minutes:,.0f} minutes.\n\n{aligned([HEAD, *rows])}"
        )


def _rows(examples: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """A row for each kind with all of it, and one for each of its tests."""
    for kind, names in groupby(sorted(examples), key=lambda name: name.partition(":")[0]):
        own = list(names)
        found = sum(name in FOUND for name in own)
        total = sum(examples[name] for name in own)
        yield f"**{kind}**", "all of its tests", f"{total:,}", str(found or "none")
        for name in own:
            yield "", name.partition(": ")[2], f"{examples[name]:,}", "yes" if name in FOUND else "none"
