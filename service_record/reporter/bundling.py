"""A bundle of this host: gathered, redacted, packed in one pass, and looked through once more.

Also a redacted copy of a bundle that somebody else made, in the same layout.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from service_record.bundle.archive import DISK_BYTES
from service_record.bundle.contents import Content
from service_record.bundle.writing import SERVER_BYTES, BundleWriter, Packed
from service_record.diagnosis.causes import VERDICT_FILE
from service_record.redaction import (
    HostSecrets,
    Leak,
    Redactor,
    Rules,
    Secret,
    find_leak,
    known_secrets,
    report,
)
from service_record.reporter.gather.gathering import ROUND_SECONDS, gather
from service_record.reporter.gather.model import MANIFEST, Context, Gathered, GatherRow, manifest

REDACTION: Final = "redaction.json"
SUFFIX: Final = ".tar.gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundled:
    """A bundle on the disk. One with a leak is not to leave the host."""

    path: Path
    bytes: int
    gathered: tuple[Gathered, ...]
    members: tuple[Packed, ...]
    """The result of each of its files, in order."""
    kinds: Counter[str]
    """The number of masked secrets, by kind."""
    unread: tuple[str, ...]
    """Files that may hold secrets and could not be read, so that only the shape of these was looked for."""
    leak: Leak | None

    @property
    def masked(self) -> int:
        """Return how many secrets were masked."""
        return self.kinds.total()


def bundle_name(at: datetime) -> str:
    """Return the name of a bundle of that time, and of the directory in it: as OpenShift calls its own."""
    return f"log-bundle-{at.astimezone(UTC):%Y%m%d%H%M%S}"


def make_bundle(
    directory: Path,
    collectors: Iterable[GatherRow],
    context: Context,
    *,
    verdict: str,
    at: datetime,
    most_bytes: int = DISK_BYTES,
    redact: bool = True,
    secrets: Iterable[Secret] = (),
    seconds: float = ROUND_SECONDS,
    name: str | None = None,
) -> Bundled:
    """Make a bundle in a directory, of at most so many bytes, with `verdict` as its first page.

    `secrets` are masked beside those of the host. Its file is called `name`, by default like the directory
    in it. Gathering takes at most about so many seconds. Raises OSError where the disk fails, and leaves
    nothing then. Without redaction nothing is masked, and nothing looked for.
    """
    secrets_known = known_secrets(context.root, context.environ) if redact else None
    rules = Rules((*secrets_known.secrets, *secrets)) if secrets_known else None
    path = directory / (name or f"{bundle_name(at)}{SUFFIX}")
    with BundleWriter(
        path,
        top=bundle_name(at),
        mtime=at.timestamp(),
        disk_bytes=most_bytes,
        redact=(lambda: Redactor(rules)) if rules else None,
    ) as writer:
        writer.add(VERDICT_FILE, verdict.encode(errors="backslashreplace"))
        gathered = gather(_sharing(collectors, writer), context, writer, seconds=seconds)
        listing = manifest(gathered, at=at, boot_id=context.boot_id, cursor=context.cursor)
        writer.add(MANIFEST, _json(listing | {"redacted": redact, "cut": cuts(writer.members)}))
        writer.add(REDACTION, _json(redaction_report(writer.masked, secrets_known)), as_is=True)
    return Bundled(
        path=path,
        bytes=path.stat().st_size,
        gathered=gathered,
        members=tuple(writer.members),
        kinds=writer.masked,
        unread=secrets_known.unread if secrets_known else (),
        leak=leak_in(path, rules) if rules else None,
    )


def _sharing(collectors: Iterable[GatherRow], writer: BundleWriter) -> Iterator[GatherRow]:
    """Yield the collectors, the last of which may have all the room that is left."""
    waiting: GatherRow | None = None
    for collector in collectors:
        if waiting is not None:
            yield waiting
        waiting = collector
    writer.shares = False
    if waiting is not None:
        yield waiting


def leak_in(path: Path, rules: Rules) -> Leak | None:
    """Return the first secret in a file that is about to leave; None when there is none.

    Raises OSError where the disk does not let it be looked through, and removes the file then.
    """
    try:
        with path.open("rb", buffering=0) as stream:
            return find_leak(rules, stream)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def redaction_report(masked: Counter[str], host_secrets: HostSecrets | None) -> dict[str, object]:
    """Return the content of redaction.json: how much was masked, by kind, and the unread files of secrets.

    A number of passwords behind the word looks like a password, so this is not redacted itself.
    """
    if host_secrets is None:
        return {"redacted": False}
    return {"redacted": True} | report([masked]) | {"unread": list(host_secrets.unread)}


def cuts(members: Iterable[Packed]) -> list[dict[str, object]]:
    """Return the files whose beginning is missing, or which are missing altogether, and why."""
    return [
        {
            "path": member.path,
            "droppedBytes": member.dropped_bytes,
            "reason": member.cut.value,
            "isThere": member.bytes is not None,
        }
        for member in members
        if member.cut
    ]


def _json(document: object) -> bytes:
    return json.dumps(document, indent=2).encode() + b"\n"


_CHUNK_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A copy on the disk. One with a leak is not to be given away."""

    bytes: int
    members: tuple[Packed, ...]
    kinds: Counter[str]
    """The number of masked secrets, by kind."""
    leak: Leak | None


def make_copy(
    contents: Iterable[Content], path: Path, rules: Rules, *, mtime: float, most_bytes: int = SERVER_BYTES
) -> Copied:
    """Make a bundle of these files in a new file, of at most so many bytes; `mtime` is the present.

    Beside them is a `redaction.json`, in the directory in which all of them are, if there is one. Raises
    OSError where the disk fails, and leaves nothing then.
    """
    tops: set[str] = set()
    with BundleWriter(
        path, top="", mtime=mtime, disk_bytes=most_bytes, redact=lambda: Redactor(rules), shares=False
    ) as writer:
        for content in contents:
            tops.add(content.path.rpartition("/")[0].partition("/")[0])
            with writer.member(content.path, mtime=content.written, keep_empty=True) as member:
                while data := content.read(_CHUNK_BYTES):
                    member.write(data)
        members = tuple(writer.members)
        report_members = {"redacted": True} | report([writer.masked]) | {"cut": cuts(members)}
        below = f"{tops.pop()}/" if len(tops) == 1 and "" not in tops else ""
        writer.add(f"{below}{REDACTION}", _json(report_members), as_is=True)
    return Copied(bytes=path.stat().st_size, members=members, kinds=writer.masked, leak=leak_in(path, rules))
