"""Some of the faults that `make torture` tries on an ingest of a collector, and what found something."""

from collections.abc import Iterator

import pytest

from tests.torture.ingesting import Case, broken, cases_of, judged, tortured
from tests.torture.ingests import ACCEPTED, INGESTS, Collectors, Ingest, collectors, kept_by
from tests.torture.injection import Fault, injected

pytestmark = pytest.mark.xdist_group("collectors to break")
SAMPLE = 2
STEP, RECORDS, BUNDLE, AGAIN, AT_CHECKPOINT = INGESTS


@pytest.fixture(scope="module", name="of")
def collectors_to_break(tracing: None) -> Iterator[Collectors]:
    with collectors() as made:
        yield made


@pytest.mark.parametrize("ingest", [STEP, RECORDS, BUNDLE, AGAIN], ids=str)
def test_failed_call_loses_nothing_acknowledged(of: Collectors, ingest: Ingest) -> None:
    tally = tortured(ingest, of, most=SAMPLE)
    assert not tally.findings, "\n".join(tally.findings)
    assert tally.cases, "no call of an ingest failed"


@pytest.mark.parametrize(
    ("ingest", "about"),
    [(STEP, "collector.sqlite-wal"), (BUNDLE, "collector.sqlite-wal"), (BUNDLE, "/objects/web1/*")],
    ids=str,
)
def test_unsynced_data_is_not_acknowledged(of: Collectors, ingest: Ingest, about: str) -> None:
    sync = next(
        case
        for case in cases_of(ingest, of, about)
        if case.fault.call in {"fsync", "fdatasync"} and case.fault.what == "EIO" and case.fault.number == 1
    )
    assert judged(ingest, of, sync) == (True, [])


@pytest.mark.parametrize("ingest", [STEP, BUNDLE], ids=str)
def test_unreadable_database_page_is_reported(of: Collectors, ingest: Ingest) -> None:
    read = Case(Fault("pread64", 1, "EIO", persistent=True), "")
    assert judged(ingest, of, read) == (True, [])


@pytest.mark.parametrize("ingest", [BUNDLE, AGAIN], ids=str)
def test_failed_cleanup_does_not_fail_upload(of: Collectors, ingest: Ingest) -> None:
    removal = Case(Fault("unlink", 1, "EIO", persistent=True), "")
    with of.copy(ingest) as data, of.serving(data) as (running, client):
        with broken(running, data.parent / "trace", removal):
            assert ingest.send(client, 1).status == 204
        assert kept_by(client) == ingest.added(of.kept_before(ingest), 1)
        assert injected(data.parent / "trace", removal.fault)


def test_checker_detects_lost_and_doubled_data(of: Collectors) -> None:
    """The torture itself: a collector that had lost something would be found."""
    with of.copy(STEP) as data, of.serving(data) as (_, client):
        before = of.kept_before(STEP)
        assert STEP.send(client, 1).status in ACCEPTED
        assert kept_by(client) == STEP.added(before, 1) != before
        assert RECORDS.send(client, 1).status == RECORDS.send(client, 1).status == 200
        assert kept_by(client) == RECORDS.added(STEP.added(before, 1), 1)
