"""Make a bundle of this host: gather, redact, search for leaks and pack in one pass.

Also make a redacted copy of a bundle from another program, in the same layout.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Final

from service_record.bundle.archive import DISK_BYTES
from service_record.bundle.contents import Content
from service_record.bundle.writing import SERVER_BYTES, BundleWriter, Packed
from service_record.record.directory import VERDICT_FILE
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
from service_record.reporter.gather.gathering import (
    MANIFEST,
    ROUND_SECONDS,
    Context,
    Gathered,
    GatherRow,
    gather,
    manifest,
)

REDACTION: Final = "redaction.json"
SUFFIX: Final = ".tar.gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundled:
    """A bundle on the disk. With a leak, it must not leave the host."""

    path: Path
    bytes: int
    gathered: tuple[Gathered, ...] = ()
    members: tuple[Packed, ...]
    """The result of each of its files, in order."""
    kinds: Counter[str]
    """The number of masked secrets, by kind."""
    unread: tuple[str, ...] = ()
    """Unreadable files of secrets. Their secrets are masked only where the shape shows that they are some."""
    leak: Leak | None

    @property
    def masked(self) -> int:
        """Return how many secrets were masked."""
        return self.kinds.total()


def bundle_name(at: datetime) -> str:
    """Return the name of a bundle and of its top directory, in the form of OpenShift's own gather."""
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
    """Make a bundle of at most `most_bytes` bytes in a directory, with `verdict` as its first file.

    `secrets` are masked in addition to those found on the host. The file is called `name`, by default
    like the bundle's top directory. Gathering takes about `seconds` at most. Raises OSError if the disk
    fails, after removing the file. With `redact` false there is no search for leaks either.
    """
    secrets_known = known_secrets(context.root, context.environ) if redact else None
    rules = Rules((*secrets_known.secrets, *secrets)) if secrets_known else None
    path = directory / (name or f"{bundle_name(at)}{SUFFIX}")
    with BundleWriter(
        path,
        top=bundle_name(at),
        mtime=at.timestamp(),
        disk_bytes=most_bytes,
        redact=(lambda: Redactor(rules, looks_again=True)) if rules else None,
    ) as writer:
        writer.add(VERDICT_FILE, verdict.encode(errors="backslashreplace"))
        gathered = gather(_share_space(collectors, writer), context, writer, seconds=seconds)
        listing = manifest(gathered, at=at, boot_id=context.boot_id, cursor=context.cursor)
        writer.add(MANIFEST, _encode_json(listing | {"redacted": redact, "cut": cuts(writer.members)}))
        report_of_masked = _encode_json(redaction_report(writer.masked, secrets_known))
        writer.add(REDACTION, report_of_masked, as_is=True)
    return Bundled(
        path=path,
        bytes=path.stat().st_size,
        gathered=gathered,
        members=tuple(writer.members),
        kinds=writer.masked,
        unread=secrets_known.unread if secrets_known else (),
        leak=_find_leak_in(path, writer, rules, report_of_masked) if rules else None,
    )


def _share_space(collectors: Iterable[GatherRow], writer: BundleWriter) -> Iterator[GatherRow]:
    """Yield the rows. Before the last one, let it use all the remaining space of the bundle."""
    waiting: GatherRow | None = None
    for collector in collectors:
        if waiting is not None:
            yield waiting
        waiting = collector
    writer.shares = False
    if waiting is not None:
        yield waiting


def _find_leak_in(path: Path, writer: BundleWriter, rules: Rules, report_of_masked: bytes) -> Leak | None:
    """Return the first secret that is left in a finished bundle, or None.

    The redactor has searched each member after masking it, except redaction.json, which is not masked. Only
    archives among the members, in which nothing can be masked, have to be unpacked for that: then the whole
    bundle is read once more. If it cannot be read completely, removes it and raises OSError.
    """
    if writer.leak is not None:
        return Leak(*writer.leak)
    if not writer.has_archives:
        return find_leak(rules, BytesIO(report_of_masked), REDACTION)
    try:
        with path.open("rb", buffering=0) as stream:
            return find_leak(rules, stream)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def redaction_report(masked: Counter[str], host_secrets: HostSecrets | None) -> dict[str, object]:
    """Return the content of redaction.json: the number of masked secrets by kind, and unreadable files.

    It is written without redaction, because a count such as `password: 3` looks like a password.
    """
    if host_secrets is None:
        return {"redacted": False}
    return {"redacted": True} | report([masked]) | {"unread": list(host_secrets.unread)}


def cuts(members: Iterable[Packed]) -> list[dict[str, object]]:
    """Return a row for each file that is missing or lacks its beginning, with the reason."""
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


def _encode_json(document: object) -> bytes:
    return json.dumps(document, indent=2).encode() + b"\n"


_CHUNK_BYTES: Final = 1 << 18


def make_copy(
    contents: Iterable[Content], path: Path, rules: Rules, *, mtime: float, most_bytes: int = SERVER_BYTES
) -> Bundled:
    """Make a redacted bundle of these files, of at most `most_bytes` bytes; `mtime` is the present time.

    `redaction.json` is added, in the top directory if all files share one. Raises OSError if the disk fails,
    after removing the file.
    """
    tops: set[str] = set()
    with BundleWriter(
        path,
        top="",
        mtime=mtime,
        disk_bytes=most_bytes,
        redact=lambda: Redactor(rules, looks_again=True),
        shares=False,
    ) as writer:
        for content in contents:
            tops.add(content.path.rpartition("/")[0].partition("/")[0])
            with writer.member(content.path, mtime=content.written, keep_empty=True) as member:
                while data := content.read(_CHUNK_BYTES):
                    member.write(data)
        members = tuple(writer.members)
        report_members = {"redacted": True} | report([writer.masked]) | {"cut": cuts(members)}
        below = f"{tops.pop()}/" if len(tops) == 1 and "" not in tops else ""
        report_of_masked = _encode_json(report_members)
        writer.add(f"{below}{REDACTION}", report_of_masked, as_is=True)
    return Bundled(
        path=path,
        bytes=path.stat().st_size,
        members=members,
        kinds=writer.masked,
        leak=_find_leak_in(path, writer, rules, report_of_masked),
    )
