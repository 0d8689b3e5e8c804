"""`make fuzz`: the tests here again and again, until each has had its share of the seconds."""

import time

import pytest

from tests.conftest import FUZZ_SECONDS
from tests.fuzz.command import EXAMPLES


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
    if FUZZ_SECONDS:
        terminalreporter.section(f"{EXAMPLES.total()} examples")
        for test, number in EXAMPLES.items():
            terminalreporter.line(f"{number:8} {test}")
