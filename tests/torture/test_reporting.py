"""A few of the faults that `make torture` tries on a round, and those that found something."""

from collections.abc import Iterator
from operator import attrgetter

import pytest

from tests.torture.injection import KILL, Fault
from tests.torture.reporting import Rounds, cut_short, rounds, tortured

pytestmark = pytest.mark.xdist_group("rounds to break")


@pytest.fixture(scope="module", name="of")
def rounds_of_one_service(reporting: None) -> Iterator[Rounds]:
    with rounds() as made:
        yield made


def test_failed_system_call_is_recovered_next_round(of: Rounds) -> None:
    tally = tortured(of, most=2)
    assert not tally.findings, "\n".join(tally.findings)


def test_truncated_file_is_recovered_next_round(of: Rounds) -> None:
    tally = cut_short(of, most=3)
    assert not tally.findings, "\n".join(tally.findings)


@pytest.mark.parametrize("name", ["/etc/service-record/token", "/reporter.json"])
def test_temporary_read_error_keeps_token_and_state(of: Rounds, name: str) -> None:
    """A round without the token would be refused, and stop for good; one without the state must save none."""
    reads = [fault for fault in of.faults(name) if (fault.call, fault.what) == ("openat", "EIO")]
    read = min(reads, key=attrgetter("number", "persistent"))
    assert of.judged(read) == (True, [])


@pytest.mark.parametrize("name", ["encapsulated.json.bak", "reporter.stopped", "service-ca-cert.crt"])
def test_unlisted_file_ends_no_round(of: Rounds, name: str) -> None:
    look = next(fault for fault in of.faults(name) if str(fault).startswith("EIO at newfstatat"))
    assert of.judged(look) == (True, [])


def test_unreadable_causes_end_no_round(of: Rounds) -> None:
    """They are opened right behind the record."""
    record = min(fault.number for fault in of.faults("/bootkube.json") if fault.call == "openat")
    assert of.judged(Fault("openat", record + 1, "EIO")) == (True, [])


def test_unlisted_spool_is_emptied_next_round(of: Rounds) -> None:
    looks = [fault for fault in of.faults("/spool") if fault.call == "getdents64" and fault.what != KILL]
    look = max(looks, key=attrgetter("number"))
    assert of.judged(look) == (True, [])
