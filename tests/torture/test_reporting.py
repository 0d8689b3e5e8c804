"""A few of the faults that `make torture` tries on a round, and those that found something."""

from collections.abc import Iterator
from operator import attrgetter

import pytest

from tests.assisted_rules import AssistedRules
from tests.assisted_server import AssistedServer
from tests.torture.reporting import Rounds, tortured

pytestmark = pytest.mark.usefixtures("reporting")


@pytest.fixture
def rounds() -> Iterator[Rounds]:
    with AssistedServer(AssistedRules(auth_type="local")) as server:
        yield Rounds(server)


def test_a_system_call_that_fails_ends_no_round_badly_and_the_next_makes_it_good() -> None:
    tally = tortured(most=2)
    assert not tally.findings, "\n".join(tally.findings)


@pytest.mark.parametrize("name", ["/etc/service-record/token", "/reporter.json"])
def test_a_token_or_state_that_cannot_be_read_for_once_is_there_in_the_next_round(
    rounds: Rounds, name: str
) -> None:
    """A round without the token would be refused, and stop for good; one without the state must save none."""
    reads = [fault for fault in rounds.faults(name) if (fault.call, fault.what) == ("openat", "EIO")]
    read = min(reads, key=attrgetter("number", "persistent"))
    assert rounds.judged(read) == (True, [])


@pytest.mark.parametrize("name", ["encapsulated.json.bak", "reporter.stopped", "service-ca-cert.crt"])
def test_a_file_that_the_disk_does_not_tell_of_ends_no_round(rounds: Rounds, name: str) -> None:
    look = next(fault for fault in rounds.faults(name) if str(fault).startswith("EIO at newfstatat"))
    assert rounds.judged(look) == (True, [])
