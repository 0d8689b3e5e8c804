"""The answers that the reporter gets: the server's view of this host, and when to ask again. Pure.

Only the status of an answer is dependable: bodies come in two shapes of JSON from the assisted-service
itself, and as HTML, plain text or nothing from whatever stands before it.
"""

import html
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final, TypeAlias

import msgspec

from service_record.display.text import visible

MOST_TEXT: Final = 2048
"""How many characters of an answer are kept as its text."""

MOST_BODY: Final = 8 * MOST_TEXT
"""How many bytes of an answer are looked at for its text; a page has markup around what it says."""

_MOST_ROW_BYTES: Final = 1 << 20
"""Of one host in a list of hosts: some kilobytes without its inventory, far less than this with it."""

LONGEST_RETRY_AFTER: Final = 3600.0
"""Seconds: a server, or a proxy with a wrong clock, silences no host for longer than this."""

_REASONS: Final = ("reason", "message")  # of handlers; of routing, validation and authentication
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
    """Nobody answered, or nothing could be sent. `reason` is one line that is safe to print."""

    reason: str
    is_tls: bool = False
    """No trust was established: no try without a change of certificates or of the clock will do better."""
    tries: int = 1
    sent: int = 0
    """Bytes of files that left this host in vain."""


@dataclass(frozen=True, slots=True)
class HostView:
    """This host as the assisted-service sees it: a row of `GET /v2/clusters/{cluster_id}/hosts`."""

    stage: str = ""
    """`progress.current_stage`; empty before the installation started."""
    info: str = ""
    status: str = ""
    role: str = ""
    bootstrap: bool = False
    kind: str = ""
    """`Host`, or `AddToExistingClusterHost` on day two."""
    stage_timed_out: bool = False
    stage_started_at: str = ""
    stage_updated_at: str = ""
    logs_info: str = ""


@dataclass(frozen=True, slots=True)
class NoHost:
    """The service answered, and knows no such host: deleted, or never there."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The service itself does not take our key (401, 403)."""

    status: int
    text: str = ""


Outcome: TypeAlias = Answered | Unreachable
"""Of a call that tells something."""

View: TypeAlias = HostView | NoHost | Refused | Answered | Unreachable
"""Of the call that asks. `Answered` is an answer that tells nothing of the host: 301, 400, 500 and others."""


def is_own_error(status: int, body: bytes | bytearray) -> bool:
    """Return whether an error is in one of the assisted-service's own forms, and of that status.

    Proxies, portals and gateways answer 401, 403 and 404 of their own. The service's handlers say
    `{"code":"404","kind":"Error","reason":...}`; its authentication says `{"code":401,"message":...}`.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(document, dict) or str(document.get("code")) != str(status):
        return False
    return any(isinstance(document.get(name), str) for name in _REASONS)


class _ListedHost(msgspec.Struct, gc=False):
    id: str
    """Required of every row: a list of something else, without our id, must not count as a denial."""


def view_of(body: bytes | bytearray, host_id: str) -> HostView | NoHost | None:
    """Return this host as a list of hosts in JSON has it; None when the body is no such list.

    Only this host's row is decoded as a whole, so that a list of millions of rows takes little memory.
    """
    ours: msgspec.Raw | None = None
    try:
        rows = msgspec.json.decode(body, type=list[msgspec.Raw])
        for row in rows:
            if msgspec.json.decode(row, type=_ListedHost).id.lower() == host_id.lower():
                ours = ours or row
        if ours is not None:
            return None if len(ours) > _MOST_ROW_BYTES else _view(msgspec.json.decode(ours))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not rows:
        return NoHost("the cluster has no hosts, or is deleted")
    return NoHost(f"{host_id} is none of the cluster's {len(rows)} hosts")


def _view(host: Mapping[str, object]) -> HostView:
    progress = host.get("progress")
    progress = progress if isinstance(progress, Mapping) else {}
    return HostView(
        stage=_text(progress, "current_stage"),
        info=_text(progress, "progress_info"),
        status=_text(host, "status"),
        role=_text(host, "role"),
        bootstrap=host.get("bootstrap") is True,
        kind=_text(host, "kind"),
        stage_timed_out=progress.get("stage_timed_out") is True,
        stage_started_at=_text(progress, "stage_started_at"),
        stage_updated_at=_text(progress, "stage_updated_at"),
        logs_info=_text(host, "logs_info"),
    )


def _text(row: Mapping[str, object], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def one_line(body: bytes, secrets: Iterable[str] = ()) -> str:
    """What the body of an answer says, as one printable line of at most `MOST_TEXT` characters, without the
    secrets.

    Of JSON its reason or message, of a page its title or text. Some proxies repeat the request in their
    pages.
    """
    secrets = tuple(filter(None, secrets))
    text = body[:MOST_BODY].decode(errors="replace")
    if len(body) > MOST_BODY:
        text = _without_torn(text, secrets)
    return printable(_page_title(text), secrets)


def printable(text: str, secrets: Iterable[str] = ()) -> str:
    """The text as one line of at most `MOST_TEXT` characters that is safe to print, without the secrets."""
    return visible(" ".join(without(text, secrets).split()))[:MOST_TEXT]


def _without_torn(text: str, secrets: Iterable[str]) -> str:
    """The text without the beginning of a secret that it was cut in."""
    torn = max((n for secret in secrets for n in range(len(secret)) if text.endswith(secret[:n])), default=0)
    return text[: len(text) - torn]


def _page_title(text: str) -> str:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        return next((str(document[name]) for name in _REASONS if document.get(name)), text)
    if not _MARKUP.match(text):
        return text
    shown = _NOT_SHOWN.sub(" ", text)
    title = _TITLE.search(text)
    return html.unescape(title[1] if title and title[1].strip() else shown)


def is_page(body: bytes | bytearray) -> bool:
    """Return whether the body of an answer is HTML or XML: a portal's page, or a store's error."""
    return _MARKUP.match(body[:MOST_BODY].decode(errors="replace")) is not None


def without(text: str, secrets: Iterable[str]) -> str:
    """The text with each secret, none of them empty, replaced by `[secret]`."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[secret]")
    return text


def retry_after(value: str | None, now: datetime, date: str | None = None) -> float | None:
    """Seconds to wait by a `Retry-After` header of seconds or a date (RFC 9110, 10.2.3); None when it says
    neither.

    A date is read by the server's own clock, its `Date` header, because this host's may be wrong this early
    in its life.
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
"""Of every call. What is none of these stays the answer, however often one asks."""

ASK_AGAIN_FOR_PROGRESS: Final = ASK_AGAIN - {HTTPStatus.INTERNAL_SERVER_ERROR}
"""The assisted-service answers 500 to a stage it cannot store, and to one that changed meanwhile: both for
ever.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
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
