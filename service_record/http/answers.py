"""The answer of a server, the text that is safe to print of it, and when to ask again. Pure."""

import html
import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final, TypeAlias

from service_record.record.visible import visible

MOST_TEXT: Final = 2048
"""The limit, in characters, of an answer's text."""

MOST_BODY: Final = 8 * MOST_TEXT
"""The limit, in bytes, of the body that is searched for its text; a page has markup around what it says."""

LONGEST_RETRY_AFTER: Final = 3600.0
"""Seconds: a server, or a proxy with a wrong clock, silences no host for longer than this."""

REASONS: Final = ("reason", "message")
"""The fields with the reason: one of an assisted-service's handlers, one of its routing, validation and
authentication.
"""
_SAYING: Final = (*REASONS, "detail")  # a collector's, by RFC 9457
_NOT_SHOWN: Final = re.compile(r"(?is)<(script|style|head)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>")
_TITLE: Final = re.compile(r"(?is)<title[^>]*>(.*?)</title")
_MARKUP: Final = re.compile(r"(?is)\s*(<!doctype|<html|<\?xml|<[a-z]+[\s>])")


@dataclass(frozen=True, slots=True)
class Answered:
    """A server, or a directory that acts as one, answered. `text` is one line that is safe to print."""

    status: int
    text: str = ""
    retry_after: float | None = None
    """Seconds from now, 0 to `LONGEST_RETRY_AFTER`."""
    tries: int = 1
    sent: int = 0
    """Bytes of files that left this host for the answer, those of failed tries included."""

    @property
    def good(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


@dataclass(frozen=True, slots=True)
class Unreachable:
    """There is no answer, or no request was sent. `reason` is one line that is safe to print."""

    reason: str
    is_tls: bool = False
    """TLS failed. Another try fails as well until certificates or the clock change."""
    has_no_network: bool = False
    """This host has no route, or no name server answers."""
    tries: int = 1
    sent: int = 0
    """Bytes of files that were sent without an answer."""


Outcome: TypeAlias = Answered | Unreachable
"""The outcome of a call that reports something."""


def one_line(body: bytes, secrets: Iterable[str] = ()) -> str:
    """Return the body of an answer as one printable line of at most `MOST_TEXT` characters.

    That is the reason or message of a JSON body, and the title or text of a page. Secrets are masked, because
    some proxies repeat the request in their pages.
    """
    secrets = tuple(filter(None, secrets))
    text = body[:MOST_BODY].decode(errors="replace")
    if len(body) > MOST_BODY:
        text = _without_torn(text, secrets)
    return printable(_page_title(text), secrets)


def printable(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text as one line of at most `MOST_TEXT` characters that is safe to print, without the
    secrets.
    """
    return visible(" ".join(without(text, secrets).split()))[:MOST_TEXT]


def _without_torn(text: str, secrets: Iterable[str]) -> str:
    """Return the text without the beginning of a secret that it was cut in."""
    torn = max((n for secret in secrets for n in range(len(secret)) if text.endswith(secret[:n])), default=0)
    return text[: len(text) - torn]


def _page_title(text: str) -> str:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        return next((str(document[name]) for name in _SAYING if document.get(name)), text)
    if not _MARKUP.match(text):
        return text
    plain = _NOT_SHOWN.sub(" ", text)
    title = _TITLE.search(text)
    return html.unescape(title[1] if title and title[1].strip() else plain)


def is_page(body: bytes | bytearray) -> bool:
    """Return whether the body of an answer is HTML or XML: a portal's page, or a store's error."""
    return _MARKUP.match(body[:MOST_BODY].decode(errors="replace")) is not None


def without(text: str, secrets: Iterable[str]) -> str:
    """Return the text with each secret, none of them empty, replaced by `[secret]`."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[secret]")
    return text


def retry_after(value: str | None, now: datetime, date: str | None = None) -> float | None:
    """Return the seconds in a `Retry-After` header (RFC 9110, 10.2.3); None if it is invalid.

    A date is compared with the server's own clock, its `Date` header: the clock of a host that boots for the
    first time may be wrong.
    """
    if not value:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        seconds = float(value[:9])
    else:
        then = _date(value)
        if then is None:
            return None
        seconds = (then - (_date(date) or now)).total_seconds()
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER)


def _date(value: str | None) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(value or "")
    except (ValueError, OverflowError):
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


ASK_AGAIN: Final[frozenset[int]] = frozenset(
    (
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.LOCKED,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
        *range(500, 600),
    )
)
"""The statuses after which every call is tried again. Other answers would not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Limits in seconds. The first five hold for one try."""

    connect: float = 10.0
    read: float = 60.0
    """The time limit without a byte from the server; it reads an upload whole before it answers."""
    write: float = 30.0
    total: float = 90.0
    upload_total: float = 300.0
    """The time limit of a file that is sent, or of an answer that becomes one."""
    answer: float | None = None
    """The time limit from the end of a request to the end of its answer, if that is less than the total."""
    tries: int = 4
    upload_tries: int = 2
    """Each try of an upload costs the network its whole size again."""
    budget: float = 180.0
    """The time limit of all calls to one server in a round, waits included. When it is spent, each call is
    tried once.
    """
    first_wait: float = 2.0
    longest_wait: float = 10.0
    jitter: float = 2.0


def wait_before_next(
    outcome: Answered | Unreachable, again: Collection[int], remaining: float
) -> float | bool:
    """Return True to try again after the usual wait, a number to wait that many seconds, or False.

    `remaining` is what remains of the budget in seconds.
    """
    if isinstance(outcome, Unreachable):
        return not outcome.is_tls and remaining > 0
    if outcome.status not in again or remaining <= 0:
        return False
    if outcome.retry_after is None:
        return True
    return outcome.retry_after if outcome.retry_after < remaining else False
