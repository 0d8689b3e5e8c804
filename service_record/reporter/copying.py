"""A redacted copy of a bundle that somebody else made: every file of it, in one pass, in the same layout."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service_record.bundle.contents import Content
from service_record.bundle.writing import SERVER_BYTES, BundleWriter, Packed
from service_record.redaction import Leak, Redactor, Rules, report
from service_record.reporter.bundling import REDACTION, cuts, leak_in

_CHUNK_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A copy on the disk. One with a leak is not to be given away."""

    bytes: int
    members: tuple[Packed, ...]
    kinds: Counter[str]
    """How many secrets were masked, by kind."""
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
        told = {"redacted": True} | report([writer.masked]) | {"cut": cuts(members)}
        below = f"{tops.pop()}/" if len(tops) == 1 and "" not in tops else ""
        writer.add(f"{below}{REDACTION}", json.dumps(told, indent=2).encode() + b"\n", as_is=True)
    return Copied(bytes=path.stat().st_size, members=members, kinds=writer.masked, leak=leak_in(path, rules))
