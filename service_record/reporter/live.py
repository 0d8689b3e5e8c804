"""Sends records to collectors as they are written, where settings say so: what is new in them, each minute.

Beside everything else: it is counted nowhere, costs nothing where nothing is new but a question, and what
cannot be sent is sent later. A collector knows how far it has each record, so that nothing is kept here.
"""

import platform
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from service_record.collector_address import CollectorError
from service_record.collector_client import CollectorClient
from service_record.display.text import visible
from service_record.records import Records
from service_record.redaction.host_mask import HostMask, LeakError
from service_record.reporter.log import Log
from service_record.reporter.places import Places
from service_record.reporter.proxies import proxy_for
from service_record.reporter.setting_values import COLLECTOR
from service_record.reporter.settings import Settings, secrets_in
from service_record.sending import NotTaken, Sender

_SECONDS: Final = 20.0
"""That an answer may take: a round waits for it."""
_ALTOGETHER: Final = 40.0
"""Seconds after which the rest is left to the next time."""


def send_records(places: Places, environ: Mapping[str, str], settings: Settings, say: Log) -> None:
    """Send what is new to each collector that settings name; what is not taken is said."""
    mask = HostMask(places.root, environ, secrets_in(settings)) if settings.redact else bytes
    for target in settings.records_to:
        url = urlsplit(target.removeprefix(COLLECTOR))
        where = f"{url.scheme}://{url.netloc}"
        try:
            sent = _sent(
                where, url.path.strip("/") or _name(settings), settings, Records(places.records), mask
            )
        except (NotTaken, CollectorError, LeakError) as fault:
            say.warning(f"{where}: records were not sent: {visible(str(fault))}")
        except OSError as error:
            say.warning(f"{error.filename or places.records}: {error.strerror}; its records were not sent")
        else:
            say.info(f"{where}: {sent} bytes of records were sent")


def _sent(where: str, host: str, settings: Settings, records: Records, mask: HostMask | type[bytes]) -> int:
    """How many bytes the collector took."""
    with CollectorClient(
        where,
        settings.collector_token or "",
        ca_bundle=settings.service.ca_bundle if settings.service else None,
        seconds=_SECONDS,
        proxy=proxy_for(where, settings.proxies) or "",
    ) as client:
        sender = Sender(client, host.lower(), records, mask=mask)
        sender.send(_ALTOGETHER)
        return sender.sent_bytes


def _name(settings: Settings) -> str:
    """What the collector calls this host unless the URL says otherwise."""
    return settings.service.host_id if settings.service else platform.node()
