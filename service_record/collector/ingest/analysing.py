"""Analyses bundles of anybody, in a process of its own."""

import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from service_record.bundle.opening import open_bundle
from service_record.collector.domain.records_page import Analysis, analyse
from service_record.collector.ingest.confined import NotRead, confine, run_confined, too_much_memory
from service_record.collector.ingest.opening_bundles import LIMITS


def analyse_bundle(
    bundle: Path, source: str, silence: float | None = None, is_stopped: threading.Event | None = None
) -> Analysis:
    """What a bundle comes to; where it could not be read, why is what was left out. Raises OSError, Stopped.

    `source` is what it is called. `silence`: it is judged so many seconds after its latest entry.
    """
    told = ("" if silence is None else str(silence), source)
    try:
        out = run_confined(__name__, bundle, is_stopped=is_stopped, arguments=told)
    except NotRead as reason:
        return Analysis(left_out=(f"not read: {reason}",))
    return msgspec.json.decode(out, type=Analysis)


def _main(memory: int, silence: str, source: str) -> None:
    """Analyse the bundle on standard input, and print what it comes to as JSON."""
    try:
        with os.fdopen(sys.stdin.fileno(), "rb", closefd=False) as stream:
            bundle = open_bundle(stream, LIMITS)
        records = [(service, record.pieces()) for service, record in bundle.records.items()]
        left_out = [str(part) for part in bundle.left_out]
        after, texts = float(silence) if silence else None, bundle.unit_texts
        found = analyse(records, left_out, source, datetime.now(UTC), silence=after, unit_texts=texts)
    except MemoryError:
        found = Analysis(left_out=(f"not read: {too_much_memory(memory)}",))
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    _main(confine(sys.argv), *sys.argv[3:])
