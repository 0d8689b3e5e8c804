"""Collectors to ask."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collector.serving import Served, served, settings_in


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """A collector of this test's own."""
    with served(settings_in(tmp_path)) as running:
        yield running
