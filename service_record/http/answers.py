"""The answers of servers: their text, made safe to print, and whether and when to try again. Pure."""

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

MAX_TEXT_CHARACTERS: Final = 2048
"""The limit of an answer's text."""

MAX_BODY_BYTES: Final = 8 * MAX_TEXT_CHARACTERS
"""Only this much of a body is searched for its text. It is more than the text, because pages have markup."""

MAX_RETRY_AFTER_SECONDS: Final = 3600.0
"""The limit of `Retry-After`: a proxy with a wrong clock must not silence a host for days."""

REASONS: Final = ("reason", "message")
"""The JSON fields with the error of an assisted-service. Its handlers write `reason`; its routing, validation
and authentication write `message`.
"""
_TEXT_FIELDS: Final = (*REASONS, "detail")  # `detail` is a collector's (RFC 9457)
_NOT_RENDERED: Final = re.compile(r"(?is)<(script|style|head)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>")
_TITLE: Final = re.compile(r"(?is)<title[^>]*>(.*?)</title")
_MARKUP: Final = re.compile(r"(?is)\s*(<!doctype|<html|<\?xml|<[a-z]+[\s>])")


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer of a server, or of a directory used as one. `text` is one line that is safe to print."""

    status: int
    text: str = ""
    retry_after: float | None = None
    """Seconds from now, 0 to `MAX_RETRY_AFTER_SECONDS`."""
    tries: int = 1
    sent: int = 0
    """Bytes of files that were sent, including those of failed tries."""

    @property
    def good(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A call without an answer; perhaps no request was sent. `reason` is one line that is safe to print."""

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
    """Return the body of an answer as one printable line of at most `MAX_TEXT_CHARACTERS` characters.

    The line is the reason or message in a JSON body, or the title or text of a page. Secrets are masked,
    because some proxies repeat the request in their pages.
    """
    secrets = tuple(filter(None, secrets))
    text = body[:MAX_BODY_BYTES].decode(errors="replace")
    if len(body) > MAX_BODY_BYTES:
        text = _drop_cut_secret(text, secrets)
    return printable(_extract_text(text), secrets)


def printable(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text as one line of at most `MAX_TEXT_CHARACTERS`, with the secrets masked."""
    return visible(" ".join(mask_secrets(text, secrets).split()))[:MAX_TEXT_CHARACTERS]


def _drop_cut_secret(text: str, secrets: Iterable[str]) -> str:
    """Return a cut text without its end, if that end is the beginning of a secret."""
    torn = max((n for secret in secrets for n in range(len(secret)) if text.endswith(secret[:n])), default=0)
    return text[: len(text) - torn]


def _extract_text(text: str) -> str:
    """Return the reason in a JSON body, the title or text of a page, or else the whole text."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        return next((str(document[name]) for name in _TEXT_FIELDS if document.get(name)), text)
    if not _MARKUP.match(text):
        return text
    plain = _NOT_RENDERED.sub(" ", text)
    title = _TITLE.search(text)
    return html.unescape(title[1] if title and title[1].strip() else plain)


def is_page(body: bytes | bytearray) -> bool:
    """Return whether the body of an answer is HTML or XML: a portal's page, or a store's error."""
    return _MARKUP.match(body[:MAX_BODY_BYTES].decode(errors="replace")) is not None


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Replace each secret in the text by `[secret]`. No secret may be empty."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[secret]")
    return text


def parse_retry_after(value: str | None, now: datetime, date: str | None = None) -> float | None:
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
        then = _parse_date(value)
        if then is None:
            return None
        seconds = (then - (_parse_date(date) or now)).total_seconds()
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def _parse_date(value: str | None) -> datetime | None:
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
"""The statuses after which every call is tried again. After other statuses another try would not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When to give up. Times are in seconds, and the limits up to `upload_total` are for one try."""

    connect: float = 10.0
    read: float = 60.0
    """The time limit without a byte from the server, which reads a whole upload before it answers."""
    write: float = 30.0
    total: float = 90.0
    upload_total: float = 300.0
    """The limit that replaces `total` when a file is sent or received."""
    answer: float | None = None
    """The limit from the end of a request to the end of its answer, if it ends before `total`."""
    tries: int = 4
    upload_tries: int = 2
    """Each try of an upload costs the network its whole size again."""
    budget: float = 180.0
    """The time limit of all calls to one server in a round, with waits. After it each call is tried once."""
    first_wait: float = 2.0
    longest_wait: float = 10.0
    jitter: float = 2.0


def wait_before_next(
    outcome: Answered | Unreachable, again: Collection[int], remaining: float
) -> float | bool:
    """Return True to try again after the usual wait, a number to wait that many seconds, or False.

    `remaining` is the rest of the budget in seconds.
    """
    if isinstance(outcome, Unreachable):
        return not outcome.is_tls and remaining > 0
    if outcome.status not in again or remaining <= 0:
        return False
    if outcome.retry_after is None:
        return True
    return outcome.retry_after if outcome.retry_after < remaining else False
