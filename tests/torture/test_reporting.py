"""Some faults that `make torture` tries on a round, and faults that once broke a promise."""

from collections.abc import Iterator
from operator import attrgetter

import pytest

from tests.torture.injection import KILL, Fault
from tests.torture.reporting import Rounds, open_rounds, torture, torture_truncation

pytestmark = pytest.mark.xdist_group("rounds to break")


@pytest.fixture(scope="module", name="rounds")
def start_rounds(reporting: None) -> Iterator[Rounds]:
    with open_rounds() as rounds:
        yield rounds


def test_failed_system_call_is_recovered_next_round(rounds: Rounds) -> None:
    tally = torture(rounds, limit=2)
    assert not tally.findings, "\n".join(tally.findings)


def test_truncated_file_is_recovered_next_round(rounds: Rounds) -> None:
    tally = torture_truncation(rounds, limit=3)
    assert not tally.findings, "\n".join(tally.findings)


@pytest.mark.parametrize("name", ["/etc/service-record/token", "/reporter.json"])
def test_temporary_read_error_keeps_token_and_state(rounds: Rounds, name: str) -> None:
    """Without its token a round would be refused and stop forever; without its state it must not save a new
    one.
    """
    reads = [fault for fault in rounds.list_faults(name) if (fault.call, fault.effect) == ("openat", "EIO")]
    read = min(reads, key=attrgetter("number", "persistent"))
    assert rounds.judge(read) == (True, [])


@pytest.mark.parametrize("name", ["encapsulated.json.bak", "reporter.stopped", "service-ca-cert.crt"])
def test_unlisted_file_does_not_end_round(rounds: Rounds, name: str) -> None:
    listing = next(fault for fault in rounds.list_faults(name) if str(fault).startswith("EIO at newfstatat"))
    assert rounds.judge(listing) == (True, [])


def test_unreadable_causes_do_not_end_round(rounds: Rounds) -> None:
    """The reporter opens its causes right after the record."""
    record = min(fault.number for fault in rounds.list_faults("/bootkube.json") if fault.call == "openat")
    assert rounds.judge(Fault("openat", record + 1, "EIO")) == (True, [])


def test_unlisted_spool_is_emptied_next_round(rounds: Rounds) -> None:
    listings = [
        fault for fault in rounds.list_faults("/spool") if fault.call == "getdents64" and fault.effect != KILL
    ]
    listing = max(listings, key=attrgetter("number"))
    assert rounds.judge(listing) == (True, [])
