"""Collectors to ask.

`server` runs a test twice, on SQLite and on PostgreSQL: it is for what the database has a part in. What would
be no different there takes `sqlite_server`. A test with settings or a clock of its own takes `settings` or
`sqlite_settings` likewise, and `served(settings, now=...)`.
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
from tests.collector.serving import Served, served, settings_in


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL for all tests of a process."""
    if postgresql.programs() is None:
        pytest.skip("no PostgreSQL is installed")
    with postgresql.cluster(postgresql.QUICK) as running:
        yield running


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that has all tables already."""
    path = tmp_path_factory.mktemp("template") / FILE
    path.write_bytes(empty_database())
    return path


@pytest.fixture
def sqlite_settings(tmp_path: Path, sqlite_template: Path) -> CollectorSettings:
    """Settings of a collector of this test's own, on SQLite."""
    settings = settings_in(tmp_path)
    settings.data.mkdir(mode=0o700)
    shutil.copyfile(sqlite_template, settings.data / FILE)
    return settings


@pytest.fixture
def postgresql_settings(tmp_path: Path, cluster: Cluster) -> Iterator[CollectorSettings]:
    """Settings of a collector of this test's own, on PostgreSQL."""
    with cluster.migrated() as url:
        yield settings_in(tmp_path, database=url)


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> CollectorSettings:
    """Settings of a collector of this test's own, on each database in turn."""
    chosen: CollectorSettings = request.getfixturevalue(f"{request.param}_settings")
    return chosen


@pytest.fixture
def server(settings: CollectorSettings) -> Iterator[Served]:
    """A collector of this test's own, on each database in turn."""
    with served(settings) as running:
        yield running


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_settings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> Iterator[CollectorSettings]:
    """Settings of one collector for a module whose tests each have hosts of their own, on each database."""
    folder = tmp_path_factory.mktemp("shared")
    if request.param == "postgresql":
        cluster: Cluster = request.getfixturevalue("cluster")
        with cluster.migrated() as url:
            yield settings_in(folder, database=url)
        return
    settings = settings_in(folder)
    settings.data.mkdir(mode=0o700)
    shutil.copyfile(sqlite_template, settings.data / FILE)
    yield settings


@pytest.fixture
def sqlite_server(sqlite_settings: CollectorSettings) -> Iterator[Served]:
    """A collector of this test's own, on SQLite."""
    with served(sqlite_settings) as running:
        yield running


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture
def host(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return "web-" + "".join(c for c in request.node.name.lower() if c.isalnum())[-60:]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One collector on SQLite for all of a module that needs none of its own."""
    with served(settings_in(tmp_path_factory.mktemp("running"))) as server:
        yield server
