"""Care for the host's records in a round: sent to collectors as they grow, and rotated.

Sending is beside everything else: it is counted nowhere, costs nothing where nothing is new but a question,
and what cannot be sent is sent later. A collector knows how far it has each record, so that nothing is kept
here. Records are rotated where services record that no exit helper follows.
"""

import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from service_record.record.directory import Records
from service_record.record.visible import visible
from service_record.reporter.log import Log
from service_record.reporter.paths import Places
from service_record.reporter.setting_table import COLLECTOR
from service_record.reporter.settings import Settings, secrets_in
from service_record.rotation import RotationError, max_bytes, rotate

if TYPE_CHECKING:
    from service_record.redaction import HostMask

_SECONDS: Final = 20.0
"""The time limit of an answer: a round waits for it."""
_BATCH_SECONDS: Final = 120.0
"""The time limit of a batch on its way: 1 MiB at 9 kB/s."""
_ALTOGETHER: Final = 40.0
"""Seconds after which the rest is left to the next time."""


def send_records(places: Places, environ: Mapping[str, str], settings: Settings, say: Log) -> None:
    """Send what is new to each collector that settings name; what is not taken is said."""
    if not settings.records_to:
        return
    from service_record.http.address import CollectorError, NotTaken  # few have those
    from service_record.redaction import HostMask, LeakError

    mask = HostMask(places.root, environ, secrets_in(settings)) if settings.redact else bytes
    for target in settings.records_to:
        url = urlsplit(target.removeprefix(COLLECTOR))
        where, named = f"{url.scheme}://{url.netloc}", url.path.strip("/")
        host = named or (settings.service.host_id if settings.service else platform.node())
        try:
            sent = _sent(where, host, settings, Records(places.records), mask)
        except (NotTaken, CollectorError, LeakError) as fault:
            say.warning(f"{where}: records were not sent: {visible(str(fault))}")
        except OSError as error:
            say.warning(f"{error.filename or places.records}: {error.strerror}; its records were not sent")
        else:
            say.info(f"{where}: {sent} bytes of records were sent")


def _sent(where: str, host: str, settings: Settings, records: Records, mask: "HostMask | type[bytes]") -> int:
    """Return how many bytes the collector took."""
    from service_record.http.collector_client import CollectorClient  # as above
    from service_record.http.record_sending import Sender

    with CollectorClient(
        where,
        settings.collector_token or "",
        ca_bundle=settings.service.ca_bundle if settings.service else None,
        seconds=_SECONDS,
        transfer_seconds=_BATCH_SECONDS,
        proxies=settings.proxies,
    ) as client:
        sender = Sender(client, host.lower(), records, mask=mask)
        sender.send(_ALTOGETHER)
        return sender.sent_bytes


_MOST_BYTES: Final = 16 << 20
"""The limit of a record that a round rotates: it is held in memory, of which the unit has little."""


def rotate_records(places: Places, environ: Mapping[str, str], say: Log) -> None:
    """Rotate the records that have outgrown their limit. What cannot be done is said, and ends nothing."""
    limit = max_bytes(environ)
    records = Records(places.records)
    try:
        services = records.services()
    except OSError:
        return
    for service in services:
        path = records.path(service)
        try:
            if limit and path.stat().st_size > _MOST_BYTES:
                say.warning(f"{path}: too long to be rotated here; run: service-record rotate {service}")
            elif rotate(path, limit) is not None:
                say.info(f"{path}: rotated")
        except RotationError as error:
            say.info(str(error))
        except OSError as error:
            say.info(f"{path}: not rotated: {error.strerror}")
