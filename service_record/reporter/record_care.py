"""Send new entries of the records to collectors, and rotate long records. Part of each round.

Sending has no budget. Without new entries it costs one request; entries that cannot be delivered are sent in
a later round. The collector knows how much it has of each record, so the reporter keeps no position.
Rotation here is for services without the exit helper, which otherwise rotates a record after each run.
"""

import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from service_record.record.directory import Records
from service_record.record.journal_sending import MessageKind
from service_record.record.visible import visible
from service_record.reporter.log import Log
from service_record.reporter.paths import Places
from service_record.reporter.settings import COLLECTOR, Settings, secrets_in
from service_record.rotation import RotationError, max_bytes, rotate

if TYPE_CHECKING:
    from service_record.redaction import HostMask

_REQUEST_SECONDS: Final = 20.0
"""The time limit of a request. The round waits for it."""
_BATCH_SECONDS: Final = 120.0
"""The time limit of a batch of 1 MiB. It allows for a line of 9 kB/s."""
_TOTAL_SECONDS: Final = 40.0
"""The time limit for one collector. The rest waits for a later round."""


def send_records(places: Places, environ: Mapping[str, str], settings: Settings, say: Log) -> None:
    """Send new entries to each collector in `records_to`. Log failures; raise nothing for them."""
    if not settings.records_to:
        return
    from service_record.http.address import CollectorError, NotTaken  # most hosts send no records
    from service_record.redaction import HostMask, LeakError

    mask = HostMask(places.root, environ, secrets_in(settings)) if settings.redact else bytes
    for target in settings.records_to:
        url = urlsplit(target.removeprefix(COLLECTOR))
        where, named = f"{url.scheme}://{url.netloc}", url.path.strip("/")
        host = named or (settings.service.host_id if settings.service else platform.node())
        try:
            sent = _send_new_entries(where, host, settings, Records(places.records), mask)
        except (NotTaken, CollectorError, LeakError) as fault:
            say.warning(f"{where}: records were not sent: {visible(str(fault))}", MessageKind.UNDELIVERED)
        except OSError as error:
            say.warning(f"{error.filename or places.records}: {error.strerror}; its records were not sent")
        else:
            say.info(f"{where}: {sent} bytes of records were sent", MessageKind.DELIVERED)


def _send_new_entries(
    where: str, host: str, settings: Settings, records: Records, mask: "HostMask | type[bytes]"
) -> int:
    """Send new entries to one collector, and return the number of bytes that it accepted."""
    from service_record.http.collector_client import CollectorClient  # most hosts send no records
    from service_record.http.record_sending import Sender

    with CollectorClient(
        where,
        settings.collector_token or "",
        ca_bundle=settings.service.ca_bundle if settings.service else None,
        seconds=_REQUEST_SECONDS,
        transfer_seconds=_BATCH_SECONDS,
        proxies=settings.proxies,
    ) as client:
        sender = Sender(client, host.lower(), records, mask=mask)
        sender.send(_TOTAL_SECONDS)
        return sender.sent_bytes


_MAX_ROTATED_BYTES: Final = 16 << 20
"""The largest record that a round rotates. Rotation holds it in memory, see `MemoryMax=` of the unit."""


def rotate_records(places: Places, environ: Mapping[str, str], say: Log) -> None:
    """Rotate the records that are longer than the limit. Log failures; raise nothing for them."""
    limit = max_bytes(environ)
    records = Records(places.records)
    try:
        services = records.services()
    except OSError:
        return
    for service in services:
        path = records.path(service)
        try:
            if limit and path.stat().st_size > _MAX_ROTATED_BYTES:
                say.warning(f"{path}: too long to be rotated here; run: service-record rotate {service}")
            elif rotate(path, limit) is not None:
                say.info(f"{path}: rotated")
        except RotationError as error:
            say.info(str(error))
        except OSError as error:
            say.info(f"{path}: not rotated: {error.strerror}")
