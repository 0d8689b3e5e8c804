"""Fixtures with running collectors.

With the fixture `server`, a test runs twice: on SQLite and on PostgreSQL. Use it if the database matters for
the test, and `sqlite_server` otherwise. A test that needs other settings or a clock uses `settings` or
`sqlite_settings`, and calls `served(settings, now=...)`.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.database import FILE
from testing import postgresql
from testing.postgresql import Cluster
from tests.collector.in_process import empty_database
from tests.collector.installing import Clock
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server for all tests of a process."""
    if postgresql.programs() is None:
        pytest.skip("no PostgreSQL is installed")
    with postgresql.cluster(postgresql.QUICK) as running:
        yield running


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an empty database with all tables, to copy."""
    path = tmp_path_factory.mktemp("template") / FILE
    path.write_bytes(empty_database())
    return path


@pytest.fixture
def sqlite_settings(tmp_path: Path, sqlite_template: Path) -> CollectorSettings:
    """Settings for a new collector on SQLite, with an empty database."""
    settings = make_collector_settings(tmp_path)
    settings.data.mkdir(mode=0o700)
    shutil.copyfile(sqlite_template, settings.data / FILE)
    return settings


@pytest.fixture
def postgresql_settings(tmp_path: Path, cluster: Cluster) -> Iterator[CollectorSettings]:
    """Settings for a new collector on PostgreSQL, with an empty database."""
    with cluster.migrated() as url:
        yield make_collector_settings(tmp_path, database=url)


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> CollectorSettings:
    """Settings for a new collector. The test runs once with each database."""
    chosen: CollectorSettings = request.getfixturevalue(f"{request.param}_settings")
    return chosen


@pytest.fixture
def server(settings: CollectorSettings) -> Iterator[RunningCollector]:
    """A new collector. The test runs once with each database."""
    with run_collector(settings) as running:
        yield running


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_settings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> Iterator[CollectorSettings]:
    """Settings for one collector for all tests of a module, once with each database.

    Each test must use its own hosts.
    """
    folder = tmp_path_factory.mktemp("shared")
    if request.param == "postgresql":
        cluster: Cluster = request.getfixturevalue("cluster")
        with cluster.migrated() as url:
            yield make_collector_settings(folder, database=url)
        return
    settings = make_collector_settings(folder)
    settings.data.mkdir(mode=0o700)
    shutil.copyfile(sqlite_template, settings.data / FILE)
    yield settings


@pytest.fixture
def sqlite_server(sqlite_settings: CollectorSettings) -> Iterator[RunningCollector]:
    """A new collector on SQLite."""
    with run_collector(sqlite_settings) as running:
        yield running


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture
def host(request: pytest.FixtureRequest) -> str:
    """A host name that no other test uses."""
    return "web-" + "".join(c for c in request.node.name.lower() if c.isalnum())[-60:]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """One collector on SQLite for all tests of a module."""
    with run_collector(make_collector_settings(tmp_path_factory.mktemp("running"))) as server:
        yield server
