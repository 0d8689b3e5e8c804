"""Counts the lines of files that the redaction alters."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from service_record.redaction import Rules
from tests.redaction.measure import redact

MAX_FILE_BYTES: Final = 4 << 20


@dataclass(slots=True)
class Altered:
    """Lines that were read, and those that came out different."""

    lines: int = 0
    altered: list[tuple[Path, bytes, bytes]] = field(default_factory=list)
    """File, line before and line after."""


def count_altered(roots: Iterable[Path], leave_out: frozenset[Path] = frozenset()) -> Altered:
    """Redact every plain text file below some paths, without those in `leave_out`."""
    counted = Altered()
    rules = Rules()
    for path in (path for root in roots for path in _files(root) if path not in leave_out):
        try:
            text = path.read_bytes()[:MAX_FILE_BYTES]
        except OSError:
            continue
        if b"\0" in text:
            continue
        counted.lines += text.count(b"\n")
        output = redact(text, rules)
        if output != text:
            pairs = zip(text.split(b"\n"), output.split(b"\n"), strict=True)
            counted.altered += [(path, before, after) for before, after in pairs if before != after]
    return counted


def _files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            path = Path(folder, name)
            if stat.S_ISREG(path.lstat().st_mode) and not name.endswith((".gz", ".xz")):
                yield path
