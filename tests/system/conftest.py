"""Fixtures with machines to boot. Every test in this directory is skipped where none can boot."""

from pathlib import Path

import pytest

from testing.machine import Machine, why_not

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    obstacle = why_not()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("system")
            if obstacle is not None:
                item.add_marker(pytest.mark.skip(reason=obstacle))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture(scope="module")
def shared_machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Return a machine that the tests of a module share, so that it boots once."""
    return Machine(tmp_path_factory.mktemp("machine"))
