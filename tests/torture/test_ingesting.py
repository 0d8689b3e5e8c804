"""Some faults that `make torture` tries on an ingest, and faults that once broke a promise."""

from collections.abc import Iterator

import pytest

from tests.torture.ingesting import Case, inject_fault, judge, list_cases, torture
from tests.torture.ingests import ACCEPTED, INGESTS, Collectors, Ingest, open_collectors, read_data
from tests.torture.injection import Fault, was_injected

pytestmark = pytest.mark.xdist_group("collectors to break")
SAMPLE = 2
STEP, RECORDS, BUNDLE, AGAIN, AT_CHECKPOINT = INGESTS


@pytest.fixture(scope="module", name="collectors")
def start_collectors(tracing: None) -> Iterator[Collectors]:
    with open_collectors() as collectors:
        yield collectors


@pytest.mark.parametrize("ingest", [STEP, RECORDS, BUNDLE, AGAIN], ids=str)
def test_failed_call_loses_nothing_acknowledged(collectors: Collectors, ingest: Ingest) -> None:
    tally = torture(ingest, collectors, limit=SAMPLE)
    assert not tally.findings, "\n".join(tally.findings)
    assert tally.cases, "no call of an ingest failed"


@pytest.mark.parametrize(
    ("ingest", "path"),
    [(STEP, "collector.sqlite-wal"), (BUNDLE, "collector.sqlite-wal"), (BUNDLE, "/objects/web1/*")],
    ids=str,
)
def test_unsynced_data_is_not_acknowledged(collectors: Collectors, ingest: Ingest, path: str) -> None:
    sync = next(
        case
        for case in list_cases(ingest, collectors, path)
        if case.fault.call in {"fsync", "fdatasync"} and case.fault.effect == "EIO" and case.fault.number == 1
    )
    assert judge(ingest, collectors, sync) == (True, [])


@pytest.mark.parametrize("ingest", [STEP, BUNDLE], ids=str)
def test_unreadable_database_page_is_reported(collectors: Collectors, ingest: Ingest) -> None:
    read = Case(Fault("pread64", 1, "EIO", persistent=True), "")
    assert judge(ingest, collectors, read) == (True, [])


@pytest.mark.parametrize("ingest", [BUNDLE, AGAIN], ids=str)
def test_failed_cleanup_does_not_fail_upload(collectors: Collectors, ingest: Ingest) -> None:
    removal = Case(Fault("unlink", 1, "EIO", persistent=True), "")
    with collectors.copy(ingest) as data, collectors.serve(data) as (running, client):
        with inject_fault(running, data.parent / "trace", removal):
            assert ingest.send(client, 1).status == 204
        assert read_data(client) == ingest.update(collectors.get_initial_data(ingest), 1)
        assert was_injected(data.parent / "trace", removal.fault)


def test_checker_detects_lost_and_doubled_data(collectors: Collectors) -> None:
    """Check the torture itself: lost data would be found."""
    with collectors.copy(STEP) as data, collectors.serve(data) as (_, client):
        before = collectors.get_initial_data(STEP)
        assert STEP.send(client, 1).status in ACCEPTED
        assert read_data(client) == STEP.update(before, 1) != before
        assert RECORDS.send(client, 1).status == RECORDS.send(client, 1).status == 200
        assert read_data(client) == RECORDS.update(STEP.update(before, 1), 1)
