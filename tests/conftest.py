"""What holds for every test."""

import fcntl
import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings

from packages.causes import write_rules
from tests.dealing import dealt
from tests.signals import heed_all
from tests.standalone import made_before, standalone
from tests.thorough import is_thorough, is_thorough_path

FUZZ_SECONDS: Final = int(os.environ.get("SERVICE_RECORD_FUZZ_SECONDS") or 0)
"""Time for which `make fuzz` runs tests/fuzz; 0 in any other run."""

# On a machine that is busy, or that runs hypothesis for the first time, a slow draw or case is no failure.
# To explain a failure, each line of every case is traced; the one that fails says enough.
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

heed_all()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return two for each processor, as many tests wait for a program; three where machines boot, too."""
    of_each = 3 if config.option.markexpr == "thorough" else 2
    return of_each * len(os.sched_getaffinity(0))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Write the parsed rules if a source has changed: without them, each command would start 0.4 s later."""
    if not hasattr(session.config, "workerinput"):
        write_rules()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out whole files that `make test` does not have, without reading them."""
    if config.option.markexpr == "not thorough" and is_thorough_path(collection_path):
        return True
    return None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what `make test` leaves out, before `-m` is heeded."""
    if is_thorough(item):
        item.add_marker("thorough")


@pytest.hookimpl(trylast=True)  # what boots a machine is marked by then
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have each process of a run begin with its share of what takes long, so that none is left with it."""
    items[:] = dealt(items, getattr(config, "workerinput", {}).get("workercount", 1))


@pytest.fixture(scope="session")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole command as one executable; to make it takes half a minute, so it is made once in a run."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with shared.joinpath("standalone.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return made_before(shared) or standalone(shared)
