"""Opens bundles of anybody, in a process of its own, and looks at the records in them."""

import os
import sys
import threading
from pathlib import Path
from typing import Final

import msgspec

from service_record.bundle.limits import Limits
from service_record.bundle.opening import open_bundle
from service_record.collector.domain.summary_of_records import MOST_SERVICES, RecordsLook, look
from service_record.collector.ingest.confined import Allowed, NotRead, confine, run_confined, too_much_memory

_MIB: Final = 1 << 20
LIMITS: Final = Limits(
    read_bytes=1024 * _MIB,
    members=50_000,
    records=MOST_SERVICES,
    record_bytes=32 * _MIB,
    kept_bytes=64 * _MIB,
    decoder_bytes=128 * _MIB,
)
"""What the bundles of the boot reporter, at most 12 MiB, are far below."""
_PACKED_ONLY: Final = "it is no archive: there are no records with names in it"


def look_into(
    bundle: Path, allowed: Allowed | None = None, is_stopped: threading.Event | None = None
) -> RecordsLook:
    """What is in a bundle; where it could not be read, why is what was left out. Raises OSError, Stopped."""
    try:
        return msgspec.json.decode(run_confined(__name__, bundle, allowed, is_stopped), type=RecordsLook)
    except NotRead as reason:
        return _not_read(str(reason))


def _not_read(reason: str) -> RecordsLook:
    return RecordsLook(left_out=(f"not read: {reason}",))


def _main(memory: int) -> None:
    """Look at the bundle on standard input, and print what is in it as JSON."""
    try:
        with os.fdopen(sys.stdin.fileno(), "rb", closefd=False) as stream:
            bundle = open_bundle(stream, LIMITS)
        left_out = [str(part) for part in bundle.left_out]
        if bundle.unpacked is not None:
            left_out.append(_PACKED_ONLY)
        records = [(service, record.pieces()) for service, record in bundle.records.items()]
        found = look(records, left_out, unit_texts=bundle.unit_texts)
    except MemoryError:
        found = _not_read(too_much_memory(memory))
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    _main(confine(sys.argv))
