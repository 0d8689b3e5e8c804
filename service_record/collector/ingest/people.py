"""Send notices to mail, chats and pagers with `apprise`, which is imported only if it is used."""

import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from service_record.collector.domain.destinations import (
    DestinationError,
    Destinations,
    NewsDestination,
    Notice,
    message_of,
)
from service_record.collector.domain.verdicts import FleetVerdict
from service_record.collector.ingest.notifying import NewsSender, SendResult, public_reason
from service_record.collector.ingest.webhook import ALERTMANAGER, AlertmanagerSender
from service_record.collector.store.notices import Delivery

if TYPE_CHECKING:
    from apprise import NotifyBase

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SILENT: Final = logging.CRITICAL + 1


def senders(destinations: Destinations) -> Mapping[str, NewsSender]:
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
    return {name: _is_tried(sender, now) for name, sender in senders(destinations).items()}


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

        message = message_of(delivery.notices, public_reason(delivery.notices[0].reason), self._page)
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
