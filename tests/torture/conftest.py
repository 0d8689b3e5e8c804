"""Where something cannot be had, its tests are skipped; nobody asks before there is one."""

from collections.abc import Callable

import pytest

from tests.torture.injection import cannot_trace
from tests.torture.reporting import cannot_report


def _skip_where(cannot: Callable[[], str | None]) -> None:
    reason = cannot()
    if reason is not None:
        pytest.skip(f"cannot be had here: {reason}")


@pytest.fixture(scope="session")
def tracing() -> None:
    """System calls can be made to fail."""
    _skip_where(cannot_trace)


@pytest.fixture(scope="session")
def reporting(tracing: None) -> None:
    """So can those of a round of the reporter."""
    _skip_where(cannot_report)
