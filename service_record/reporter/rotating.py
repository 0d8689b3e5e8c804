"""Rotation of the host's records, in a round: where services record that no exit helper follows."""

from collections.abc import Mapping
from typing import Final

from service_record.records import Records
from service_record.reporter.log import Log
from service_record.reporter.places import Places
from service_record.rotation import RotationError, max_bytes, rotate

_MOST_BYTES: Final = 16 << 20
"""Of a record that a round rotates: it is held in memory, of which the unit has little."""


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
