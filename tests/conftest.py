"""Settings and fixtures for all tests."""

import fcntl
import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings

from packages.causes import write_rules
from tests.ordering import arrange_tests
from tests.signals import restore_default_signals
from tests.standalone import build_executable, find_built_executable
from tests.thorough import is_thorough, is_thorough_path

FUZZ_SECONDS: Final = int(os.environ.get("SERVICE_RECORD_FUZZ_SECONDS") or 0)
"""How long `make fuzz` runs tests/fuzz; 0 in all other runs."""

# Slow draws and cases are not failures: the machine may be busy, or may run hypothesis for the first time.
# The `explain` phase is left out because it traces every line of every case. The failing case is enough.
WITHOUT_TRACING: Final = tuple(phase for phase in Phase if phase is not Phase.explain)
settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=WITHOUT_TRACING
)
settings.register_profile(
    "fuzz",
    deadline=None,
    suppress_health_check=list(HealthCheck),
    max_examples=100,
    derandomize=False,
    phases=WITHOUT_TRACING,
)
settings.load_profile("fuzz" if FUZZ_SECONDS else "unhurried")

restore_default_signals()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of test processes: more than processors, because many tests wait for a program.

    The thorough tests wait even longer, because they also boot machines.
    """
    per_processor = 3 if config.option.markexpr == "thorough" else 2
    return per_processor * len(os.sched_getaffinity(0))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Write the parsed rules if a rule has changed. Without this file, each command starts 0.4 s later."""
    if not hasattr(session.config, "workerinput"):
        write_rules()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files that `make test` leaves out, without importing them."""
    if config.option.markexpr == "not thorough" and is_thorough_path(collection_path):
        return True
    return None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that `make test` leaves out, before pytest evaluates `-m`."""
    if is_thorough(item):
        item.add_marker("thorough")


@pytest.hookimpl(trylast=True)  # after tests that boot a machine have been marked
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reorder the tests so that each process starts with its share of the long ones."""
    items[:] = arrange_tests(items, getattr(config, "workerinput", {}).get("workercount", 1))


@pytest.fixture(scope="session")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the standalone executable. Building takes half a minute, so all test processes share it."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with shared.joinpath("standalone.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return find_built_executable(shared) or build_executable(shared)
