"""Fixtures that skip tests whose tools are missing here. They check only when a test asks for them."""

from collections.abc import Callable

import pytest

from tests.torture.injection import find_tracing_obstacle
from tests.torture.reporting import find_reporting_obstacle


def _skip_if(find_obstacle: Callable[[], str | None]) -> None:
    reason = find_obstacle()
    if reason is not None:
        pytest.skip(f"not available here: {reason}")


@pytest.fixture(scope="session")
def tracing() -> None:
    """Skip unless system calls can be made to fail here."""
    _skip_if(find_tracing_obstacle)


@pytest.fixture(scope="session")
def reporting(tracing: None) -> None:
    """Skip unless rounds of the boot reporter can be traced here."""
    _skip_if(find_reporting_obstacle)
