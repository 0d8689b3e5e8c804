"""Checks the token of a request, and how often its owner may ask: each request takes from a bucket that time
fills again.
"""

import asyncio
import hmac
import ipaddress
import math
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from service_record.collector.api.answering import Refusal
from service_record.collector.domain.access import Grant, Presented, TokenKind, presented
from service_record.collector.ingest.rounds import Background
from service_record.collector.process import Collector
from service_record.collector.serving_settings import Rates
from service_record.collector.store import tokens
from service_record.collector.store.row_writer import DatabaseWriter
from service_record.collector.store.tokens import count_uses

K = TypeVar("K")
V = TypeVar("V")
_MOST_REMEMBERED: Final = 100_000
"""Addresses, tokens, sessions and hosts remembered, each; those that came longest ago are forgotten first."""


_SHARED: Final = 1.0
"""Seconds after which other processes know."""
_OFTEN: Final = _SHARED / 8
"""Requests a second above which other processes are notified of a client, as a part of what a bucket
allows.
"""
_NEW_HOSTS: Final = 10
"""A token's limit for hosts that are new to this process, as a multiple of the limit of one host."""
_PATIENCE_SECONDS: Final = 2.0
"""The time for which a report may wait; the snippets' shortest time limit."""
_MOST_WAITING: Final = 2_000
_SPREAD_SECONDS: Final = 5.0
_MOST_OF_NAME: Final = 200
"""Characters of a host's name in the key of its limit, which a column of 255 must hold."""
_FRESH: Final = 10.0
"""Seconds after which what others took is over: time has filled the bucket again."""


@dataclass(slots=True)
class Bucket:
    """The tokens left in a bucket, and since when. Times are seconds of one monotonic clock."""

    left: float
    at: float

    def take(self, rates: Rates, now: float, patience: float = 0.0) -> float:
        """Return the seconds to wait for a token, 0 if there is one.

        The token is taken, unless it takes more than `patience` seconds to come.
        """
        self.left = min(self.left + (now - self.at) * rates.per_second, float(rates.burst))
        self.at = now
        wait = max(0.0, (1 - self.left) / rates.per_second)
        if wait <= patience:
            self.left -= 1
        return wait


@dataclass(slots=True)
class Use:
    """The tokens that a bucket gave since other processes were last updated."""

    bucket: Bucket
    rates: Rates
    count: int = 0


class Uses:
    """The tokens that all buckets gave since the last update of other processes. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uses: dict[str, Use] = {}

    def count(self, key: str, bucket: Bucket, rates: Rates) -> None:
        """Count one use."""
        with self._lock:
            self._uses.setdefault(key, Use(bucket, rates)).count += 1

    def take(self) -> dict[str, Use]:
        """Take the counts of the clients that ask often: other processes need not know of the rest."""
        with self._lock:
            uses, self._uses = self._uses, {}
        return {key: use for key, use in uses.items() if use.count >= use.rates.per_second * _OFTEN}


def _remember(memory: OrderedDict[K, V], key: K, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > _MOST_REMEMBERED:
        memory.popitem(last=False)


class Buckets:
    """The buckets of clients of one kind: of tokens, sessions, or addresses that guess."""

    def __init__(self, kind: str, rates: Rates, uses: Uses) -> None:
        self._kind = kind
        self._rates = rates
        self._uses = uses
        self._buckets: OrderedDict[object, Bucket] = OrderedDict()

    @property
    def per_second(self) -> float:
        return self._rates.per_second

    def __contains__(self, client: object) -> bool:
        return client in self._buckets

    def take(self, client: object, now: float, patience: float = 0.0) -> float:
        """Return the seconds until a client has a token. It is taken if that is within `patience`."""
        bucket = self._buckets.get(client) or Bucket(float(self._rates.burst), now)
        _remember(self._buckets, client, bucket)
        wait = bucket.take(self._rates, now, patience)
        if wait <= patience:
            self._uses.count(f"{self._kind} {client}", bucket, self._rates)
        return wait


def address_of(host: str) -> str:
    """Return the address that failures count for: with IPv6 its /64, which one machine has for itself."""
    if ":" not in host:
        return host
    try:
        return str(ipaddress.IPv6Network((host.partition("%")[0], 64), strict=False))
    except ValueError:
        return host


REMEMBERED: Final = 3.0
"""Seconds for which a token that was good is taken for good. So long after it was revoked by another process
it may still work; by this one, no longer."""


@dataclass(slots=True)
class _CachedToken:
    """A token that was good when it was last looked up."""

    presented: Presented
    grant: Grant
    until: float

    def is_of(self, token: Presented) -> bool:
        """Return whether it is the same token, in a time that reveals nothing."""
        return hmac.compare_digest(self.presented.secret.encode(), token.secret.encode())


class Guard:
    """Caches the tokens that were presented lately, and the addresses that guess."""

    def __init__(self, collector: Collector, rates: Rates) -> None:
        self._collector = collector
        self._rates = rates
        self._known: OrderedDict[int, _CachedToken] = OrderedDict()
        self.uses = Uses()
        self._tokens = Buckets("token", rates, self.uses)
        self._hosts = Buckets("host", rates, self.uses)
        new_hosts = Rates(per_second=rates.per_second * _NEW_HOSTS, burst=rates.burst * _NEW_HOSTS)
        self._new_hosts = Buckets("new hosts of token", new_hosts, self.uses)
        self._waiting = 0
        self._sessions = Buckets("session", rates, self.uses)
        self._guesses = Buckets("address", collector.settings.guesses, self.uses)

    async def grant(self, request: Request, *, is_counted: bool = True) -> Grant:
        """Return the rights of a request's token. Its handler calls `admit_report` unless it is counted here.

        Raises Refusal: 401 for a bad token; 429 for a good one that comes too often, and for a bad one from
        an address that has presented too many.
        """
        token = _token_of(request)
        if token is None:
            raise _unauthorized("this needs a token: Authorization: Bearer srt_...")
        return await self.grant_of(token, request, is_counted=is_counted)

    async def grant_of(self, token: Presented, request: Request, *, is_counted: bool = True) -> Grant:
        """Return the same for a token that did not come in a header but in the form of a login."""
        cached = self._known.get(token.id)
        if cached is None or not cached.is_of(token) or cached.until < time.monotonic():
            cached = await self._look_up(token, request)
        request.state.token_id = cached.grant.token_id
        if is_counted:
            path = request.path_params
            await self.admit_report(cached.grant, path.get("host") or path.get("host_id") or "")
        return cached.grant

    async def admit_report(self, grant: Grant, host: str) -> None:
        """Count a request. Raises Refusal 429.

        A group's token is limited for each of its hosts, so hosts that boot together do not use up one limit.
        A host that this process does not know yet counts for the token, too: it must not invent hosts without
        end. A burst of hosts waits a little before it is refused.
        """
        if (refusal := (await self.admit_reports(grant, [host]))[0]) is not None:
            raise refusal

    async def admit_reports(self, grant: Grant, hosts: Sequence[str]) -> list[Refusal | None]:
        """Count reports that came in one request, each for its host. Return the refusal of each, or None.

        All wait together until the last admitted report is within its limit. After a refused report, the
        later ones of its host are refused too, so that they stay in order.
        """
        patience = _PATIENCE_SECONDS if self._waiting < _MOST_WAITING else 0.0
        if grant.kind not in {TokenKind.HOST, TokenKind.GROUP}:
            patience = 0.0
        longest = 0.0
        refused: dict[str, Refusal] = {}
        refusals: list[Refusal | None] = []
        for host in hosts:
            if host not in refused:
                wait, refusal = self._take_for(grant, host, patience)
                if refusal is None:
                    longest = max(longest, wait)
                else:
                    refused[host] = refusal
            refusals.append(refused.get(host))
        if longest:
            self._waiting += 1
            try:
                await asyncio.sleep(longest)
            finally:
                self._waiting -= 1
        return refusals

    def _take_for(self, grant: Grant, host: str, patience: float) -> tuple[float, Refusal | None]:
        """Take what a report needs. Return the seconds until it is within all limits, or its refusal."""
        needed: list[tuple[Buckets, object, str]] = []
        if grant.kind is TokenKind.GROUP and host:
            client = f"{grant.token_id}/{host.lower()[:_MOST_OF_NAME]}"
            if client not in self._hosts:
                needed.append((self._new_hosts, str(grant.token_id), "new hosts with this token"))
            needed.append((self._hosts, client, "requests of this host"))
        elif grant.kind in {TokenKind.HOST, TokenKind.GROUP}:
            needed.append((self._tokens, str(grant.token_id), "requests of this host"))
        else:
            needed.append((self._tokens, grant.token_id, "requests with this token"))
        longest = 0.0
        for buckets, bucket, what in needed:
            wait = buckets.take(bucket, time.monotonic(), patience)
            if wait > patience:
                return wait, _too_often(f"more than {buckets.per_second:g} {what} a second", wait)
            longest = max(longest, wait)
        return longest, None

    def admit(self, grant: Grant, request: Request) -> None:
        """Count a request of a session that was begun with a token. Raises Refusal 429."""
        request.state.token_id = grant.token_id
        wait = self._sessions.take(grant.token_id, time.monotonic())
        if wait:
            raise _too_often(f"more than {self._rates.per_second:g} requests a second with this token", wait)

    def forget(self, token_id: int) -> None:
        """Look a token up anew: it was revoked."""
        if cached := self._known.get(token_id):
            cached.until = 0.0

    async def _look_up(self, token: Presented, request: Request) -> _CachedToken:
        def read_grant() -> Grant | None:
            with self._collector.database.reading() as connection:
                return tokens.grant_of(connection, token, self._collector.now())

        grant = await run_in_threadpool(read_grant)
        now = time.monotonic()
        if grant is None:
            raise self._count_failure(request, now)
        cached = _CachedToken(token, grant, now + REMEMBERED)
        _remember(self._known, token.id, cached)
        return cached

    def _count_failure(self, request: Request, now: float) -> Refusal:
        """Return the refusal of a bad token: 429 when its address has presented too many.

        Only failures are throttled. One broken client must not lock out the others behind its address.
        """
        address = address_of(request.client.host if request.client else "")
        wait = self._guesses.take(address, now)
        if wait:
            return _too_often("too many bad tokens came from this address", wait)
        return _unauthorized("this token is unknown, revoked, used or expired")


def _token_of(request: Request) -> Presented | None:
    """Return the token, from `Authorization: Bearer` or in the form of the assisted-service's agents."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return presented(value.strip())
    return presented(request.headers.get("x-secret-key", "").strip())


def _unauthorized(reason: str) -> Refusal:
    return Refusal(HTTPStatus.UNAUTHORIZED, reason, {"WWW-Authenticate": "Bearer"})


def _too_often(reason: str, wait: float) -> Refusal:
    # Clients that are refused together must not come again together.
    later = wait + random.uniform(0, max(wait, _SPREAD_SECONDS))  # noqa: S311
    return Refusal(HTTPStatus.TOO_MANY_REQUESTS, reason, {"Retry-After": str(math.ceil(later))})


class Sharing(Background):
    """Shares throttles among all processes: each publishes what its buckets gave, and deducts what others
    gave.

    Whoever spreads requests over processes gets a burst of each at first, and then about one rate.
    """

    def __init__(self, writer: DatabaseWriter, uses: Uses, now: Callable[[], float] = time.time) -> None:
        super().__init__("sharing", "throttles hold for each process alone", first=_SHARED)
        self._writer = writer
        self._uses = uses
        self._now = now
        self._sums: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """Key -> what all processes used, and when that was asked, by the monotonic clock."""

    def round(self) -> float:
        """Publish and deduct once; return the seconds until the next time."""
        uses = self._uses.take()
        if uses:
            counts = {key: use.count for key, use in uses.items()}
            sums = self._writer.change(
                lambda connection: count_uses(connection, counts, self._now())
            ).result()
            for key, use in uses.items():
                self._take_off(key, use, sums[key])
        return _SHARED

    def _take_off(self, key: str, use: Use, used: int) -> None:
        now = time.monotonic()
        before, at = self._sums.get(key, (0, -_FRESH))
        _remember(self._sums, key, (used, now))
        if now - at < _FRESH:
            others = max(used - before - use.count, 0)
            use.bucket.left = max(use.bucket.left - others, -float(use.rates.burst))
