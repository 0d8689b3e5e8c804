"""Send notices: to a signed webhook, to Alertmanager, or with `apprise` to mail, chats and pagers.

The webhook is that of https://www.standardwebhooks.com. It and Alertmanager get requests of our own, because
apprise says neither when to try again (Retry-After) nor when to stop (410).
"""

import base64
import binascii
import hashlib
import hmac
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from service_record.collector.domain.destinations import (
    DestinationError,
    Destinations,
    NewsDestination,
    Notice,
    make_alerts,
    make_message,
    rfc3339,
)
from service_record.collector.domain.verdicts import FleetVerdict
from service_record.collector.ingest.notifying import NewsSender, SendResult, public_reason
from service_record.collector.store.notices import Delivery
from service_record.http.answers import Answered, RetryPolicy
from service_record.http.proxies import read_proxies

if TYPE_CHECKING:
    from apprise import NotifyBase

_PREFIX: Final = b"whsec_"
_PART_SECONDS: Final = 10.0
"""Time limit for each part of a delivery: connecting, sending, and waiting for the answer."""
_ALERT_SECONDS: Final = 7 * 86_400.0
"""The time after which Alertmanager ends an alert whose end was never reported."""


def make_body(together: Sequence[Notice]) -> bytes:
    """Return the body of a message about these notices. It is the same for each attempt."""
    first, *others = together
    data = (
        _digest(together)
        if others
        else {**_host(first), "verdict": first.verdict, "reason": public_reason(first.reason)}
    )
    kind = "hosts.verdict" if others else "host.verdict"
    return msgspec.json.encode({"type": kind, "timestamp": rfc3339(first.at), "data": data})


def _digest(together: Sequence[Notice]) -> dict[str, Any]:
    """Return the data of a message about several hosts: a summary, and each host."""
    verdict, reason = together[0].verdict, public_reason(together[0].reason)
    return {
        "summary": f"{len(together)} hosts {verdict}: {reason}",
        "count": len(together),
        "verdict": verdict,
        "reason": reason,
        "groups": sorted({notice.group for notice in together}),
        "hosts": [_host(notice) for notice in together],
    }


def _host(notice: Notice) -> dict[str, Any]:
    names = ("id", "host", "group", "build", "before", "at")
    return {name: getattr(notice, name) for name in names}


def make_headers(notice_id: int, body: bytes, secret: bytes, now: float) -> dict[str, str]:
    """Return the headers: the id, which is the same for each attempt, and with a secret the signature."""
    message_id, timestamp = f"notice_{notice_id}", str(int(now))
    headers = {"Content-Type": "application/json", "Webhook-Id": message_id, "Webhook-Timestamp": timestamp}
    if secret:
        signed = b".".join((message_id.encode(), timestamp.encode(), body))
        digest = hmac.new(secret, signed, hashlib.sha256).digest()
        headers["Webhook-Signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return headers


def parse_secret(text: bytes) -> bytes:
    """Parse a secret: plain text, or base64 after `whsec_`. Raises ValueError."""
    text = text.strip()
    if not text.startswith(_PREFIX):
        return text
    try:
        return base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("the part after whsec_ is not base64; copy the secret again") from None


class _HttpSender:
    """Posts to one URL."""

    at_once = 8
    """Maximum number of concurrent deliveries, so that a slow one does not delay the others."""

    def __init__(self, url: str) -> None:
        from service_record.http.transport import Transport  # imported only by senders

        self._url = url
        limits = RetryPolicy(
            connect=_PART_SECONDS, read=_PART_SECONDS, write=_PART_SECONDS, upload_total=3 * _PART_SECONDS
        )
        self._transport = Transport(
            url, proxies=read_proxies(os.environ), retry_policy=limits, keeps_connections=True
        )

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _post(self, body: bytes, headers: Mapping[str, str]) -> SendResult:
        from service_record.http.attempt import Request  # imported only by senders

        request = Request(method="POST", url=self._url, headers=headers, file=body)
        outcome = self._transport.call(request, tries=1).outcome
        if not isinstance(outcome, Answered):
            return SendResult(is_taken=False)
        return SendResult(
            is_taken=HTTPStatus.OK <= outcome.status < HTTPStatus.MULTIPLE_CHOICES,
            is_final=outcome.status == HTTPStatus.GONE,
            pause=outcome.retry_after or 0.0,
            status=outcome.status,
        )


class WebhookSender(_HttpSender):
    """Sends notices as signed JSON."""

    def __init__(self, url: str, secret: bytes, now: Callable[[], float] = time.time) -> None:
        super().__init__(url)
        self._secret = secret
        self._now = now

    def set_secret(self, secret: bytes) -> None:
        """Change the secret for further deliveries."""
        self._secret = secret

    def send(self, delivery: Delivery) -> SendResult:
        """Send it, once."""
        body = make_body(delivery.notices)
        return self._post(body, make_headers(delivery.ids[0], body, self._secret, self._now()))


ALERTMANAGER: Final = {"alertmanager": "http", "alertmanagers": "https"}
"""Scheme of a destination's URL -> scheme of its requests."""


class AlertmanagerSender(_HttpSender):
    """Sends notices as alerts (https://prometheus.io/docs/alerting/latest/alerts_api/)."""

    at_once = 1
    """The end of an alert must not overtake its beginning."""

    def __init__(self, url: str, page: str) -> None:
        """Create a sender for `alertmanager://[USER:PASSWORD@]HOST[:PORT][/PREFIX]`. Raises ValueError."""
        parts = urlsplit(url)
        if not parts.hostname or parts.query or parts.fragment:
            raise ValueError("expected alertmanager://HOST[:PORT][/PREFIX]")
        credentials, _, host = parts.netloc.rpartition("@")
        super().__init__(f"{ALERTMANAGER[parts.scheme]}://{host}{parts.path.rstrip('/')}/api/v2/alerts")
        self._page = page
        self._headers = {"Content-Type": "application/json"}
        if credentials:
            encoded = base64.b64encode(unquote(credentials).encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"

    def send(self, delivery: Delivery) -> SendResult:
        """Send it, once."""
        reason = public_reason(delivery.notices[0].reason)
        alerts = make_alerts(delivery.notices, reason, self._page, _ALERT_SECONDS)
        return self._post(msgspec.json.encode(alerts), self._headers) if alerts else SendResult(is_taken=True)


def read_secret(file: Path) -> bytes:
    """Read the secret from a file. Raises OSError, or ValueError if the file contains none."""
    secret = parse_secret(file.read_bytes())
    if not secret:
        raise ValueError("the file is empty; write the secret into it")
    return secret


_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SILENT: Final = logging.CRITICAL + 1


def make_senders(destinations: Destinations) -> Mapping[str, NewsSender]:
    """Return the senders by name of their destination.

    Raises DestinationError, without URLs in its message.
    """
    by_name: dict[str, NewsSender] = {}
    for one in destinations.all:
        scheme = _SCHEME.match(one.url)
        if scheme and scheme[1].lower() in ALERTMANAGER:
            try:
                by_name[one.name] = AlertmanagerSender(one.url, destinations.page)
            except ValueError as error:
                raise DestinationError(f"{one.name}: {error}") from None
        else:
            by_name[one.name] = AppriseSender(one, destinations.page)
    return by_name


def try_all(destinations: Destinations, now: float) -> Mapping[str, bool]:
    """Send a test to each destination. Return {name: accepted}. Raises DestinationError."""
    return {name: _is_tried(sender, now) for name, sender in make_senders(destinations).items()}


def _is_tried(sender: NewsSender, now: float) -> bool:
    good, bad = FleetVerdict.PROGRESSING, FleetVerdict.FAILED
    steps = [(good, good)] if isinstance(sender, AppriseSender) else [(good, bad), (bad, good)]
    try:
        return all(sender.send(_test(before, verdict, now)).is_taken for before, verdict in steps)
    except Exception:  # noqa: BLE001  # the text of any exception may contain the URL
        return False
    finally:
        sender.close()


def _test(before: FleetVerdict, verdict: FleetVerdict, now: float) -> Delivery:
    reason = "This is a test of service-record. Nothing is wrong."
    news = Notice(id=0, host="test", group="", build=1, verdict=verdict, before=before, reason=reason, at=now)
    return Delivery(notices=[news], tries=0)


class AppriseSender:
    """Sends notices to an apprise URL."""

    at_once = 1
    """One at a time, because apprise limits its own rate for each service."""

    def __init__(self, destination: NewsDestination, page: str) -> None:
        """Create a sender. Raises DestinationError if apprise does not accept the URL."""
        self._page = page
        self._service = _service(destination)

    def send(self, delivery: Delivery) -> SendResult:
        """Make one attempt to send a message."""
        from apprise import Apprise, NotifyFormat, NotifyType  # large: imported only when needed

        message = make_message(delivery.notices, public_reason(delivery.notices[0].reason), self._page)
        kind = NotifyType.FAILURE if message.is_bad else NotifyType.INFO
        if message.is_good:
            kind = NotifyType.SUCCESS
        is_taken = Apprise(services=[self._service]).notify(
            body=message.body, title=message.title, notify_type=kind, body_format=NotifyFormat.TEXT
        )
        return SendResult(is_taken=bool(is_taken))

    def close(self) -> None:
        """Do nothing: apprise keeps no connections."""


def _service(destination: NewsDestination) -> "NotifyBase":
    """Return apprise's object for a URL.

    Disables the logs of apprise and its libraries: they contain URLs.
    """
    from apprise import Apprise, AppriseAsset  # 44 MB: imported only when needed

    for name in ("apprise", "urllib3", "requests", "requests_oauthlib", "oauthlib"):
        logging.getLogger(name).setLevel(_SILENT)
    asset = AppriseAsset(
        app_id="service-record",
        app_desc="service-record collector",
        http_redirects=False,  # a redirect could send the message to another server
        secure_logging=True,
        storage_mode="memory",
    )
    service = Apprise.instantiate(destination.url, asset=asset, suppress_exceptions=True)
    if service is None or isinstance(service, dict):
        scheme = _SCHEME.match(destination.url)
        about = f"a URL of {scheme[1].lower()}://" if scheme else "its URL"
        raise DestinationError(f"{destination.name}: apprise does not understand {about}; see appriseit.com")
    return service
