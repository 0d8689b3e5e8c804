"""Token authentication and rate limits.

The limits are token buckets: each request takes one token, and a bucket is refilled at a constant rate.
"""

import asyncio
import hmac
import ipaddress
import math
import random
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from service_record.collector.api.answering import Refusal
from service_record.collector.domain.access import Grant, Presented, TokenKind, parse_token
from service_record.collector.process import Collector
from service_record.collector.serving_settings import Rates
from service_record.collector.store import tokens

K = TypeVar("K")
V = TypeVar("V")
_MAX_REMEMBERED: Final = 100_000
"""Maximum number of addresses, tokens, sessions and hosts kept in memory, each. The least recently used is
dropped first.
"""


_NEW_HOSTS_FACTOR: Final = 10
"""A token's limit for hosts that are new to this process, as a multiple of one host's limit."""
_PATIENCE_SECONDS: Final = 2.0
"""How long a report may wait for its limit: the shortest timeout in the snippets."""
_MAX_WAITING: Final = 2_000
_SPREAD_SECONDS: Final = 5.0
_MAX_NAME_CHARS: Final = 200
"""Characters of a host's name in the key of its bucket. The database column holds 255."""


@dataclass(slots=True)
class Bucket:
    """A token bucket: `left` tokens at the time `at`, in seconds of the monotonic clock."""

    left: float
    at: float

    def take(self, rates: Rates, now: float, patience: float = 0.0) -> float:
        """Return the seconds until a token is available, 0 if one is available now.

        The token is taken if the wait is at most `patience` seconds.
        """
        self.left = min(self.left + (now - self.at) * rates.per_second, float(rates.burst))
        self.at = now
        wait = max(0.0, (1 - self.left) / rates.per_second)
        if wait <= patience:
            self.left -= 1
        return wait


def _remember(memory: OrderedDict[K, V], key: K, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > _MAX_REMEMBERED:
        memory.popitem(last=False)


class Buckets:
    """The buckets of one kind of client, such as tokens, sessions or addresses with failed logins."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._buckets: OrderedDict[object, Bucket] = OrderedDict()

    @property
    def per_second(self) -> float:
        return self._rates.per_second

    def __contains__(self, client: object) -> bool:
        return client in self._buckets

    def take(self, client: object, now: float, patience: float = 0.0) -> float:
        """Return the seconds until the client's bucket has a token; see `Bucket.take`."""
        bucket = self._buckets.get(client) or Bucket(float(self._rates.burst), now)
        _remember(self._buckets, client, bucket)
        return bucket.take(self._rates, now, patience)


def make_address_key(host: str) -> str:
    """Return the key under which failures of an address are counted: for IPv6 its /64 network.

    One machine usually has a whole /64, so single addresses would not limit it.
    """
    if ":" not in host:
        return host
    try:
        return str(ipaddress.IPv6Network((host.partition("%")[0], 64), strict=False))
    except ValueError:
        return host


TOKEN_CACHE_SECONDS: Final = 3.0
"""How long a valid token is cached. A token that another process revoked may work for this long; a token that
this process revoked stops working at once.
"""


@dataclass(slots=True)
class _CachedToken:
    """A token that was valid at its last look-up."""

    presented: Presented
    grant: Grant
    until: float

    def matches(self, token: Presented) -> bool:
        """Return True if it is the same token. The comparison takes constant time."""
        return hmac.compare_digest(self.presented.secret.encode(), token.secret.encode())


class Guard:
    """Authenticates requests and applies the rate limits of this process.

    Processes do not share their counts: that cost a transaction a second for each of them, and a client that
    finds several processes can gain no more than their number.
    """

    def __init__(self, collector: Collector, rates: Rates) -> None:
        self._collector = collector
        self._rates = rates
        self._known: OrderedDict[int, _CachedToken] = OrderedDict()
        self._tokens = Buckets(rates)
        self._hosts = Buckets(rates)
        new_hosts = Rates(
            per_second=rates.per_second * _NEW_HOSTS_FACTOR, burst=rates.burst * _NEW_HOSTS_FACTOR
        )
        self._new_hosts = Buckets(new_hosts)
        self._waiting = 0
        self._sessions = Buckets(rates)
        self._guesses = Buckets(collector.settings.guesses)

    async def check_request(self, request: Request, *, is_counted: bool = True) -> Grant:
        """Return the rights of a request's token.

        With `is_counted=False` the request is not counted; its handler calls `admit_report` once it knows the
        host.

        Raises Refusal: 401 for an invalid token; 429 if a valid token exceeds its limit, or if an address
        presented too many invalid tokens.
        """
        token = _read_token(request)
        if token is None:
            raise _unauthorized("this needs a token: Authorization: Bearer srt_...")
        return await self.check_token(token, request, is_counted=is_counted)

    async def check_token(self, token: Presented, request: Request, *, is_counted: bool = True) -> Grant:
        """Return the rights of a token, such as that of a login form. Raises Refusal like `check_request`."""
        grant = self.find_cached(token) or await self._look_up(token, request)
        request.state.token_id = grant.token_id
        if is_counted:
            path = request.path_params
            await self.admit_report(grant, path.get("host") or path.get("host_id") or "")
        return grant

    def find_cached(self, token: Presented) -> Grant | None:
        """Return the rights of a token that was valid a moment ago, or None: it must be looked up."""
        cached = self._known.get(token.id)
        if cached is None or cached.until < time.monotonic() or not cached.matches(token):
            return None
        return cached.grant

    def admit_at_once(self, grant: Grant, host: str) -> bool:
        """Count one report of a host if it is within its limit now.

        Otherwise nothing is counted: `admit_report` decides whether it waits or is refused.
        """
        limits = self._limits(grant, host)
        if len(limits) > 1:  # the first report of a host with this token
            return False
        buckets, bucket, _ = limits[0]
        return not buckets.take(bucket, time.monotonic())

    async def admit_report(self, grant: Grant, host: str) -> None:
        """Count one report of a host. Waits up to `_PATIENCE_SECONDS` if the limit is exceeded.

        Raises Refusal 429.
        """
        if (refusal := (await self.admit_reports(grant, [host]))[0]) is not None:
            raise refusal

    async def admit_reports(self, grant: Grant, hosts: Sequence[str]) -> list[Refusal | None]:
        """Count the reports of one request, each for its host. Return a refusal or None for each report.

        Waits until all admitted reports are within their limits. After a refused report, later reports of the
        same host are refused too, so that the reports of a host stay in order.
        """
        patience = _PATIENCE_SECONDS if self._waiting < _MAX_WAITING else 0.0
        if grant.kind not in {TokenKind.HOST, TokenKind.GROUP}:
            patience = 0.0
        longest = 0.0
        refused: dict[str, Refusal] = {}
        refusals: list[Refusal | None] = []
        for host in hosts:
            if host not in refused:
                wait, refusal = self._take_for_report(grant, host, patience)
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

    def _take_for_report(self, grant: Grant, host: str, patience: float) -> tuple[float, Refusal | None]:
        """Take a token from each bucket that limits a report.

        Returns the seconds until the report is within all limits, and a refusal if that takes too long.
        """
        longest = 0.0
        for buckets, bucket, what in self._limits(grant, host):
            wait = buckets.take(bucket, time.monotonic(), patience)
            if wait > patience:
                return wait, _too_many_requests(f"more than {buckets.per_second:g} {what} a second", wait)
            longest = max(longest, wait)
        return longest, None

    def _limits(self, grant: Grant, host: str) -> list[tuple[Buckets, object, str]]:
        """Return the limits of a report: the buckets, the key of the bucket, and what it counts."""
        needed: list[tuple[Buckets, object, str]] = []
        if grant.kind is TokenKind.GROUP and host:
            # One limit for each host: hosts of a group that boot together must not use up one limit.
            client = f"{grant.token_id}/{host.lower()[:_MAX_NAME_CHARS]}"
            if client not in self._hosts:
                # Without this second limit a token could evade its limit by inventing host names.
                needed.append((self._new_hosts, str(grant.token_id), "new hosts with this token"))
            needed.append((self._hosts, client, "requests of this host"))
        elif grant.kind in {TokenKind.HOST, TokenKind.GROUP}:
            needed.append((self._tokens, str(grant.token_id), "requests of this host"))
        else:
            needed.append((self._tokens, grant.token_id, "requests with this token"))
        return needed

    def admit(self, grant: Grant, request: Request) -> None:
        """Count one request of a login session. Raises Refusal 429."""
        request.state.token_id = grant.token_id
        wait = self._sessions.take(grant.token_id, time.monotonic())
        if wait:
            raise _too_many_requests(
                f"more than {self._rates.per_second:g} requests a second with this token", wait
            )

    def forget(self, token_id: int) -> None:
        """Drop a revoked token from the cache."""
        if cached := self._known.get(token_id):
            cached.until = 0.0

    async def _look_up(self, token: Presented, request: Request) -> Grant:
        def read_grant() -> Grant | None:
            with self._collector.database.reading() as connection:
                return tokens.read_grant(connection, token, self._collector.now())

        grant = await run_in_threadpool(read_grant)
        now = time.monotonic()
        if grant is None:
            raise self._count_failure(request, now)
        _remember(self._known, token.id, _CachedToken(token, grant, now + TOKEN_CACHE_SECONDS))
        return grant

    def _count_failure(self, request: Request, now: float) -> Refusal:
        """Count an invalid token. Return the refusal: 401, or 429 if its address presented too many.

        Only failures are limited: one broken client must not lock out other clients behind the same address.
        """
        address = make_address_key(request.client.host if request.client else "")
        wait = self._guesses.take(address, now)
        if wait:
            return _too_many_requests("too many bad tokens came from this address", wait)
        return _unauthorized("this token is unknown, revoked, used or expired")


def _read_token(request: Request) -> Presented | None:
    """Return the token from `Authorization: Bearer`, or from `X-Secret-Key` of an assisted agent."""
    if (token := bearer_token(request.headers.get("authorization", ""))) is not None:
        return parse_token(token)
    return parse_token(request.headers.get("x-secret-key", "").strip())


def bearer_token(header: str) -> str | None:
    """Return the token in an Authorization header, or None if the header has another scheme."""
    scheme, _, value = header.partition(" ")
    return value.strip() if scheme.lower() == "bearer" else None


def _unauthorized(reason: str) -> Refusal:
    return Refusal(HTTPStatus.UNAUTHORIZED, reason, {"WWW-Authenticate": "Bearer"})


def _too_many_requests(reason: str, wait: float) -> Refusal:
    # Random: clients that are refused at the same time must not all retry at the same time.
    later = wait + random.uniform(0, max(wait, _SPREAD_SECONDS))  # noqa: S311
    return Refusal(HTTPStatus.TOO_MANY_REQUESTS, reason, {"Retry-After": str(math.ceil(later))})
