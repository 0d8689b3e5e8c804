"""How long the reporter waits for others, and which answers it asks for again. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from service_record.reporter.answers import Answered, Unreachable

ASK_AGAIN: Final[frozenset[int]] = frozenset(
    (
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.LOCKED,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
        *range(500, 600),
    )
)
"""Of every call. What is none of these stays the answer, however often one asks."""

ASK_AGAIN_FOR_PROGRESS: Final = ASK_AGAIN - {HTTPStatus.INTERNAL_SERVER_ERROR}
"""The assisted-service answers 500 to a stage it cannot store, and to one that changed meanwhile: both for
ever.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Limits in seconds. The first five hold for one try."""

    connect: float = 10.0
    read: float = 60.0
    """Without a byte from the server; it reads an upload whole before it answers."""
    write: float = 30.0
    total: float = 90.0
    upload_total: float = 300.0
    tries: int = 4
    upload_tries: int = 2
    """Each try of an upload costs the network its whole size again."""
    budget: float = 180.0
    """Of all calls to one server in a round, waits included. When it is spent, each call is tried once."""
    first_wait: float = 2.0
    longest_wait: float = 10.0
    jitter: float = 2.0


def wait_before_next(outcome: Answered | Unreachable, again: Collection[int], left: float) -> float | bool:
    """Whether to try again: True after the usual wait, a number after that many seconds, False not in this
    round.

    `left` is what remains of the budget in seconds.
    """
    if isinstance(outcome, Unreachable):
        return not outcome.is_tls and left > 0
    if outcome.status not in again or left <= 0:
        return False
    if outcome.retry_after is None:
        return True
    return outcome.retry_after if outcome.retry_after < left else False
