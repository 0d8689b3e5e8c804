"""`manifest.json`: what each collector gave and took, where it was cut, why it failed."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from service_record.reporter.gather.model import Bundle, Gathered
from service_record.version import __version__

MANIFEST: Final = "manifest.json"
FORMAT_VERSION: Final = 1


def add_manifest(
    bundle: Bundle, gathered: Iterable[Gathered], *, at: datetime, boot_id: str | None, cursor: str | None
) -> None:
    """Add the manifest to a bundle that was begun at that time, which must be aware.

    The bundle must redact what it is given: a reason is what a program said of an error.
    """
    document = manifest(gathered, at=at, boot_id=boot_id, cursor=cursor)
    bundle.add(MANIFEST, json.dumps(document, indent=2).encode() + b"\n")


def manifest(
    gathered: Iterable[Gathered], *, at: datetime, boot_id: str | None, cursor: str | None
) -> dict[str, object]:
    """The document: sizes in bytes as they were before redaction, times in seconds."""
    return {
        "version": FORMAT_VERSION,
        "generator": f"service-record/{__version__}",
        "time": at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "bootId": boot_id,
        "journalAfterCursor": cursor,
        "collectors": [_collector(each) for each in gathered],
    }


def _collector(gathered: Gathered) -> dict[str, object]:
    told: dict[str, object] = {
        "name": gathered.name,
        "member": gathered.member,
        "status": gathered.status.value,
        "bytes": gathered.bytes,
        "droppedBytes": gathered.dropped_bytes,
        "seconds": gathered.seconds,
    }
    if gathered.reason is not None:
        told["reason"] = gathered.reason
    files = [
        {"path": file.path, "bytes": file.bytes, "droppedBytes": file.dropped_bytes}
        for file in gathered.files
    ]
    return told | {"files": files}
