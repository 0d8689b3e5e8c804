"""Who asks: the token of a request, and whether it may ask again so soon."""

import hmac
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from service_record.collector.access import Grant, Presented, presented
from service_record.collector.api.answers import Refusal
from service_record.collector.collector import Collector
from service_record.collector.settings import Rates
from service_record.collector.store import tokens

_REMEMBERED: Final = 30.0
"""Seconds for which a token that was good is taken for good: so long after it was revoked it still works."""
_MOST: Final = 20_000


@dataclass(slots=True)
class _Known:
    """A token that was good a moment ago, and how many requests it has left."""

    presented: Presented
    grant: Grant
    until: float
    left: float
    at: float = field(default_factory=time.monotonic)

    def is_of(self, token: Presented) -> bool:
        """Whether it is still to be believed, and the same; how long that takes tells nothing."""
        return self.until >= time.monotonic() and hmac.compare_digest(
            self.presented.secret.encode(), token.secret.encode()
        )


class Guard:
    """Knows the tokens that were presented lately."""

    def __init__(self, collector: Collector, rates: Rates) -> None:
        self._collector = collector
        self._rates = rates
        self._known: OrderedDict[int, _Known] = OrderedDict()

    async def grant(self, request: Request) -> Grant:
        """What the token of a request is good for.

        Raises Refusal: 401 without one that is good, 429 when it comes too often.
        """
        token = _token_of(request)
        if token is None:
            raise _unauthorized("this needs a token: Authorization: Bearer srt_...")
        known = self._known.get(token.id)
        if known is None or not known.is_of(token):
            known = await self._look_up(token)
        self._count(known)
        return known.grant

    def forget(self, token_id: int) -> None:
        """Look a token up anew: it was revoked."""
        self._known.pop(token_id, None)

    async def _look_up(self, token: Presented) -> _Known:
        def found() -> Grant | None:
            with self._collector.database.reading() as connection:
                return tokens.grant_of(connection, token, self._collector.now())

        grant = await run_in_threadpool(found)
        if grant is None:
            raise _unauthorized("this token is unknown, revoked, used or expired")
        before = self._known.pop(token.id, None)
        known = _Known(token, grant, time.monotonic() + _REMEMBERED, float(self._rates.burst))
        if before is not None:
            known.left, known.at = before.left, before.at
        self._known[token.id] = known
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return known

    def _count(self, known: _Known) -> None:
        """One request less; the bucket fills up again by the rate."""
        now = time.monotonic()
        filled = known.left + (now - known.at) * self._rates.per_second
        known.left, known.at = min(filled, self._rates.burst), now
        if known.left < 1:
            wait = max(1, round((1 - known.left) / self._rates.per_second))
            raise Refusal(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"more than {self._rates.per_second:g} requests a second with this token",
                {"Retry-After": str(wait)},
            )
        known.left -= 1


def _token_of(request: Request) -> Presented | None:
    """As `Authorization: Bearer`, or as the assisted-service's agents send theirs."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return presented(value.strip())
    return presented(request.headers.get("x-secret-key", "").strip())


def _unauthorized(reason: str) -> Refusal:
    return Refusal(HTTPStatus.UNAUTHORIZED, reason, {"WWW-Authenticate": "Bearer"})
