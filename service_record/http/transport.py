"""Requests to one server, with retries, verified TLS and no redirects. No text that it returns has a secret.

Faults of the network, the server and the settings are returned as `Unreachable`, not raised. Its reason says
what to do.
"""

import logging
import math
import ssl
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote

import httpcore2
import httpx2

from service_record.http.answers import (
    MAX_BODY_BYTES,
    Answered,
    Outcome,
    RetryPolicy,
    Unreachable,
    is_page,
    one_line,
    parse_retry_after,
    printable,
    wait_before_next,
)
from service_record.http.attempt import Attempt, Request
from service_record.http.deadline import DeadlineBackend
from service_record.http.proxies import Proxies, proxy_for, split_url
from service_record.version import __version__


class _TryAgain(Exception):  # noqa: N818  # makes the retry library try again
    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Reply:
    """An outcome with the body of the answer, as far as it was asked for."""

    outcome: Outcome
    body: bytes | bytearray = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport:
    """Requests to one server. The texts that it returns contain neither `secrets` nor the URL."""

    def __init__(
        self,
        url: str,
        *,
        ca_bundle: Path | None = None,
        proxies: Proxies | None = None,
        retry_policy: RetryPolicy | None = None,
        headers: Mapping[str, str] | None = None,
        secrets: Collection[str] = (),
        keeps_connections: bool = False,
    ) -> None:
        """Use a new connection for each try, or keep connections.

        A new connection may reach another, healthier server behind the same name. Kept ones are faster for
        many requests in a row.
        """
        self._retry_policy = retry_policy or RetryPolicy()
        self._secrets = tuple({*filter(None, secrets), *map(unquote, filter(None, secrets))})
        self._headers = {
            "User-Agent": f"service-record/{__version__}",
            "Accept-Encoding": "identity",  # an error page could unpack to gigabytes
            **(headers or {}),
        }
        _silence()
        self._spent = 0.0
        self._backend = DeadlineBackend()
        self._pool: httpcore2.ConnectionPool | None = None
        self.fault: Unreachable | None = None
        """The fault of a setting, or None. With a fault no request is made."""
        try:
            _check(url, self._headers)
            self._pool = self._open_pool(
                url, ca_bundle, proxies or Proxies(), keeps_connections=keeps_connections
            )
        except FaultySettingError as fault:
            self.fault = Unreachable(str(fault), is_tls=fault.is_tls, tries=0)

    def _open_pool(
        self, url: str, ca_bundle: Path | None, proxies: Proxies, *, keeps_connections: bool
    ) -> httpcore2.ConnectionPool:
        trust = make_trust(ca_bundle)
        options: dict[str, Any] = {
            "ssl_context": trust,
            "max_connections": None,
            "max_keepalive_connections": None if keeps_connections else 0,
            # Less than the 5 s after which uvicorn closes an idle connection: a request sent then would fail.
            "keepalive_expiry": 2.0,
            "network_backend": self._backend,
        }
        proxy = _proxy(proxy_for(url, proxies), trust)
        if proxy is None:
            return httpcore2.ConnectionPool(**options)
        place = proxy.url
        return httpcore2.HTTPProxy(
            httpcore2.URL(
                scheme=place.raw_scheme, host=place.raw_host, port=place.port, target=place.raw_path
            ),
            proxy_auth=proxy.raw_auth,
            proxy_headers=proxy.headers.raw,
            proxy_ssl_context=proxy.ssl_context,
            **options,
        )

    def call(self, request: Request, tries: int | None = None) -> Reply:
        """Return the answer to a request, or the last answer when all tries are used up."""
        pool, retry_policy, begin = self._pool, self._retry_policy, time.monotonic()
        if pool is None:
            return Reply(self.fault or Unreachable("the connection is closed", tries=0))
        end = begin + retry_policy.budget - self._spent
        tries = tries or (retry_policy.upload_tries if request.file is not None else retry_policy.tries)
        outcomes: list[Outcome] = []
        reply, again = Reply(Unreachable("nothing was tried", tries=0)), request.again

        def judge(wish: Exception) -> bool | float:
            return isinstance(wish, _TryAgain) and wait_before_next(
                wish.outcome, again, end - time.monotonic()
            )

        try:
            for attempt in _attempts(judge, tries if end > begin else 1, retry_policy):
                with attempt:
                    reply = self._once(pool, request)
                    outcomes.append(reply.outcome)
                    _raise_unless_final(reply.outcome, () if _is_spent(request, reply.outcome) else again)
        except _TryAgain:
            pass
        finally:
            self._spent += time.monotonic() - begin
        sent = sum(outcome.sent for outcome in outcomes)
        return replace(reply, outcome=replace(reply.outcome, tries=len(outcomes), sent=sent))

    def _once(self, pool: httpcore2.ConnectionPool, request: Request) -> Reply:
        policy, is_transfer = self._retry_policy, request.file is not None or request.into is not None
        total = policy.upload_total if is_transfer else policy.total
        request = replace(request, headers={**self._headers, **request.headers})
        answer = math.inf if request.into is not None or policy.answer is None else policy.answer
        timeouts = {
            "connect": policy.connect,
            "read": policy.read,
            "write": policy.write,
            "pool": policy.connect,
        }
        attempt = Attempt(request)
        attempt.run(pool, self._backend.state, timeouts, total, answer)
        if attempt.status == HTTPStatus.EXPECTATION_FAILED and request.expects_leave:
            return self._once(pool, replace(request, asks_first=False))
        if attempt.is_premature:
            reason = f"answered {attempt.status} before the file was sent, which a portal does"
            return Reply(Unreachable(reason, sent=attempt.sent))
        if attempt.status is None or (attempt.broken and attempt.wants_body):
            reason = printable(attempt.broken or "no answer", self._secrets)
            return Reply(
                Unreachable(
                    reason, is_tls=attempt.is_tls, has_no_network=attempt.has_no_network, sent=attempt.sent
                )
            )
        answered = Answered(
            attempt.status,
            one_line(bytes(attempt.body[: 2 * MAX_BODY_BYTES]), self._secrets),
            parse_retry_after(
                attempt.headers.get("retry-after"), datetime.now(UTC), attempt.headers.get("date")
            ),
            sent=attempt.sent,
        )
        return Reply(answered, attempt.body, attempt.headers)

    def close(self) -> None:
        """Close what is open; later calls are `Unreachable`."""
        if self._pool is not None:
            self._pool.close()
        self._pool = None


class Connections:
    """The connections to one server. Close them, or use it as a context manager."""

    _transport: Transport

    def close(self) -> None:
        """Close what is open."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _attempts(
    judge: Callable[[Exception], bool | float], tries: int, policy: RetryPolicy
) -> Iterable[AbstractContextManager[object]]:
    """Return a context for each try. The next one follows an exception that `judge` accepts."""
    if tries == 1:
        return (nullcontext(),)
    import stamina  # an extra that single tries do not need

    stamina.instrumentation.set_on_retry_hooks(())
    return stamina.retry_context(
        on=judge,
        attempts=tries,
        timeout=None,  # `judge` knows the remaining time
        wait_initial=policy.first_wait,
        wait_max=policy.longest_wait,
        wait_jitter=policy.jitter,
    )


def acknowledged(reply: Reply, statuses: Container[int]) -> Outcome:
    """Return the outcome. A success with an unexpected status or a page is not an acknowledgement."""
    outcome = reply.outcome
    if isinstance(outcome, Unreachable) or not outcome.good:
        return outcome
    if outcome.status in statuses and not is_page(reply.body):
        return outcome
    reason = f"{outcome.status}, but no acknowledgement, perhaps of a portal: {outcome.text[:200]}"
    return Unreachable(reason.rstrip(": "), tries=outcome.tries, sent=outcome.sent)


def _is_spent(request: Request, outcome: Outcome) -> bool:
    """Return True if a part of a file was sent before this answer. Another try would send it all again."""
    return isinstance(request.file, Path) and isinstance(outcome, Answered) and outcome.sent > 0


def _raise_unless_final(outcome: Outcome, again: Collection[int]) -> None:
    if wait_before_next(outcome, again, math.inf) is not False:
        raise _TryAgain(outcome)


def _check(url: str, headers: Mapping[str, str]) -> None:
    """Raise FaultySettingError for values that the library refuses later, with the value in its message."""
    good = split_url(url) is not None
    try:
        httpx2.URL(url)
    except (ValueError, httpx2.InvalidURL):
        good = False
    if not good:
        raise FaultySettingError("invalid URL: expected http(s)://HOST; correct the setting")
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise FaultySettingError(
                f"the value of {name} has characters that are not valid in a header: correct the credential"
            )


_AUTHORITIES: Final = (
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # RHEL, RHCOS, Fedora
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu
    "/etc/ssl/ca-bundle.pem",  # SUSE
)


class FaultySettingError(Exception):
    """A setting with which no request can be made. The text names it, and says what to do."""

    def __init__(self, text: str, *, is_tls: bool = False) -> None:
        super().__init__(text)
        self.is_tls = is_tls


def system_trust() -> ssl.SSLContext:
    """Return a TLS context with the authorities of this system.

    The standalone executable has an OpenSSL of another distribution, which looks for them elsewhere.
    """
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath:
        return context
    for path in _AUTHORITIES:
        with suppress(OSError, ssl.SSLError):
            context.load_verify_locations(cafile=path)
            break
    return context


def make_trust(ca_bundle: Path | None) -> ssl.SSLContext:
    """Return a client's context that trusts the system's authorities, and those of the bundle, if any.

    Raises FaultySettingError.
    """
    context = system_trust()
    # Trust what the agents on the same hosts trust, which are written in Go: each certificate in the bundle
    # counts as an authority, and a chain may lack extensions that strict verification needs.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if ca_bundle is None:
        return context
    try:
        context.load_verify_locations(cafile=ca_bundle)
    except ssl.SSLError:
        why = "holds no certificates in PEM form, or a damaged one"
    except OSError as fault:
        why = fault.strerror or "cannot be read"
    else:
        return context
    raise FaultySettingError(
        f"{ca_bundle}: {why}; correct the CA bundle, nothing is sent without it", is_tls=True
    )


def _proxy(url: str | None, trust: ssl.SSLContext) -> httpx2.Proxy | None:
    if url is None:
        return None
    if parts := split_url(url):
        with suppress(ValueError, httpx2.InvalidURL):
            return httpx2.Proxy(url, ssl_context=trust if parts.scheme == "https" else None)
    raise FaultySettingError("invalid proxy URL: expected http(s)://HOST; correct the setting")


def _silence() -> None:
    """Turn off the logs of the libraries. URLs and headers may contain secrets."""
    for name in ("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.proxy", "httpcore2.socks"):
        logging.getLogger(name).disabled = True
